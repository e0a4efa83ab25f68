"""Files, locks, runs, tables, and outputs in a store: the door to disk.

A file is written under a temporary name and renamed when it is whole; then its marker follows. So
a process may be killed at any moment, and what has a marker is done. A folder of outputs may be an
address such as s3://bucket/prefix: everything works in a local mirror, which is kept alike.
Whatever is held alone is held by `locks.py`: a lock of the system on a file, and one in the
database where the response cache is PostgreSQL. Numbers of versions follow from which files
changed.

May touch: disk and stores (fsspec), Arrow; llm, render, checks, schemas.
Begin with `files.py`, then `run.py`, the folder of a run, and `version.py`.
"""
