"""APIs: where they come from, and how they are searched.

Pools hold imported APIs with the report of every loss: `sources.py` reads what a recipe names,
`pool.py` keeps it, shows it, and says what is missing in it, for queries to be drawn or for a
model to understand. `search.py` finds APIs by words or by meaning, also in the catalogue that
ships: a taxonomy and real public APIs.

May touch: servers that are asked for their tools, through environments; formats, store, llm,
checks, schemas.
Begin with `sources.py`, which reads a recipe's sources, and `search.py`.
"""
