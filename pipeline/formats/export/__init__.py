"""Datasets in the forms that trainers read, and checks of files in these forms."""
