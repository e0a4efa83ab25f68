"""The notebook of rejected samples, as a script and as a notebook of equal content."""
