"""Foreign forms of APIs and dialogues: how each is read, and how it is written.

`importers/` make Api records of OpenAPI, MCP, Python, tool files and benchmarks, and book every
loss; all foreign schemas pass through one reader whose output is legal JSON Schema within a budget.
`audit/` reads what others made into our records and runs the certain checks on it; `export/`
writes rows for trainers. `toolbench_seeds.py` makes requests to rewrite of ToolBench's trees.
Everything read here is hostile: it is parsed, never evaluated.

May touch: the files it is given; store, llm, render, checks, schemas.
Begin with `importers/openapi.py`, then `export/chat.py` and its reverse, `audit/chat.py`.
"""
