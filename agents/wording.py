"""Facts and dialogues put into words, and names that say the same.

What a text mentions is decided by the same code that checks the finished dialogues.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from rapidfuzz import fuzz

from toolloom.agents.ask import BadAnswer, Costs, Job
from toolloom.pipeline.checks.form import odd_request
from toolloom.pipeline.checks.grounding import mentions
from toolloom.pipeline.checks.text.words import stem
from toolloom.schemas import (
    Api,
    Brief,
    Domain,
    JsonObject,
    Message,
    Reason,
    Rejected,
    World,
    seed_for,
)

R = TypeVar("R", Domain, Api)
T = TypeVar("T")


@dataclass(frozen=True)
class Fact:
    """A value that a text must tell, with what it means."""

    name: str
    about: str
    value: Any
    schema: JsonObject

    @property
    def label(self) -> str:
        return self.name.replace("_", " ")

    @property
    def shown(self) -> str:
        """The value as a person would write it."""
        if isinstance(self.value, bool):
            return "yes" if self.value else "no"
        if isinstance(self.value, list):
            return ", ".join(str(v) for v in self.value)
        if isinstance(self.value, dict):
            return ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in self.value.items())
        return str(self.value)


def facts(schemas: dict[str, JsonObject], values: JsonObject) -> list[Fact]:
    """Facts of an object of values."""
    known = {name: {"title": name, **schemas.get(name, {})} for name in values}
    return [
        Fact(name, known[name].get("description", ""), value, known[name])
        for name, value in values.items()
    ]


def unsaid(text: str, told: Sequence[Fact], now: dt.datetime) -> list[Fact]:
    """The facts that a text does not tell."""
    return [f for f in told if not mentions(text, f.value, f.schema, now)]


def read_request(text: str, told: Sequence[Fact], now: dt.datetime) -> str:
    """A user's text. Raises BadAnswer if a value is missing from it or no user would say it."""
    text = " ".join(text.split())
    if not text:
        raise BadAnswer(Reason.UNUSABLE_RESPONSE, "The text is empty.")
    missing = unsaid(text, told, now)
    if missing:
        names = ", ".join(f"{f.name} = {f.shown}" for f in missing)
        raise BadAnswer(Reason.VALUE_NOT_MENTIONED, f"The text does not say {names}.")
    odd = odd_request(text)
    if odd:
        raise BadAnswer(Reason.UNNATURAL_QUERY, odd)
    return text


def transcript(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """A dialogue as (speaker, text) lines for a prompt; the system turn is left out."""
    lines: list[tuple[str, str]] = []
    for message in messages:
        if message.role == "user":
            lines.append(("User", message.content or ""))
        elif message.role == "tool":
            lines.append((f"Result of {message.name}", message.content or ""))
        elif message.role == "assistant":
            for call in (c.function for c in message.tool_calls):
                arguments = json.dumps(call.arguments, ensure_ascii=False)
                lines.append(("Call", f"{call.name}({arguments})"))
            if message.content:
                lines.append(("Assistant", message.content))
    return lines


ALIKE = 88.0  # of 100, on sorted stems: «bike rental» is «rental of bikes», not «car rental»
_EMPTY = frozenset({"a", "an", "and", "the", "of", "for", "in", "to", "service", "servic", "api"})


@cache
def stems(name: str) -> tuple[str, ...]:
    """The sorted stems of a name's words, without those that say nothing."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return tuple(sorted({stem(w) for w in re.findall(r"[^\W_]+", parted.lower())} - _EMPTY))


def twin(name: str, others: Iterable[str]) -> str | None:
    """The first of `others` that says the same as `name`, in whatever order or number."""
    mine = " ".join(stems(name))
    return next((o for o in others if fuzz.ratio(mine, " ".join(stems(o))) >= ALIKE), None)


def keep_new(
    job: Job,
    source: Brief | Domain,
    found: Sequence[R | BadAnswer],
    whole: Costs,
    kept: list[R],
    rejected: list[Rejected],
) -> None:
    """Part what an answer made of `source`: what is new, and what is no good or a twin of it.

    The answer's `whole` costs are booked on the first record.
    """
    for index, record in enumerate(found):
        if isinstance(record, BadAnswer):
            costs = whole if index == 0 else Costs(raw=whole.raw)
            rejected.append(job.reject(source, record, costs))
            continue
        provenance = job.provenance(whole if index == 0 else Costs(), [source.id])
        mine = record.model_copy(update={"provenance": provenance})
        other = twin(mine.name, (k.name for k in kept))
        if other is None:
            kept.append(mine)
        else:
            rejected.append(duplicate(mine, other, job.stage))


def duplicate(record: Domain | Api | World, other: str, stage: str) -> Rejected:
    """A domain, an API or a world that says what another one says already."""
    return Rejected.of(
        record.model_dump(mode="json", exclude={"provenance"}),
        stage,
        Reason.NEAR_DUPLICATE,
        f"«{record.name}» is nearly «{other}».",
        id=record.id,
        agent="domain" if isinstance(record, Domain) else "api",
        provenance=record.provenance,
    )


def drawn(choices: Sequence[T], seed: int, *about: object) -> T:
    """One of several that are all right, by seed; `about` tells draws of one job apart."""
    return choices[random.Random(seed_for(seed, "choice", *about)).randrange(len(choices))]
