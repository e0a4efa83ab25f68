"""A shard as a task on another machine, with the bytes of one machine.

The driver gives out the shards of a run as orders and writes what comes back; a worker needs no
folder, only the response cache in PostgreSQL, where it finds what a dead one had answered. Limits
and the budget are shared out, so that all workers together pass none of them. What Dask and Ray
need of Prefect is in orchestration.

May touch: the cache database through llm; dataset, agents and everything below.
Begin with the worker, which is short; then the driver's side, which hands out and takes back.
"""
