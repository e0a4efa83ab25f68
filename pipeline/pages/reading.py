"""A version read once from beginning to end: its figures, the rows that are shown, and what its
runs made of what, stage by stage."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappush, heapreplace
from itertools import chain, groupby, zip_longest
from statistics import fmean
from typing import Generic, TypeAlias, TypeVar

from toolloom.pipeline.curation.parts import folded
from toolloom.pipeline.dataset.figures import EXPANDED, LEVELS, RowCounts
from toolloom.pipeline.dataset.figures import REWRITTEN as REWRITTEN
from toolloom.pipeline.dataset.report import Counts, StageCount
from toolloom.pipeline.dataset.rows import APIS, INSTRUCTIONS, REJECTED, SAMPLES
from toolloom.pipeline.render.html import visible
from toolloom.pipeline.store.run import begun_with
from toolloom.pipeline.store.version import Version
from toolloom.schemas import JsonObject, StoreError, Usage, digest

T = TypeVar("T")
DRAWN = 2_000  # requests that are compared, each with each
LETTERS = 1_000  # of each request
NEAR = 80  # from here on two requests are told to be alike
# Of scripts that do not part words each letter is one.
_LONE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(f"[{_LONE}]|[^\\W{_LONE}]+")
SHOWN = 20  # samples of each kind
PROOFS = 3  # rows of a script, to be read side by side
WRITTEN, SCRIPTED = "written by agents", "of worlds' scripts"
TEMPLATES, INSTRUCTED = "rows of templates", "instructions"

Row: TypeAlias = tuple[str, JsonObject]
"""Its split, and a row of a config as it is stored."""


class SampleDraw(Generic[T]):
    """So many items at random, with equal chances, in memory that does not grow.

    It keeps those whose ids have the lowest hashes: who comes first does not matter.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: list[tuple[int, int, T]] = []  # a heap: the highest hash, negated, is first
        self.seen = 0

    def offer(self, name: str, item: T) -> None:
        self.seen += 1
        # The number decides between equal names, so that items are never compared.
        digest = hashlib.sha256(b"report\0" + name.encode("utf-8", "surrogatepass")).digest()
        entry = (-int.from_bytes(digest[:8], "big"), -self.seen, item)
        if len(self._kept) < self._size:
            heappush(self._kept, entry)
        elif entry > self._kept[0]:
            heapreplace(self._kept, entry)

    def items(self) -> list[T]:
        """What was drawn, lowest hash first."""
        return [item for *_, item in sorted(self._kept, key=lambda e: e[:2], reverse=True)]


