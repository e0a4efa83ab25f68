"""A world: APIs with a state that can be run, said as data.

`reading.py` reads what people write into JSON; its terms and clauses are a short language, read and
type-checked by `grammar.py` into trees. `interpreter.py` runs them: a
call applied to a state gives a state, a response, an error. It is one file that needs the standard
library alone, so that trainers replay rows with it. `wording.py` says values as people write them.
`outcome.py` judges what came of a dialogue and what its words say.
Nothing is evaluated, nothing raises on hostile calls, everything ends.

May touch: nothing but its arguments; schemas.
Begin with `interpreter.py`; docs/worlds.md has the language.
"""
