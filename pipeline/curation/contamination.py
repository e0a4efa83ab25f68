"""Rows that a benchmark holds too: who trains on them and measures with it measures nothing.

Benchmarks are BFCL, API-Bank, ToolBench and any JSON lines: of a row in no known form all texts
count, and as calls all objects with a name and arguments. Texts that are JSON are read as such.

Words count where thirteen in a row are shared, as for GPT-3 (Brown et al., 2020, appendix C). A
text with fewer counts only as a whole, if it has four words and two of them carry meaning: «yes,
please» is nobody's.

Calls are the same however they are written. A call counts alone only if its values say enough to be
no chance: two that are neither empty, true, false nor a number below 10, or one of four words.
Calls that say less count together, if they are the whole of a gold answer and say enough together.
"""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from toolloom.llm.messages import note
from toolloom.pipeline.checks.schema import as_dict
from toolloom.pipeline.checks.text.call_text import CallTextError, parse
from toolloom.pipeline.checks.text.words import STOP
from toolloom.pipeline.curation.duplicates import calls, folded, hashed, reject, turns
from toolloom.pipeline.formats.conversation import json_of
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.rows import files, rows
from toolloom.pipeline.stage import Sifted, StageInput
from toolloom.pipeline.store.files import to_line
from toolloom.schemas import (
    Finding,
    ImportFailed,
    JsonObject,
    Reason,
    Recipe,
    RecipeError,
    StoreError,
    canonical,
)

ENDINGS = (".json", ".jsonl", ".ndjson", ".txt")
LARGEST_TEXT = 1_000_000  # letters of a text that are looked at
_CALL = re.compile(r"(?:API-Request\s*:)?\s*\[?\s*[A-Za-z_][\w.]*\s*\(.*\)\s*\]?")


@dataclass(frozen=True)
class Gold:
    """A call of a benchmark. `alternatives`: each argument is the list of its right values."""

    name: str
    arguments: JsonObject
    alternatives: bool = False


@dataclass
class BenchmarkRow:
    """What one row of a benchmark says."""

    place: str  # file and line, and the row's id if it has one
    texts: list[str] = field(default_factory=list)
    calls: list[Gold] = field(default_factory=list)
    unread: int = 0  # calls that could not be read

    def add(self, name: Any, arguments: Any, alternatives: bool = False) -> None:
        """Take a call; what has no name or no arguments by name is none."""
        if isinstance(name, str) and name.strip() and isinstance(arguments, dict):
            self.calls.append(Gold(name, arguments, alternatives))


def check_benchmarks(recipe: Recipe) -> None:
    """Raises RecipeError if a benchmark is not there."""
    for named in recipe.curation.against:
        benchmark_files(named)


def benchmark_files(named: str) -> list[Path]:
    """The files of a benchmark, in order. Raises RecipeError if there are none."""
    try:
        return files(Path(named).expanduser(), ENDINGS)
    except StoreError as error:
        raise RecipeError(f"curation.against: {error}") from error


def benchmark_rows(named: str, ledger: ImportLog) -> Iterator[BenchmarkRow]:
    """The rows of a benchmark. What cannot be read is booked as skipped."""
    top = Path(named).expanduser()
    for path in benchmark_files(named):
        shown = path.relative_to(top).as_posix() if path != top else path.name
        try:
            if path.suffix == ".txt":
                for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
                    item = BenchmarkRow(f"{shown}:{number}")
                    _take_text(line, item)
                    yield item
                continue
            for place, row in rows(path, ledger):
                line = place.removeprefix(path.name)
                for number, entry in enumerate(row if isinstance(row, list) else [row], 1):
                    inside = f"{line}[{number}]" if isinstance(row, list) else line
                    yield benchmark_row(entry, f"{shown}{inside}")
        except (ImportFailed, OSError, RecursionError) as error:
            ledger.refuse(shown, str(error))


