"""What is Prefect's beside the flows: schedules, artifacts, its server, Dask and Ray.

A scheduled run grows one dataset (`growth.py`): it holds the dataset from planning to publishing,
ends in a state that says what came of it, and leaves a summary on its page. Runs whose process was
killed are found, as neither the server nor its workers notice. `server.py` uses a server that runs
on this machine, or is one for as long as the run takes. Keys are struck out of what Prefect keeps.
No law of the data depends on anything here: `--engine local` does without this room.

May touch: Prefect, its server and task runners; pages, the spine and everything below.
Begin with `artifacts.py`, what a run shows of itself; then `growth.py` and `serving.py`.
"""
