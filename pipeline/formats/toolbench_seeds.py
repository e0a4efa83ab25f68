"""Seeds from ToolBench: solution trees, and the queries that tell where their APIs belong.

A tree's rightmost path is the solution (ToolPlanner, section 3.2), and the longest of its
`train_messages` is that path. The tree knows functions only; category, tool and the API's own
name are those that the query with the same words lists, else any query or tool document among
the files, else an imported API of the run. Without them a tree is rejected: its category decides
its split, and is a level of its own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar
from unicodedata import category

from toolloom.pipeline.checks.tags import values_of
from toolloom.pipeline.checks.wording import odd_request
from toolloom.pipeline.formats import toolbench
from toolloom.pipeline.formats.files import ForeignRow, files, foreign_rows
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.reading import Reading
from toolloom.schemas import (
    Api,
    Dialogue,
    JsonObject,
    Reason,
    RecipeError,
    Rejected,
    Seed,
    SplitPlan,
    Step,
    StoreError,
    ToolCall,
    digest,
)
from toolloom.schemas.splits import split_of, stray

LONGEST = 4_000  # letters of a query
_LOOKED_AT = 50  # rows of a path until a tree is found
_UNSOLVED = (Reason.UNHELPFUL_ANSWER, Reason.FALSE_API_CALL_FORMAT, Reason.MALFORMED_DIALOGUE)


class NotASeed(Exception):
    """A tree that is no seed."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Documents:
    """The APIs that queries and tool documents list, by function; each is held once."""

    def __init__(self, apis: Iterable[Api] = ()) -> None:
        self._apis: dict[str, Api] = {}
        self._functions: dict[str, str] = {}  # function to id: the first that was read
        self._queries: dict[str, tuple[str, ...]] = {}  # a query's words to ids
        for api in apis:
            if api.source.kind == "toolbench":
                self._keep(api)

    def take(self, row: ForeignRow) -> None:
        """Learn from a row, if it is a query or a tool document."""
        value = row.value
        if not isinstance(value, dict) or not toolbench.fits(value):
            return
        found = toolbench.read(Path(row.place), ImportLog(row.place), document=value)
        ids = tuple(self._keep(api) for api in found)
        if isinstance(value.get("query"), str):
            self._queries[_folded(value["query"])] = ids

    def _keep(self, api: Api) -> str:
        """What is needed of it: neither its responses nor how it was made."""
        slim = api.model_copy(update={"returns": None, "provenance": ()})
        known = self._apis.setdefault(f"{api.id} {api.function}", slim)
        self._functions.setdefault(known.function, f"{known.id} {known.function}")
        return f"{known.id} {known.function}"

    def pool(self, query: str, functions: Iterable[str]) -> dict[str, Api]:
        """The APIs of a tree by function: those of its own query, then of any."""
        own = (self._apis[key] for key in self._queries.get(_folded(query), ()))
        found = {api.function: api for api in own}
        for function in functions:
            if function not in found and (key := self._functions.get(function)):
                found[function] = self._apis[key]
        return found


def _folded(query: str) -> str:
    return digest(" ".join(query.casefold().split()), 32)


def check(paths: Iterable[str]) -> None:
    """Raises RecipeError for a path in whose first rows no tree and no document is."""
    for path in paths:
        lost: dict[str, str] = {}
        try:
            found = files(Path(path).expanduser())
        except StoreError as error:
            raise RecipeError(f"rewrite.seeds: {error}") from error
        first = islice((row for file in found for row in _of(file, foreign_rows, lost)), _LOOKED_AT)
        if any(toolbench.is_tree(row.value) or toolbench.fits(row.value) for row in first):
            continue
        raise RecipeError(
            f"rewrite.seeds: {path} has neither solution trees (`answer_generation`) nor queries "
            "(`api_list`) of ToolBench. Name its `answer` and `instruction` folders."
            + "".join(f" {why}" for why in islice(lost.values(), 1))
        )


Read = TypeVar("Read")


def _of(file: Path, read: Callable[[Path], Iterator[Read]], lost: dict[str, str]) -> Iterator[Read]:
    """What is read of a file. One that cannot be read is noted, under its name; others may be good.
    Of the folders it is in nothing is told: records are published."""
    try:
        yield from read(file)
    except StoreError as error:
        lost[str(file)] = str(error).replace(str(file), file.name)


def tree_seeds(
    paths: Iterable[str],
    plan: SplitPlan,
    stage: str,
    apis: Iterable[Api] = (),
    carry_on: Callable[[], None] = lambda: None,
) -> Iterator[Seed | Rejected]:
    """A seed of each solved tree, or why it is none; files that cannot be read come last.

    `apis`: those of the run. `carry_on` is called for each row, and raises to stop. Raises
    StoreError for a path that is not there.
    """
    known = Documents(apis)
    found = dict.fromkeys(file for path in paths for file in files(Path(path).expanduser()))
    lost: dict[str, str] = {}
    for file in found:
        for row in _of(file, foreign_rows, lost):
            carry_on()
            known.take(row)
    taken = Counter[str]()
    for file in found:
        for reading in _of(file, toolbench.read_trees, lost):
            carry_on()
            if seed := _seed_or_reason(reading, known, plan, stage, taken):
                yield seed
    for why in lost.values():
        yield _rejected("", NotASeed(Reason.NOT_IMPORTED, why), stage, taken)


