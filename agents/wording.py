"""Facts put into words, and names that say the same.

What a text mentions and offers is decided by the same code that checks the finished dialogues.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from rapidfuzz import fuzz

from toolloom.agents.ask import Answer, BadAnswer, Costs, Job, ask, one
from toolloom.llm import Model
from toolloom.pipeline.checks.grounding import mentions
from toolloom.pipeline.checks.text.words import stem
from toolloom.pipeline.checks.wording import odd_request
from toolloom.prompts import render
from toolloom.schemas import Api, Brief, Domain, JsonObject, Reason, Rejected, seed_for

R = TypeVar("R", Domain, Api)


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

    def read(answer: JsonObject) -> str:
        text = str(answer["request"])
        words = text.lower().split()
        if not 3 <= len(words) <= 18 or len(set(words)) < 0.7 * len(words):
            raise BadAnswer(Reason.UNNATURAL_QUERY, f"«{text}» is no short sentence.")
        return text

    prompt, form = render("query_opening", {"wish": goal}), OPENING[min(number, 1)]
    return await ask(model, prompt, read, schema=form, seed=seed, max_tokens=32)


def _one_sentence(text: str, fact: Fact) -> str:
    """The first line of a small model's text, held to one statement about one value."""
    line = text.strip().split("\n")[0].strip()
    words = line.split()
    most = 14 + len(fact.shown.split())
    if not line.endswith(".") or set("?=") & set(line) or not 2 <= len(words) <= most:
        raise BadAnswer(Reason.UNUSABLE_RESPONSE, f"«{line[:80]}» is not one short statement.")
    rest = line.replace(fact.shown, " ", 1)
    if any(c.isdigit() for c in rest):
        raise BadAnswer(Reason.UNUSABLE_RESPONSE, f"«{line[:80]}» holds another number.")
    return line


async def compose_request(
    model: Model,
    goals: Sequence[tuple[str, Sequence[Fact]]],
    now: dt.datetime,
    seed: int,
) -> Answer[str]:
    """A request made of sentences: for each goal an opening, then one sentence a fact."""
    texts: list[str] = []
    costs = Costs()
    for number, (goal, told) in enumerate(goals):
        texts.append(await costs.take(open_request(model, goal, number, seed_for(seed, number))))
        texts += await say_facts(costs, model, "query_detail", goal, told, now, seed)
    everything = [f for _, told in goals for f in told]
    return joined(texts, everything, now, costs)


def joined(
    texts: Sequence[str], told: Sequence[Fact], now: dt.datetime, costs: Costs
) -> Answer[str]:
    """Sentences as one text of a user, which must do as a whole too. Raises NoUsableAnswer."""
    try:
        return costs.answer(read_request(" ".join(texts), told, now))
    except BadAnswer as why:
        raise costs.failure(why) from why


async def say_facts(
    costs: Costs,
    model: Model,
    template: str,
    goal: str,
    told: Sequence[Fact],
    now: dt.datetime,
    seed: int,
    *,
    enough: int | None = None,
) -> list[str]:
    """A sentence for each fact; with `enough`, facts that the model cannot word are left out."""

    async def say(fact: Fact) -> Answer[str]:
        words = {"wish": goal, "name": fact.label, "about": fact.about, "value": fact.shown}
        return await ask(
            model,
            render(template, words),
            lambda text: read_request(_one_sentence(text, fact), [fact], now),
            seed=seed_for(seed, goal, fact.name),
            max_tokens=40,
        )

    return await costs.take_all((say(fact) for fact in told), enough)


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


def duplicate(record: Domain | Api, other: str, stage: str) -> Rejected:
    """A domain or an API that says what another one says already."""
    return Rejected.of(
        record.model_dump(mode="json", exclude={"provenance"}),
        stage,
        Reason.NEAR_DUPLICATE,
        f"«{record.name}» is nearly «{other}».",
        id=record.id,
        agent="domain" if isinstance(record, Domain) else "api",
        provenance=record.provenance,
    )