def benchmark_row(row: Any, place: str = "") -> BenchmarkRow:
    """What one row says, whatever its form."""
    fields = as_dict(row)
    named = fields.get("id", fields.get("query_id", ""))
    item = BenchmarkRow(f"{place} {named}".strip() if isinstance(named, str | int) else place)
    truth, answer = fields.get("ground_truth"), fields.get("answer_generation")
    if isinstance(fields.get("question"), list) and "function" in fields:
        row = fields["question"]  # BFCL: not its function documents
    elif "query" in fields and "api_list" in fields:
        row = fields["query"]  # ToolBench: not its APIs
    elif isinstance(truth, list):
        # BFCL's gold answers: calls with lists of right values, or call texts turn by turn.
        for each in truth:
            for name, arguments in each.items() if isinstance(each, dict) else ():
                item.add(name, arguments, alternatives=True)
        row = [each for each in truth if not isinstance(each, dict)]
    elif isinstance(answer, dict):
        row = [answer.get("query"), fields.get("tree")]
    _walk(row, item)
    return item


def _take_text(text: str, item: BenchmarkRow) -> None:
    """A text, with the calls that stand in lines of it."""
    text = text[:LARGEST_TEXT]
    item.texts.append(text)
    for line in text.splitlines():
        if ("API-Request" in line or "(" in line[:80]) and _CALL.fullmatch(line.strip()):
            try:
                for call in parse(line.strip()):
                    item.add(call.name, call.arguments)
            except (CallTextError, RecursionError):
                item.unread += 1


def _walk(value: Any, item: BenchmarkRow) -> None:
    """All texts in a value, and all calls, without recursion."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, str):
            parsed = _inside(inner)
            if parsed is None:
                _take_text(inner, item)
            else:
                waiting.append(parsed)
        elif isinstance(inner, list):
            waiting += reversed(inner)
        elif isinstance(inner, dict) and "node_type" in inner:  # of ToolBench's trees: calls alone
            children = [each for each in inner.get("children") or () if isinstance(each, dict)]
            waiting += reversed(children)
            for child in children if inner["node_type"] == "Action" else ():
                if child.get("node_type") == "Action Input":
                    item.add(inner.get("description"), _inside(str(child.get("description", ""))))
        elif isinstance(inner, dict) and inner.get("role") == "API" and "api_name" in inner:
            item.add(inner["api_name"], as_dict(inner.get("param_dict")))
        elif isinstance(inner, dict):
            given = inner.get("arguments")
            item.add(inner.get("name"), _inside(given) if isinstance(given, str) else given)
            waiting += reversed(inner.values())


def _inside(text: str) -> Any:
    """What a text holds that is a JSON object or list; None if it is none."""
    is_one = text[:1] in "{[" and text[-1:] in "}]" and len(text) <= LARGEST_TEXT
    return json_of(text) if is_one else None


# What is the same

ENOUGH = 2  # values that say something
_LONG = 4  # words of a value that says enough alone
_DEPTH = 20
_NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,15})?")
_CONSTANTS = {"true", "false", "none", "null", ""}


def plain_name(name: str) -> str:
    """«spotify.play», «spotify_play» and «SpotifyPlay» are one."""
    return re.sub(r"[\W_]+", "", name).casefold() or name


def plain(value: Any, depth: int = 0) -> Any:
    """A value as it is compared: 5, 5.0 and "5" are one, and so is text that differs in case."""
    if isinstance(value, dict) and depth < _DEPTH:
        return {plain_name(k): plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list) and depth < _DEPTH:
        return [plain(inner, depth + 1) for inner in value]
    if value is None or isinstance(value, bool):
        return str(value).casefold()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) or (isinstance(value, str) and _NUMBER.fullmatch(value.strip())):
        found = float(value)
        return str(int(found)) if found.is_integer() and abs(found) < 2**53 else repr(found)
    return folded(value if isinstance(value, str) else repr(value))


def plain_call(name: str, arguments: JsonObject) -> str:
    """A call as text: equal for equal calls. Empty arguments are as none."""
    given = {plain_name(k): plain(v) for k, v in arguments.items() if v not in ("", None)}
    return f"{plain_name(name)} {canonical(given)}"


def says(value: Any, depth: int = 0) -> int:
    """How many of the values in a value say something."""
    if isinstance(value, dict | list) and depth < _DEPTH:
        inner = value.values() if isinstance(value, dict) else value
        return sum(says(each, depth + 1) for each in inner)
    text = plain(value)
    if not isinstance(text, str) or text in _CONSTANTS or re.fullmatch(r"-?\d", text):
        return 0
    return ENOUGH if len(text.split()) >= _LONG else 1


def fits(arguments: JsonObject, right: JsonObject) -> bool:
    """Whether arguments are among BFCL's right ones; what may be left out has `""` in its list."""
    given = {plain_name(k): v for k, v in arguments.items() if v not in ("", None)}
    allowed = {plain_name(k): v if isinstance(v, list) else [v] for k, v in right.items()}
    missing = set(allowed) - set(given)
    if not set(given) <= set(allowed) or any("" not in allowed[key] for key in missing):
        return False
    return all(any(_same(value, one) for one in allowed[key]) for key, value in given.items())


