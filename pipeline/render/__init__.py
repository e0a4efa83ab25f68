"""How anything is shown: a Section as text on a terminal, as Markdown, or as HTML.

Subjects give Sections (title, table, note, list, bars); this room draws them and knows no subject.
`terminal.py` draws with rich, and nothing that a terminal obeys gets through. `section.py` makes
Markdown for cards and for Prefect's pages, and HTML by one template and one style for report and
notebook, with all text escaped. `visible` is the one way in which text of others is made harmless:
what cannot be seen, or what a terminal would obey, is written out.

May touch: nothing but its arguments, its own template and style; prompts, checks, schemas.
Begin with `section.py`: what a Section holds, and how numbers, dollars and sizes are said.
"""