def _seed_or_reason(
    reading: Reading, known: Documents, plan: SplitPlan, stage: str, taken: Counter[str]
) -> Seed | Rejected | None:
    """None for rows that are no tree: the queries, which were read before."""
    raw = reading.raw
    if isinstance(raw, dict) and toolbench.fits(raw):
        return None
    hybrid = reading.dialogue.query.text.strip() if reading.dialogue else ""
    try:
        seed = _seed(reading, known, plan, _name(hybrid or reading.place))
        if seed.id in taken:
            raise NotASeed(Reason.EXACT_DUPLICATE, "another tree solves the same query.")
    except NotASeed as why:
        told = NotASeed(why.reason, f"{reading.place}: {why.detail}")
        return _rejected(hybrid, told, stage, taken)
    taken[seed.id] += 1
    return seed


def _name(told: str) -> str:
    return f"toolbench-{_folded(told)[:12]}"


def _rejected(hybrid: str, why: NotASeed, stage: str, taken: Counter[str]) -> Rejected:
    """What is no seed. `taken`: how many have its name, or its name with a space, which is none."""
    name = _name(hybrid or why.detail)
    taken[f"{name} "] += 1
    record = {"split": "", "seed": {}, "level": "", "text": hybrid[:LONGEST]}
    id = f"{name}-{taken[f'{name} ']}"
    return Rejected.of(record, stage, why.reason, why.detail, id=id)


def _seed(reading: Reading, known: Documents, plan: SplitPlan, name: str) -> Seed:
    """Raises NotASeed."""
    dialogue, raw = reading.dialogue, reading.raw
    tree = raw.get("answer_generation") if isinstance(raw, dict) else None
    if dialogue is None or not isinstance(tree, dict):
        told = next((f.detail for f in reading.faults), "")
        raise NotASeed(Reason.NOT_IMPORTED, f"no solution tree that can be read. {told}".strip())
    hybrid = dialogue.query.text.strip()
    if not 1 < len(hybrid) <= LONGEST:
        raise NotASeed(Reason.UNNATURAL_QUERY, f"its query has {len(hybrid):,} letters.")
    if odd := odd_request(hybrid):
        raise NotASeed(Reason.UNNATURAL_QUERY, f"its query {odd}.")
    if control := next((c for c in hybrid if category(c) == "Cc" and c not in "\t\r\n"), None):
        raise NotASeed(Reason.UNNATURAL_QUERY, f"its query has the control character {control!a}.")
    calls = _solution(reading, dialogue, tree)
    offered = [api.function for api in dialogue.query.pool]
    pool = known.pool(hybrid, [*offered, *(call.function.name for call in calls)])
    if lost := next((c.function.name for c in calls if c.function.name not in pool), None):
        raise NotASeed(
            Reason.NOT_IMPORTED,
            f"no query and no tool document tells the category of `{lost}`. Add the file that "
            "lists it to `rewrite.seeds`.",
        )
    path = [pool[call.function.name] for call in calls]
    intent = [
        {"api": pool[c.function.name].id, "arguments": c.function.arguments, "references": {}}
        for c in calls
    ]
    # The calls decide it, and where their APIs belong.
    split = split_of(plan, {"intent": intent, "pool": [_belongs(api) for api in pool.values()]})
    licences = (raw[key] for key in ("licence", "license") if isinstance(raw.get(key), str))
    licence = next(licences, "")  # only what the row itself names
    return Seed(
        id=name,
        split=split,
        hybrid=hybrid,
        steps=tuple(
            Step(category=a.category, tool=a.tool, api=a.name, function=a.function) for a in path
        ),
        values=values_of(call.function.arguments for call in calls),
        pool=tuple(
            api
            for api in pool.values()
            if stray(plan, {"intent": (), "pool": [_belongs(api)]}, split) is None
        ),
        source="toolbench",
        licence=" ".join(licence.split())[:60],
    )


def _solution(reading: Reading, dialogue: Dialogue, tree: JsonObject) -> list[ToolCall]:
    """The calls of the path that ends in an answer, without those that failed. Raises NotASeed."""
    calls = [call for _, call in dialogue.calls()]
    if not calls:
        raise NotASeed(Reason.NO_API_CALL, "its path calls no API.")
    unsolved = next((f for f in reading.faults if f.reason in _UNSOLVED), None)
    if unsolved or not reading.has_reply or tree.get("valid_data") is False:
        reason = unsolved.reason if unsolved else Reason.UNHELPFUL_ANSWER
        raise NotASeed(reason, unsolved.detail if unsolved else "its path ends without an answer.")
    results = dialogue.results()
    made = [call for call in calls if call.id in results and came(results[call.id][1].content)]
    if not made:
        raise NotASeed(Reason.HAS_EXCEPTION, "every call of its path fails.")
    offered = {api.function for api in dialogue.query.pool}
    if invented := next((c.function.name for c in made if c.function.name not in offered), None):
        raise NotASeed(
            Reason.API_HALLUCINATION, f"it calls `{invented}`, which it was not offered."
        )
    if any(not isinstance(call.function.arguments, dict) for call in made):
        raise NotASeed(Reason.FALSE_API_CALL_FORMAT, "arguments of its path are no object.")
    return made


def came(observation: str | None) -> bool:
    """Did a call come to something? `observation`: its envelope, as a tool message holds it."""
    try:
        seen = json.loads(observation or "")
    except (ValueError, RecursionError):
        return False
    return isinstance(seen, dict) and seen.get("error") is None


def _belongs(api: Api) -> JsonObject:
    return {"category": api.category, "tool": api.tool, "name": api.name}
