"""API-Bank: API descriptions, annotated dialogues, released training rows and scenes.

An API is put together from all that a source says of it: its description, where one is given or
was found by a ToolSearcher call, and the calls made to it, whose values show what it takes and
gives. Many files of one folder are one source. ToolSearcher itself is API-Bank's API Search
(section 3.1), which toolloom has of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolloom.pipeline.formats.importers.bank_rows import (
    SEARCH,
    BankCall,
    Described,
    evidence,
    is_bank_row,
)
from toolloom.pipeline.formats.importers.inference import schema_of
from toolloom.pipeline.formats.importers.intake import UNSORTED, ApiBuilder, line, reference, text
from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.pipeline.formats.importers.rows import UNREAD
from toolloom.schemas import Api
from toolloom.schemas.base import JsonObject

TOOL = "API-Bank"
_EXAMPLES = 5  # values of an argument, and results, that are kept of the calls of an API
_TYPES = {
    "str": "string",
    "string": "string",
    "int": "integer",
    "integer": "integer",
    "float": "number",
    "number": "number",
    "bool": "boolean",
    "boolean": "boolean",
    "list": "array",
    "array": "array",
    "dict": "object",
    "object": "object",
}


def fits(document: Any) -> bool:
    """Whether a document, or a list of them, is one of API-Bank's forms."""
    if isinstance(document, list):
        return any(is_bank_row(row) for row in document[:20])
    return is_bank_row(document)


def fits_text(content: str) -> bool:
    """Whether a text is a scene of API-Bank's level 3."""
    return bool(
        re.search(r"(?mi)^[ \t]*Scene[ \t]{0,9}:", content)
        and re.search(r"(?i)API Calls?:", content)
    )


def read(
    source: Path, ledger: ImportLog, *, category: str = "", document: Any = UNREAD
) -> Iterator[Api]:
    """The APIs of a file, or of all files of a folder taken together."""
    bank = Bank()
    for path in _files(source):
        bank.take(path, ledger, document)
    yield from bank.apis(ledger, reference(source), category)


def _files(source: Path) -> list[Path]:
    if not source.is_dir():
        return [source]
    endings = {".json", ".jsonl", ".txt"}
    return sorted(p for p in source.rglob("*") if p.suffix.lower() in endings and p.is_file())


class Bank:
    """What several files say of the same APIs."""

    def __init__(self) -> None:
        self._known: dict[str, _KnownApi] = {}

    def take(self, path: Path, ledger: ImportLog, document: Any = UNREAD) -> None:
        """Add what a file says. `document`: its content, if it was loaded before."""
        for fact in evidence(path, ledger, document):
            self._known.setdefault(fact.name, _KnownApi()).add(fact)

    def apis(self, ledger: ImportLog, named: str, category: str = "") -> Iterator[Api]:
        """The APIs put together. `named`: what their source is called."""
        ledger.format = "api-bank"
        intake = ApiBuilder(ledger, "api-bank", named)
        for name, known in self._known.items():
            if name == SEARCH:
                intake.refuse(name, "It is API-Bank's API Search; toolloom has its own.")
                continue
            yield from intake.api(
                category=category or UNSORTED,
                tool=TOOL,
                name=name,
                description=known.description,
                parameters=known.parameters(),
                returns=known.returns(),
            )
        if calls := sum(known.calls for known in self._known.values()):
            ledger.note(f"{named}: {calls} calls of {len(self._known)} APIs were looked at.")


class _KnownApi:
    """What a source says of one API."""

    def __init__(self) -> None:
        self.calls = 0
        self.description = ""
        self._described: Described | None = None
        self._values: dict[str, list[Any]] = {}
        self._given: dict[str, int] = {}
        self._outputs: list[Any] = []

    def add(self, fact: Described | BankCall) -> None:
        if isinstance(fact, Described):
            if self._described is None:  # descriptions of one name agree, but for their wording
                self._described, self.description = fact, fact.description
            return
        self.calls += 1
        for key, value in fact.arguments.items():
            self._given[key] = self._given.get(key, 0) + 1
            seen = self._values.setdefault(key, [])
            if len(seen) < _EXAMPLES and value not in seen:
                seen.append(value)
        if fact.answered and len(self._outputs) < _EXAMPLES:
            self._outputs.append(fact.output)

    def parameters(self) -> JsonObject:
        """Described arguments, else those that were given; needed is what no call leaves out."""
        described = self._described.inputs if self._described else {}
        names = described or {key: {} for key in self._values}
        return {
            "type": "object",
            "properties": {name: self._argument(name, said) for name, said in names.items()},
            "required": [name for name, said in names.items() if self._needed(name, said)],
        }

    def _argument(self, name: str, said: Any) -> JsonObject:
        values = self._values.get(name, [])
        made = typed(said) if said else schema_of(values)
        fitting = [v for v in values if schema_of([v]).get("type") == made.get("type")]
        return {**made, **({"examples": fitting} if fitting else {})}

    def _needed(self, name: str, said: Any) -> bool:
        optional = isinstance(said, dict) and "optional" in text(said.get("description")).lower()
        always = self.calls == 0 or self._given.get(name, 0) == self.calls
        return always and not optional

    def returns(self) -> JsonObject | None:
        """What its calls answered, in the words of its description where the two agree."""
        described = self._described.outputs if self._described else {}
        said = {name: typed(about) for name, about in described.items()}
        seen = schema_of(self._outputs)
        if not self._outputs:
            return {"type": "object", "properties": said} if said else None
        if seen.get("type") == "object":
            keys = {key for output in self._outputs for key in output}
            return {"type": "object", "properties": said} if said and keys <= {*said} else seen
        about = next(iter(said.values())).get("description") if len(said) == 1 else None
        return {**seen, **({"description": about} if about else {})}


def typed(said: Any) -> JsonObject:
    """A described argument or result, such as `{"type": "list(str)", "description": …}`."""
    given = said if isinstance(said, dict) else {}
    written = line(given.get("type"))
    inner = re.fullmatch(r"(?i)list\s*[\[(]\s*(\w+)\s*[\])]", written)
    kind = _TYPES.get(written.lower(), "array" if inner else "")
    made: JsonObject = {"type": kind} if kind else {}
    if inner and inner[1].lower() in _TYPES:
        made["items"] = {"type": _TYPES[inner[1].lower()]}
    if written.lower() == "datetime":
        made["type"] = "string"
    if about := text(given.get("description")).strip():
        made["description"] = about
    return made


def searches(path: Path) -> list[tuple[str, str]]:
    """(keywords, the API that was meant) of each ToolSearcher call that found some, in order.

    Meant is, of the APIs found, the last one called before the next search; where none is, the
    last one found: ToolSearcher puts GetUserToken before an API that needs a token.
    """
    pairs: list[tuple[str, str]] = []
    for file in _files(path):
        calls = [f for f in evidence(file, ImportLog(file.name)) if isinstance(f, BankCall)]
        starts = [number for number, call in enumerate(calls) if call.name == SEARCH]
        for start, end in zip(starts, [*starts[1:], len(calls)][: len(starts)], strict=True):
            pair = (line(calls[start].arguments.get("keywords")), _meant(calls[start:end]))
            if all(pair) and pair not in pairs:
                pairs.append(pair)
    return pairs


def _meant(calls: list[BankCall]) -> str:
    """The API a search was for. `calls`: the search and the calls up to the next one."""
    output = calls[0].output
    entries = output if isinstance(output, list) else [output]
    found = [line(entry.get("name")) for entry in entries if isinstance(entry, dict)]
    called = [call.name for call in calls[1:] if call.name in found]
    return called[-1] if called else next(reversed(found), "")
