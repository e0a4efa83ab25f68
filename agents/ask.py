"""What the agents share: asking until an answer does, what that costs, and what comes of it.

`ask` takes candidates, then gives the model one chance to mend the last of them.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar

from rapidfuzz import fuzz

from toolloom.llm import Model, Request
from toolloom.llm.messages import IllegalSchema, checker, readings
from toolloom.pipeline.apis.search import words
from toolloom.prompts import Prompt, render
from toolloom.schemas import (
    AgentName,
    Api,
    Brief,
    Domain,
    Finding,
    JsonObject,
    Provenance,
    Reason,
    Record,
    Rejected,
    RequestRefused,
    Usage,
    World,
)

T = TypeVar("T")
R = TypeVar("R", Domain, Api)
Read = Callable[[Any], T | Awaitable[T]]


def shape(properties: JsonObject) -> JsonObject:
    """JSON Schema of an answer with these fields, all of them given, and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


@dataclass
class Costs:
    """What a record's questions have taken so far, also when one of them fails.

    Counts cached answers too, so that a resumed run reports the same; keeps every raw response,
    so that a rejected record can show them.
    """

    usage: Usage = field(default_factory=Usage)
    raw: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()  # hashes of templates, each once, in order of use

    def __add__(self, other: Costs) -> Costs:
        return Costs(
            self.usage + other.usage,
            self.raw + other.raw,
            self.repairs + other.repairs,
            tuple(dict.fromkeys(self.prompts + other.prompts)),
        )

    def book(self, other: Costs) -> None:
        vars(self).update(vars(self + other))


@dataclass(frozen=True)
class Answer(Generic[T]):
    """A value that did, and what the way to it cost."""

    value: T
    costs: Costs


class Unusable(Exception):
    """Why an answer, or all of them, will not do."""

    def __init__(self, reason: Reason, detail: str, costs: Costs | None = None) -> None:
        super().__init__(detail)
        self.reason, self.detail, self.costs = reason, detail, costs or Costs()


class BadAnswer(Unusable):
    """Raised by a `read` when an answer does not do. `detail` is shown to the model."""


class NoUsableAnswer(Unusable):
    """No answer did. Holds the last reason and everything the model said."""


async def settled(asked: Awaitable[Answer[T]]) -> Answer[T] | NoUsableAnswer:
    """An answer, or why there is none: for those who wait for several and want to know of all."""
    try:
        return await asked
    except NoUsableAnswer as why:
        return why


@dataclass(frozen=True)
class Job:
    """One agent's work on one record: who works for which stage, from which seed."""

    stage: str
    agent: AgentName
    record: str
    seed: int
    model: Model

    def provenance(self, costs: Costs, parents: Sequence[str] = ()) -> tuple[Provenance, ...]:
        """The provenance of a record this job made, as a tuple of one."""
        return (
            Provenance(
                stage=self.stage,
                agent=self.agent,
                model=self.model.endpoint.model if costs.usage.requests else "",
                prompts=costs.prompts,
                seed=self.seed,
                **dict(costs.usage),
                repairs=costs.repairs,
                parents=tuple(parents),
            ),
        )

    def reject(
        self,
        record: Record | JsonObject,
        why: Unusable | Sequence[Finding],
        costs: Costs | None = None,
    ) -> Rejected:
        """`record` with the reason it goes no further and every raw response.

        Without `costs`, those of `why`.
        """
        reason: Reason | Sequence[Finding]
        if isinstance(why, Unusable):
            reason, detail, costs = why.reason, why.detail, costs or why.costs
        else:
            reason, detail, costs = why, "", costs or Costs()
        return Rejected.of(
            record,
            self.stage,
            reason,
            detail,
            id=self.record,
            agent=self.agent,
            raw=costs.raw,
            provenance=self.provenance(costs),
        )


