"""Execution: calls that really run, of Python functions and of MCP servers."""
