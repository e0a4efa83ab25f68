"""Worlds: states are drawn, tasks are solved and then told in words that were written for them.

A world's records, its language and its interpreter are below, in `checks/world`: what judges a
dialogue has to run it. Here is what draws: start states under the fields' ranges and rules, random
walks that try a world, tasks with their goals, and scripts that say them.

May touch: checks, schemas, store, and the generator of chance from sampling.
Begin with `states.py`, then `soundness.py`.
"""
