"""Sampling: needs with their APIs, combinations and argument values, drawn before any words."""
