"""A table or a plot, for the terminal, Markdown and HTML.

This room knows no subject: it is given titles, words and numbers, and returns text or bytes.
Control characters and markup in what it is given do not reach the terminal or the page. Plots are
SVG whose bytes do not change from one run to the next.

May touch: nothing; prompts, checks, schemas.
Begin with `terminal.py`, then `html.py` and `plots.py`.
"""
