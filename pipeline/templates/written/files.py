"""Templates that people write: YAML files, read into the records that expansion works on.

A mistake is told with its file, line and place, all mistakes of a file at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolloom.pipeline.apis.sources import imported
from toolloom.pipeline.templates.written.checking import GoalDraft
from toolloom.pipeline.templates.written.compiling import Compiler, Scope
from toolloom.pipeline.templates.written.forms import FileForm, TemplateForm, read_form, read_pools
from toolloom.pipeline.templates.written.positions import WrittenDocument, read
from toolloom.schemas import Api, ApiSource, ImportFailed, SplitPlan, Template, TemplateFileError

SUFFIXES = (".yaml", ".yml")
MOST_TOLD = 50  # mistakes of a file


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
    mistakes: list[str] = []
    names = _Names()
    for path in _files(paths):
        try:
            document = read(path)
        except TemplateFileError as error:
            mistakes.append(str(error))
            continue
        found += _templates(document, given or Given(), names)
        if document.faults:
            mistakes.append(_told(document))
    if mistakes:
        raise TemplateFileError("\n".join(mistakes))
    return found


def check_files(paths: Iterable[str | Path]) -> None:
    """Raises TemplateFileError for files that no APIs could make templates of."""
    mistakes: list[str] = []
    for path in _files(paths):
        try:
            document = read(path)
        except TemplateFileError as error:
            mistakes.append(str(error))
            continue
        form = read_form(FileForm, document.value, (), document)
        for number, raw in enumerate(form.templates if form else ()):
            read_form(TemplateForm, raw, ("templates", number), document)
        if document.faults:
            mistakes.append(_told(document))
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


def _told(document: WrittenDocument) -> str:
    """The mistakes of a file, a line each."""
    faults = sorted(document.faults, key=lambda f: f.line)
    lines = [f"  {fault}" for fault in faults[:MOST_TOLD]]
    if len(faults) > MOST_TOLD:
        lines.append(f"  and {len(faults) - MOST_TOLD:,} more.")
    several = "s" if len(faults) > 1 else ""
    return "\n".join([f"{document.path} has {len(faults):,} mistake{several}:", *lines])


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
        _check_used(form, used, document)


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
        draft = GoalDraft(form, goal, (*place, *inner), place, document)
        compiler = Compiler(name, draft, scope)
        template = compiler.template()
        used |= compiler.used
        if template is not None:
            yield template


def _check_used(form: FileForm, used: set[str], document: WrittenDocument) -> None:
    """Each pool of the file fills a slot of some template."""
    for slot in form.pools:
        if slot not in used:
            document.fault(("pools", slot), f"no template has the slot `{{{slot}}}`.")
    for number, table in enumerate(form.together):
        for slot in table.slots:
            if slot not in used:
                place = ("together", number, "slots")
                document.fault(place, f"no template has the slot `{{{slot}}}`.")


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
