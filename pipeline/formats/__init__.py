"""Foreign forms of APIs and dialogues, one module each: how it is read, and how it is written.

A module holds what its form has of the three: `read` makes Api records (`apis.sources` chooses) and
books every loss, `dialogues` makes our records of rows that others wrote (`audit.py` runs the
certain checks on them), and a function of the form's name writes rows for trainers (`base.py`).
All foreign schemas pass through `json_schema.py`, whose output is legal and within a budget.
Everything read here is hostile: it is parsed, never evaluated.

May touch: the files it is given; store, llm, render, checks, schemas.
Begin with `chat.py`, which reads what it writes, then `openapi.py`.
"""