def _same(value: Any, right: Any) -> bool:
    """Whether a value is a right one; objects inside it are of lists of right values again."""
    if isinstance(value, dict) and isinstance(right, dict):
        return fits(value, right)
    if isinstance(value, list) and isinstance(right, list):
        return len(value) == len(right) and all(map(_same, value, right))
    return bool(plain(value) == plain(right))


def written(calls: Iterable[tuple[str, JsonObject]]) -> str:
    """Calls for people."""
    shown = []
    for name, arguments in calls:
        given = ", ".join(f"{key}={canonical(value)}" for key, value in arguments.items())
        shown.append(f"{name}({given})")
    return "; ".join(shown)


IN_A_ROW = 13  # words
SHORTEST = 4  # words of a text that counts as a whole
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff"
_MARKS = "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u3099\u309a"  # of those
_WORD = re.compile(rf"[{_UNSPACED}][{_MARKS}]*|[^\s{_UNSPACED}]+")


def words(text: str) -> list[str]:
    """The words of a text, folded; letters of scripts without spaces are words."""
    return _WORD.findall(folded(text))


def runs(found: Sequence[str]) -> list[int]:
    """A hash for each run of thirteen words."""
    starts = range(len(found) - IN_A_ROW + 1)
    return [hashed(" ".join(found[start : start + IN_A_ROW])) for start in starts]


def whole(found: Sequence[str]) -> str:
    """A short text that may count as a whole, or nothing."""
    meant = [word for word in found if word not in STOP]
    return " ".join(found) if SHORTEST <= len(found) < IN_A_ROW and len(meant) >= 2 else ""


def shared(mine: Sequence[str], place: int, theirs: Sequence[str]) -> str:
    """The words in a row that both texts have, from the first run of thirteen on."""
    starts = (
        s for s in range(len(theirs)) if theirs[s : s + IN_A_ROW] == mine[place : place + IN_A_ROW]
    )
    both = zip(mine[place:], theirs[next(starts) :], strict=False)
    return " ".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], both))


SHOWN = 1000  # letters of a text that are shown
_ROLE = re.compile(r"^\s*(?:user|human|ai|assistant|first utterance)\s*:", re.IGNORECASE)


class BenchmarkIndex:
    """Rows of benchmarks, looked up by runs of words, short texts and calls."""

    def __init__(self) -> None:
        self._noted: list[tuple[str, str, str, int]] = []  # benchmark, place, text, calls
        self._runs: dict[int, int] = {}  # hash → the first text that has it
        self._wholes: dict[str, int] = {}
        self._calls = defaultdict[str, list[int]](list)
        self._open = defaultdict[str, list[tuple[Gold, int]]](list)  # with alternatives

    def add(self, benchmark: str, item: BenchmarkRow) -> None:
        for text in item.texts:
            for each in runs(words(text)):
                self._runs.setdefault(each, len(self._noted))
            for line in (text, *text.splitlines()):
                if short := whole(words(_ROLE.sub("", line))):
                    self._wholes.setdefault(short, len(self._noted))
            self._noted.append((benchmark, item.place, text, 0))
        for gold in item.calls:
            if gold.alternatives:
                self._open[plain_name(gold.name)].append((gold, len(self._noted)))
            else:
                self._calls[plain_call(gold.name, gold.arguments)].append(len(self._noted))
        said = written((gold.name, gold.arguments) for gold in item.calls)
        self._noted.append((benchmark, item.place, said, len(item.calls)))

    def text(self, turns: Sequence[str]) -> Finding | None:
        """The first words of a user's turns that a benchmark has."""
        for turn in turns:
            found = words(turn)
            for place, run in enumerate(runs(found)):
                if (number := self._runs.get(run)) is not None:
                    both = shared(found, place, words(self._noted[number][2]))
                    return self._matched("words", number, both, turn)
        for text in ("\n".join(turns), *turns[:1]):
            short = whole(words(text))
            if short in self._wholes:
                return self._matched("text", self._wholes[short], short, text)
        return None

    def call(self, calls: Sequence[tuple[str, Any]]) -> Finding | None:
        """The first of a row's calls, or all of them, that a benchmark has as gold."""
        made = [(name, arguments) for name, arguments in calls if isinstance(arguments, dict)]
        golds = [self._golds(name, arguments) for name, arguments in made]
        said = [says(arguments) for _, arguments in made]
        for call, among, values in zip(made, golds, said, strict=True):
            if among and values >= ENOUGH:
                return self._called([call], min(among))
        in_all = set.intersection(*golds) if golds else set[int]()
        same = [n for n in sorted(in_all) if self._noted[n][3] == len(calls) == len(made)]
        return self._called(made, same[0]) if same and sum(said) >= ENOUGH else None

    def _golds(self, name: str, arguments: JsonObject) -> set[int]:
        """The noted rows that have a call as gold."""
        alike = self._open.get(plain_name(name), ())
        found = {number for gold, number in alike if fits(arguments, gold.arguments)}
        return found | {*self._calls.get(plain_call(name, arguments), ())}

    def _called(self, made: Sequence[tuple[str, JsonObject]], number: int) -> Finding:
        match = "; ".join(plain_call(*call) for call in made)
        return self._matched("calls", number, match, written(made))

    def _matched(self, check: str, number: int, match: str, row: str) -> Finding:
        benchmark, place, theirs, _ = self._noted[number]
        shown = (match[:SHOWN], _cut(row, match), _cut(theirs, match))
        return finding(check, benchmark, place, *shown)


