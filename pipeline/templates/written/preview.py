"""What templates would make: a few rows of each, checked, before anything is written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.dataset.unfold import TemplateRenderer
from toolloom.pipeline.sampling.chance import rng_for
from toolloom.pipeline.store.version import Version
from toolloom.schemas import Api, Finding, Rejected, Sample, Split, StoreError, Template

MOST_MINED = 1_000  # samples of a split that are read
TRIES = 20  # draws for each row


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
    """Up to `count` different rows. Raises TemplateMisfit."""
    mould = TemplateRenderer(template)
    rows = []
    for number, row in enumerate(_drawn(template, count, seed)):
        sample = mould.sample(row, f"{template.id}-x{number:06d}", seed)
        rows.append(PreviewRow(sample, inspect(sample.dialogue)))
    return TemplatePreview(template, tuple(rows))


def _drawn(template: Template, count: int, seed: int) -> Iterator[tuple[int, ...]]:
    """The row of the original values, then others by chance, each once."""
    rng = rng_for(seed, "preview", template.id)
    sizes = [len(choice.rows) for choice in template.choices]
    seen = {tuple(0 for _ in sizes)}
    yield from seen
    for _ in range(count * TRIES):
        if len(seen) >= count:
            return
        row = tuple(rng.randrange(size) for size in sizes)
        if row not in seen:
            seen.add(row)
            yield row


def apis_of(version: Version) -> list[Api]:
    """The APIs of a dataset, each once. Raises StoreError."""
    found: dict[str, Api] = {}
    for split in version.splits("apis"):
        for row in version.rows("apis", split):
            api = _api(version, row["record"])
            found.setdefault(api.id, api)
    return list(found.values())


def _api(version: Version, record: str) -> Api:
    try:
        return Api.model_validate(json.loads(record))
    except ValueError as error:
        raise StoreError(f"{version.path}: the config `apis` is damaged.") from error


def mined(version: Version) -> Sequence[Template | Rejected]:
    """Templates of the first samples of each split, and those that can be none."""
    from toolloom.pipeline.templates.mining.known import SeenValues
    from toolloom.pipeline.templates.mining.mining import mine

    made: list[Template | Rejected] = []
    for split in version.splits("samples"):
        samples = islice(version.samples(split), MOST_MINED)
        dumped = [sample.model_dump(mode="json") for sample in samples]
        known = SeenValues()  # of its split alone: no value crosses over
        for sample in dumped:
            known.add(sample)
        made += (mine(sample, known, Split(split)) for sample in dumped)
    return made
