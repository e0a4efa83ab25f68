"""The rejected records of a version as a flat table, and the accepted dialogues most like one.

Neighbours are what would have passed. Those that call an API of the record come first, then those
of its categories, then others; within each, the nearest texts. Nearness is rapidfuzz's ratio of
the words in order of the alphabet: it needs no index and no stemmer, so that it serves every
language and the few hundred candidates that share an API, and its 0 to 100 can be told to a
curator. (BM25, which API Search uses, ranks by words that are rare in the corpus, without a scale.)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from toolloom import prompts
from toolloom.pipeline.pages.reading import manifest_readable, readable
from toolloom.pipeline.render.html import visible
from toolloom.pipeline.store.version import PARTS, Version, dotted, numbers, open_version
from toolloom.schemas import JsonObject, NothingFound, Record, StoreError, digest
from toolloom.schemas.splits import api_id, need_of, needed

if TYPE_CHECKING:
    import pandas as pd

NONE = "–"  # shown where a record has no value
READING = "answer"  # the check of what fell as an agent's answer was read, before any check ran
INNER = ("findings", "record", "dialogue", "verdict", "flags", "provenance")  # columns of JSON
MOST_VERSIONS = 24  # that are compared: one that grows each night has hundreds
KEPT = 400  # characters of a text that a row keeps
COLUMNS = (
    "split",
    "stage",
    "agent",
    "model",
    "reason",
    "check",
    "ability",
    "scenario",
    "category",
    "prompt",
)
MANY = {"category": "categories", "prompt": "prompts"}  # columns of which a record has several
MOST = 10_000  # dialogues of a split that are looked through
TWINS = 95.0  # texts this like each other are rows of one template: one of them is enough
LOOKED_AT = 200  # of the best candidates, in search of ones that are no twins


class RejectedSample(Record):
    """A rejected record in a line. Its dialogue stays on the disk (`whole`)."""

    key: str = Field(description="Of id, stage and content: the same in each version that has it.")
    version: str
    split: str
    index: int = Field(description="Number of the row in its split, from 0.")
    id: str
    stage: str
    agent: str = Field(description="The agent whose work was rejected; empty of curation.")
    model: str = Field(description="The model that made what was rejected, where one did.")
    reason: str
    check: str = Field(description="The check of the first finding.")
    ability: str = ""
    scenario: str = ""
    categories: tuple[str, ...] = ()
    prompts: tuple[str, ...] = Field(default=(), description="Hashes of the maker's templates.")
    apis: tuple[str, ...] = ()
    detail: str = ""
    text: str = Field(default="", description="What the user says, as far as the record came.")

    def values(self, column: str) -> tuple[str, ...]:
        """What it has in one of `COLUMNS`; `NONE` if nothing."""
        value = getattr(self, MANY.get(column, column))
        names = value if isinstance(value, tuple) else (value,)
        if column == "prompt":
            names = tuple(map(prompt_name, names))
        return tuple(visible(one) or NONE for one in names) or (NONE,)


def rows_of(version: Version) -> list[RejectedSample]:
    """All rejected records of a version.

    Raises StoreError if they are damaged, or not as many as the manifest tells.
    """
    rows = [
        _row(version, split, index, stored)
        for split in version.splits("rejected")
        for index, stored in enumerate(version.rows("rejected", split))
    ]
    held = Counter(row.split for row in rows)
    with manifest_readable(version):
        known = {split: int(one["rejected"]) for split, one in version.told("splits").items()}
    for split in {**known, **held}:
        if known.get(split, 0) != held[split]:
            raise StoreError(
                f"{version.path}: is damaged (the manifest tells of {known.get(split, 0)} rejected "
                f"records of {split}, its files hold {held[split]}). "
                f"`toolloom verify {version.label}` says more."
            )
    return rows


def whole(version: Version, config: str, split: str, index: int) -> JsonObject:
    """A row of `rejected` or `samples` with all it holds. Raises StoreError."""
    left = index
    for name, table in version.manifest["configs"][config][split]["files"].items():
        if left < table["rows"]:
            row = _row_at(version.path / name, left)
            return {key: version.parsed(row, key) if key in INNER else row[key] for key in row}
        left -= table["rows"]
    raise StoreError(f"{version.path}: is damaged (no row {index} in {config}/{split}).")


def _row_at(path: Path, index: int) -> JsonObject:
    """A row of a file; of the file no more is read than the group it is in."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    left = index
    try:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                count = file.metadata.row_group(group).num_rows
                if left < count:
                    row: JsonObject = file.read_row_group(group).slice(left, 1).to_pylist()[0]
                    return row
                left -= count
    except (OSError, pa.ArrowException) as error:
        why = str(error).partition("\n")[0][:200]
        raise StoreError(f"{path}: is damaged ({why}).") from error
    raise StoreError(f"{path}: is damaged (it has no row {index}).")