def _cut(text: str, match: str) -> str:
    """A text as far as it can be shown, around what matches."""
    if len(text) <= SHOWN:
        return text
    found = text.casefold().find(" ".join(match.split()[:2]))
    start = max(0, found - SHOWN // 4)
    return f"{'…' if start else ''}{text[start : start + SHOWN]}…"


_DETAILS = {
    "words": "These words in a row are also in",
    "text": "This whole text is also in",
    "calls": "These calls are also in",
}


def decontaminate(given: StageInput) -> Iterator[Sifted]:
    """The stage `decontaminated`."""
    index = read_benchmarks(given)
    drop = given.recipe.curation.contaminated == "drop"
    for line, row in given.rows.objects():
        findings = contamination_of(row, index)
        if findings and drop:
            yield reject(row, given.stage, findings)
        elif findings:
            flags = [*row.get("flags", ()), *(f.model_dump(mode="json") for f in findings)]
            yield to_line({**row, "flags": flags})
        else:
            yield line


def read_benchmarks(given: StageInput) -> BenchmarkIndex:
    """All that the recipe's benchmarks say."""
    index = BenchmarkIndex()
    for named in given.recipe.curation.against:
        log, name = ImportLog(named), Path(named).name or named
        rows = golds = unread = 0
        for item in benchmark_rows(named, log):
            given.rows.check()
            index.add(name, item)
            rows, golds, unread = rows + 1, golds + len(item.calls), unread + item.unread
        lost = len(log.report(imported=0).skipped)
        message = f"{name}: {rows:,} rows with {golds:,} calls to look for"
        if lost or unread:
            message += f"; {lost:,} rows or files and {unread:,} calls could not be read"
        level = logging.WARNING if lost or unread or not rows else logging.INFO
        note(level, "benchmark", message, benchmark=name, rows=rows, lost=lost, unread=unread)
    return index


def contamination_of(row: JsonObject, index: BenchmarkIndex) -> list[Finding]:
    """What a row has in common with benchmarks: at most a text and a call."""
    return [found for found in (index.text(turns(row)), index.call(calls(row))) if found]


def finding(check: str, *texts: str) -> Finding:
    """What a row and a benchmark have in common: which and where, as it was compared, and as either
    has it. Texts are told as JSON, so that `dataset.figures.overlap` finds them again."""
    benchmark, place, words, row, theirs = (json.dumps(t, ensure_ascii=False) for t in texts)
    detail = (
        f"{_DETAILS[check]} {benchmark} at {place}: {words}. "
        f"The row: {row}. The benchmark: {theirs}."
    )
    return Finding(check=f"overlap_{check}", reason=Reason.CONTAMINATED, detail=detail)
