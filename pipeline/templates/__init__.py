"""Rows of templates: drawn, checked, and written as columns."""