async def ask(
    model: Model,
    prompt: Prompt,
    read: Read[T],
    *,
    seed: int,
    schema: JsonObject | None = None,
    max_tokens: int = 256,
    mends: int = 1,
) -> Answer[T]:
    """The first answer that fits `schema` and that `read` takes; the last one goes back so many
    times with what is wrong with it. Raises NoUsableAnswer.

    `read`, which may be a coroutine function, is given the JSON value, or without a schema the
    stripped text. Candidates differ by their seed alone; at temperature 0 most endpoints give the
    same answer to each. Errors of the endpoint itself pass through: they stop the run.
    """
    costs, said = Costs(), ""

    async def tried(prompt: Prompt, number: int) -> Answer[T]:
        """Ask once. Raises BadAnswer if the answer does not do, NoUsableAnswer if none will."""
        nonlocal said
        # 31 bits: some servers read seeds as signed 32-bit integers.
        own = int.from_bytes(hashlib.sha256(f"{seed}/{number}".encode()).digest()[:4]) >> 1
        warmth, prompts = model.endpoint.temperature, (prompt.template_hash,)
        try:
            reply = await model.complete(Request(prompt.messages, schema, max_tokens, warmth, own))
        except RequestRefused as error:
            costs.book(Costs(raw=(error.raw,), prompts=prompts))
            raise NoUsableAnswer(Reason.REQUEST_REFUSED, str(error), costs) from error
        costs.book(Costs(model.usage(reply), (reply.raw,), prompts=prompts))
        said = reply.text.strip()
        if reply.finish_reason == "content_filter":
            detail = "The endpoint's content filter took the answer away; no other try would help."
            raise NoUsableAnswer(Reason.REQUEST_REFUSED, detail, costs)
        if not said:
            raise BadAnswer(Reason.UNUSABLE_RESPONSE, "the answer is empty")
        value: Any = said
        repair = ""
        if violation is not None:
            value, repair = fitting(said, violation, reply.finish_reason, max_tokens)
        taken = read(value)
        result: Any = await taken if inspect.isawaitable(taken) else taken
        if repair:
            costs.book(Costs(repairs=(repair,)))
        return Answer(result, costs)

    count = model.endpoint.candidates
    problem = BadAnswer(Reason.UNUSABLE_RESPONSE, "no answer")
    try:
        # One that cannot be used is not worth a request.
        violation = None if schema is None else checker(schema)
        for number in range(count + mends):
            asked = prompt
            if number >= count:
                mend = render("mend", {"problem": problem.detail})
                # Several chat templates refuse an empty turn.
                turn = {"role": "assistant", "content": said or "(no answer)"}
                asked = Prompt(mend.template_hash, (*prompt.messages, turn, *mend.messages))
            try:
                return await tried(asked, number)
            except BadAnswer as why:
                problem = why
        raise problem
    except BadAnswer as why:
        raise NoUsableAnswer(why.reason, why.detail, costs) from why
    except IllegalSchema as error:
        raise NoUsableAnswer(Reason.ILLEGAL_SCHEMA, str(error), costs) from error


def fitting(
    text: str, violation: Callable[[Any], str | None], finish_reason: str, max_tokens: int
) -> tuple[Any, str]:
    """The first JSON value in `text` that fits, and the repair it took. Raises BadAnswer."""
    cut_off = finish_reason == "length"
    first: str | None = None
    for value, repair in readings(text, cut_off):
        problem = violation(value)
        if problem is None:
            return value, repair
        first = first or problem
    if cut_off and first is None:
        first = f"it was cut off after {max_tokens} tokens (max_tokens): it must be shorter"
    raise BadAnswer(Reason.UNUSABLE_RESPONSE, first or f"it holds no JSON: {text[:200]!r}")


# --- names that say the same -----------------------------------------------------------------


ALIKE = 88.0  # of 100, on sorted stems: «bike rental» is «rental of bikes», not «car rental»
_EMPTY = frozenset({"a", "an", "and", "the", "of", "for", "in", "to", "service", "servic", "api"})


@cache
def stems(name: str) -> tuple[str, ...]:
    """The sorted stems of a name's words, without those that say nothing."""
    return tuple(sorted({*words(name)} - _EMPTY))


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
