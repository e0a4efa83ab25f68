"""The rewriter: tells one request at five granularities (ToolPlanner, sections 3 and B.3).

The full request stays as it is. The statement is chosen from what may be cut from it, and the
three levels between go on from the statement with a request that names their tags. What is
certain about a text decides first; then the tester's ratings do.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from toolloom.agents import rewriter_small, tester_rate
from toolloom.agents.outcome import Job, Outcome
from toolloom.agents.shapes import one
from toolloom.agents.tester_rate import Rated
from toolloom.llm import Answer, Misfit, Unusable, Usage, ask
from toolloom.prompts import Prompt, render
from toolloom.schemas import (
    Finding,
    Granularity,
    Instruction,
    JsonObject,
    Reason,
    Record,
    Rejected,
    Seed,
    Split,
    seed_for,
)

LEVELS = (
    Granularity.HYBRID,
    Granularity.STATEMENT,
    Granularity.CATEGORY,
    Granularity.TOOL,
    Granularity.API,
)
NAMING = LEVELS[2:]  # the levels whose text names tags
MOST_SPANS = 16  # of a request offered as its statement
LONGEST_TAG = 200  # characters of a tag that a model is shown
DETAIL = 500  # characters of faults that a model is told

Texts: TypeAlias = Mapping[Granularity, str]


@dataclass(frozen=True)
class RewriteChecks:
    """`statements(seed)`: spans of the full request that may be the statement, the best first.
    `spoken(seed, level)`: the names of a level's tags as people say them, in order.
    `faults(seed, level, text, others)`: what is wrong with a text, given those of other levels.
    """

    statements: Callable[[Seed], Sequence[str]]
    spoken: Callable[[Seed, Granularity], Sequence[str]]
    faults: Callable[[Seed, Granularity, str, Texts], Sequence[Finding]]


class Draft(Record):
    """What a rejected level keeps of its instruction."""

    split: Split
    seed: Seed
    level: Granularity
    text: str


@dataclass(frozen=True)
class Version:
    """What became of one level: its text, what is wrong with it, what it cost."""

    level: Granularity
    text: str = ""
    findings: tuple[Finding, ...] = ()
    usage: Usage = field(default_factory=Usage)
    raw: tuple[str, ...] = ()


@dataclass
class Held:
    """Holds texts of one level to its checks, and remembers the last of them."""

    seed: Seed
    level: Granularity
    others: Texts
    checks: RewriteChecks
    text: str = ""
    findings: tuple[Finding, ...] = ()

    def take(self, text: str) -> str:
        """The text itself. Raises Misfit with all of its faults."""
        self.text = text
        self.findings = tuple(self.checks.faults(self.seed, self.level, text, self.others))
        if self.findings:
            told = " ".join(f.detail for f in self.findings)
            raise Misfit(self.findings[0].reason, told[:DETAIL])
        return text

    async def version(self, asked: Awaitable[Answer[str]]) -> Version:
        """What a question came to, whether an answer did or none."""
        try:
            answer = await asked
        except Unusable as why:
            known = self.findings and self.findings[0].reason is why.reason
            found = self.findings if known else (_finding(why.reason, why.detail),)
            return Version(self.level, self.text, found, why.usage, why.raw)
        return Version(self.level, answer.value, (), answer.usage, answer.raw)

    def judged(self, made: Version) -> Version:
        """A text that no question is asked about again."""
        if not made.text.strip():
            empty = _finding(Reason.UNUSABLE_RESPONSE, "The text is empty.")
            return replace(made, findings=(empty,))
        found = self.checks.faults(self.seed, self.level, made.text, self.others)
        return replace(made, findings=tuple(found))


def _finding(reason: Reason, detail: str) -> Finding:
    return Finding(check="rewriter", reason=reason, detail=detail)


def question(seed: Seed, level: Granularity, statement: str, spoken: Sequence[str]) -> Prompt:
    """The prompt for the request that goes on from the statement."""
    tags = {
        Granularity.CATEGORY: seed.tags.categories,
        Granularity.TOOL: seed.tags.tools,
        Granularity.API: seed.tags.apis,
    }[level]
    return render(
        "rewriter",
        {
            "level": level.value,
            "statement": statement,
            "names": list(dict.fromkeys(spoken)),
            "tags": list(dict.fromkeys(" ".join(tag.split())[:LONGEST_TAG] for tag in tags)),
        },
    )


def read_request(text: str, statement: str) -> str:
    """The statement and the request after it. Raises Misfit for none, or half a sentence."""
    text = " ".join(text.split()).strip('"')
    if text[: len(statement)].casefold() == statement.casefold():
        text = text[len(statement) :].lstrip(" ,;-")
    if not text or not unicodedata.category(text[-1]).startswith("P"):
        raise Misfit(Reason.UNUSABLE_RESPONSE, "The request must end as a sentence does.")
    return f"{statement} {text[:1].upper()}{text[1:]}"


async def _cut(job: Job, held: Held) -> Version:
    """The statement: what a model keeps of the request's spans."""
    spans = list(dict.fromkeys(held.checks.statements(held.seed)))[:MOST_SPANS]
    if not spans:
        detail = "No part of the request tells a situation and nothing beyond it."
        return Version(held.level, findings=(_finding(Reason.NO_STATEMENT, detail),))
    if job.model.endpoint.small:
        return await held.version(rewriter_small.choose(job.model, spans, held.take, job.seed))
    return await held.version(_choose(job, held, spans))


