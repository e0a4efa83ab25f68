"""APIs: where they come from, how they are searched, and calls that really run.

Pools hold imported APIs with the report of every loss; `catalogue/` is the taxonomy and the
public APIs that ship. API Search finds APIs by words or by meaning. `execution/` runs calls of
Python functions and MCP servers, fresh for each dialogue, with what a recipe names and nothing
else: its results are in the response cache before they are used, and are run again to see whether
they repeat.

May touch: processes and servers that a recipe names; formats, store, llm, checks, schemas.
Begin with `sources.py`, which reads a recipe's sources, and `search.py`.
"""
