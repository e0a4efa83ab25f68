"""What people look at for long: the report, the notebook of rejected samples, progress.

A page reads a version or a run and changes nothing; a curator's marks are the one file it adds
to. HTML needs no network and runs no script but its own, by its hash; texts of models are escaped
and what cannot be seen in them is written out. Equal versions make equal reports.

May touch: a version, read; the marks beside it; the spine, dataset and everything below.
Begin with `dialogue.py`, the view that report and notebook share.
"""