async def _choose(job: Job, held: Held, spans: Sequence[str]) -> Answer[str]:
    """The span that a model says tells the situation. Raises Unusable if it says that none does."""

    def read(answer: JsonObject) -> str:
        number = int(answer["situation"])  # JSON Schema takes 1.0 for an integer
        return held.take(spans[number - 1]) if number else ""

    answer = await ask(
        job.model,
        render("rewriter_statement", {"request": held.seed.hybrid, "spans": list(spans)}),
        read,
        schema=one("situation", {"type": "integer", "minimum": 0, "maximum": len(spans)}),
        seed=job.seed,
        max_tokens=40,
    )
    if not answer.value:
        detail = "The model says that no part of the request tells a situation."
        raise Unusable(Reason.NO_STATEMENT, detail, answer.raw, answer.usage)
    return answer


async def _word(job: Job, held: Held, statement: Version) -> Version:
    """A level that names tags: the statement, then a request."""
    said = statement.text
    if statement.findings:
        detail = f"There is no statement to go on from: {statement.findings[0].detail}"
        return Version(held.level, findings=(_finding(Reason.NO_STATEMENT, detail),))
    spoken = held.checks.spoken(held.seed, held.level)
    if not spoken:
        detail = "The tags have no names that people could say."
        return Version(held.level, findings=(_finding(Reason.TAG_NOT_NAMED, detail),))
    if job.model.endpoint.small:
        asked = rewriter_small.word(job.model, held.level, said, spoken, held.take, job.seed)
        return await held.version(asked)
    asked = ask(
        job.model,
        question(held.seed, held.level, said, spoken),
        lambda text: held.take(read_request(text, said)),
        seed=job.seed,
        max_tokens=200,
    )
    return await held.version(asked)


async def rewrite(seed: Seed, job: Job, checks: RewriteChecks) -> tuple[Version, ...]:
    """All five levels, each with what is wrong with it."""
    said = {Granularity.HYBRID: seed.hybrid}
    full = Held(seed, Granularity.HYBRID, {}, checks).judged(
        Version(Granularity.HYBRID, seed.hybrid)
    )
    cut = Held(seed, Granularity.STATEMENT, dict(said), checks)
    statement = await _cut(_job_for(job, seed, cut.level), cut)
    said[Granularity.STATEMENT] = statement.text
    named = await asyncio.gather(
        *(
            _word(_job_for(job, seed, level), Held(seed, level, dict(said), checks), statement)
            for level in NAMING
        )
    )
    return full, statement, *_apart(seed, checks, said, named)


def _apart(
    seed: Seed, checks: RewriteChecks, said: Texts, named: Sequence[Version]
) -> list[Version]:
    """Levels that were asked for at the same time, held against those before them."""
    others, found = dict(said), list[Version]()
    for made in named:
        if not made.findings:
            made = Held(seed, made.level, dict(others), checks).judged(made)
        if not made.findings:
            others[made.level] = made.text
        found.append(made)
    return found


def _job_for(job: Job, seed: Seed, level: Granularity) -> Job:
    """The job for one level: its seed also tells its provenance from those of the others."""
    return replace(job, record=f"{seed.id}-{level}", seed=seed_for(job.seed, level))


async def _rate(made: Version, seed: Seed, rater: Job | None, votes: int) -> Rated | None:
    """The tester's ratings of a text that passed its checks."""
    if made.findings or rater is None or not votes:
        return None
    return await tester_rate.rate(made.text, _job_for(rater, seed, made.level), votes)


def _instruction(
    seed: Seed, made: Version, job: Job, checks: RewriteChecks, rated: Rated | None
) -> Instruction:
    own = job.provenance(made.usage, [seed.id])
    return Instruction(
        id=job.record,
        sample=seed.id,
        split=seed.split,
        level=made.level,
        text=made.text,
        spoken=tuple(checks.spoken(seed, made.level)) if made.level in NAMING else (),
        tags=seed.tags,
        path=seed.path,
        ratings=rated.ratings if rated else (),
        source=seed.source,
        licence=seed.licence,
        provenance=own + (rated.provenance if rated else ()),
    )


def _reject(seed: Seed, made: Version, job: Job, rated: Rated | None) -> Rejected:
    """A level that goes no further, by its checks or else by its ratings."""
    draft = Draft(split=seed.split, seed=seed, level=made.level, text=made.text)
    findings = made.findings or (rated.findings if rated else ())
    lost = job.reject(draft, findings[0], usage=made.usage, raw=made.raw, findings=findings)
    if rated is None:
        return lost
    return lost.model_copy(
        update={
            "agent": rated.agent,
            "raw": lost.raw + rated.raw,
            "provenance": lost.provenance + rated.provenance,
        }
    )


async def run(
    seed: Seed, job: Job, checks: RewriteChecks, rater: Job | None, votes: int
) -> Outcome:
    """The five levels of a seed, each an instruction or rejected with what is wrong with it.

    `rater` is the tester's job, which rates each text `votes` times.
    """
    versions = await rewrite(seed, job, checks)
    ratings = await asyncio.gather(*(_rate(made, seed, rater, votes) for made in versions))
    accepted: list[Instruction] = []
    rejected: list[Rejected] = []
    for made, rated in zip(versions, ratings, strict=True):
        own = _job_for(job, seed, made.level)
        if made.findings or (rated and rated.findings):
            rejected.append(_reject(seed, made, own, rated))
        else:
            accepted.append(_instruction(seed, made, own, checks, rated))
    return Outcome(tuple(accepted), tuple(rejected))