class Histogram(Generic[T]):
    """So many items of each kind, spread over the sorts there are within the kind."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._draws: dict[str, dict[str, SampleDraw[T]]] = {}

    def offer(self, kind: str, sort: str, name: str, item: T) -> None:
        draws = self._draws.setdefault(kind, {})
        if sort not in draws:
            draws[sort] = SampleDraw(self._size)
        draws[sort].offer(name, item)

    def seen(self) -> dict[str, int]:
        """How many there are of each kind, most first."""
        counts = {k: sum(d.seen for d in draws.values()) for k, draws in self._draws.items()}
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def items(self, kind: str) -> list[T]:
        """Of each sort one, then of each a second, until there are enough."""
        sorts = [draw.items() for _, draw in sorted(self._draws.get(kind, {}).items())]
        rounds = zip_longest(*([(item,) for item in items] for items in sorts), fillvalue=())
        return [*chain.from_iterable(chain.from_iterable(rounds))][: self._size]


class ProofSheets:
    """Rows of a script beside each other, of so many scripts at random, in memory that does not
    grow."""

    def __init__(self) -> None:
        self._drawn: dict[tuple[str, str], SampleDraw[Row]] = {}

    def offer(self, script: tuple[str, str], name: str, row: Row) -> None:
        self._drawn.setdefault(script, SampleDraw(PROOFS)).offer(name, row)
        if len(self._drawn) > 10 * SHOWN:  # many have one row only
            del self._drawn[max(self._drawn, key=digest)]

    def items(self) -> Iterator[tuple[str, str, list[Row]]]:
        """World, script and rows of each that has several."""
        several = [script for script, draw in self._drawn.items() if draw.seen > 1]
        for script in sorted(sorted(several, key=digest)[:SHOWN]):
            yield *script, self._drawn[script].items()


@dataclass
class ReadRows:
    """What there is in a version."""

    counted: dict[str, RowCounts] = field(default_factory=dict)  # by split
    expanded: int = 0  # rows of templates
    lengths: dict[str, Counter[int]] = field(default_factory=dict)
    fallen: Counter[tuple[str, str]] = field(default_factory=Counter)  # reason, stage
    apis: dict[str, str] = field(default_factory=dict)  # category by id
    levels: Counter[str] = field(default_factory=Counter)  # of instructions
    requests: dict[str, SampleDraw[str]] = field(default_factory=dict)
    accepted: Histogram[Row] = field(default_factory=lambda: Histogram(SHOWN))  # by ability
    templates: SampleDraw[Row] = field(default_factory=lambda: SampleDraw(SHOWN))
    rejected: Histogram[Row] = field(default_factory=lambda: Histogram(SHOWN))  # by reason
    sheets: ProofSheets = field(default_factory=ProofSheets)
    instructed: SampleDraw[list[Row]] = field(
        default_factory=lambda: SampleDraw(SHOWN)
    )  # by request

    def of(self, split: str) -> RowCounts:
        return self.counted.setdefault(split, RowCounts())

    @property
    def all(self) -> RowCounts:
        return sum(self.counted.values(), RowCounts())

    def measure(self, what: str, length: int) -> None:
        self.lengths.setdefault(what, Counter())[length] += 1

    def request(self, group: str, name: str, text: str) -> None:
        self.requests.setdefault(group, SampleDraw(DRAWN)).offer(name, text[:LETTERS])


def read(version: Version, tick: Callable[[], None] = lambda: None) -> ReadRows:
    """Read all rows, one at a time; `tick` is called for each.

    Raises StoreError for what is damaged, and if the manifest tells of other figures.
    """
    seen = ReadRows()
    for config, take in _TAKEN:
        for split in version.splits(config.name):
            for row in version.rows(config.name, split):
                with readable(version, row):
                    take(seen, split, row)
                tick()
    for split in version.splits(INSTRUCTIONS.name):
        rows = version.rows(INSTRUCTIONS.name, split)
        for name, levels in groupby(rows, key=lambda row: str(row.get("sample"))):
            _take_instructions(version, seen, split, name, levels, tick)
    with manifest_readable(version):
        splits: dict[str, JsonObject] = version.told("splits")
        for split in (*splits, *seen.counted):
            figures = {k: v for k, v in splits.get(split, {}).items() if k != "runs"}
            counted = seen.counted.get(split, RowCounts()).told()
            if wrong := [name for name in counted if figures.get(name) != counted[name]]:
                raise StoreError(
                    f"{version.path / 'manifest.json'}: `{wrong[0]}` of {split} is not what the "
                    f"rows have. `toolloom verify {version.label}` tells what differs."
                )
    return seen


def rows_of(version: Version) -> int:
    """How many rows `read` reads. Raises StoreError."""
    configs = version.manifest["configs"]
    names = (SAMPLES.name, REJECTED.name, INSTRUCTIONS.name, APIS.name)
    with manifest_readable(version):
        return sum(int(made["rows"]) for name in names for made in configs.get(name, {}).values())


def _take_sample(seen: ReadRows, split: str, row: JsonObject) -> None:
    dialogue = json.loads(row["dialogue"])
    seen.of(split).add({"dialogue": dialogue})
    need, messages = dialogue["query"], dialogue["messages"]
    seen.measure("words of the request", len(need["text"].split()))
    seen.measure("turns of the user", sum([m["role"] == "user" for m in messages]))
    seen.measure("messages", len(messages))
    seen.measure("tokens of the dialogue", sum(map(_bytes, messages)) // 4)
    shares = {share["stage"]: share for share in json.loads(row["provenance"])}
    setting = need.get("setting") or {}
    # Rows of a script that was made of a dialogue have the dialogue's name for one.
    if script := setting.get("script") or (setting and shares.get(EXPANDED, {}).get("parents", "")):
        seen.sheets.offer((setting["world"], "".join(script)), row["id"], (split, row))
    if EXPANDED in shares:
        seen.expanded += 1
        seen.templates.offer(row["id"], (split, row))
        seen.request(TEMPLATES, row["id"], need["text"])
    else:
        seen.accepted.offer(_text(row, "ability"), row["scenario"], row["id"], (split, row))
        seen.request(SCRIPTED if script else WRITTEN, row["id"], need["text"])


def _bytes(message: JsonObject) -> int:
    calls = message.get("tool_calls") or ()
    said = (json.dumps(c["function"], ensure_ascii=False) for c in calls)
    texts = [message.get("content") or "", *said]
    return sum([len(text.encode("utf-8", "surrogatepass")) for text in texts])


def _take_rejected(seen: ReadRows, split: str, row: JsonObject) -> None:
    seen.of(split).reject(_text(row, "reason"))
    seen.fallen[row["reason"], row["stage"]] += 1
    seen.rejected.offer(row["reason"], row["stage"], row["id"], (split, row))


def _text(row: JsonObject, column: str) -> str:
    """What is counted by. Raises TypeError if a column that is never empty is."""
    if not isinstance(row[column], str):
        raise TypeError(f"`{column}` is no text")
    return str(row[column])


def _take_api(seen: ReadRows, split: str, row: JsonObject) -> None:
    seen.apis[row["id"]] = row["category"]


_TAKEN = ((SAMPLES, _take_sample), (REJECTED, _take_rejected), (APIS, _take_api))


def _take_instructions(
    version: Version,
    seen: ReadRows,
    split: str,
    name: str,
    levels: Iterable[JsonObject],
    tick: Callable[[], None],
) -> None:
    """What is said of one request, at all its levels."""
    kept: list[Row] = []
    for row in levels:
        with readable(version, row):
            seen.levels[row["level"]] += 1
            seen.request(INSTRUCTED, row["id"], row["instruction"])
            seen.measure("words of the instruction", len(row["instruction"].split()))
        if len(kept) < len(LEVELS):
            kept.append((split, row))
        tick()
    seen.instructed.offer(name, kept)


@contextmanager
def readable(version: Version, row: JsonObject) -> Iterator[None]:
    """What is wrong with a row, as StoreError."""
    with _damage_named(version, f"{version.path}: the row {row.get('id')}"):
        yield


@contextmanager
def manifest_readable(version: Version) -> Iterator[None]:
    """What is wrong with the manifest, as StoreError."""
    with _damage_named(version, f"{version.path / 'manifest.json'}:"):
        yield


@contextmanager
def _damage_named(version: Version, where: str) -> Iterator[None]:
    try:
        yield
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        raise StoreError(
            f"{where} is damaged ({visible(why)}). `toolloom verify {version.label}` tells more."
        ) from error


@dataclass(frozen=True)
class Diversity:
    """Of requests that were drawn."""

    of: int  # requests there are
    drawn: int
    distinct: dict[int, float]  # by n: different n-grams, as a share of all
    nearest: tuple[int, ...]  # of each request the likeness of the nearest other, 0 to 100

    @property
    def mean(self) -> float | None:
        return fmean(self.nearest) if self.nearest else None

    @property
    def near(self) -> float:
        """The share of requests with another that is alike."""
        return sum(n >= NEAR for n in self.nearest) / len(self.nearest) if self.nearest else 0.0


def diversity(requests: Sequence[str], of: int | None = None) -> Diversity:
    """`of`: how many requests these were drawn from."""
    texts = [folded(request[:LETTERS]) for request in requests]
    words = [_WORD.findall(text) for text in texts]
    shares = {n: distinct(words, n) for n in (1, 2, 3)}
    return Diversity(len(texts) if of is None else of, len(texts), shares, nearest(texts))


def distinct(texts: Sequence[Sequence[str]], n: int) -> float:
    """Distinct-n: different n-grams as a share of all n-grams (Li et al. 2016); 0 without any."""
    seen: set[tuple[str, ...]] = set()
    count = 0
    for words in texts:
        grams = [tuple(words[place : place + n]) for place in range(len(words) - n + 1)]
        seen.update(grams)
        count += len(grams)
    return len(seen) / count if count else 0.0


def nearest(texts: Sequence[str]) -> tuple[int, ...]:
    """Of each text the likeness of the nearest other one: 100 for equal ones.

    Likeness is that of letters in order: 100 less the share of letters to delete and insert.
    """
    import numpy as np
    from rapidfuzz import fuzz, process

    if len(texts) < 2:
        return ()
    likeness = process.cdist(texts, texts, scorer=fuzz.ratio, dtype=np.uint8, workers=-1)
    np.fill_diagonal(likeness, 0)
    return tuple(int(one) for one in likeness.max(axis=1))


@dataclass
class FunnelStep:
    """A stage of all runs together."""

    name: str
    agent: str
    beside: bool
    accepted: int = 0
    rejected: int = 0
    use: Usage = field(default_factory=Usage)

    @property
    def share(self) -> float:
        """The share that it rejected."""
        return self.rejected / (self.accepted + self.rejected) if self.rejected else 0.0

    def add(self, stage: StageCount) -> None:
        self.accepted += stage.accepted
        self.rejected += stage.rejected
        self.use += stage.use


@dataclass(frozen=True)
class Funnel:
    """The stages in order."""

    runs: int
    steps: tuple[FunnelStep, ...]
    priced: bool
    unpriced: tuple[str, ...]

    @property
    def use(self) -> Usage:
        return sum((step.use for step in self.steps), Usage())

    @property
    def most(self) -> int:
        """What the longest bar stands for."""
        return max((step.accepted + step.rejected for step in self.steps), default=0)

    def beyond(self, dialogues: int, instructions: int, rejected: int) -> dict[str, int]:
        """What the runs made more than a version holds: later ones put others in its place."""
        made = {step.name: step.accepted for step in self.steps}
        last = next((step.name for step in self.steps[::-1] if not step.beside), "")
        return {
            "dialogue": made.get(last, 0) + made.get(EXPANDED, 0) - dialogues,
            "instruction": made.get(REWRITTEN, 0) - instructions,
            "rejected record": sum(step.rejected for step in self.steps) - rejected,
        }


def funnel(version: Version) -> Funnel:
    """Raises StoreError if the manifest's counts cannot be read."""
    try:
        # The manifest tells of the last run first.
        runs = [_counts(run) for run in [*version.told("runs").values()][::-1]]
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        where = version.path / "manifest.json"
        raise StoreError(f"{where}: is damaged (the counts of its runs).") from error
    return Funnel(
        runs=len(runs),
        steps=tuple(_steps(runs)),
        priced=any(run.priced for run in runs),
        unpriced=tuple(sorted({model for run in runs if run.priced for model in run.unpriced})),
    )


def _counts(run: JsonObject) -> Counts:
    """What a run did itself. Manifests of earlier toolloom do not say which stages were given."""
    counts = Counts.model_validate(run["counts"])
    regenerates = bool((run.get("recipe") or {}).get("regenerate"))
    given = begun_with(regenerates, [stage.name for stage in counts.stages])
    stages = (s.model_copy(update={"given": s.name in given or s.given}) for s in counts.stages)
    return counts.model_copy(update={"stages": tuple(stages)})


def _steps(runs: Iterable[Counts]) -> Iterable[FunnelStep]:
    """Each stage once, in the order of the runs; what a run was given it did not do."""
    steps: dict[str, FunnelStep] = {}
    order: list[str] = []
    for run in runs:
        after = len(order)
        for stage in reversed(run.stages):  # a new one stands before those that follow it
            if stage.name not in order:
                order.insert(after, stage.name)
            after = order.index(stage.name)
            if not stage.given:
                step = FunnelStep(stage.name, stage.agent, stage.beside)
                steps.setdefault(stage.name, step).add(stage)
    return [steps[name] for name in order if name in steps]
