"""Templates made of accepted samples."""
