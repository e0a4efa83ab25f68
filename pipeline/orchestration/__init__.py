"""What is Prefect's beside the flows: schedules, artifacts, Dask and Ray.

A scheduled run grows one dataset: it holds the dataset from planning to publishing, ends in a
state that says what came of it, and leaves a summary on its page. Runs whose process was killed
are found, as neither the server nor its workers notice. Keys are struck out of what Prefect keeps.
No law of the data depends on anything here: `--engine local` does without this room.

May touch: Prefect, its server and task runners; pages, the spine and everything below.
Begin with `artifacts.py`, what a run shows of itself; then what a scheduled run does.
"""
