"""The table of formats, and versions written in them sample by sample: whole files or none."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from os.path import isfile
from pathlib import Path
from typing import BinaryIO

from toolloom.pipeline.dataset import demonstrations
from toolloom.pipeline.formats.api_bank import api_bank
from toolloom.pipeline.formats.base import (
    Arguments,
    Exported,
    ExportFile,
    ExportPlace,
    Format,
    NotRepresentable,
    StatefulFormat,
)
from toolloom.pipeline.formats.chat import axolotl, axolotl_notes, openai, trl, verl
from toolloom.pipeline.formats.preferences import trl_dpo
from toolloom.pipeline.formats.sharegpt import dataset_info, hermes, llamafactory
from toolloom.pipeline.formats.toolbench import toolllama
from toolloom.pipeline.store.files import LOCK, hold, replacing, to_text
from toolloom.pipeline.store.version import Columns, ParquetTable, Version, numbered
from toolloom.schemas import ExportError, JsonObject, NothingFound, Sample, StoreError

LINES = {"sft": ExportFile("{split}.jsonl", "jsonl")}
ARRAY = {"sft": ExportFile("{split}.json", "json")}
_TALK = Columns(messages="objects", tools="objects")
_PAIR = Columns(
    **dict.fromkeys(("prompt", "chosen", "rejected", "tools"), "objects"),
    **dict.fromkeys(("defect", "reason"), "text"),
)
_VERL_SFT = Columns(messages="calling turns", tools="tools")
_VERL_RL = Columns(
    data_source="text", prompt="turns", ability="text", reward_model="reward", extra_info="extra"
)
_LOAD_PARQUET = 'load_dataset("parquet", data_files="{folder}/{split}.parquet", split="train")'
_LOAD_LINES = 'load_dataset("json", data_files="{folder}/{split}.jsonl", split="train")'
_AXOLOTL = "The lines of {folder}/axolotl.yaml go into Axolotl's configuration."

_ALL = (
    Format(
        "trl",
        trl,
        {"sft": ExportFile("{split}.parquet", "parquet", _TALK)},
        ("object", "string"),
        hint=f"SFTTrainer(train_dataset={_LOAD_PARQUET})",
    ),
    Format(
        "trl-dpo",
        trl_dpo,
        {"pairs": ExportFile("{split}.parquet", "parquet", _PAIR)},
        ("object", "string"),
        hint=f"DPOTrainer(train_dataset={_LOAD_PARQUET})",
    ),
    Format(
        "llamafactory",
        llamafactory,
        LINES,
        notes=dataset_info,
        hint="dataset_dir: {folder}\ndataset: {dataset}_{split}",
    ),
    Format("axolotl", axolotl, LINES, ("string", "object"), notes=axolotl_notes, hint=_AXOLOTL),
    Format(
        "verl",
        verl,
        {
            "sft": ExportFile("sft/{split}.parquet", "parquet", _VERL_SFT),
            "rl": ExportFile("rl/{split}.parquet", "parquet", _VERL_RL),
        },
        ("string",),
        why="objects with different keys would be padded with nulls in verl's Parquet",
        hint="data.train_files={folder}/sft/{split}.parquet   (or rl/{split}.parquet)",
    ),
    Format(
        "openai",
        openai,
        LINES,
        ("string",),
        why="OpenAI takes arguments as text only",
        hint='client.files.create(file=open("{folder}/{split}.jsonl", "rb"), purpose="fine-tune")',
    ),
    Format("hermes", hermes, LINES, hint=_LOAD_LINES),
    Format("api-bank", api_bank, ARRAY, hint='json.load(open("{folder}/{split}.json"))'),
    Format(
        "toolllama",
        toolllama,
        ARRAY,
        hint="--data_path {folder}/{split}.json --conv_template tool-llama-single-round",
    ),
    Format(
        "few-shot",
        demonstrations.few_shot,
        LINES,
        hint=f"SFTTrainer(train_dataset={_LOAD_LINES})",
        stateful=demonstrations.FewShots,
        shots=demonstrations.SHOTS,
    ),
    Format(
        "all-shot",
        demonstrations.all_shot,
        LINES,
        notes=demonstrations.all_shot_notes,
        hint=_AXOLOTL,
        stateful=demonstrations.AllShots,
    ),
)
FORMATS = {one.name: one for one in _ALL}
ROUNDED = "numbers that `datasets` would not give back as they are"
ROWS_IN_GROUP = 200  # of Parquet, that are in memory
MARKS = {"jsonl": (b"", b"\n", b"\n"), "json": (b"[\n", b",\n", b"\n]\n")}  # around rows


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
        for name, value in vars(self.place).items():
            text = text.replace(f"{{{name}}}", str(value))
        return text.replace("{split}", self.place.splits[0])


def export(
    source: Version,
    format_: Format,
    into: Path,
    arguments: Arguments | None = None,
    split: str | None = None,
    shots: int | None = None,
) -> ExportReport:
    """Write it to a folder, or to one file. Raises ToolloomError; then nothing is changed."""
    form, splits = _form(format_, arguments, shots), _splits(source, split)
    paths = _paths(format_, into, splits)
    is_file = into.suffix in SUFFIXES
    folder = (into.parent if is_file else into).resolve()
    for above in (folder, *folder.parents):
        if numbered(above) and isfile(above / "manifest.json"):
            raise ExportError(
                f"--into {into}: lies in a version of a dataset, and versions never change. "
                "Name a place outside of it."
            )
    report = ExportReport(format_, ExportPlace(source.name, (), str(folder)))
    shown = (format_.shots or 0) if shots is None else shots
    stateful = format_.stateful(source, shown) if format_.stateful else None
    with ExitStack() as stack:
        files = ExportFiles(folder, stack)
        for each in splits:
            before = report.held
            for sample in source.samples(each):
                made = _made(format_, sample, form, stateful)
                report.samples += 1
                if made.rows or (stateful and not made.unfit):  # rows may come later
                    report.held += 1
                    report.lost.update(made.lost)
                else:
                    report.unfit[made.unfit or "nothing that the format has a place for"] += 1
                for part, row in made.rows:
                    files.write(paths[each, part], format_.files[part], row)
            for part, row in stateful.rest() if stateful else ():
                files.write(paths[each, part], format_.files[part], row)
            if report.held > before:
                report.place = replace(report.place, splits=(*report.place.splits, each))
        report.files = dict(sorted(files.rows.items()))
        notes = format_.notes(report.place) if report.files and not is_file else {}
        report.notes = [into / name for name in notes]
        for name, text in notes.items():
            files.open(into / name).write(text.encode())
        files.finish()
    return report


def _form(format_: Format, arguments: Arguments | None, shots: int | None) -> Arguments:
    """The form of arguments. Raises ExportError where the format fixes what was asked for."""
    asked = f"--format {format_.name}"
    if shots is not None and format_.shots is None:
        why = "the format shows no demonstrations. Leave out --shots."
        raise ExportError(f"{asked} --shots {shots}: {why}")
    if arguments not in (None, *format_.arguments):
        raise ExportError(f"{asked} --arguments {arguments}: {format_.why}. Leave out --arguments.")
    return arguments or format_.arguments[0]


def _splits(source: Version, wanted: str | None) -> list[str]:
    """The splits to write. Raises NothingFound for one that has no samples, or if none has."""
    known = source.splits("samples")
    if not known:
        raise NothingFound(
            f"{source.name} has no samples, so there is nothing to export. Instructions are "
            'loaded as they are: `datasets.load_dataset(FOLDER, "planning")`.'
        )
    if wanted is not None and wanted not in known:
        raise NothingFound(
            f"{source.name} has no samples in a split {wanted!r}; there are: {', '.join(known)}."
        )
    return known if wanted is None else [wanted]


SUFFIXES = (".jsonl", ".json", ".parquet")


def _paths(format_: Format, into: Path, splits: list[str]) -> dict[tuple[str, str], Path]:
    """Where each file of each split goes. Raises ExportError if one file cannot take it all."""
    if into.suffix not in SUFFIXES:
        return {
            (split, part): into / file.path.replace("{split}", split)
            for split in splits
            for part, file in format_.files.items()
        }
    (part, file), *others = format_.files.items()
    if others:
        why = f"--format {format_.name} writes several files. Name a folder."
    elif file.kind != into.suffix[1:]:
        why = f"--format {format_.name} writes .{file.kind}. Name a file that ends so, or a folder."
    elif len(splits) > 1:
        why = (
            f"there are {len(splits)} splits ({', '.join(splits)}), and each has a file of its "
            "own. Choose one with --split, or name a folder."
        )
    else:
        return {(splits[0], part): into}
    raise ExportError(f"--into {into}: {why}")


def _made(
    format_: Format, sample: Sample, form: Arguments, stateful: StatefulFormat | None = None
) -> Exported:
    """The rows of a sample; what would not come back as it went in makes none."""
    try:
        made = (stateful or format_).rows(sample, form)
    except NotRepresentable as why:
        return Exported(unfit=str(why))
    for part, row in made.rows:
        columns = format_.files[part].columns
        if not columns.hold(columns.encode(row)):
            return Exported(unfit=ROUNDED)  # `datasets` reads JSON columns of Parquet otherwise
    return made


class ExportFiles:
    """The files of an export to a folder. They take their names together, when all are whole.

    JSON is a row a line, each by itself or all of one array; Parquet is written in groups.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._opened: list[BinaryIO] = []
        self._tables: dict[Path, ParquetTable] = {}
        self._texts: dict[Path, tuple[BinaryIO, bytes]] = {}  # each with what ends it
        self.rows = Counter[Path]()

    def open(self, path: Path) -> BinaryIO:
        """A further file, to be written whole."""
        if not self._opened:
            # Another export to this folder would write the same unfinished files: it is waited
            # for, but where files cannot be locked, as on some network disks.
            with suppress(StoreError):
                self._stack.enter_context(hold(self._folder / LOCK))
                # The lock is no part of an export.
                self._stack.callback((self._folder / LOCK).unlink, missing_ok=True)
        file = self._stack.enter_context(replacing(path))
        self._opened.append(file)
        return file

    def write(self, path: Path, about: ExportFile, row: JsonObject) -> None:
        self.rows[path] += 1
        is_first = self.rows[path] == 1
        if about.kind == "parquet":
            if is_first:
                types, file = about.columns.types, self.open(path)
                self._tables[path] = ParquetTable(types, file, self._stack, ROWS_IN_GROUP)
            self._tables[path].add(about.columns.encode(row))
            return
        begin, between, end = MARKS[about.kind]
        if is_first:
            self._texts[path] = self.open(path), end
        self._texts[path][0].write((begin if is_first else between) + to_text(row).encode())

    def finish(self) -> None:
        """Write what is left. If the disk is full it is told before any file has taken its name."""
        for table in self._tables.values():
            table.close()
        for file, end in self._texts.values():
            file.write(end)
        for file in self._opened:
            file.flush()
            os.fsync(file.fileno())
