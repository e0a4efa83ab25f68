"""Tool-use data that others made: read into our records and held to the certain checks."""
