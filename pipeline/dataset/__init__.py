"""Versions of a dataset: made of runs, described, verified, compared, exported, pushed.

`build.py` writes a version's tables of the parent's rows that stay and a run's records, and
`publish.py` makes them a version. `figures.py` is the one fold over rows, which publishing stores
and `verify.py` compares; `plays.py` counts what came of the scripts of worlds; `report.py` what
only a run's stage files know; `card.py` is made of the manifest alone. `verify.py` reads a version
again, its instructions with their samples: `verify_files.py` its bytes and its parent,
`verify_rows.py` its rows. `instructions.py` makes seeds and training
rows; `export/` writes files for trainers, `push.py` the Hub.

May touch: the disk, through store, and the Hub; agents and everything below. It does not know the
stages that make records.
Begin with `rows.py`: the configs, what their rows hold and how they are made of records.
"""
