"""Templates: mined, written or asked for, and expanded into checked rows."""
