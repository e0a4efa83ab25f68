"""The rewriter's certain parts: seeds, spoken names, checks, training rows."""
