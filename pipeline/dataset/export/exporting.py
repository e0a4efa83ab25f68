"""Write a version of a dataset in a format: sample by sample, whole files or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os.path import isfile
from pathlib import Path

from toolloom.pipeline.dataset.export.files import Opened
from toolloom.pipeline.formats.base import (
    Arguments,
    Exported,
    ExportFile,
    ExportPlace,
    ExportSource,
    Format,
    NotRepresentable,
    StatefulFormat,
)
from toolloom.pipeline.store.files import to_text
from toolloom.pipeline.store.tables import reads_back
from toolloom.pipeline.store.version import numbered
from toolloom.schemas import ExportError, JsonObject, NothingFound, Sample

SUFFIXES = {".jsonl": "jsonl", ".json": "json", ".parquet": "parquet"}
ROUNDED = "numbers that `datasets` would not give back as they are"


@dataclass
class ExportReport:
    """What an export wrote, and what it could not."""

    format: Format
    place: ExportPlace
    samples: int = 0
    held: int = 0  # samples in at least one row
    files: dict[Path, int] = field(default_factory=dict)  # rows of each
    notes: list[Path] = field(default_factory=list)
    unfit: Counter[str] = field(default_factory=Counter)  # samples without a row, by reason
    lost: Counter[str] = field(default_factory=Counter)  # samples whose rows lack a part

    @property
    def rows(self) -> int:
        return sum(self.files.values())

    @property
    def hint(self) -> str:
        """How to point the trainer at it; nothing if there are no rows."""
        if not self.files:
            return ""
        text = self.format.hint
        if len(self.files) == 1 and not self.notes:  # it may have a name of its own
            (only,) = self.files
            text = text.replace(f"{{folder}}/{{split}}{only.suffix}", str(only.resolve()))
        text = text.replace("{folder}", self.place.folder)
        text = text.replace("{dataset}", self.place.dataset)
        return text.replace("{split}", self.place.splits[0])


def choose_arguments(format_: Format, wanted: Arguments | None) -> Arguments:
    """The form of arguments. Raises ExportError where the format fixes another."""
    if wanted is None or wanted in format_.arguments:
        return wanted or format_.arguments[0]
    raise ExportError(
        f"--format {format_.name} --arguments {wanted}: {format_.why}. Leave out --arguments."
    )


def choose_shots(format_: Format, wanted: int | None) -> int:
    """How many demonstrations to show. Raises ExportError where the format shows none."""
    if wanted is None or format_.shots is not None:
        return (format_.shots or 0) if wanted is None else wanted
    raise ExportError(
        f"--format {format_.name} --shots {wanted}: the format shows no demonstrations. "
        "Leave out --shots."
    )


def choose_splits(source: ExportSource, wanted: str | None) -> list[str]:
    """The splits to write. Raises NothingFound for one that has no samples, or if none has."""
    known = source.splits("samples")
    if not known:
        raise NothingFound(
            f"{source.name} has no samples, so there is nothing to export. Instructions are "
            'loaded as they are: `datasets.load_dataset(FOLDER, "planning")`.'
        )
    if wanted is None:
        return known
    if wanted not in known:
        there = ", ".join(known) or "none"
        raise NothingFound(
            f"{source.name} has no samples in a split {wanted!r}; there are: {there}."
        )
    return [wanted]


def export(
    source: ExportSource,
    format_: Format,
    into: Path,
    arguments: Arguments | None = None,
    split: str | None = None,
    shots: int | None = None,
) -> ExportReport:
    """Write it to a folder, or to one file. Raises ToolloomError; then nothing is changed."""
    form, shown = choose_arguments(format_, arguments), choose_shots(format_, shots)
    splits = choose_splits(source, split)
    paths = _paths(format_, into, splits)
    single = into.suffix in SUFFIXES
    folder = (into.parent if single else into).resolve()
    _check_place(into, folder)
    report = ExportReport(format_, ExportPlace(source.name, (), str(folder)))
    weaver = format_.weaver(source, shown) if format_.weaver else None
    with Opened(folder) as opened:
        for each in splits:
            before = report.held
            for sample in source.samples(each):
                made = _made(format_, sample, form, weaver)
                _count(report, made)
                for part, row in made.rows:
                    opened.write(paths[each, part], format_.files[part], row)
            for part, row in weaver.rest() if weaver else ():
                opened.write(paths[each, part], format_.files[part], row)
            if report.held > before:
                report.place = replace(report.place, splits=(*report.place.splits, each))
        report.files = dict(sorted(opened.rows.items()))
        notes = format_.notes(report.place) if report.files and not single else {}
        for name, text in notes.items():
            opened.text(into / name, text)
            report.notes.append(into / name)
    return report


def _check_place(into: Path, folder: Path) -> None:
    """Raises ExportError if it is in a version of a dataset, which never changes."""
    for above in (folder, *folder.parents):
        if numbered(above) and isfile(above / "manifest.json"):
            raise ExportError(
                f"--into {into}: lies in a version of a dataset, and versions never change. "
                "Name a place outside of it."
            )


def _paths(format_: Format, into: Path, splits: Sequence[str]) -> dict[tuple[str, str], Path]:
    """Where each file of each split goes. Raises ExportError if one file cannot take it all."""
    if into.suffix not in SUFFIXES:
        return {
            (split, part): into / file.path.replace("{split}", split)
            for split in splits
            for part, file in format_.files.items()
        }
    (part, file), *others = format_.files.items()
    if others:
        raise ExportError(
            f"--into {into}: --format {format_.name} writes several files. Name a folder."
        )
    if file.kind != SUFFIXES[into.suffix]:
        wanted = next(suffix for suffix, kind in SUFFIXES.items() if kind == file.kind)
        raise ExportError(
            f"--into {into}: --format {format_.name} writes {wanted}. "
            f"Name a file that ends so, or a folder."
        )
    if len(splits) > 1:
        raise ExportError(
            f"--into {into}: there are {len(splits)} splits ({', '.join(splits)}), and each has a "
            "file of its own. Choose one with --split, or name a folder."
        )
    return {(splits[0], part): into} if splits else {}


def _made(
    format_: Format, sample: Sample, form: Arguments, weaver: StatefulFormat | None = None
) -> Exported:
    """The rows of a sample; what would not come back as it went in makes none."""
    try:
        made = (weaver or format_).rows(sample, form)
    except NotRepresentable as why:
        return Exported(unfit=str(why))
    if all(_comes_back(format_.files[part], row) for part, row in made.rows):
        return made
    return Exported(unfit=ROUNDED)


def _comes_back(file: ExportFile, row: JsonObject) -> bool:
    """Whether `datasets` reads the JSON columns of Parquet exactly."""
    names = [name for name, column in file.columns.items() if column == "objects"]
    texts = [to_text(value) for name in names for value in row[name]]
    return reads_back(texts)


def _count(report: ExportReport, made: Exported) -> None:
    report.samples += 1
    if made.rows or made.waits:
        report.held += 1
        report.lost.update(made.lost)
    else:
        report.unfit[made.unfit or "nothing that the format has a place for"] += 1
