"""Templates unfolded: the samples that their rows are, as JSON text, quickly.

A renderer makes a template ready once: constant pieces of JSON text and slots between them. A row
then costs a join, as everything that does not depend on its values is written once. A value stands
in the text as JSON (`"⟨city⟩"`: the value itself), as letters inside a string of it
(`"in ⟨city⟩"`), or, in the content of a tool message, as either of these inside JSON that is a
string itself; for each of these its text is made once, when the template is read.

`TemplateRenderer` is the way in; `write_expansion` puts its rows into tables, column by column.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, repeat
from typing import Any, NamedTuple, TypeAlias

from pydantic import ValidationError

from toolloom.pipeline.checks.schema import oddity
from toolloom.pipeline.dataset.rows import SAMPLES, SFT, configs_of, sft_row
from toolloom.pipeline.store.files import to_text
from toolloom.pipeline.store.run import RunFolder
from toolloom.pipeline.store.tables import ODD, VersionWriter, delicate, reads_back
from toolloom.schemas import (
    Dialogue,
    Expansion,
    JsonObject,
    Message,
    Provenance,
    Query,
    Sample,
    Template,
    Verdict,
    canonical,
    first_error,
    marker,
)
from toolloom.schemas.splits import signature
from toolloom.schemas.template import CLOSE, OPEN

STAGE = "expanded"
MARK = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
STRAY = re.compile(f"[{OPEN}{CLOSE}]")
OURS = "#"  # begins names of ours, which no slot has
NAME = f"{OURS}name"
AT_ONCE = 1_000  # rows in memory
_AROUND = 12  # letters beside a value that may be part of a long number with it
_OF_NUMBERS = re.compile(r"[\d.e+-]*")
_SHOWN = ("pool", "outside")  # what a query shows of APIs
_VERDICT = to_text(Verdict().model_dump(mode="json"))
_AFTER = f'"verdict":{_VERDICT},"flags":[],"provenance":'


class TemplateMisfit(ValueError):
    """A template that no row can be made of: its slots and choices do not fit each other."""


class Slot(NamedTuple):
    """A slot in a text: what is written of its value, and how often that is escaped."""

    name: str
    kind: str  # "json", "inner" (inside a string of JSON) or "raw" (a text's own letters)
    depth: int = 0


Piece: TypeAlias = str | Slot
Indices: TypeAlias = Sequence[Sequence[int]]
"""For each choice the places of its rows, one for each row of data."""


def text_of(value: Any) -> str:
    """A value as a longer text holds it: strings as they are, all else as JSON."""
    return value if isinstance(value, str) else to_text(value)


def escaped(text: str) -> str:
    """A text as it stands inside a string of JSON."""
    return to_text(text)[1:-1]


def filled(value: Any, values: Mapping[str, Any]) -> Any:
    """A part of a skeleton with its slots filled. Of tool messages only their own JSON is."""
    if isinstance(value, str):
        if (whole := MARK.fullmatch(value)) is not None:
            return values[whole[1]]
        return MARK.sub(lambda found: text_of(values[found[1]]), value)
    if isinstance(value, list):
        return [filled(part, values) for part in value]
    if isinstance(value, dict):
        return {key: filled(part, values) for key, part in value.items()}
    return value


class TemplateText:
    """A text with slots, as pieces: constants, and for each slot the texts of its values."""

    def __init__(self, pieces: Iterable[Piece], table: Callable[[Slot], tuple[int, list[str]]]):
        self.constants: list[str] = [""]
        self.slots: list[tuple[int, list[str]]] = []  # choice, the texts of its rows
        for piece in pieces:
            if isinstance(piece, str):
                self.constants[-1] += piece
            else:
                self.slots.append(table(piece))
                self.constants.append("")

    def fill(self, row: Sequence[int], name: str = "") -> str:
        """The text of one row; `name` goes where the id belongs."""
        parts = [self.constants[0]]
        for (choice, texts), constant in zip(self.slots, self.constants[1:], strict=True):
            parts += (texts[row[choice]] if choice >= 0 else name, constant)
        return "".join(parts)

    def fill_many(self, places: Indices, names: Sequence[str], count: int) -> list[str]:
        """The texts of rows; `names` are escaped already."""
        if not self.slots:
            return [self.constants[0]] * count
        parts: list[Iterable[str]] = []
        for constant, (choice, texts) in zip(self.constants, self.slots, strict=False):
            if constant:
                parts.append(repeat(constant))
            parts.append(names if choice < 0 else map(texts.__getitem__, places[choice]))
        if self.constants[-1]:
            parts.append(repeat(self.constants[-1]))
        return list(map("".join, zip(*parts, strict=False)))


class TemplateRenderer:
    """A template made ready. Raises TemplateMisfit for one that no row can be made of."""

    def __init__(self, template: Template) -> None:
        self.template = template
        self._owners = _owners(template)
        self._used: set[str] = set()
        self._tables: dict[Slot, tuple[int, list[str]]] = {}
        self.skeleton = skeleton = _skeleton(template)
        self.query: JsonObject = skeleton["dialogue"]["query"]
        marked, groups = grouped(skeleton)
        self._fixed = sft_row(marked)
        self.dialogue = self._text(marked["dialogue"], groups)
        shown = dict.fromkeys(_SHOWN)
        self._asked = self._text({**marked["dialogue"]["query"], **shown, "pool": []}, groups)
        self._spoken = self._text(marked["dialogue"]["messages"], groups)
        self.messages = [self._text(message, groups) for message in self._fixed["messages"]]
        self.tools = list(map(to_text, self._fixed["tools"]))
        self._calls = self._read(pieces_of(signature(self.query["intent"])), canonical)
        # What `curation.parts.compared` compares.
        said = ("user", "assistant") if self.query.get("setting") else ("user",)
        turns = (m["content"] or "" for m in skeleton["dialogue"]["messages"] if m["role"] in said)
        self._said = self._read(raw("\n".join(turns)))
        if unused := sorted(set(self._owners) - self._used):
            raise TemplateMisfit(f"the slot `{unused[0]}` stands nowhere in the sample")
        if any(map(STRAY.search, self.tools)):
            raise TemplateMisfit("a slot stands in the documentation of an API")
        try:
            first = (0,) * len(template.choices)
            self._original = self.sample(first, template.id, 0).dialogue.query
        except ValidationError as error:
            raise TemplateMisfit(f"filled, it is no sample: {first_error(error)}") from error

    def _text(self, value: Any, groups: Mapping[str, list[Piece]]) -> TemplateText:
        return self._read(spread(pieces_of(to_text(value)), groups))

    def _read(self, pieces: Iterable[Piece], dump: Callable[[Any], str] = to_text) -> TemplateText:
        return TemplateText(pieces, lambda slot: self._table(slot, dump))

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
        """What rows must not share with others, as `curation.parts.compared`."""
        return self._said.fill_many(places, (), count)

    def sft_columns(
        self, rows: Sequence[Sequence[int]], names: Sequence[str]
    ) -> dict[str, list[Any]]:
        """Rows of the config `sft`, encoded, for `VersionWriter.add_many`."""
        places, count = list(zip(*rows, strict=True)), len(rows)
        columns = (text.fill_many(places, (), count) for text in self.messages)
        messages = list(map(list, zip(*columns, strict=True)))
        made: dict[str, list[Any]] = {"id": list(names), "messages": messages}
        constant = {**self._fixed, "tools": self.tools, "flags": []}
        return {key: made.get(key) or [constant[key]] * count for key in SFT.columns}

    def samples_columns(
        self, rows: Sequence[Sequence[int]], names: Sequence[str], seed: int
    ) -> dict[str, list[Any]]:
        """Rows of the config `samples` for `VersionWriter.add_many`."""
        places, count = list(zip(*rows, strict=True)), len(rows)
        dialogues = self.dialogue.fill_many(places, list(map(escaped, names)), count)
        made: dict[str, list[Any]] = {"id": list(names), "dialogue": dialogues}
        constant = {key: self.query[key] for key in ("ability", "scenario")}
        constant |= {"verdict": _VERDICT, "flags": "[]", "provenance": self._provenance(seed)}
        return {key: made.get(key) or [constant[key]] * count for key in SAMPLES.columns}


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
    made = template.sample
    try:
        if template.kind != "world":  # which is dumped whole, with slots where no text may stand
            made = Sample.model_validate(made).model_dump(mode="json")
    except ValidationError as error:
        raise TemplateMisfit(f"its sample is none: {first_error(error)}") from error
    messages = [
        {**m, "content": unescaped(m["content"])} if m["role"] == "tool" and m["content"] else m
        for m in made["dialogue"]["messages"]
    ]
    if odd_keys(made):
        raise TemplateMisfit("a slot stands in the name of a field")
    query = {**made["dialogue"]["query"], "id": marker(NAME), "provenance": []}
    dialogue = {**made["dialogue"], "query": query, "messages": messages, "provenance": []}
    return {**made, "dialogue": dialogue, "flags": []}


def grouped(skeleton: JsonObject) -> tuple[JsonObject, dict[str, list[Piece]]]:
    """The skeleton with a mark in place of each text that follows rules of its own.

    Those are what people and assistants say, which is text whatever fills it, and the content of
    tool messages, which is JSON in JSON.
    """
    groups: dict[str, list[Piece]] = {}

    def put(text: str, pieces: list[Piece]) -> str:
        if not MARK.search(text):
            return text
        name = f"{OURS}{len(groups)}"
        groups[name] = pieces
        return marker(name)

    dialogue = skeleton["dialogue"]
    messages = []
    for message in dialogue["messages"]:
        text = message["content"]
        if text and STRAY.search(text):
            pieces = _observed(text) if message["role"] == "tool" else raw(text)
            message = {**message, "content": put(text, pieces)}
        messages.append(message)
    said = dialogue["query"]["text"]
    query = {**dialogue["query"], "text": put(said, raw(said))}
    return {**skeleton, "dialogue": {**dialogue, "query": query, "messages": messages}}, groups


def unescaped(content: str) -> str:
    """An observation's JSON with its slots as they are, also if it was written in ASCII."""
    if "\\ue000" not in content:
        return content
    try:
        return to_text(json.loads(content))
    except (ValueError, RecursionError):
        return content


