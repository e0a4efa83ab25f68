"""What templates would make: a few rows of each, checked, before anything is written."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import islice

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.store.version import Version
from toolloom.pipeline.templates.filling import TemplateRenderer
from toolloom.pipeline.templates.mine import SeenValues, mine
from toolloom.schemas import Api, Finding, Rejected, Sample, Split, StoreError, Template, World

MOST_MINED = 1_000  # samples of a split that are read
TRIES = 2_000  # draws of rows


@dataclass(frozen=True)
class PreviewRow:
    """A row of a template, and what the certain checks say of it."""

    sample: Sample
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class TemplatePreview:
    """A template, and some of its rows: the original values first."""

    template: Template
    rows: tuple[PreviewRow, ...]

    @property
    def possible(self) -> int:
        """How many rows there could be."""
        return math.prod(len(choice.rows) for choice in self.template.choices)

    @property
    def fails(self) -> bool:
        """Whether no row passes."""
        return all(row.findings for row in self.rows)


def preview(template: Template, count: int, seed: int = 0) -> TemplatePreview:
    """Up to `count` different rows: the original values, then others by chance."""
    renderer, rng = TemplateRenderer(template, seed), rng_for(seed, "preview", template.id)
    rows = [(0,) * len(template.choices)]
    rows += islice((row for row in renderer.drawn(rng, TRIES) if any(row)), count - 1)
    samples = (
        Sample.model_validate(renderer.sample(row, f"{template.id}-x{number:06d}"))
        for number, row in enumerate(rows)
    )
    return TemplatePreview(
        template, tuple(PreviewRow(each, inspect(each.dialogue)) for each in samples)
    )


def apis_of(version: Version) -> list[Api]:
    """The APIs of a dataset, each once. Raises StoreError."""
    found: dict[str, Api] = {}
    for split in version.splits("apis"):
        for row in version.rows("apis", split):
            try:
                api = Api.model_validate(json.loads(row["record"]))
            except ValueError as error:
                raise StoreError(f"{version.path}: the config `apis` is damaged.") from error
            found.setdefault(api.id, api)
    return list(found.values())


def mined(version: Version) -> list[Template | Rejected]:
    """Templates of the first samples of each split, and those that can be none; in worlds scripts
    are played instead."""
    made: list[Template | Rejected] = []
    for split in version.splits("samples"):
        samples = islice(version.samples(split), MOST_MINED)
        dumped = [s.model_dump(mode="json") for s in samples if not s.dialogue.query.setting]
        known = SeenValues()  # of its split alone: no value crosses over
        for sample in dumped:
            known.add(sample)
        made += (mine(sample, known, Split(split)) for sample in dumped)
    return made


def worlds_of(version: Version) -> list[World]:
    """The worlds of a dataset. Raises StoreError."""
    try:
        return [World.model_validate_json(row["record"]) for row in version.rows("worlds")]
    except ValueError as error:
        raise StoreError(f"{version.path}: the config `worlds` is damaged.") from error
