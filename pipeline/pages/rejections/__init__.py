"""Rejected records as a table, their accepted neighbours, and what a curator says of them."""
