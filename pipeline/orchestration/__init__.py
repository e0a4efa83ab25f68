"""What is Prefect's beside the flows: schedules, artifacts, its API, Dask and Ray.

A scheduled run grows one dataset: it holds the dataset from planning to publishing, ends in a state
that says what came of it, and leaves a summary on its page. `server.py` serves such runs, and is
the API of a single run for as long as that takes. Keys are struck out of what Prefect keeps.
No law of the data depends on anything here: `--engine local` does without this room.

May touch: Prefect, its server and task runners; pages, the spine and everything below.
Begin with `server.py`, what a run shows of itself and how it is served. `task_runners.py` is how a
shard of a stage gets to a worker of Dask or Ray.
"""
