"""Exports on the disk: streamed, whole or not there, the same each time, nothing dropped."""

from __future__ import annotations

import json
import resource
import tracemalloc
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.shop import Shop, with_arguments

from toolloom.pipeline.dataset.exporting import (
    FORMATS,
    ROUNDED,
    ExportFiles,
    export,
)
from toolloom.pipeline.formats.base import ExportFile
from toolloom.pipeline.store.files import LOCK, hold
from toolloom.pipeline.store.version import Version
from toolloom.schemas import ExportError, NothingFound, Sample, StoreError

SPLITS = ("train", "test_tool")


@pytest.fixture
def shop(samples: dict[str, Sample]) -> Shop:
    return Shop({split: [*samples.values()] for split in SPLITS})


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", FORMATS)
def test_every_sample_is_in_rows_or_counted(name: str, shop: Shop, tmp_path: Path) -> None:
    """Held and left out make all, and each reason is told; the bytes depend on the samples alone."""
    report = export(shop, FORMATS[name], tmp_path / name)
    assert report.samples == 14
    assert report.held + report.unfit.total() == 14
    assert report.rows == sum(report.files.values())
    assert report.rows >= report.held or name == "all-shot"  # which puts several into one row
    assert all(report.unfit) and all(path.is_file() for path in (*report.files, *report.notes))
    for path in report.files if name in ("api-bank", "toolllama") else ():
        assert len(json.loads(path.read_text(encoding="utf-8"))) == report.files[path]
    assert "{" not in report.hint and str(tmp_path.resolve()) in report.hint
    first = files_of(tmp_path / name)
    export(shop, FORMATS[name], tmp_path / name)  # takes the first one's place
    assert files_of(tmp_path / name) == first
    assert not [path for path in first if path.rpartition("/")[2].startswith(".")]


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_that_breaks_leaves_nothing(
    name: str, shop: Shop, samples: dict[str, Sample], tmp_path: Path
) -> None:
    """No file appears under its name unless all are whole; what was there stays."""
    into = tmp_path / "a"
    export(shop, FORMATS[name], tmp_path / "whole")
    kept = into / next(iter(files_of(tmp_path / "whole")))
    kept.parent.mkdir(parents=True)
    kept.write_text("before")
    with pytest.raises(StoreError, match="damaged"):
        export(Shop({"train": samples.values()}, breaks=True), FORMATS[name], into)
    assert list(files_of(into).values()) == [b"before"]


def test_rows_that_datasets_would_round_are_left_out(
    samples: dict[str, Sample], tmp_path: Path
) -> None:
    """A number of more digits than `datasets` reads back is told, not changed."""
    spoilt = with_arguments(samples["single"], {"city": 0.12345678901234567})
    shop = Shop({split: [spoilt] for split in SPLITS})
    assert export(shop, FORMATS["trl"], tmp_path / "trl").unfit == {ROUNDED: 2}
    report = export(shop, FORMATS["trl"], tmp_path / "text", "string")
    assert report.held == 2
    assert export(shop, FORMATS["openai"], tmp_path / "openai").held == 2


def test_one_file_takes_one_split(shop: Shop, tmp_path: Path) -> None:
    """--into FILE writes that file alone, without notes; the hint names it."""
    into = tmp_path / "mine.jsonl"
    report = export(shop, FORMATS["openai"], into, split="train")
    assert list(files_of(tmp_path)) == ["mine.jsonl"]
    assert len(into.read_text().splitlines()) == report.rows == 7
    assert str(into) in report.hint
    assert export(shop, FORMATS["axolotl"], into, split="train").notes == []


@pytest.mark.parametrize(
    ("name", "into", "split", "why"),
    [
        ("openai", "a.jsonl", None, "2 splits"),
        ("openai", "a.json", "train", "writes .jsonl"),
        ("verl", "a.parquet", "train", "several files"),
        ("trl", "taken", None, "cannot be written"),
    ],
)
def test_one_file_that_cannot_take_it_is_refused(
    name: str, into: str, split: str | None, why: str, shop: Shop, tmp_path: Path
) -> None:
    """Several splits, another kind of file, several files, or a file in the place of the folder: the
    message says what to do."""
    (tmp_path / "taken").write_text("x")
    with pytest.raises((ExportError, StoreError), match=why):
        export(shop, FORMATS[name], tmp_path / into, split=split)
    assert [*files_of(tmp_path)] == ["taken"]


@pytest.mark.parametrize("format_", FORMATS.values(), ids=lambda one: one.name)
def test_arguments_are_refused_where_the_format_fixes_them(
    format_: Any, shop: Shop, tmp_path: Path
) -> None:
    """What is fixed has a reason, and what is free both forms."""
    if len(format_.arguments) == 2:
        assert export(shop, format_, tmp_path, "string").rows
        return
    other: Any = {"object": "string", "string": "object"}[format_.arguments[0]]
    with pytest.raises(ExportError, match="Leave out --arguments"):
        export(shop, format_, tmp_path, other)


def test_memory_does_not_grow_with_rows(samples: dict[str, Sample], tmp_path: Path) -> None:
    """Samples are read, turned and written one at a time."""

    def peak(count: int) -> int:
        many = (samples["single"] for _ in range(count))
        tracemalloc.start()
        export(Shop({"train": many}), FORMATS["llamafactory"], tmp_path / str(count))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(10)
    assert peak(1_500) < 2 * peak(150) + 100_000


def test_a_full_disk_leaves_no_file_of_an_export(tmp_path: Path) -> None:
    """What is still in memory is written before any file takes its name."""
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, kept[1]))
        with pytest.raises(StoreError, match="Make room"), ExitStack() as stack:
            files = ExportFiles(tmp_path, stack)
            files.write(tmp_path / "long.jsonl", ExportFile("", "jsonl"), {"a": "x" * 3_000})
            files.write(tmp_path / "short.jsonl", ExportFile("", "jsonl"), {"a": "x"})
            files.finish()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
    assert files_of(tmp_path) == {}


def test_two_exports_to_a_folder_follow_each_other(tmp_path: Path) -> None:
    """They would write the same unfinished files: the folder is locked while one does."""
    with ExitStack() as stack:
        files = ExportFiles(tmp_path, stack)
        files.write(tmp_path / "a.jsonl", ExportFile("", "jsonl"), {})
        with pytest.raises(ExportError, match="busy"):
            hold(tmp_path / LOCK, ExportError("busy")).__enter__()
        files.finish()
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("into", ["1.0.0", "1.0.0/sft", "1.0.0/mine.jsonl"])
def test_a_version_is_no_place_for_an_export(into: str, shop: Shop, tmp_path: Path) -> None:
    """Versions never change: a folder or file within one is refused."""
    (tmp_path / "1.0.0").mkdir()
    (tmp_path / "1.0.0" / "manifest.json").write_text("{}")
    with pytest.raises(ExportError, match="versions never change"):
        export(shop, FORMATS["openai"], tmp_path / into, split="train")
    assert [*files_of(tmp_path)] == ["1.0.0/manifest.json"]


def test_a_dataset_without_samples_has_nothing_to_export(tmp_path: Path) -> None:
    """One of instructions alone says where its training rows are."""
    version = Version(tmp_path, {"name": "g3", "version": "1.0.0", "configs": {"planning": {}}})
    with pytest.raises(NothingFound, match="no samples, so there is nothing to export"):
        export(version, FORMATS["trl"], tmp_path / "a")
