"""Rows of templates, made into samples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain

from toolloom.pipeline.store.run import RunFolder
from toolloom.schemas import Expansion, JsonObject


def accepted(run: RunFolder) -> Iterator[JsonObject]:
    """The rows of the dataset that a run makes: samples, then rows of templates."""
    return chain(() if run.adds else run.samples(), expanded(run))


def expanded(run: RunFolder) -> Iterator[JsonObject]:
    """The rows of a run's templates, made into samples one after the other."""
    seed = run.recipe.seed
    return chain.from_iterable(unfolded(each, seed) for each in run.expansions())


def unfolded(expansion: Expansion, seed: int) -> Iterator[JsonObject]:
    """The samples that the rows of a template are, as JSON."""
    from toolloom.pipeline.dataset.unfolding.mould import Mould  # late: few runs have templates

    mould = Mould(expansion.template)
    for place, row in enumerate(expansion.rows):
        yield json.loads(mould.sample_text(row, expansion.sample_id(place), seed))
