"""The rewriter: tells one request at five granularities (ToolPlanner, sections 3 and B.3).

The full request stays as it is. The statement is chosen from what may be cut from it, and the
three levels between go on from the statement with a request that names their tags. What is
certain about a text decides first; then the tester's ratings do.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace

from toolloom.agents.ask import Answer, BadAnswer, Costs, Job, NoUsableAnswer, ask, one
from toolloom.agents.tester import Rated, rate
from toolloom.pipeline.checks.instructions import Texts, inspect_level
from toolloom.pipeline.checks.statements import statements
from toolloom.pipeline.checks.tags import NAMING, spoken_tags, tags_of
from toolloom.prompts import Prompt, render
from toolloom.schemas import (
    Finding,
    Granularity,
    Instruction,
    JsonObject,
    Outcome,
    Reason,
    Record,
    Rejected,
    Seed,
    Split,
    seed_for,
)

MOST_SPANS = 16  # of a request offered as its statement
LONGEST_TAG = 200  # characters of a tag that a model is shown
DETAIL = 500  # characters of faults that a model is told


class RejectedLevel(Record):
    """What a rejected level keeps of its instruction."""

    split: Split
    seed: Seed
    level: Granularity
    text: str


@dataclass(frozen=True)
class LevelResult:
    """What became of one level: its text, what is wrong with it, what it cost."""

    level: Granularity
    text: str = ""
    findings: tuple[Finding, ...] = ()
    costs: Costs = field(default_factory=Costs)


@dataclass
class LevelTrial:
    """Holds texts of one level to its checks, and remembers the last of them."""

    seed: Seed
    level: Granularity
    others: Texts
    text: str = ""
    findings: tuple[Finding, ...] = ()

    def take(self, text: str) -> str:
        """The text itself. Raises BadAnswer with all of its faults."""
        self.text = text
        self.findings = inspect_level(self.seed, self.level, text, self.others)
        if self.findings:
            told = " ".join(f.detail for f in self.findings)
            raise BadAnswer(self.findings[0].reason, told[:DETAIL])
        return text

    async def result(self, asked: Awaitable[Answer[str]]) -> LevelResult:
        """What a question came to, whether an answer did or none."""
        try:
            answer = await asked
        except NoUsableAnswer as why:
            known = self.findings and self.findings[0].reason is why.reason
            found = self.findings if known else (_finding(why.reason, why.detail),)
            return LevelResult(self.level, self.text, found, why.costs)
        return LevelResult(self.level, answer.value, (), answer.costs)

    def judged(self, made: LevelResult) -> LevelResult:
        """A text that no question is asked about again."""
        if not made.text.strip():
            empty = _finding(Reason.UNUSABLE_RESPONSE, "The text is empty.")
            return replace(made, findings=(empty,))
        return replace(made, findings=inspect_level(self.seed, self.level, made.text, self.others))


def _finding(reason: Reason, detail: str) -> Finding:
    return Finding(check="rewriter", reason=reason, detail=detail)


def question(seed: Seed, level: Granularity, statement: str, spoken: Sequence[str]) -> Prompt:
    """The prompt for the request that goes on from the statement."""
    tags = tags_of(seed, level)
    names = list(dict.fromkeys(spoken))
    exact = list(dict.fromkeys(" ".join(tag.split())[:LONGEST_TAG] for tag in tags))
    told = {"level": level.value, "statement": statement, "names": names, "tags": exact}
    return render("rewriter", told)


def read_request(text: str, statement: str) -> str:
    """The statement and the request after it. Raises BadAnswer for none, or half a sentence."""
    text = " ".join(text.split()).strip('"')
    if text[: len(statement)].casefold() == statement.casefold():
        text = text[len(statement) :].lstrip(" ,;-")
    if not text or not unicodedata.category(text[-1]).startswith("P"):
        raise BadAnswer(Reason.UNUSABLE_RESPONSE, "The request must end as a sentence does.")
    return f"{statement} {text[:1].upper()}{text[1:]}"


async def _cut(job: Job, trial: LevelTrial) -> LevelResult:
    """The statement: what a model keeps of the request's spans."""
    spans = list(dict.fromkeys(statements(trial.seed)))[:MOST_SPANS]
    if not spans:
        detail = "No part of the request tells a situation and nothing beyond it."
        return LevelResult(trial.level, findings=(_finding(Reason.NO_STATEMENT, detail),))
    return await trial.result(_choose(job, trial, spans))


