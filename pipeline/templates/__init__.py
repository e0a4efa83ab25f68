"""Rows without requests: templates of accepted dialogues, written ones, and their rows.

`mining/` makes a template of a sample: it surveys where each value stands, ties what is one value
and refuses what is in doubt. `written/` reads templates that people write, in YAML. A model is
asked only for APIs that have neither. `redraws.py` plays a world's scripts in other states: there a
row's values are what came of them; `rescripts.py` writes those that are made of dialogues. Rows are
drawn as indices and held to the certain checks, most of them by composing verdicts that are already
known. They become text only on their way into a version, in the room dataset.

May touch: the disk, through store; the query agent; dataset and everything below.
Begin with `expand.py`, the stage; `verdicts.py` says why composed verdicts are sound.
"""
