"""Facts put into words, and the senses that tell whether words hold them.

Agents are given their senses: what a text mentions and offers is decided in one place, by the
same code that checks the finished dialogues.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from toolloom.agents.ledger import Ledger
from toolloom.agents.shapes import one
from toolloom.llm import Answer, Misfit, Model, ask
from toolloom.prompts import render
from toolloom.schemas import Api, JsonObject, Reason, seed_for


@dataclass(frozen=True)
class Senses:
    """`mentions(text, value, schema, now)`: does the text say the value?
    `spans(text, schema, now)`: which values of a schema does the text offer?
    `same(a, b)`: are two values the same but for their form?
    `odd_request(text)`, `odd_reply(text)`: what no user, no assistant would say, or None.
    """

    mentions: Callable[[str, Any, JsonObject | None, dt.datetime], bool]
    spans: Callable[[str, JsonObject, dt.datetime], Sequence[Any]]
    same: Callable[[Any, Any], bool]
    odd_request: Callable[[str], str | None]
    odd_reply: Callable[[str], str | None]


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


def wish(api: Api) -> str:
    """What an API does, as the rest of a sentence that begins with «I want to»."""
    text = api.description.rstrip(".").split(". ")[0]
    return text[:1].lower() + text[1:]


def unsaid(text: str, told: Sequence[Fact], now: dt.datetime, senses: Senses) -> list[Fact]:
    """The facts that a text does not tell."""
    return [f for f in told if not senses.mentions(text, f.value, f.schema, now)]


def read_request(text: str, told: Sequence[Fact], now: dt.datetime, senses: Senses) -> str:
    """A user's text. Raises Misfit if a value is missing from it or no user would say it."""
    text = " ".join(text.split())
    if not text:
        raise Misfit(Reason.UNUSABLE_RESPONSE, "The text is empty.")
    missing = unsaid(text, told, now, senses)
    if missing:
        names = ", ".join(f"{f.name} = {f.shown}" for f in missing)
        raise Misfit(Reason.VALUE_NOT_MENTIONED, f"The text does not say {names}.")
    odd = senses.odd_request(text)
    if odd:
        raise Misfit(Reason.UNNATURAL_QUERY, odd)
    return text


OPENINGS = (
    "Can you|Could you|Please|I need to|I want to|I would like to|Help me",
    "Also please|Then please|After that please|I also want to|Then I need to",
)
OPENING: tuple[JsonObject, ...] = tuple(
    one("request", {"type": "string", "pattern": f"^({starts})( [a-z',-]+)+[.?]$"})
    for starts in OPENINGS
)


async def open_request(model: Model, goal: str, number: int, seed: int) -> Answer[str]:
    """One sentence that says what a user wants, without any value (small models)."""
    return await ask(
        model,
        render("query_opening", {"wish": goal}),
        lambda a: _read_opening(a["request"]),
        schema=OPENING[min(number, 1)],
        seed=seed,
        max_tokens=32,
    )


def _read_opening(text: str) -> str:
    words = text.lower().split()
    if not 3 <= len(words) <= 18 or len(set(words)) < 0.7 * len(words):
        raise Misfit(Reason.UNNATURAL_QUERY, f"«{text}» is no short sentence.")
    return text


async def say_fact(
    model: Model, template: str, goal: str, fact: Fact, check: Callable[[str], str], seed: int
) -> Answer[str]:
    """One sentence that tells one fact (small models)."""
    return await ask(
        model,
        render(
            template,
            {"wish": goal, "name": fact.label, "about": fact.about, "value": fact.shown},
        ),
        lambda text: check(_one_sentence(text, fact)),
        seed=seed,
        max_tokens=40,
    )


def _one_sentence(text: str, fact: Fact) -> str:
    """The first line of a small model's text, held to one statement about one value."""
    line = text.strip().split("\n")[0].strip()
    words = line.split()
    if (
        not line.endswith(".")
        or set("?=") & set(line)
        or not 2 <= len(words) <= 14 + len(fact.shown.split())
    ):
        raise Misfit(Reason.UNUSABLE_RESPONSE, f"«{line[:80]}» is not one short statement.")
    rest = line.replace(fact.shown, " ", 1)
    if any(c.isdigit() for c in rest):
        raise Misfit(Reason.UNUSABLE_RESPONSE, f"«{line[:80]}» holds another number.")
    return line


async def compose_request(
    model: Model,
    goals: Sequence[tuple[str, Sequence[Fact]]],
    now: dt.datetime,
    senses: Senses,
    seed: int,
) -> Answer[str]:
    """A request made of sentences: for each goal an opening, then one sentence a fact."""
    texts: list[str] = []
    ledger = Ledger()
    for number, (goal, told) in enumerate(goals):
        texts.append(await ledger.take(open_request(model, goal, number, seed_for(seed, number))))
        texts += await say_facts(ledger, model, "query_detail", goal, told, now, senses, seed)
    everything = [f for _, told in goals for f in told]
    return joined(texts, everything, now, senses, ledger)


def joined(
    texts: Sequence[str], told: Sequence[Fact], now: dt.datetime, senses: Senses, ledger: Ledger
) -> Answer[str]:
    """Sentences as one text of a user, which must do as a whole too. Raises Unusable."""
    try:
        return ledger.answer(read_request(" ".join(texts), told, now, senses))
    except Misfit as why:
        raise ledger.fault(why) from why


async def say_facts(
    ledger: Ledger,
    model: Model,
    template: str,
    goal: str,
    told: Sequence[Fact],
    now: dt.datetime,
    senses: Senses,
    seed: int,
    *,
    enough: int | None = None,
) -> list[str]:
    """A sentence for each fact; with `enough`, facts that the model cannot word are left out."""

    def check(fact: Fact) -> Callable[[str], str]:
        return lambda text: read_request(text, [fact], now, senses)

    return await ledger.take_all(
        (say_fact(model, template, goal, f, check(f), seed_for(seed, goal, f.name)) for f in told),
        enough,
    )