async def _choose(job: Job, trial: LevelTrial, spans: Sequence[str]) -> Answer[str]:
    """The span that a model says tells the situation. Raises NoUsableAnswer if none does."""

    def read(answer: JsonObject) -> str:
        number = int(answer["situation"])  # JSON Schema takes 1.0 for an integer
        return trial.take(spans[number - 1]) if number else ""

    answer = await ask(
        job.model,
        render("rewriter_statement", {"request": trial.seed.hybrid, "spans": list(spans)}),
        read,
        schema=one("situation", {"type": "integer", "minimum": 0, "maximum": len(spans)}),
        seed=job.seed,
        max_tokens=40,
    )
    if not answer.value:
        detail = "The model says that no part of the request tells a situation."
        raise NoUsableAnswer(Reason.NO_STATEMENT, detail, answer.costs)
    return answer


async def _word(job: Job, trial: LevelTrial, statement: LevelResult) -> LevelResult:
    """A level that names tags: the statement, then a request."""
    said = statement.text
    if statement.findings:
        detail = f"There is no statement to go on from: {statement.findings[0].detail}"
        return LevelResult(trial.level, findings=(_finding(Reason.NO_STATEMENT, detail),))
    spoken = spoken_tags(trial.seed, trial.level)
    if not spoken:
        detail = "The tags have no names that people could say."
        return LevelResult(trial.level, findings=(_finding(Reason.TAG_NOT_NAMED, detail),))
    asked = ask(
        job.model,
        question(trial.seed, trial.level, said, spoken),
        lambda text: trial.take(read_request(text, said)),
        seed=job.seed,
        max_tokens=200,
    )
    return await trial.result(asked)


async def rewrite(seed: Seed, job: Job) -> tuple[LevelResult, ...]:
    """All five levels, each with what is wrong with it."""
    said = {Granularity.HYBRID: seed.hybrid}
    full = LevelTrial(seed, Granularity.HYBRID, {}).judged(
        LevelResult(Granularity.HYBRID, seed.hybrid)
    )
    cut = LevelTrial(seed, Granularity.STATEMENT, dict(said))
    statement = await _cut(_job_for(job, seed, cut.level), cut)
    said[Granularity.STATEMENT] = statement.text
    named = await asyncio.gather(
        *(
            _word(_job_for(job, seed, level), LevelTrial(seed, level, dict(said)), statement)
            for level in NAMING
        )
    )
    others, found = dict(said), list[LevelResult]()
    for made in named:
        if not made.findings:
            made = LevelTrial(seed, made.level, dict(others)).judged(made)
        if not made.findings:
            others[made.level] = made.text
        found.append(made)
    return full, statement, *found


def _job_for(job: Job, seed: Seed, level: Granularity) -> Job:
    """The job for one level: its seed also tells its provenance from those of the others."""
    return replace(job, record=f"{seed.id}-{level}", seed=seed_for(job.seed, level))


def _instruction(seed: Seed, made: LevelResult, job: Job, rated: Rated | None) -> Instruction:
    own = job.provenance(made.costs, [seed.id])
    return Instruction(
        id=job.record,
        sample=seed.id,
        split=seed.split,
        level=made.level,
        text=made.text,
        spoken=spoken_tags(seed, made.level) if made.level in NAMING else (),
        tags=seed.tags,
        path=seed.path,
        ratings=rated.ratings if rated else (),
        source=seed.source,
        licence=seed.licence,
        provenance=own + (rated.provenance if rated else ()),
    )


def _reject(seed: Seed, made: LevelResult, job: Job, rated: Rated | None) -> Rejected:
    """A level that goes no further, by its checks or else by its ratings."""
    level = RejectedLevel(split=seed.split, seed=seed, level=made.level, text=made.text)
    findings = made.findings or (rated.findings if rated else ())
    lost = job.reject(level, findings, made.costs)
    if rated is None:
        return lost
    raw, provenance = lost.raw + rated.raw, lost.provenance + rated.provenance
    return lost.model_copy(update={"agent": rated.agent, "raw": raw, "provenance": provenance})


async def run(seed: Seed, job: Job, rater: Job | None, votes: int) -> Outcome:
    """The five levels of a seed, each an instruction or rejected with what is wrong with it.

    `rater` is the tester's job, which rates each text `votes` times.
    """

    async def rated(made: LevelResult) -> Rated | None:
        """The ratings of a text that passed its checks."""
        if made.findings or rater is None or not votes:
            return None
        return await rate(made.text, _job_for(rater, seed, made.level), votes)

    versions = await rewrite(seed, job)
    ratings = await asyncio.gather(*map(rated, versions))
    accepted: list[Instruction] = []
    rejected: list[Rejected] = []
    for made, rating in zip(versions, ratings, strict=True):
        own = _job_for(job, seed, made.level)
        if made.findings or (rating and rating.findings):
            rejected.append(_reject(seed, made, own, rating))
        else:
            accepted.append(_instruction(seed, made, own, rating))
    return Outcome(tuple(accepted), tuple(rejected))