def _observed(content: str) -> list[Piece]:
    """The pieces of a tool message's content, whose JSON is written anew."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise TemplateMisfit("an observation with slots is no JSON") from error
    if odd_keys(value):
        raise TemplateMisfit("a slot stands in the name of a field of an observation")
    return pieces_of(to_text(value))


def odd_keys(value: Any) -> bool:
    """Whether a slot stands in a key, which is always written as it is."""
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            stack += part.values()
            if any(STRAY.search(key) for key in part):
                return True
        elif isinstance(part, list):
            stack += part
    return False


def raw(text: str) -> list[Piece]:
    return [Slot(part, "raw") if odd else part for part, odd in _parted(text)]


def _parted(text: str) -> Iterator[tuple[str, bool]]:
    """Constant parts and slots of a text in turn."""
    for place, part in enumerate(MARK.split(text)):
        if place % 2 == 0 and STRAY.search(part):
            raise TemplateMisfit("half a slot stands in the sample")
        yield part, place % 2 == 1


def pieces_of(text: str) -> list[Piece]:
    """The pieces of JSON whose strings hold slots. One that is all of a string takes its quotes."""
    pieces: list[Piece] = [Slot(part, "inner") if odd else part for part, odd in _parted(text)]
    for place in range(1, len(pieces), 2):
        before, slot, after = pieces[place - 1 : place + 2]
        assert isinstance(before, str) and isinstance(slot, Slot) and isinstance(after, str)
        # A quote that is escaped belongs to the words: one that opens a string never is.
        if before.endswith('"') and not before.endswith('\\"') and after.startswith('"'):
            pieces[place - 1 : place + 2] = before[:-1], slot._replace(kind="json"), after[1:]
    return pieces


def spread(pieces: Iterable[Piece], groups: Mapping[str, list[Piece]]) -> Iterator[Piece]:
    """Pieces with those of the groups in their places, as text of a string of JSON."""
    for piece in pieces:
        if isinstance(piece, str):
            yield piece
        elif piece.name == NAME:
            yield from ('"', piece, '"')
        elif piece.name not in groups:
            yield piece
        else:
            yield '"'
            for inner in groups[piece.name]:
                yield escaped(inner) if isinstance(inner, str) else inner._replace(depth=1)
            yield '"'


def written(value: Any, slot: Slot, dump: Callable[[Any], str]) -> str:
    if slot.kind == "json":
        text = dump(value)
    else:
        text = text_of(value) if slot.kind == "raw" else escaped(text_of(value))
    return escaped(text) if slot.depth else text


def unfolded(expansion: Expansion, seed: int) -> Iterator[JsonObject]:
    """The samples that the rows of a template are, as JSON."""
    renderer = TemplateRenderer(expansion.template)
    for place, row in enumerate(expansion.rows):
        yield json.loads(renderer.sample_text(row, expansion.sample_id(place), seed))


def expanded(run: RunFolder) -> Iterator[JsonObject]:
    """The rows of a run's templates, made into samples one after the other."""
    seed = run.recipe.seed
    return chain.from_iterable(unfolded(expansion, seed) for expansion in run.expansions())


