"""What is drawn before any word is written: ability, scenario, APIs, distractors, values.

The answer comes first: argument values are fixed before the request is worded, so that calls can
be compared with what was meant. Every draw has a generator seeded by the recipe's seed, the stage
and the record (`rng_for`), so that neither order nor number of workers matters. Each split is
drawn from its own APIs, and can be drawn without the others. APIs that belong together are found by
their tools, their categories and what one gives that another takes.

May touch: nothing but its arguments; dataset and everything below.
Begin with `draw.py`, the needs of a split; then `values.py`.
"""
