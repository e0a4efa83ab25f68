"""What is sorted out of tested rows: duplicates, what benchmarks hold, what there is too much of.

Each is a stage that sifts: it reads all rows as often as it wants, and keeps of each a few bytes.
"""
