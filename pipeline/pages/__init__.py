"""What people look at: the report, the notebook, the progress of a run, and what commands print.

A version is read once (`reading.py`) and becomes one HTML page (`report.py`). `rejections.py`,
`judgements.py` and `inspection.py` say why records fell and who agrees, for the notebook in
`notebooks/`; `dialogue.py` shows one record, `progress.py` a run as bars, lines or log records.
Text of models is data here: the room render escapes it. All that is written is a report, a copy of
the notebook, and a curator's marks.

May touch: versions, runs and recipes, to read them; the spine and everything below.
Begin with `sections.py`, what commands print of runs and versions; `plans.py` is the same of what
is still to be made.
"""
