"""Versions of a dataset: made of runs, described, verified, compared, exported, pushed.

`publish.py` writes a version's tables, of the parent's rows that stay and of a run's records, has
them described, and makes the card of the manifest alone. `figures.py` has the one fold over
finished tables: publishing stores what it gives, `verify.py` calls it again and compares, after it
has checked every byte, record and derived row. It also counts what only a run's stage files know.
`exporting.py` writes files for trainers, `hub.py` pushes to the Hub.

May touch: the disk, through store, and the Hub; agents and everything below. It does not know the
stages that make records.
Begin with `configs.py`: the configs, what their rows hold and how they are made of records.
"""
