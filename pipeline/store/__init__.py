"""Files, locks, runs, tables and versions: the door to disk.

A file is written under a temporary name and renamed when it is whole; then its marker follows. So
a process may be killed at any moment, and what has a marker is done. Whatever is held alone is
held by `files.py`, by a lock of the system on a file. `sync.py` copies a folder of outputs to an
address such as s3://bucket/prefix, and back. Numbers of versions follow from which files changed.

May touch: disk and stores (fsspec), Arrow; llm, render, checks, schemas.
Begin with `files.py`, how a file gets to the disk whole; then `run_folder.py`, a run's folder, and
`version.py`, the tables and numbers of versions.
"""