def _row(version: Version, split: str, index: int, stored: JsonObject) -> RejectedSample:
    with readable(version, stored):
        return _read(version, split, index, stored)


def _read(version: Version, split: str, index: int, stored: JsonObject) -> RejectedSample:
    record, findings = version.parsed(stored, "record"), version.parsed(stored, "findings")
    need, maker = need_of(record), _maker(version, stored, record)
    seen = {name: stored[name] for name in ("id", "stage", "agent", "reason", "detail")}
    return RejectedSample(
        key=digest([seen, findings, record], 16),
        version=version.number,
        split=split,
        index=index,
        **{**seen, "detail": seen["detail"][:KEPT]},
        model=maker.get("model") or _answered(stored["raw"]),
        prompts=tuple(maker.get("prompts", ())),
        check=findings[0]["check"] if findings else READING,
        ability=need.get("ability", ""),
        scenario=need.get("scenario", ""),
        categories=_categories(record, need),
        apis=tuple(dict.fromkeys(map(api_id, needed(need)))),
        text=words_of(record)[:KEPT],
    )


def _maker(version: Version, stored: JsonObject, record: JsonObject) -> JsonObject:
    """The share in the record of the agent whose work it is.

    What checks or curation reject is a finished dialogue: the work of whoever wrote that.
    """
    dialogue = record.get("dialogue", record)
    shares = dialogue.get("provenance") if "messages" in dialogue else None
    share = (shares or version.parsed(stored, "provenance") or [{}])[-1]
    return share if isinstance(share, dict) else {}


def _answered(raw: Sequence[str]) -> str:
    """The model that a raw response names: of an answer of several records only the first one's
    provenance does."""
    try:
        model = json.loads(raw[0])["model"] if raw else ""
    except (ValueError, KeyError, TypeError):
        return ""
    return model if isinstance(model, str) else ""


def _categories(record: JsonObject, need: JsonObject) -> tuple[str, ...]:
    """Of the APIs that are needed, each once; of a domain or an API its own."""
    steps = (record.get("seed") or {}).get("steps", ())
    categories = [part["category"] for part in (*needed(need), *steps)]
    if not categories and isinstance(record.get("category"), str):
        categories = [record["category"]]
    return tuple(dict.fromkeys(categories))


def words_of(record: JsonObject) -> str:
    """What the user says first in a record of any stage; of a domain or an API what it is."""
    seed = record.get("seed") or {}
    texts = (
        need_of(record).get("text"),
        record.get("text"),
        seed.get("hybrid"),
        record.get("name"),
        record.get("about"),
    )
    return next((text for text in texts if isinstance(text, str) and text), "")


@cache
def _known_prompts() -> dict[str, str]:
    names = prompts.environment().list_templates(extensions=["j2"])
    return {prompts.source_hash(name[:-3]): name[:-3] for name in names}


def prompt_name(hashed: str) -> str:
    """A template's hash with its name, if it is one of today's."""
    return f"{_known_prompts().get(hashed, 'earlier text')} {hashed}"


def known_column(column: str) -> str:
    """The column. Raises NothingFound that lists all if it is none of `COLUMNS`."""
    if column not in COLUMNS:
        raise NothingFound(f"There is no column {column!r}. Known are: {', '.join(COLUMNS)}.")
    return column


def counts(rows: Iterable[RejectedSample], column: str) -> dict[str, int]:
    """Records by what they have in a column, most first.

    A record of several categories or prompts counts for each of them, as in the manifest.
    """
    numbers_by = Counter(value for row in rows for value in row.values(column))
    return dict(sorted(numbers_by.items(), key=lambda item: (-item[1], item[0])))


