"""The vocabulary: frozen, closed records, the errors and the recipe.

Every record that passes between stages, into files or to a model is here, and each field that
leaves the process has a description. Records refuse unknown fields. A recipe is one record too:
its fields are the only dials there are. Errors that a user can act on are one tree, and say what
happened, where, and what to do.

May touch: nothing; no other room.
Begin with `base.py`, then `api.py`, `query.py` and `sample.py`, which are what a row is made of,
and `errors.py`; `recipe.py` has the dials.
"""

from toolloom.schemas.api import *
from toolloom.schemas.base import *
from toolloom.schemas.derived import *
from toolloom.schemas.errors import *
from toolloom.schemas.query import *
from toolloom.schemas.recipe import *
from toolloom.schemas.sample import *
from toolloom.schemas.splits import *
