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

from toolloom.agents.ask import Answer, BadAnswer, Costs, Job, NoUsableAnswer, ask, shape
from toolloom.agents.tester import Rated, rate
from toolloom.pipeline.checks.instructions import (
    NAMING,
    Texts,
    inspect_level,
    spoken_tags,
    statements,
    tags_of,
)
from toolloom.pipeline.checks.text.words import words
from toolloom.prompts import Prompt, render
from toolloom.schemas import (
    Finding,
    Granularity,
    Instruction,
    JsonObject,
    Outcome,
    Reason,
    Rejected,
    Seed,
    seed_for,
)

LONGEST_TAG = 200  # characters of a tag that a model is shown
DETAIL = 500  # characters of faults that a model is told
REPEATED = 6  # words in a row that a model repeats of its prompt, which nobody says by chance


@dataclass
class LevelText:
    """One level: its text, the texts it is held against, what is wrong with it, what it cost."""

    seed: Seed
    level: Granularity
    others: Texts
    text: str = ""
    findings: tuple[Finding, ...] = ()
    costs: Costs = field(default_factory=Costs)

    def judge(self, text: str) -> str:
        """The text itself, which is the level's from now on. Raises BadAnswer with its faults."""
        self.text = text
        self.findings = inspect_level(self.seed, self.level, text, self.others)
        if self.findings:
            told = " ".join(f.detail for f in self.findings)
            raise BadAnswer(self.findings[0].reason, told[:DETAIL])
        return text

    def fail(self, reason: Reason, detail: str) -> None:
        self.findings = (Finding(check="rewriter", reason=reason, detail=detail),)

    async def answered(self, asked: Awaitable[Answer[str]]) -> None:
        """Take what a question comes to, whether an answer or none."""
        try:
            answer = await asked
        except NoUsableAnswer as why:
            self.costs = why.costs
            if not self.findings or self.findings[0].reason is not why.reason:
                self.fail(why.reason, why.detail)
        else:
            self.text, self.findings, self.costs = answer.value, (), answer.costs


def question(seed: Seed, level: Granularity, statement: str, spoken: Sequence[str]) -> Prompt:
    """The prompt for the request that goes on from the statement."""
    tags = tags_of(seed, level)
    names = list(dict.fromkeys(spoken))
    exact = list(dict.fromkeys(" ".join(tag.split())[:LONGEST_TAG] for tag in tags))
    told = {"level": level.value, "statement": statement, "names": names, "tags": exact}
    return render("rewriter", told)


def read_request(text: str, statement: str, prompt: Prompt) -> str:
    """The statement and the request after it.

    Raises BadAnswer for none, for half a sentence, and for words of the prompt.
    """
    text = " ".join(text.split()).strip('"')
    if text[: len(statement)].casefold() == statement.casefold():
        text = text[len(statement) :].lstrip(" ,;-")
    if not text or not unicodedata.category(text[-1]).startswith("P"):
        raise BadAnswer(Reason.UNUSABLE_RESPONSE, "The request must end as a sentence does.")
    said = [word.folded for word in words(text)]
    told = [str(message["content"]) for message in prompt.messages[:-1]]
    known = [f" {' '.join(word.folded for word in words(part))} " for part in told]
    for start in range(len(said) - REPEATED + 1):
        run = " ".join(said[start : start + REPEATED])
        if any(f" {run} " in part for part in known):
            raise BadAnswer(Reason.UNNATURAL_QUERY, f"It repeats the prompt: «{run}».")
    return f"{statement} {text[:1].upper()}{text[1:]}"


