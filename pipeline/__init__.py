"""The spine: stages in one tuple, the run that takes records through them, growth of a dataset.

A stage is an async function from one record to accepted and rejected ones. The run takes shards
of records through the stages, marks what is finished, and so goes on where it was stopped. Around
the spine stand the rooms that stages and versions are made of, each with its own opening lines:
above it orchestration and pages; beside it sampling, templates, curation and cluster; below it
dataset, apis, formats, store, render and checks.

May touch: the disk, through store; agents and everything below. Nothing of Prefect.
Begin with `stages.py`, the list of stages; then `stage.py`, what one is, and `shard.py`.
"""
