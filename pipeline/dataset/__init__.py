"""A version of a dataset: published, verified, compared, exported, pushed.

A run's rows become Parquet by config and split, with a card, plots, a manifest and checksums, all
of which can be made again from the rows. A version never changes; the next one keeps the bytes of
what stays. `verify` goes over all of it without a model or a network, `export/` writes trainers'
forms and checks them, `unfolding/` makes rows of templates, `instructions/` rows of levels.

May touch: the disk and the Hub, through store and the push; agents and everything below.
Begin with `publish.py`, then `verify.py`, which reads the same files the other way.
"""
