"""Worlds: states are drawn, operations tried, and dialogues told in words written for them.

A world's language and interpreter are below, in `checks/world`: what judges a dialogue has to run
it. Here is what draws: `states.py` start states under the fields' ranges and rules, or reads them;
`operations.py` what operations show and need, and arguments for them; `soundness.py` random walks
that hold every operation to its promises, and the share of planted faults that they find;
`scripts.py` whole dialogues that a state makes true; `tasks.py` what somebody might want with the
calls that solve it. `library.py` finds and reads the worlds of a run, `sampler.py` draws its
dialogues, which are played as any others; `authoring.py` has a model write a world.

May touch: disk, through store; chance, through sampling; checks, render, schemas.
Begin with `states.py`, then `soundness.py`.
"""
