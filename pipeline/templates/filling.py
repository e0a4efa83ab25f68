"""Rows of one template: which values are drawn, and the samples that they make."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

from toolloom.pipeline.store.files import to_text
from toolloom.pipeline.templates.sandbox import names_in, rendered
from toolloom.schemas import (
    Dialogue,
    JsonObject,
    Message,
    Provenance,
    Query,
    Sample,
    Template,
    marker,
)
from toolloom.schemas.template import CLOSE, OPEN

STAGE = "expanded"
MARK = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
NUMBER = marker("#")
"""Stands for a row's id until it is accepted and numbered; no slot has this name."""

DENSE = 20_000  # up to so many rows of a template are all listed, in an order of chance
_SHOWN = ("pool", "outside")  # what a query shows of APIs
Row: TypeAlias = tuple[int, ...]
"""For each choice the place of its row."""


def text_of(value: Any) -> str:
    """A value as a longer text holds it: strings as they are, all else as JSON."""
    return value if isinstance(value, str) else to_text(value)


def filled(value: Any, values: Mapping[str, Any]) -> Any:
    """A part of a skeleton with its slots filled. Of tool messages only their own JSON is."""
    if isinstance(value, str):
        if OPEN not in value:
            return value
        if (whole := MARK.fullmatch(value)) is not None:
            return values[whole[1]]
        return MARK.sub(lambda found: text_of(values[found[1]]), value)
    if isinstance(value, list):
        return [filled(part, values) for part in value]
    if isinstance(value, dict):
        return {key: filled(part, values) for key, part in value.items()}
    return value


class TemplateRenderer:
    """Makes samples of a template's rows. What no slot stands in is read once, not for each."""

    def __init__(self, template: Template, seed: int = 0) -> None:
        self.template = template
        sample = Sample.model_validate(template.sample).model_dump(mode="json")
        self._dialogue: JsonObject = {**sample["dialogue"], "provenance": []}
        query = {**self._dialogue["query"], "id": NUMBER, "provenance": []}
        self._shown = {name: query[name] for name in _SHOWN}
        self._asked = {**query, **dict.fromkeys(_SHOWN), "pool": []}
        self._read = Query.model_validate({**self._asked, **self._shown})
        self._messages = [_parsed(message) for message in self._dialogue["messages"]]
        self._constant = [
            None if OPEN in to_text(message) else Message.model_validate(message)
            for message in self._dialogue["messages"]
        ]
        share = Provenance(stage=STAGE, agent="", model="", seed=seed, parents=(template.id,))
        self._rest = {**sample, "flags": [], "provenance": [share.model_dump(mode="json")]}
        user = (m["content"] for m in self._dialogue["messages"] if m["role"] == "user")
        told = set(MARK.findall(f"{to_text(query['intent'])}{query['text']}{''.join(user)}"))
        told |= {n for slot in told & {*template.texts} for n in names_in(template.texts[slot])}
        self._told = [place for place, c in enumerate(template.choices) if told & {*c.slots}]

    @property
    def distinct(self) -> int:
        """How many rows differ in what is said or called; that of its sample is one of them."""
        return math.prod(len(self.template.choices[choice].rows) for choice in self._told)

    def drawn(self, rng: random.Random, most: int, part: int = 0, parts: int = 1) -> Iterator[Row]:
        """Rows that differ in what is said or called, `most` of them at most, and not the one of
        the sample that the template is of. Different parts of one `rng` share none, as long as
        they list all rows."""
        sizes = [len(choice.rows) for choice in self.template.choices]
        told = [sizes[choice] for choice in self._told]
        found: Sequence[Row] | Iterator[Row]
        if self.distinct <= DENSE:
            listed = list(product(*map(range, told)))
            rng.shuffle(listed)
            found = listed[part::parts][:most]
        else:
            rng = random.Random(f"{rng.random()} {part}")
            found = (tuple(map(rng.randrange, told)) for _ in range(most))
        seen = {(0,) * len(told)} if self.template.kind == "mined" else set[Row]()
        for row in found:
            if row not in seen:
                seen.add(row)
                places = dict(zip(self._told, row, strict=True))
                yield tuple(
                    places[choice] if choice in places else rng.randrange(size)
                    for choice, size in enumerate(sizes)
                )

    def values(self, row: Row) -> JsonObject:
        """The value of each slot."""
        choices = zip(self.template.choices, row, strict=True)
        found = {
            slot: value
            for choice, place in choices
            for slot, value in zip(choice.slots, choice.rows[place], strict=True)
        }
        for slot, source in self.template.texts.items():  # in order: one may use another
            found[slot] = rendered(source, found)
        return found

    def sample(self, row: Row, name: str = NUMBER) -> JsonObject:
        """The sample of a row, as JSON."""
        values = self.values(row)
        query = {**filled(self._asked, {**values, "#": name}), **self._shown}
        query["text"] = text_of(query["text"])
        messages = [
            message if read else _written(filled(parsed, values))
            for message, parsed, read in zip(
                self._dialogue["messages"], self._messages, self._constant, strict=True
            )
        ]
        return {**self._rest, "dialogue": {**self._dialogue, "query": query, "messages": messages}}

    def dialogue(self, sample: JsonObject) -> Dialogue:
        """The dialogue of a sample that `sample` has made, to be inspected."""
        asked = {**sample["dialogue"]["query"], **dict.fromkeys(_SHOWN), "pool": []}
        shown = {name: getattr(self._read, name) for name in _SHOWN}
        messages = tuple(
            read or Message.model_validate(message)
            for read, message in zip(self._constant, sample["dialogue"]["messages"], strict=True)
        )
        whole = Query.model_validate(asked).model_copy(update=shown)
        return Dialogue.model_construct(query=whole, messages=messages, provenance=())


def _parsed(message: JsonObject) -> JsonObject:
    """A message, with the content of an observation that has slots as an object."""
    if message["role"] != "tool" or OPEN not in message["content"]:
        return message
    return {**message, "content": json.loads(message["content"])}


def _written(message: JsonObject) -> JsonObject:
    content = message["content"]
    return {**message, "content": content if content is None else text_of(content)}
