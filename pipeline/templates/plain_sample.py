"""A whole sample of a need and what is said and observed in it: the form the simulator plays.

Of the values any may be slots: what is built of them is the skeleton of a template. Responses are
drawn from what an API promises to return, and told in plain sentences.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from toolloom.agents.query import Fact
from toolloom.agents.simulator import system_turn
from toolloom.pipeline.checks.grounding import is_code
from toolloom.pipeline.checks.replies import is_status
from toolloom.pipeline.checks.schema import as_dict, as_strings, fits
from toolloom.pipeline.sampling.values import NoValue
from toolloom.schemas import (
    Api,
    Dialogue,
    Execution,
    FunctionCall,
    Intention,
    JsonObject,
    Level,
    Message,
    Need,
    Observation,
    Query,
    Sample,
    Scenario,
    ToolCall,
    Verdict,
)

PLAIN: JsonObject = {"status": "ok"}  # of an API that promises nothing
_BARE = frozenset(["type", "title", "description"])  # keywords of a schema that promises nothing
_NOTHING: tuple[Any, ...] = (None, {})
MOST_FIELDS = 8
MOST_FACTS = 4  # told of one response
LONGEST = 80  # characters of a value that is told
DONE = "It is done."
_ADJECTIVES = ("ed", "able", "ible", "open", "valid", "active")
_PREPOSITIONS = frozenset(["until", "by", "at", "on", "from", "to", "in"])


def respond(api: Api, arguments: JsonObject, draw: Callable[[str, Any], Any]) -> Any:
    """A response that fits what the API promises to return; arguments of a field's name come back,
    `draw` gives the value of any other field by its name and schema.

    Raises NoValue where nothing says what a field that must be there looks like.
    """
    schema = api.returns
    if not schema or (schema.keys() <= _BARE and fits(schema, PLAIN)):
        return dict(PLAIN)
    made = _whole(schema, arguments, draw)
    if made in ({}, [], [{}]) or not fits(schema, made):
        raise NoValue("result")
    return made


def _whole(schema: JsonObject, arguments: JsonObject, draw: Callable[[str, Any], Any]) -> Any:
    """An object with all the fields that can be drawn, or whatever else the schema asks for."""
    items = schema.get("items")
    if "properties" not in schema and isinstance(items, dict) and "properties" in items:
        return [_whole(items, arguments, draw)]
    if "properties" not in schema:
        return draw("result", schema)
    required = as_strings(schema.get("required"))
    fields = as_dict(schema["properties"])
    made: JsonObject = {}
    for name in sorted(fields, key=lambda n: n not in required):
        if name in arguments and fits(fields[name], arguments[name]):
            made[name] = arguments[name]
        elif len(made) < MOST_FIELDS or name in required:
            try:
                made[name] = draw(name, fields[name])
            except NoValue:
                # Null, or an object without content: a field may hold what says nothing.
                empty = [value for value in _NOTHING if fits(fields[name], value)]
                if name in required and not empty:
                    raise
                if name in required:
                    made[name] = empty[0]
    if not any(value not in _NOTHING for value in made.values()):
        raise NoValue(next(iter(fields), "result"))
    return {name: made[name] for name in fields if name in made}


def tell(need: Need, responses: Sequence[Any], examples: Sequence[Any] = ()) -> str:
    """One plain sentence for each fact that the responses of a need tell. In English.

    `examples`: the same responses with values in place of slots, where there are any. What feeds
    a later call is not told: only what comes of it is.
    """
    feeding = {r.call for i in need.intent for r in i.references.values()}
    told = {i: facts_of(need, i, r) for i, r in enumerate(responses) if i not in feeding}
    labels = Counter(f.label for facts in told.values() for f in facts)
    several = len(told) > 1 and any(times > 1 for times in labels.values())
    found: list[str] = []
    for i, facts in told.items():
        values = [f.value for f in facts_of(need, i, (examples or responses)[i])]
        # Where nothing but codes, days and states is told, that it worked is said too.
        little = all(isinstance(v, str) and (is_code(v) or is_status(v)) for v in values)
        sentences = [*([DONE] if little else []), *map(_sentence, facts)]
        if about := _about(need, i) if several else "":
            # One sentence: said of each call in turn, the same words would come over and over.
            clauses = [f"{one[:1].lower()}{one[1:]}".removesuffix(".") for one in sentences]
            sentences = [f"For {about}, {' and '.join(clauses)}."]
        found += sentences
    return " ".join(dict.fromkeys(found))


def facts_of(need: Need, index: int, response: Any) -> list[Fact]:
    """The first few facts of a response that the call does not already say: scalars at any depth,
    of a list its first item."""
    if response == PLAIN:
        return []
    intention = need.intent[index]
    given = list(intention.arguments.values())
    facts = _leaves("", response, need.api(intention.api).returns or {})
    told = [f for f in facts if f.value not in (None, "") and len(f.shown) <= LONGEST]
    return [f for f in told[:MOST_FACTS] if f.value not in given and _sentence(f)]


def _leaves(name: str, value: Any, schema: JsonObject) -> Iterator[Fact]:
    if isinstance(value, dict):
        for key, part in value.items():
            inner = as_dict(as_dict(schema.get("properties")).get(key))
            yield from _leaves(f"{name}_{key}" if name else key, part, inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict | list):
        yield from _leaves(name, value[0], as_dict(schema.get("items")))
    elif value not in ([], {}):
        known = {"title": name, **schema} if name else schema
        yield Fact(name or "result", str(schema.get("description", "")), value, known)


def _about(need: Need, index: int) -> str:
    """A value that tells this call from the others."""
    others = [v for n, i in enumerate(need.intent) if n != index for v in i.arguments.values()]
    for value in need.intent[index].arguments.values():
        if isinstance(value, str | int | float) and value is not True and value not in others:
            return str(value)
    return ""


def _sentence(fact: Fact) -> str:
    """«The booking number is 7.» Nothing for what has no plain words."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", fact.label)
    label = " ".join(parted.lower().split()).removeprefix("is ") or "result"
    if isinstance(fact.value, bool):
        return f"It is {label}." if fact.value and label.endswith(_ADJECTIVES) else ""
    shown = fact.shown.rstrip(".")
    if not shown:
        return ""
    if label.split()[-1] in _PREPOSITIONS:
        verb = "" if label.split()[0].endswith("s") else "is "
        return f"It {verb}{label} {shown}."
    return f"The {label} is {shown}."


