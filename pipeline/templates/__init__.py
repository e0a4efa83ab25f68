"""Rows without requests: templates of accepted dialogues, written ones, and their rows.

`mine.py` makes a template of a sample, of the arguments that stand in no doubt. `written.py` reads
templates that people write, and answers their calls. `filling.py` puts values into a template's
slots and renders its texts. In a world the rows are its scripts, played in more states. Rows are
samples like any other, and each is held to the certain checks.

May touch: the disk, through store; processes; the agents where they ask no model; dataset and
everything below.
Begin with `expand.py`, the stage.
"""
