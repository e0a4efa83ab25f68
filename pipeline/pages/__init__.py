"""What people look at for long: the report, the notebook, the progress of a run; and all Sections
of what several rooms meet in.

It reads versions, runs and recipes, and writes two things: a report, and a curator's marks. Text
of models is data here: `render/` escapes it, and the hostile dataset of the tests shows that.

- `sections.py`, `plans.py`: begin here. What commands print of runs and versions, and before them.
- `reading.py`, `funnel.py`, `samples.py`, `report.py`: a version read once becomes one HTML page.
- `dialogue.py`: one record, on a terminal and as HTML.
- `rejections.py`, `judgements.py`, `inspection.py`, `notebooks/`: why records fell, and who agrees.
- `progress.py`: how far a run is, as bars, lines or log records.
"""
