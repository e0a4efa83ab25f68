"""The spine: stages in one tuple, the run that takes records through them, growth of a dataset.

`stages.py` has the stages in their order, `stage.py` what a stage is: an async function from one
record to accepted and rejected ones; and how a shard is worked on, here or on another machine.
`run.py` takes shards of records through them, marks what is finished, and so goes on where it was
stopped; its `Progress` tells how far it is. `growth.py` plans runs that add to a version,
`estimate.py` forecasts what one costs. Around the spine stand rooms, each with its own opening
lines: above it orchestration and pages; beside it sampling, templates and curation; below it
dataset, apis, formats, store, render and checks.

May touch: the disk, through store; agents and everything below. Nothing of Prefect.
Begin with `stages.py`, then `stage.py` and `run.py`.
"""
