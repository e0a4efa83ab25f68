"""Importers: every common way to describe an API becomes `Api` records."""
