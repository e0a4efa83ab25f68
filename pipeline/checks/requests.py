"""What the user says: every value of the intent in its turn, and nothing that is withheld."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolloom.pipeline.checks.grounding import fixed, leaves, named, same, says
from toolloom.pipeline.checks.transcript import Fault, asked, shown
from toolloom.schemas import Dialogue, Intention, JsonObject, Query, Reason


def mentioned_values(dialogue: Dialogue) -> Iterator[Fault]:
    """The user says each intended value by the turn that asks for it."""
    query = dialogue.query
    for intention in query.intent:
        text = _heard(dialogue, intention.turn)
        for name, value, schema in _known(query, intention):
            if not says(text, value, schema, query.now):
                detail = f"the user never says {name}={shown(value)} for {intention.api}"
                yield Fault(Reason.VALUE_NOT_MENTIONED, None, detail)


def _known(query: Query, intention: Intention) -> Iterator[tuple[str, Any, JsonObject]]:
    """Values the user must say: not those the schema gives."""
    known = query.api(intention.api).properties
    for name, value in intention.arguments.items():
        schema = known.get(name)
        if name not in intention.references and not fixed(value, schema):
            yield name, value, named(name, schema)


def _heard(dialogue: Dialogue, turn: int) -> str:
    return "\n".join(
        m.content or ""
        for place, m in enumerate(dialogue.messages)
        if m.role == "user" and asked(dialogue, place + 1) <= turn
    )


def opening_request(dialogue: Dialogue) -> Iterator[Fault]:
    """The first user turn holds every value of turn 0 but the withheld ones, and is the query's."""
    query = dialogue.query
    first = next((i for i, m in enumerate(dialogue.messages) if m.role == "user"), None)
    if first is None:
        return
    text = dialogue.messages[first].content or ""
    if text.strip() != query.text.strip():
        yield Fault(
            Reason.MALFORMED_DIALOGUE, first, "the first user message is not the query's text"
        )
    for index, intention in enumerate(query.intent):
        for name, value, schema in _known(query, intention) if intention.turn == 0 else ():
            withheld = index == 0 and name in query.withheld
            if withheld and _gives_away(query, text, name, value, schema):
                detail = f"the request already says {name}={shown(value)}, which is to be asked for"
                yield Fault(Reason.VALUE_GIVEN_AWAY, first, detail)
            elif not withheld and not says(text, value, schema, query.now):
                detail = f"the request does not say {name}={shown(value)}"
                yield Fault(Reason.VALUE_NOT_MENTIONED, first, detail)


def _gives_away(query: Query, text: str, name: str, value: Any, schema: JsonObject) -> bool:
    """Said, and not only because another argument, which may be told, has the same value."""
    if isinstance(value, bool) or value is None:
        return False
    told = [
        leaf
        for index, intention in enumerate(query.intent)
        for other, v in intention.arguments.items()
        if index or (other != name and other not in query.withheld)
        for leaf in leaves(v)
    ]
    return says(text, value, schema, query.now) and not any(same(value, v) for v in told)
