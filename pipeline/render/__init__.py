"""How anything is shown: a `Section` as text on a terminal, as Markdown, or as HTML.

Subjects give Sections (title, table, note, list, bars); this room draws them and knows no subject.
It may touch prompts, checks and schemas below it, and no file but its own templates and style.

- `section.py`: begin here. What a Section holds, and how numbers, dollars and sizes are said.
- `terminal.py`: rich; nothing that a terminal obeys gets through.
- `markdown.py`: tables for cards and for Prefect's pages.
- `html.py`, `section.html.j2`, `style.css`: one template and one style for report and notebook.
- `plots.py`: bars as SVG, for files; equal figures make equal bytes, as versions hash them.
"""