async def _choose(job: Job, cut: LevelText) -> None:
    """The statement: the span of the request that a model says tells the situation."""
    spans = statements(cut.seed)
    if not spans:
        detail = "No sentence of the request tells a situation and nothing beyond it."
        cut.fail(Reason.NO_STATEMENT, detail)
        return

    def read(answer: JsonObject) -> str:
        number = int(answer["situation"])  # JSON Schema takes 1.0 for an integer
        return cut.judge(spans[number - 1]) if number else ""

    await cut.answered(
        ask(
            job.model,
            render("rewriter_statement", {"request": cut.seed.hybrid, "spans": spans}),
            read,
            schema=shape({"situation": {"type": "integer", "minimum": 0, "maximum": len(spans)}}),
            seed=job.seed,
            max_tokens=40,
        )
    )
    if not cut.text and not cut.findings:
        detail = "The model says that no part of the request tells a situation."
        cut.fail(Reason.NO_STATEMENT, detail)


async def _word(job: Job, made: LevelText, statement: LevelText) -> None:
    """A level that names tags: the statement, then a request."""
    spoken = spoken_tags(made.seed, made.level)
    if statement.findings:
        detail = f"There is no statement to go on from: {statement.findings[0].detail}"
        made.fail(Reason.NO_STATEMENT, detail)
    elif not spoken:
        made.fail(Reason.TAG_NOT_NAMED, "The tags have no names that people could say.")
    else:
        prompt = question(made.seed, made.level, statement.text, spoken)

        def read(text: str) -> str:
            return made.judge(read_request(text, statement.text, prompt))

        await made.answered(ask(job.model, prompt, read, seed=job.seed, max_tokens=200))


async def rewrite(seed: Seed, job: Job) -> tuple[LevelText, ...]:
    """All five levels, each with what is wrong with it."""
    said = {Granularity.HYBRID: seed.hybrid}
    full = LevelText(seed, Granularity.HYBRID, {})
    if seed.hybrid.strip():
        full.judge(seed.hybrid)
    else:
        full.fail(Reason.UNUSABLE_RESPONSE, "The text is empty.")
    statement = LevelText(seed, Granularity.STATEMENT, dict(said))
    await _choose(_job_for(job, seed, statement.level), statement)
    said[Granularity.STATEMENT] = statement.text
    named = [LevelText(seed, level, dict(said)) for level in NAMING]
    await asyncio.gather(*(_word(_job_for(job, seed, n.level), n, statement) for n in named))
    for made in named:  # against the levels that were worded at the same time
        if not made.findings:
            made.findings = inspect_level(seed, made.level, made.text, said)
        if not made.findings:
            said[made.level] = made.text
    return full, statement, *named


def _job_for(job: Job, seed: Seed, level: Granularity) -> Job:
    """The job for one level: its seed also tells its provenance from those of the others."""
    return replace(job, record=f"{seed.id}-{level}", seed=seed_for(job.seed, level))


async def run(seed: Seed, job: Job, rater: Job | None, votes: int) -> Outcome:
    """The five levels of a seed, each an instruction or rejected with what is wrong with it.

    `rater` is the tester's job, which rates each text `votes` times.
    """

    async def rated(made: LevelText) -> Rated | None:
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
        if findings := made.findings or (rating.findings if rating else ()):
            level: JsonObject = {"split": seed.split, "seed": seed.model_dump(mode="json")}
            level |= {"level": made.level, "text": made.text}
            lost = own.reject(level, findings, made.costs)
            if rating:
                raw, provenance = lost.raw + rating.raw, lost.provenance + rating.provenance
                more = {"agent": "tester", "raw": raw, "provenance": provenance}
                lost = lost.model_copy(update=more)
            rejected.append(lost)
            continue
        provenance = own.provenance(made.costs, [seed.id])
        accepted.append(
            Instruction(
                id=own.record,
                sample=seed.id,
                split=seed.split,
                level=made.level,
                text=made.text,
                spoken=spoken_tags(seed, made.level) if made.level in NAMING else (),
                tags=seed.tags,
                path=seed.path,
                ratings=rating.ratings if rating else (),
                source=seed.source,
                licence=seed.licence,
                provenance=provenance + (rating.provenance if rating else ()),
            )
        )
    return Outcome(tuple(accepted), tuple(rejected))
