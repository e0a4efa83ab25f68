"""The query agent: puts a drawn need into a user's words (API-Bank, section 4, third agent)."""

from __future__ import annotations

import datetime as dt

from toolloom.agents.ask import Answer, BadAnswer, Costs, Job, NoUsableAnswer, ask
from toolloom.agents.telling import tell
from toolloom.agents.wording import Fact, drawn, facts, read_request
from toolloom.pipeline.checks.grounding import mentions
from toolloom.prompts import Prompt, render
from toolloom.schemas import Api, Need, Outcome, Query, Reason


def moment(now: dt.datetime) -> str:
    """The present as a dialogue tells it: weekday, date and time."""
    return f"{now:%A %Y-%m-%d %H:%M}"


def goals(need: Need, turn: int = 0) -> list[tuple[Api, list[Fact]]]:
    """What the user asks for in a turn, with the values told there."""
    found = []
    for index, intention in enumerate(need.intent):
        if intention.turn == turn:
            api = need.api(intention.api)
            hidden = need.withheld if index == 0 else ()
            told = {k: v for k, v in intention.arguments.items() if k not in hidden}
            found.append((api, facts(api.properties, told)))
    return found


def withheld(need: Need) -> list[Fact]:
    """What the user leaves out at first and tells when asked."""
    if not need.withheld:
        return []
    intention = need.intent[0]
    kept = {k: intention.arguments[k] for k in need.withheld}
    return facts(need.api(intention.api).properties, kept)


def question(need: Need) -> Prompt:
    """The prompt for the first turn, whole."""
    return render(
        "query",
        {
            "wishes": [{"does": a.description, "facts": told} for a, told in goals(need)],
            "hidden": [f"{f.label} ({f.about})" for f in withheld(need)],
            "later": [r.replace("_", " ") for i in need.intent for r in i.references],
            "language": need.language,
            "now": moment(need.now),
        },
    )


def read(text: str, need: Need) -> str:
    """The first turn. Raises BadAnswer if a value is missing, given away or oddly worded."""
    told = [f for _, group in goals(need) for f in group]
    text = read_request(text.strip().strip('"'), told, need.now)
    for fact in withheld(need):
        if mentions(text, fact.value, fact.schema, need.now):
            raise BadAnswer(Reason.VALUE_GIVEN_AWAY, f"The text says {fact.name} = {fact.shown}.")
    return text


async def word(need: Need, job: Job) -> Answer[str]:
    """The first turn. Raises NoUsableAnswer."""
    return await ask(
        job.model,
        question(need),
        lambda a: read(a, need),
        seed=job.seed,
        max_tokens=200,
    )


async def run(need: Need, job: Job) -> Outcome:
    """The need as a query, or rejected with what its words lack."""
    fields = {name: getattr(need, name) for name in Need.model_fields}
    try:
        if need.setting is None:
            answer = await word(need, job)
        elif words := need.setting.story[0].words:  # they are written
            answer = Answer(drawn(words, job.seed, 0), Costs())
        else:
            told = await tell(need, need.setting, moment(need.now), job)
            fields["setting"] = need.setting.model_copy(update={"story": told.value})
            answer = Answer(told.value[0].words[0], told.costs)
    except NoUsableAnswer as why:
        return Outcome(rejected=(job.reject(need, why),))
    parents = [api.id for api in need.needed]
    query = Query(
        **fields,
        text=answer.value,
        provenance=job.provenance(answer.costs, parents),
    )
    return Outcome(accepted=(query,))
