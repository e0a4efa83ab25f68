"""Templates that people write: YAML files, read into the records that expansion works on.

A mistake is told with its file, line and place, all mistakes of a file at once. A preview shows
what templates would make: a few rows of each, checked, before anything is written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from toolloom.pipeline.apis.sources import imported
from toolloom.pipeline.checks import inspect
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.store.documents import WrittenDocument, read
from toolloom.pipeline.store.version import Version
from toolloom.pipeline.templates.filling import TemplateRenderer
from toolloom.pipeline.templates.written.compiling import Compiler, Scope
from toolloom.pipeline.templates.written.forms import (
    FileForm,
    TemplateForm,
    declared,
    read_form,
    read_pools,
)
from toolloom.schemas import (
    Api,
    ApiSource,
    Finding,
    ImportFailed,
    Rejected,
    Sample,
    Split,
    SplitPlan,
    StoreError,
    Template,
    TemplateFileError,
    World,
)

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class Given:
    """What templates are compiled with. Without `apis`, those that each file names; `splits` keep
    APIs that are held out for a test from the samples of others."""

    apis: Sequence[Api] | None = None
    seed: int = 0
    language: str = "English"
    distractors: int = 3
    splits: SplitPlan | None = None


@dataclass
class _Names:
    """The names of templates so far, and where each was given."""

    taken: dict[str, str] = field(default_factory=dict)

    def take(self, name: str, place: tuple[str | int, ...], document: WrittenDocument) -> None:
        if name in self.taken:
            document.fault(place, f"`{name}` is the name of {self.taken[name]} already.")
        line = document.lines.get(place, 1)
        self.taken.setdefault(name, f"the template in line {line} of {document.path}")


def load_templates(paths: Iterable[str | Path], given: Given | None = None) -> list[Template]:
    """The templates of files and folders, in order; their ids are `written-` and their names.

    Several goals of one template make as many, numbered from 1. Raises TemplateFileError with all
    mistakes of all files, those of the APIs that files name among them.
    """
    found: list[Template] = []
    names = _Names()
    _read_all(paths, lambda document: found.extend(_templates(document, given or Given(), names)))
    return found


def check_files(paths: Iterable[str | Path]) -> None:
    """Raises TemplateFileError for files that no APIs could make templates of."""

    def check(document: WrittenDocument) -> None:
        form = read_form(FileForm, document.value, (), document)
        for number, raw in enumerate(form.templates if form else ()):
            read_form(TemplateForm, raw, ("templates", number), document)

    _read_all(paths, check)


def _read_all(paths: Iterable[str | Path], understand: Callable[[WrittenDocument], object]) -> None:
    """Read every file, and raise TemplateFileError with all mistakes of all of them."""
    mistakes: list[str] = []
    for path in _files(paths):
        try:
            document = read(path, TemplateFileError)
        except TemplateFileError as error:
            mistakes.append(str(error))
            continue
        understand(document)
        mistakes += document.mistakes()
    if mistakes:
        raise TemplateFileError("\n".join(mistakes))


def _files(paths: Iterable[str | Path]) -> Iterator[Path]:
    """The files themselves, and those of folders. Raises TemplateFileError."""
    for path in map(Path, paths):
        if not path.is_dir():
            yield path
            continue
        inside = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES and p.is_file())
        if not inside:
            raise TemplateFileError(f"{path}: the folder holds no .yaml file.")
        yield from inside


def _templates(document: WrittenDocument, given: Given, names: _Names) -> Iterator[Template]:
    """What can be made of a file; what cannot is among its faults."""
    form = read_form(FileForm, document.value, (), document)
    if form is None:
        return
    apis = given.apis if given.apis is not None else _apis(form, document)
    scope = Scope(
        file=form,
        pools=read_pools(form.pools, ("pools",), document),
        apis=apis,
        seed=given.seed,
        language=form.language or given.language,
        distractors=given.distractors,
        splits=given.splits,
    )
    used: set[str] = set()
    for number, raw in enumerate(form.templates):
        yield from _compiled(number, raw, scope, document, names, used)
    if not document.faults:
        for place, slot in declared(form):
            if slot not in used:
                document.fault(place, f"no template has the slot `{{{slot}}}`.")


def _compiled(
    number: int, raw: Any, scope: Scope, document: WrittenDocument, names: _Names, used: set[str]
) -> Iterator[Template]:
    place = ("templates", number)
    form = read_form(TemplateForm, raw, place, document)
    if form is None:
        return
    names.take(form.name, (*place, "name"), document)
    said = form.said()
    for index, (goal, inner) in enumerate(said, 1):
        name = f"{form.name}-{index}" if len(said) > 1 else form.name
        if len(said) > 1:
            names.take(name, (*place, *inner), document)
        compiler = Compiler(name, form, goal, (*place, *inner), place, document, scope)
        template = compiler.template()
        used |= compiler.used
        if template is not None:
            yield template


def _apis(form: FileForm, document: WrittenDocument) -> list[Api]:
    """The APIs of the source that a file names."""
    if not form.apis:
        document.fault((), "missing: the file names no `apis`, and no dataset was given.", "apis")
        return []
    path = document.path.parent / form.apis
    if not path.exists():
        document.fault(("apis",), f"there is no {path}.")
        return []
    try:
        found, _ = imported(ApiSource(path=str(path)))
    except (ImportFailed, OSError) as error:
        document.fault(("apis",), str(error).removeprefix("apis.sources: "))
        return []
    apis = [item for item in found if isinstance(item, Api)]
    if not apis:
        document.fault(("apis",), f"there are no APIs in {path}.")
    return apis


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
    from toolloom.pipeline.templates.mine import SeenValues, mine

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
