"""What people look at: the report, the notebook, progress, and the tables of commands.

`report.py` makes one HTML file of a version; `dialogue.py` shows one record, on a page and on a
terminal; `inspection.py` is what `rejected_samples.ipynb` opens. `sections.py` has the tables
of recipes, forecasts, runs and versions, `screen.py` the two printers of progress: a terminal and
log lines. Nothing here decides anything: it reads what the pipeline wrote.

May touch: versions and runs, through `store` and `dataset`; the terminal it is handed; render,
checks, schemas.
Begin with `report.py`, then `dialogue.py`.
"""
