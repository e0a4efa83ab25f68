"""Templates made ready: constant pieces of JSON text and slots between them.

A row of an expansion costs a join: everything that does not depend on its values is written once.
A value stands in the text as JSON (`"⟨city⟩"`: the value itself), as letters inside a string of it
(`"in ⟨city⟩"`), or, in the content of a tool message, as either of these inside JSON that is a
string itself; for each of these its text is made once, when the template is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from pydantic import ValidationError

from toolloom.pipeline.checks.plain import oddity
from toolloom.pipeline.dataset.configs import SAMPLES, SFT, sft_row
from toolloom.pipeline.dataset.unfolding.pieces import (
    NAME,
    OURS,
    STRAY,
    Indices,
    Piece,
    Slot,
    TemplateMisfit,
    Text,
    escaped,
    filled,
    grouped,
    odd_keys,
    pieces_of,
    raw,
    spread,
    text_of,
    unescaped,
    written,
)
from toolloom.pipeline.store.files import to_text
from toolloom.schemas import (
    Dialogue,
    JsonObject,
    Message,
    Provenance,
    Query,
    Sample,
    Template,
    Verdict,
    canonical,
    marker,
)
from toolloom.schemas.splits import signature

__all__ = ["STAGE", "Mould", "TemplateMisfit", "filled", "text_of"]

STAGE = "expanded"


class Mould:
    """A template made ready. Raises TemplateMisfit for one that no row can be made of."""

    def __init__(self, template: Template) -> None:
        self.template = template
        self._owners = _owners(template)
        self._used: set[str] = set()
        self._tables: dict[Slot, tuple[int, list[str]]] = {}
        skeleton = _skeleton(template)
        self.query: JsonObject = skeleton["dialogue"]["query"]
        self.skeleton = skeleton
        marked, groups = grouped(skeleton)
        told = sft_row(marked)
        self.dialogue = self._text(marked["dialogue"], groups)
        shown = dict.fromkeys(_SHOWN)
        self._asked = self._text({**marked["dialogue"]["query"], **shown, "pool": []}, groups)
        self._spoken = self._text(marked["dialogue"]["messages"], groups)
        self.messages = [self._text(message, groups) for message in told["messages"]]
        self._fixed = told
        self._tools = list(map(to_text, told["tools"]))
        self._calls = self._read(pieces_of(signature(self.query["intent"])), canonical)
        turns = (m["content"] or "" for m in skeleton["dialogue"]["messages"] if _is_user(m))
        self._said = self._read(raw("\n".join(turns)))
        if unused := sorted(set(self._owners) - self._used):
            raise TemplateMisfit(f"the slot `{unused[0]}` stands nowhere in the sample")
        self._check(told["tools"])

    def _check(self, tools: list[JsonObject]) -> None:
        if STRAY.search(to_text(tools)):
            raise TemplateMisfit("a slot stands in the documentation of an API")
        try:
            first = self.sample((0,) * len(self.template.choices), self.template.id, 0)
            self._original = first.dialogue.query
        except ValidationError as error:
            fault = error.errors()[0]
            where = ".".join(map(str, fault["loc"]))
            raise TemplateMisfit(f"filled, it is no sample: {where}: {fault['msg']}") from error

    def _text(self, value: Any, groups: Mapping[str, list[Piece]]) -> Text:
        return self._read(spread(pieces_of(to_text(value)), groups))

    def _read(self, pieces: Iterable[Piece], dump: Callable[[Any], str] = to_text) -> Text:
        return Text(pieces, lambda slot: self._table(slot, dump))

    def _table(self, slot: Slot, dump: Callable[[Any], str]) -> tuple[int, list[str]]:
        """The choice that fills a slot, and the texts of its rows."""
        if slot.name == NAME:
            return -1, []
        if slot.name not in self._owners:
            raise TemplateMisfit(f"no choice fills the slot `{slot.name}`")
        self._used.add(slot.name)
        if dump is not to_text or slot not in self._tables:
            choice, column = self._owners[slot.name]
            rows = self.template.choices[choice].rows
            texts = [written(row[column], slot, dump) for row in rows]
            if dump is not to_text:
                return choice, texts
            self._tables[slot] = choice, texts
        return self._tables[slot]

    def filled(self, row: Sequence[int]) -> dict[str, Any]:
        """The value of each slot."""
        choices = self.template.choices
        return {
            slot: choices[choice].rows[row[choice]][column]
            for slot, (choice, column) in self._owners.items()
        }

    def intent(self, row: Sequence[int]) -> list[JsonObject]:
        """The calls of a row, as JSON."""
        found: list[JsonObject] = filled(self.query["intent"], self.filled(row))
        return found

    def sample_text(self, row: Sequence[int], name: str, seed: int) -> str:
        """The whole sample as JSON."""
        dialogue = self.dialogue.fill(row, escaped(name))
        return f'{{"dialogue":{dialogue},{_AFTER}{self._provenance(seed)}}}'

    def sample(self, row: Sequence[int], name: str, seed: int) -> Sample:
        return Sample.model_validate(json.loads(self.sample_text(row, name, seed)))

    def dialogue_of(self, row: Sequence[int]) -> Dialogue:
        """The dialogue of a row, to be inspected. The APIs are read once, not for every row."""
        query = Query.model_validate(json.loads(self._asked.fill(row, escaped("row"))))
        messages = map(Message.model_validate, json.loads(self._spoken.fill(row)))
        whole = query.model_copy(update={name: getattr(self._original, name) for name in _SHOWN})
        return Dialogue.model_construct(query=whole, messages=tuple(messages), provenance=())

    def _provenance(self, seed: int) -> str:
        share = Provenance(
            stage=STAGE, agent="", model="", seed=seed, parents=(self.template.id,)
        ).model_dump(mode="json")
        return to_text([share])

    @property
    def told(self) -> set[int]:
        """The choices that stand in what is said or called."""
        return {choice for text in (self._calls, self._said) for choice, _ in text.slots}

    @property
    def distinct(self) -> int:
        """How many rows differ in what is said or called, at most."""
        return math.prod(len(self.template.choices[choice].rows) for choice in self.told)

    def signatures(self, places: Indices, count: int) -> list[str]:
        """`splits.signature` of the calls of rows."""
        return self._calls.fill_many(places, (), count)

    def words(self, places: Indices, count: int) -> list[str]:
        """All that the user says in rows, as `curation.rows.instruction`."""
        return self._said.fill_many(places, (), count)

    def message_texts(self, places: Indices, count: int) -> list[list[str]]:
        """The messages of `sft`, encoded, row by row."""
        columns = (text.fill_many(places, (), count) for text in self.messages)
        return list(map(list, zip(*columns, strict=True)))

    def sft_columns(
        self, rows: Sequence[Sequence[int]], names: Sequence[str]
    ) -> dict[str, list[Any]]:
        """Rows of the config `sft`, encoded, for `Tables.add_many`."""
        places, count = list(zip(*rows, strict=True)), len(rows)
        constant = {
            **{key: self._fixed[key] for key in SFT.columns if key not in {"id", "messages"}},
            "tools": self._tools,
            "flags": [],
        }
        made: dict[str, list[Any]] = {
            "id": list(names),
            "messages": self.message_texts(places, count),
        }
        return {key: made.get(key) or [constant[key]] * count for key in SFT.columns}

    def samples_columns(
        self, rows: Sequence[Sequence[int]], names: Sequence[str], seed: int
    ) -> dict[str, list[Any]]:
        """Rows of the config `samples` for `Tables.add_many`."""
        places, count = list(zip(*rows, strict=True)), len(rows)
        constant = {
            **{key: self.query[key] for key in ("ability", "scenario")},
            "verdict": _VERDICT,
            "flags": "[]",
            "provenance": self._provenance(seed),
        }
        dialogues = self.dialogue.fill_many(places, list(map(escaped, names)), count)
        made: dict[str, list[Any]] = {"id": list(names), "dialogue": dialogues}
        return {key: made.get(key) or [constant[key]] * count for key in SAMPLES.columns}

    @property
    def constant_texts(self) -> list[str]:
        """The texts of `sft` that are the same in every row."""
        alone = [m.constants[0] for m in self.messages if not m.slots]
        return [*alone, *self._tools]


_SHOWN = ("pool", "outside")  # what a query shows of APIs
_VERDICT = to_text(Verdict().model_dump(mode="json"))
_AFTER = f'"verdict":{_VERDICT},"flags":[],"provenance":'


def _is_user(message: JsonObject) -> bool:
    return bool(message["role"] == "user")


def _owners(template: Template) -> dict[str, tuple[int, int]]:
    """The choice and column that fill each slot."""
    owners: dict[str, tuple[int, int]] = {}
    for place, choice in enumerate(template.choices):
        for column, slot in enumerate(choice.slots):
            if slot in owners or slot.startswith(OURS):
                why = "is filled twice" if slot in owners else f"begins with `{OURS}`"
                raise TemplateMisfit(f"the slot `{slot}` {why}")
            owners[slot] = place, column
        for value in chain.from_iterable(choice.rows):
            if (fault := oddity(value)) or STRAY.search(text_of(value)):
                raise TemplateMisfit(f"{choice.about}: a value is {fault or 'a slot itself'}")
    return owners


def _skeleton(template: Template) -> JsonObject:
    """The sample in its full form, named by a slot, without what is told of its making."""
    try:
        made = Sample.model_validate(template.sample).model_dump(mode="json")
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise TemplateMisfit(f"its sample is none: {where}: {first['msg']}") from error
    for message in made["dialogue"]["messages"]:
        if message["role"] == "tool" and message["content"]:
            message["content"] = unescaped(message["content"])
    if odd_keys(made):
        raise TemplateMisfit("a slot stands in the name of a field")
    query = {**made["dialogue"]["query"], "id": marker(NAME), "provenance": []}
    return {**made, "dialogue": {**made["dialogue"], "query": query, "provenance": []}, "flags": []}
