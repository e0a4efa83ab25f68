"""Foreign forms of APIs and dialogues: how each is read, and how it is written.

`importers/` make Api records of OpenAPI, MCP, Python, tool files and benchmarks, and book every
loss; all foreign schemas pass through one reader whose output is legal JSON Schema within a budget.
`audit/` reads what others made into our records and runs the certain checks on it; `export/`
writes rows for trainers. Everything read here is hostile: it is parsed, never evaluated.

May touch: the files it is given; store, llm, render, checks, schemas.
Begin with one format you know, such as OpenAPI among the importers.
"""
