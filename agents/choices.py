"""What a dialogue offers a small model to choose from: functions, and values of arguments.

Narrowed to what was said, by words that are shared; never by what the query means. Pure.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Any

from toolloom.agents.likeness import stems
from toolloom.agents.wording import Senses
from toolloom.schemas import Api, JsonObject, canonical


def choices(
    api: Api, name: str, said: str, now: dt.datetime, senses: Senses, *, whole: bool
) -> list[Any]:
    """Values that the user's words offer for an argument.

    `whole`: look at all that was said, not only at the part that asks for this API.
    """
    schema = {"title": name, **api.properties[name]}
    if schema.get("type") == "boolean":
        return [True, False]
    part = said if whole else segment(said, api)
    # «US dollars» says what the documentation calls `usd`.
    documented = [v for v in schema.get("examples", ()) if senses.mentions(part, v, schema, now)]
    if documented:
        return documented
    if schema.get("type") == "array":
        items = {**api.properties[name], **_item(schema)}
        one = api.model_copy(update={"parameters": _with(api.parameters, name, items)})
        return [[value] for value in choices(one, name, said, now, senses, whole=whole)]
    found = list(senses.spans(" ".join(passages(api, name, part)), schema, now))
    return [v for v in found if not _label(v, api, name)] or found


def _item(schema: JsonObject) -> JsonObject:
    items = schema.get("items")
    return {"type": "string", **(items if isinstance(items, dict) else {}), "examples": []}


def _with(parameters: JsonObject, name: str, schema: JsonObject) -> JsonObject:
    return {**parameters, "properties": {**parameters["properties"], name: schema}}


def offers(responses: Sequence[Any], schema: JsonObject) -> list[Any]:
    """Observed values of the type of a schema, for an argument that nobody has said."""
    kinds = {"integer": (int,), "number": (int, float)}.get(schema.get("type", ""), (str,))
    values = [v for r in responses if isinstance(r, dict) for v in r.values()]
    found = [v for v in values if isinstance(v, kinds) and not isinstance(v, bool)]
    return list({canonical(v): v for v in found}.values())


def segment(said: str, api: Api) -> str:
    """The part of a request that asks for an API: the one that shares most words with it."""
    return max(parts(said), key=lambda part: _shared(part, api))


def parts(said: str) -> list[str]:
    """A request's wishes: its turns, and in them what follows on «also», «then» or «after»."""
    return re.split(r"(?<=[.?!])\s+(?=(?:Also|Then|After|I also)\b)|\n", said)


def nearest(said: str, apis: Sequence[Api], called: Sequence[str]) -> list[str]:
    """The functions that share most words with the first wish that no call has served."""
    free = [a for a in apis if a.function not in called] or list(apis)
    for part in parts(said):
        most = max(_shared(part, a) for a in apis)
        best = [a.function for a in apis if _shared(part, a) == most]
        if not set(best) <= set(called):
            return [name for name in best if name not in called]
    return [a.function for a in free]


def _shared(text: str, api: Api) -> int:
    known = set(stems(f"{api.name} {api.description} {' '.join(api.properties)}"))
    return len(known & set(stems(text)))


def passages(api: Api, name: str, said: str) -> list[str]:
    """The sentences that may speak of an argument.

    Those that name it; else those that name no other argument and are more than the wish.
    """
    sentences = re.split(r"(?<=[.?!])\s+", said)
    naming = [s for s in sentences if set(stems(name)) & set(stems(s))]
    if naming:
        return naming
    others = {stem for other in api.properties if other != name for stem in stems(other)}
    goal = set(stems(api.description))
    free = [s for s in sentences if not others & set(stems(s)) and set(stems(s)) - goal]
    return free or sentences


def _label(value: Any, api: Api, name: str) -> bool:
    """Whether a span is the argument's name, a piece of the wish, or a clause about a value."""
    if not isinstance(value, str):
        return False
    words = value.lower().split()
    return (
        "".join(words) in name.lower().replace("_", "")
        or set(stems(value)) <= {*stems(name), *stems(api.description)}
        or bool({"is", "are", "be"} & set(words))
    )
