"""Rows that a benchmark holds too: who trains on them and measures with it measures nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

from toolloom.llm.log import note
from toolloom.pipeline.curation import benchmarks
from toolloom.pipeline.curation.index import BenchmarkIndex, Match
from toolloom.pipeline.curation.rows import calls, reject, turns
from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.pipeline.stage import Sifted, StageInput
from toolloom.pipeline.store.files import to_line
from toolloom.schemas import Finding, JsonObject, Reason, Recipe

_DETAILS = {
    "words": "These words in a row are also in",
    "text": "This whole text is also in",
    "calls": "These calls are also in",
}


def is_wanted(recipe: Recipe) -> bool:
    return bool(recipe.curation.against)


def decontaminate(given: StageInput) -> Iterator[Sifted]:
    """The stage `decontaminated`."""
    index = read_benchmarks(given)
    try:
        drop = given.recipe.curation.contaminated == "drop"
        for line, row in given.rows.objects():
            findings = [finding(match) for match in matches(row, index)]
            if findings and drop:
                yield reject(row, given.stage, findings)
            elif findings:
                flags = [*row.get("flags", ()), *(f.model_dump(mode="json") for f in findings)]
                yield to_line({**row, "flags": flags})
            else:
                yield line
    finally:
        index.discard()


def read_benchmarks(given: StageInput) -> BenchmarkIndex:
    """All that the recipe's benchmarks say, to be discarded when it is done with."""
    index = BenchmarkIndex(given.scratch)
    try:
        for named in given.recipe.curation.against:
            _add(named, index, given)
        index.close()
    except BaseException:
        index.discard()
        raise
    return index


def _add(named: str, index: BenchmarkIndex, given: StageInput) -> None:
    """Read a benchmark, and tell what could not be read of it."""
    ledger, name = ImportLog(named), Path(named).name or named
    before = index.rows, index.texts, index.calls, index.unread
    for item in benchmarks.items(named, ledger):
        given.rows.check()
        index.add(name, item)
    after = index.rows, index.texts, index.calls, index.unread
    rows, texts, golds, unread = (b - a for a, b in zip(before, after, strict=True))
    lost = len(ledger.report(imported=0).skipped)
    message = f"{name}: {rows:,} rows, {texts:,} texts and {golds:,} calls to look for"
    if lost or unread:
        message += f"; {lost:,} rows or files and {unread:,} calls could not be read"
    level = logging.WARNING if lost or unread or not rows else logging.INFO
    note(level, "benchmark", message, benchmark=name, rows=rows, lost=lost, unread=unread)


def matches(row: JsonObject, index: BenchmarkIndex) -> Iterator[Match]:
    """What a row has in common with benchmarks: at most a text and a call."""
    for match in (index.text(turns(row)), index.call(calls(row))):
        if match:
            yield match


def finding(match: Match) -> Finding:
    """A match in a sentence. Texts are in it as JSON, so that
    `dataset.report.overlap` finds them again."""
    check, *texts = astuple(match)
    benchmark, place, words, row, theirs = (json.dumps(t, ensure_ascii=False) for t in texts)
    detail = (
        f"{_DETAILS[check]} {benchmark} at {place}: {words}. "
        f"The row: {row}. The benchmark: {theirs}."
    )
    return Finding(check=f"overlap_{check}", reason=Reason.CONTAMINATED, detail=detail)
