"""What is sorted out of tested rows: duplicates, what benchmarks hold, what there is too much of.

Each is a stage that sifts: it reads all rows as often as it wants, keeps what it compares in
memory, and gives back every row or a rejected record that names the other row. None asks a model.
Hashes propose pairs of rows; the sets themselves decide, so that a similarity that is told is no
estimate. Rows of tests come before those of train. What a row says and calls is read in one place
for all of them, in `duplicates.py`.

May touch: the disk, through store; benchmarks that a recipe names; formats, checks, schemas.
Begin with `duplicates.py`, which also balances; `contamination.py` has the same shape.
"""