def build(need: Need, text: str, responses: Sequence[Any], answer: str) -> JsonObject:
    """The Sample, as JSON, of a need of one turn whose calls are all answered: one response each.

    Calls that refer to nothing that is still to come are made at once, as in a parallel dialogue.
    """
    query = Query(**{**dict(need), "text": text})
    messages = (
        system_turn(query),
        Message(role="user", content=text),
        *_played(need, responses),
        Message(role="assistant", content=answer),
    )
    sample = Sample(dialogue=Dialogue(query=query, messages=messages), verdict=Verdict())
    return sample.model_dump(mode="json")


def scenario_of(intent: Sequence[Intention]) -> Scenario:
    """What a dialogue of these calls exercises."""
    if any(i.references for i in intent):
        return Scenario.SEQUENTIAL
    return Scenario.PARALLEL if len(intent) > 1 else Scenario.SINGLE


def level_of(apis: Sequence[Api]) -> Level:
    """Where they come from, as far as they tell."""
    if len({(a.category, a.tool) for a in apis}) == 1:
        return Level.SINGLE_TOOL
    same = len({a.category for a in apis}) == 1
    return Level.CATEGORY if same else Level.COLLECTION


def _played(need: Need, responses: Sequence[Any]) -> Iterator[Message]:
    """The calls and their observations, act by act."""
    for act in _acts(need.intent):
        names = {i: need.api(need.intent[i].api).function for i in act}
        calls = (
            ToolCall(
                id=f"call_{i}",
                function=FunctionCall(name=name, arguments=_arguments(need.intent[i], responses)),
            )
            for i, name in names.items()
        )
        yield Message(role="assistant", tool_calls=tuple(calls))
        for index, name in names.items():
            yield Message(
                role="tool",
                tool_call_id=f"call_{index}",
                name=name,
                content=Observation(response=responses[index]).model_dump_json(),
                execution=Execution(kind="simulated"),
            )


def _acts(intent: Sequence[Intention]) -> Iterator[list[int]]:
    """Calls that are made at once: until one needs what its own act would only find out."""
    act: list[int] = []
    for index, intention in enumerate(intent):
        if {r.call for r in intention.references.values()} & {*act}:
            yield act
            act = []
        act.append(index)
    yield act


def _arguments(intention: Intention, responses: Sequence[Any]) -> JsonObject:
    """What the user knows, and what earlier responses give."""
    references = intention.references.items()
    found = {name: item_of(responses[told.call])[told.field] for name, told in references}
    return {**intention.arguments, **found}


def item_of(response: Any) -> JsonObject:
    """The object of a response, or the first one where it is a list."""
    return as_dict(response[0] if isinstance(response, list) and response else response)
