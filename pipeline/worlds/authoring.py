"""Has a world written by the API agent, and takes what passes the checks of worlds.

The agent answers what it is asked (agents/author.py); here the whole is run: what random calls find
goes back to it once, operation by operation, and what still fails is dropped, while the rest stands
if enough is left of it.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from toolloom.agents import author
from toolloom.agents.ask import Answer, BadAnswer, Costs, Job, NoUsableAnswer, settled
from toolloom.agents.author import Draft
from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.checks.world.reading import read_world
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds import scripts
from toolloom.pipeline.worlds.library import Worlds, apis_of
from toolloom.pipeline.worlds.sampler import Sampler, play_of
from toolloom.pipeline.worlds.soundness import examine, ignored
from toolloom.pipeline.worlds.states import Unsatisfied, draw_now, draw_state
from toolloom.pipeline.worlds.tasks import Task
from toolloom.schemas import (
    Api,
    Domain,
    JsonObject,
    Need,
    Outcome,
    Reason,
    Rejected,
    World,
    parse_recipe,
    seed_for,
)

TOKENS = 50_000  # of prompts, for a world; and
OF_A_DOCUMENT = 40_000  # more where each question shows a part of an API's document
SPARED = 4_000  # of these, for the promises
PROMISES = 9_000  # that promises take which have to be mended
AGAIN = 2.5  # questions that one takes which has to be mended
FEWEST = 4  # operations of a world, one of which changes something
STATES = 40  # drawn to see whether the tables can be
PLAYS = 40  # of a script in one state, as it may pick among rows
OTHERS = 3  # states beside its own in which a new script is played
TOLD = 8  # findings of an operation that are told to who wrote it
WORST = (Reason.WORLD_UNSOUND, Reason.WORLD_UNREACHABLE, Reason.PROMISE_BROKEN)
Note = Callable[[str], None]
T = TypeVar("T")
Ailing = dict[str, list[tuple[Reason, str]]]  # what is wrong with operations


@dataclass
class Authored:
    """What came of a domain: the world or why there is none, and what was dropped on the way."""

    world: World | None = None
    rejected: list[Rejected] = field(default_factory=list)
    asked: int = 0  # operations
    at_once: int = 0  # of these, read at the first answer
    mended: list[str] = field(default_factory=list)  # after what random calls found
    dropped: dict[str, str] = field(default_factory=dict)  # operations, and why
    left: dict[str, str] = field(default_factory=dict)  # of a document: left out, and why
    unused: dict[str, list[str]] = field(default_factory=dict)  # optional parameters of it
    costs: Costs = field(default_factory=Costs)

    @property
    def outcome(self) -> Outcome:
        return Outcome((self.world,) if self.world else (), tuple(self.rejected))


async def write_world(
    domain: Domain, job: Job, note: Note = lambda _: None, document: Sequence[Api] = ()
) -> Authored:
    """A world for a domain, whose operations are those of a document if there is one. `note` is
    told what is being done. Errors of the endpoint itself pass through."""
    return await _Authoring(domain, job, note, document).run()


def _spec(draft: Draft) -> JsonObject:
    """The draft as its interpreter takes it. Raises BadAnswer if it cannot be read."""
    faults = list[str]()
    spec = read_world(draft.raw(), lambda place, what: faults.append(f"{place}: {what}"))
    if faults:
        raise BadAnswer(Reason.WORLD_UNSOUND, " ".join(faults[:3]))
    return spec


def _drawable(draft: Draft) -> None:
    """Raise BadAnswer for tables of which no state can be drawn."""
    machine = Machine(_spec(Draft(draft.frame)))
    try:
        for number in range(STATES):
            rng = rng_for("tables", number)
            draw_state(machine, rng, draw_now(rng))
    except Unsatisfied as error:
        raise BadAnswer(Reason.WORLD_UNSOUND, str(error)) from error


class _Authoring:
    """A world on its way."""

    def __init__(self, domain: Domain, job: Job, note: Note, document: Sequence[Api]) -> None:
        self.domain, self.job, self.note = domain, job, note
        self.made = Authored()
        self.document = {api.function: api for api in document}
        self.tokens = TOKENS + OF_A_DOCUMENT * bool(document)
        self.fewest = 1 if document else FEWEST  # a document may have few, and none that changes

    async def run(self) -> Authored:
        self.note(f"{self.domain.name}: its tables")
        asked = author.tables(self.domain, self._job("tables"), _drawable, self.document)
        draft = await self._asked(asked)
        if isinstance(draft, NoUsableAnswer):
            self._give_up(draft.reason, draft.detail)
            return self.made
        self.made.left = draft.left
        await self._write_operations(draft)
        if len(draft.operations) >= self.fewest:
            await self._write_promises(draft)
            if ailing := await self._ailing(draft):
                draft = await self._mended(draft, ailing)
        self._settle(draft)
        return self.made

    async def _mended(self, draft: Draft, ailing: Ailing) -> Draft:
        """A draft with what fails mended, or dropped; as it was, where that leaves more of it."""
        first, made = copy.deepcopy(draft), self.made
        unmended = replace(made, rejected=[*made.rejected], dropped={**made.dropped}, mended=[])
        await self._mend(draft, ailing)
        await self._reduce(draft)
        if len(draft.operations) >= len(first.operations) - len(ailing):
            return draft
        self.made = unmended  # whose costs are the same ones
        await self._reduce(first)
        if len(first.operations) > len(draft.operations):
            return first
        self.made = made
        return draft

    async def _reduce(self, draft: Draft) -> None:
        """Drop what still fails, until the rest stands."""
        while len(draft.operations) >= self.fewest and (ailing := await self._ailing(draft)):
            for name, findings in ailing.items():
                reason = min((reason for reason, _ in findings), key=WORST.index)
                self._drop(draft, name, " ".join(what for _, what in findings[:TOLD]), reason)

    def _job(self, part: str) -> Job:
        return replace(self.job, seed=seed_for(self.job.seed, part))

    async def _asked(self, asked: Awaitable[Answer[T]]) -> T | NoUsableAnswer:
        """What the author says to a question, which is paid for, or why nothing of use."""
        answer = await settled(asked)
        self.made.costs.book(answer.costs)
        return answer if isinstance(answer, NoUsableAnswer) else answer.value

    def _can_ask(self, spared: int) -> bool:
        """Whether one more question, also if its answer has to be mended, leaves as many tokens as
        are spared for what comes after."""
        usage = self.made.costs.usage
        each = usage.prompt_tokens // max(1, usage.requests)
        return usage.prompt_tokens + AGAIN * each + spared <= self.tokens

    async def _write_operations(self, draft: Draft) -> None:
        for name in [*draft.plan][author.OPERATIONS :]:
            self._drop(draft, name, f"more than {author.OPERATIONS} are not asked for")
        for name in list(draft.plan):
            if not self._can_ask(SPARED):
                self._drop(draft, name, f"{self.tokens:,} prompt tokens of a world are used up")
                continue
            self.note(f"{draft.frame['world']}: {name}")
            self.made.asked += 1
            before = self.made.costs.usage.requests
            written = await self._asked(author.operation(self.domain, draft, name, self._job(name)))
            if isinstance(written, NoUsableAnswer):
                self._drop(draft, name, written.detail, written.reason, written.costs)
                continue
            self.made.at_once += self.made.costs.usage.requests == before + 1
            draft.operations[name] = written

    async def _write_promises(self, draft: Draft) -> None:
        self.note(f"{draft.frame['world']}: promises")
        names, job = list(draft.operations), self._job("promises")
        docs = author.documentation(_spec(draft), names)
        strict = self.made.costs.usage.prompt_tokens + PROMISES <= self.tokens
        written = await self._asked(author.promises(self.domain, draft, names, docs, job, strict))
        if isinstance(written, NoUsableAnswer):
            self.made.rejected.append(self.job.reject(self.domain, written))
        else:
            draft.promises, draft.policies = written

    async def _ailing(self, draft: Draft) -> Ailing:
        """What random calls find, with an example each, by operation; and parameters for show."""
        self.note(f"{draft.frame['world']}: random calls")
        spec, ailing = _spec(draft), Ailing()
        found = await asyncio.to_thread(examine, Machine(spec))
        for what, (name, reason, example) in found.findings.items():
            ailing.setdefault(name, []).append((reason, f"{what} {example}".strip()))
        for name, argument in ignored(spec):
            what = f"{name} takes `{argument}`, and nothing in it uses it."
            ailing.setdefault(name, []).append((Reason.WORLD_UNSOUND, what))
        return {name: ailing[name] for name in draft.operations if name in ailing}

    async def _mend(self, draft: Draft, ailing: Ailing) -> None:
        """Each operation that fails goes back to who wrote it, once."""
        for name, findings in ailing.items():
            if not self._can_ask(0):
                return
            self.note(f"{draft.frame['world']}: {name} is mended")
            told = [what for _, what in findings[:TOLD]]
            asked = author.mended(self.domain, draft, name, told, self._job(f"mend {name}"))
            written = await self._asked(asked)
            if not isinstance(written, NoUsableAnswer):  # else it is dropped for what was found
                draft.operations[name], draft.promises[name] = written
                self.made.mended.append(name)

    def _drop(
        self,
        draft: Draft,
        name: str,
        why: str,
        reason: Reason = Reason.WORLD_UNSOUND,
        costs: Costs | None = None,
    ) -> None:
        record = {"world": draft.frame["world"], "operation": name}
        if name in draft.operations:
            record |= {"written": draft.operations[name], "promise": draft.promises.get(name)}
        self.made.rejected.append(self.job.reject(record, NoUsableAnswer(reason, why, costs)))
        self.made.dropped[name] = why
        draft.plan.pop(name, None)
        draft.without(name)

    def _settle(self, draft: Draft) -> None:
        """Make the world, if enough of it is left."""
        spec = _spec(draft)
        changing = [n for n, o in Machine(spec).operations.items() if o.changes]
        for name, operation in spec["operations"].items() if self.document else ():
            if unused := [n for n in self.document[name].properties if n not in operation["args"]]:
                self.made.unused[name] = unused
        if len(draft.operations) < self.fewest or not (changing or self.document):
            reasons = [each.reason for each in self.made.rejected] or [Reason.WORLD_UNSOUND]
            dropped = "; ".join(f"{name}: {what}" for name, what in self.made.dropped.items())
            detail = f"{len(draft.operations)} operations are left: {dropped}"
            self._give_up(max(reasons, key=reasons.count), detail)
        else:
            provenance = self.job.provenance(self.made.costs, [self.domain.id])
            self.made.world = World.of(spec, text=author.dumped(draft.raw()), provenance=provenance)

    def _give_up(self, reason: Reason, detail: str) -> None:
        why = NoUsableAnswer(reason, detail, self.made.costs)
        self.made.rejected.append(self.job.reject(self.domain, why))


# --- scripts ---------------------------------------------------------------------------------


async def write_script(world: World, raw: JsonObject, task: Task, job: Job) -> Answer[JsonObject]:
    """A script of a task of a world, as it is written in the file of scripts; `raw`: the world as
    it is written. Played in the state of the task it makes the calls of the task, and in `OTHERS`
    that are drawn by seed it stays true by all checks of dialogues. Raises NoUsableAnswer."""
    frame: JsonObject = {key: raw[key] for key in ("about", "actor", "entities") if key in raw}
    names = [scripts.script_name(each, number) for number, each in enumerate(world.scripts)]

    async def check(reply: author.Reply) -> JsonObject:
        if reply.value.get("name") in (None, *names):
            reply.fault(("name",), "The script needs a name that no other script has.")
        script = {**reply.value, "written": job.model.endpoint.model}
        machine = Machine(world.spec)
        (read,) = scripts.read_scripts([script], machine, lambda at, why: reply.fault(at[1:], why))
        reply.refuse()
        if faults := await _untrue(world.model_copy(update={"scripts": (script,)}), read, task):
            raise BadAnswer(Reason.WORLD_UNSOUND, "\n".join(dict.fromkeys(faults[:TOLD])))
        return script

    return await author.script(Draft(frame), world.spec, scripts.as_text(play_of(task)), job, check)


async def _untrue(world: World, script: scripts.WorldScript, task: Task) -> list[str]:
    """Where the only script of a world does not hold: in the state of its task, and in others."""
    # Loads half of the templates' code, which those who write worlds have no use for.
    from toolloom.pipeline.templates.expand import Playing

    ability = "retrieve_call" if script.searches else "call"
    asked = {"name": "script", "model": "none", "queries": {"abilities": {ability: 1}}}
    recipe = parse_recipe({**asked, "worlds": [world.name]}, "a script")
    sampler = Sampler(recipe, world, list(apis_of(world)))
    machine = sampler.machine
    wanted = [(call.name, call.arguments, call.error) for call in task.calls]
    made, own = wanted, list[Need]()
    for seed in range(PLAYS):
        if not (row := scripts.play_in(script, machine, task.start, task.now, random.Random(seed))):
            continue
        made = [(call.name, call.arguments, call.error) for call in row.calls]
        if made == wanted:
            scenario = scripts.scenario_of(script, row, machine)
            own = [sampler.need(row, "own", scenario, script.searches, seed)]
            break
    if not own and made == wanted:
        where = _stop(script, machine, task)
        return [f"In the state of the task {where} does not hold, or calls what ends otherwise."]
    if not own:
        return [f"In the state of the task it calls {made}, and the task {wanted}."]
    others = list(sampler.rows({0: OTHERS}, lambda _, use: f"other-{use}"))
    if len(others) < OTHERS:
        return [
            f"{len(others)} of {sampler.drawn} other states that were drawn meet its conditions, "
            f"and {OTHERS} are needed: ask for less in `find` and `need`, and write what differs "
            "as slots."
        ]
    playing = Playing(recipe, world.model_dump_json(), [*own, *others])
    faults = list[str]()
    for made_row in await playing.played(Worlds(known=lambda: [world.model_dump(mode="json")])):
        own_state = json.loads(made_row.line)["dialogue"]["query"]["id"] == "own"
        state = "the state of the task" if own_state else "another state"
        faults += [f"Played in {state}: {finding.detail}" for finding in made_row.findings]
    return faults


def _stop(script: scripts.WorldScript, machine: Machine, task: Task) -> str:
    """The first entry of a script up to which it cannot be played in its task's state."""
    entries = (*script.opening, *script.turns)
    for number in range(len(entries)):
        begun = replace(script, opening=(), turns=entries[: number + 1])
        draws = (random.Random(seed) for seed in range(PLAYS))
        if not any(scripts.play_in(begun, machine, task.start, task.now, rng) for rng in draws):
            break
    before = len(script.opening)
    return f"`find[{number}]`" if number < before else f"`turns[{number - before}]`"