def accepted(run: RunFolder) -> Iterator[JsonObject]:
    """The dialogues of the dataset that a run makes: samples, then rows of templates."""
    return chain(() if run.adds else run.samples(), expanded(run))


def write_expansion(expansion: Expansion, tables: VersionWriter, seed: int) -> None:
    """Add the rows of an expansion to the tables, as their samples one by one would be added:
    column by column to `sft` and `samples`. A row that `datasets` would not give back exactly is
    left out of `sft`."""
    renderer, split = TemplateRenderer(expansion.template), expansion.split.value
    readable = Readable(renderer)
    for start in range(0, len(expansion.rows), AT_ONCE):
        rows = expansion.rows[start : start + AT_ONCE]
        names = [expansion.sample_id(place) for place in range(start, start + len(rows))]
        tables.add_many(SAMPLES, split, renderer.samples_columns(rows, names, seed))
        columns = renderer.sft_columns(rows, names)
        kept = readable.kept(rows, columns["messages"])
        if not all(kept):
            tables.leave_out(SFT, split, len(kept) - sum(kept))
            columns = {name: list(compress(column, kept)) for name, column in columns.items()}
        tables.add_many(SFT, split, columns)
    first = next(unfolded(expansion, seed), None)  # what makes no row of it makes none of others
    for config in configs_of(Sample):
        if first and config not in (SFT, SAMPLES) and any(config.row.of(first)):
            for row in chain.from_iterable(map(config.row.of, unfolded(expansion, seed))):
                tables.add_made(config, split, row)


