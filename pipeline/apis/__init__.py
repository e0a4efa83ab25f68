"""APIs: where they come from, and how they are searched.

Pools hold imported APIs with the report of every loss: `sources.py` reads what a recipe names,
`pool.py` keeps it, shows it, and says what is missing in it, for queries to be drawn or for a
model to understand. `catalogue/` is the taxonomy and the public APIs that ship. `search.py`
finds APIs by words or by meaning.

May touch: servers that are asked for their tools, through environments; formats, store, llm,
checks, schemas.
Begin with `sources.py`, which reads a recipe's sources, and `search.py`.
"""