def over_versions(folder: Path, column: str = "reason") -> dict[str, dict[str, int]]:
    """`counts` of the newest `MOST_VERSIONS` in a dataset's folder, oldest first.

    Reasons are read from the manifests; other columns from all tables.
    """
    by_version: dict[str, dict[str, int]] = {}
    for number in numbers(folder)[-MOST_VERSIONS:]:
        version = open_version(folder / dotted(number))
        if column == "reason":
            with manifest_readable(version):
                reasons = Counter[str]()
                for figures in version.told("splits").values():
                    reasons.update({visible(k): int(n) for k, n in figures["reasons"].items()})
            by_version[version.number] = dict(reasons)
        else:
            by_version[version.number] = counts(rows_of(version), column)
    return by_version


def frame(rows: Iterable[RejectedSample]) -> pd.DataFrame:
    """The rows as pandas knows them; several values of a record as one text."""
    import pandas as pd

    def cells(row: RejectedSample) -> dict[str, Any]:
        shown = {column: ", ".join(row.values(column)) for column in COLUMNS}
        said = {name: visible(getattr(row, name)) for name in ("detail", "text")}
        return {"id": visible(row.id), **shown, **said}

    return pd.DataFrame(map(cells, rows), columns=["id", *COLUMNS, "detail", "text"])


@dataclass(frozen=True)
class Candidate:
    """What is known of an accepted dialogue without reading it again."""

    split: str
    index: int
    id: str
    apis: frozenset[str]
    categories: frozenset[str]
    text: str
    folded: str


@dataclass(frozen=True)
class Neighbour:
    """An accepted dialogue near a rejected record."""

    sample: JsonObject
    split: str
    shares: str  # "API", "category" or "" (the nearest text of what there is)
    likeness: float  # of the texts: 0 to 100


class Neighbourhood:
    """The accepted dialogues of a version, read when they are first asked for."""

    def __init__(self, version: Version) -> None:
        self._version = version
        self._known: dict[str, list[Candidate]] = {}

    def near(self, row: RejectedSample, count: int = 2) -> list[Neighbour]:
        """The `count` nearest accepted dialogues; fewer where there are fewer."""
        from rapidfuzz import fuzz, utils

        wanted = utils.default_process(row.text)
        apis, categories = set(row.apis), set(row.categories)

        def rank(one: Candidate) -> tuple[int, float, str]:
            shared = 2 if apis & one.apis else 1 if categories & one.categories else 0
            return -shared, -fuzz.token_sort_ratio(wanted, one.folded), one.id

        splits = self._version.splits("samples")
        for split in splits:
            if split not in self._known:
                self._known[split] = list(self._read(split))
        known = (one for split in splits for one in self._known[split])
        ranked = sorted(((rank(one), one) for one in known), key=lambda x: x[0])
        chosen: list[tuple[tuple[int, float, str], Candidate]] = []
        for order, one in ranked[:LOOKED_AT]:
            twin = any(fuzz.ratio(one.folded, other.folded) >= TWINS for _, other in chosen)
            if not twin and len(chosen) < count:
                chosen.append((order, one))
        return [self._neighbour(order, one) for order, one in chosen]

    def _neighbour(self, order: tuple[int, float, str], one: Candidate) -> Neighbour:
        stored = whole(self._version, "samples", one.split, one.index)
        sample = {part: stored[part] for part in ("id", *PARTS)}
        return Neighbour(sample, one.split, ("", "category", "API")[-order[0]], -order[1])

    def _read(self, split: str) -> Iterator[Candidate]:
        from rapidfuzz import utils

        for index, stored in enumerate(self._version.rows("samples", split)):
            if index == MOST:
                return
            with readable(self._version, stored):
                dialogue = self._version.parsed(stored, "dialogue")
                apis, text = needed(need_of(dialogue)), words_of(dialogue)
                candidate = Candidate(
                    split=split,
                    index=index,
                    id=stored["id"],
                    apis=frozenset(map(api_id, apis)),
                    categories=frozenset(api["category"] for api in apis),
                    text=text,
                    folded=utils.default_process(text),
                )
            yield candidate