class Readable:
    """Which rows of a template `datasets` reads back.

    What is the same in every row is looked at once, and so is each value with what stands beside
    it. That finds all that `tables.delicate` finds in a message, unless two slots have nothing
    between them that ends a number or a word of that.
    """

    def __init__(self, renderer: TemplateRenderer) -> None:
        same = [text.constants[0] for text in renderer.messages if not text.slots]
        self._all = not reads_back([*same, *renderer.tools])
        self._texts = [
            (place, *_delicate(text)) for place, text in enumerate(renderer.messages) if text.slots
        ]

    def kept(self, rows: Sequence[Sequence[int]], messages: Sequence[Sequence[str]]) -> list[bool]:
        """For each row whether `sft` can hold it. `messages`: its messages, encoded."""
        if self._all:
            return [False] * len(rows)
        places: Indices = list(zip(*rows, strict=True))
        kept = [True] * len(rows)
        for message, always, tables in self._texts:
            odd: Any = (
                range(len(rows))
                if always
                else {
                    row
                    for choice, odd in tables
                    if any(odd)
                    for row, place in enumerate(places[choice])
                    if odd[place]
                }
            )
            for row in odd:
                kept[row] &= reads_back([messages[row][message]])
        return kept


def _delicate(text: TemplateText) -> tuple[bool, list[tuple[int, list[bool]]]]:
    """Whether every row has to be looked at; if not, for each slot which of its values have."""
    # Between two slots a number, or an odd word, may reach from one to the next.
    is_open = any(
        _OF_NUMBERS.fullmatch(between) or any(between in odd for odd in ODD)
        for between in text.constants[1:-1]
    )
    always = is_open or any(map(delicate, text.constants))
    beside = zip(text.slots, text.constants, text.constants[1:], strict=False)
    tables = [
        (choice, [delicate(f"{before[-_AROUND:]}{own}{after[:_AROUND]}") for own in texts])
        for (choice, texts), before, after in beside
    ]
    return always, tables
