"""Templates of scripts of worlds: a row plays the script again, in another start state.

All that another state changes is one choice: the moment, the state, the goal, arguments, results
and words. So a row's results are true, which of values drawn for slots nobody could say. Its shape
is that of the accepted dialogue: the same messages and calls in the same order, the same scenario.
Where API Search stands, what it finds is the same too, as it does not lean on the state.

A dialogue that was worded for a task has no script: one is made first (`worlds/derive.py`), and
tried in other states.

A template holds the state of its sample alone. Others are drawn when rows are wanted, and settled
first, in a few bytes a row: so memory holds the states of `AT_ONCE` rows.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

from toolloom.agents.simulator import system_turn
from toolloom.pipeline.apis.execution.compression import compress
from toolloom.pipeline.checks import inspect
from toolloom.pipeline.checks.world.interpreter import Machine, State
from toolloom.pipeline.dataset.unfold import TemplateRenderer
from toolloom.pipeline.store.files import to_text
from toolloom.pipeline.worlds.conditions import Underivable
from toolloom.pipeline.worlds.derive import Derived, derive
from toolloom.pipeline.worlds.needs import (
    Chance,
    WorldDraw,
    intent_of,
    setting_of,
)
from toolloom.pipeline.worlds.scripts import MadeCall, Play
from toolloom.pipeline.worlds.session import executed
from toolloom.pipeline.worlds.telling import scenario_of, story
from toolloom.schemas import (
    API_SEARCH,
    Choice,
    Finding,
    JsonObject,
    Provenance,
    Reason,
    Recipe,
    Rejected,
    Sample,
    Split,
    Template,
    World,
    marker,
)

AT_ONCE = 250  # rows of a template in memory
STATES = 800  # in which a script that was made of a dialogue is tried
TRIED = 3  # rows that it has to give there
STAGE = "templates"


def script_of(sample: JsonObject) -> tuple[str, str] | None:
    """Hash of the world and name of the script that a sample, as JSON, is a row of; of one that was
    worded for a task the name is ""."""
    setting = sample["dialogue"]["query"].get("setting")
    return (setting["hash"], setting["script"]) if setting else None


class Scripts:
    """The scripts of worlds, each of which gives one template."""

    def __init__(self, worlds: Sequence[World], recipe: Recipe) -> None:
        self._left = {(w.hash, name) for w in worlds for name in w.script_names}
        self._known = frozenset(self._left)
        self._rows = WorldRows(recipe, worlds)

    def template(self, sample: JsonObject, split: Split) -> Template | Rejected | None:
        """That of a script, of the first of its samples; of a task; None of others."""
        script = script_of(sample)
        if script in self._left:
            self._left.remove(script)
            return world_template(sample, split)
        if script in self._known:
            return None
        query = sample["dialogue"]["query"]
        setting = query["setting"]
        detail = f"the script {setting['script']} of {setting['world']} is not there any more"
        if not setting["script"]:
            made = world_template(sample, split)
            try:
                self._rows.check(made, self._rows.derive(made))
                return made
            except Underivable as why:
                detail = f"no script can be made of it: {why}"
        finding = Finding(check="mining", reason=Reason.NOTHING_TO_VARY, detail=detail)
        return Rejected.of(sample, STAGE, [finding], id=query["id"])


def world_template(sample: JsonObject, split: Split | None = None) -> Template:
    """The template of a script, of one of its samples."""
    skeleton, values = slotted(sample["dialogue"])
    query = sample["dialogue"]["query"]
    setting = query["setting"]
    script = setting["script"] or query["id"]
    choice = Choice(
        slots=tuple(values),
        rows=(tuple(values.values()),),
        about=f"start state of {setting['world']} for the script {script}",
        sources={"sample": 1},
    )
    own = Provenance(stage=STAGE, agent="", model="", seed=0, parents=(query["id"],))
    return Template(
        id=query["id"],
        kind="world",
        goal=query["text"],
        apis=tuple(intention["api"] for intention in query["intent"]),
        split=split,
        sample={**sample, "dialogue": skeleton, "flags": [], "provenance": []},
        choices=(choice,),
        provenance=(own,),
    )


def slotted(dialogue: JsonObject) -> tuple[JsonObject, JsonObject]:
    """A dialogue with slots for all that another state changes, and their values by slot."""
    skeleton, values = deepcopy(dialogue), dict[str, Any]()

    def cut(parent: Any, key: Any, slot: str) -> None:
        values[slot] = parent[key]
        parent[key] = marker(slot)

    query, messages = skeleton["query"], skeleton["messages"]
    cut(query, "now", "now")
    cut(query, "text", "text")
    for name in ("start", "told", "goal"):
        cut(query["setting"], name, name)
    for number, intention in enumerate(query["intent"]):
        cut(intention, "arguments", f"intent_{number}")
    for place, message in enumerate(messages):
        if message["name"] == API_SEARCH.function:
            continue
        if message["role"] == "tool":
            seen = json.loads(message["content"])
            for name in ("response", "error"):
                cut(seen, name, f"{name}_{place}")
            message["content"] = to_text(seen)
            for name in ("digest", "whole_tokens"):
                cut(message["execution"], name, f"{name}_{place}")
        elif message["content"]:
            cut(message, "content", f"words_{place}")
        for number, call in enumerate(message["tool_calls"]):
            if call["function"]["name"] != API_SEARCH.function:
                cut(call["function"], "arguments", f"call_{place}_{number}")
    skeleton["provenance"] = query["provenance"] = []
    return skeleton, values


def original_of(template: Template) -> Sample:
    """The sample that a template was made of."""
    return TemplateRenderer(template).sample((0,), template.id, 0)


class ScriptRows:
    """The rows of a script's template."""

    def __init__(self, template: Template, draw: WorldDraw, script: int | None = None) -> None:
        """`script`: the place of one that was made of the sample."""
        self._template, self._draw = template, draw
        original = original_of(template)
        self._query = original.dialogue.query
        self._before: JsonObject = original.dialogue.model_dump(mode="json")
        assert self._query.setting
        self._own = self._query.setting.script  # "" of a task
        self.id, self.world, self.machine = template.id, draw.hash, draw.machine
        self.sample = {**template.sample, "dialogue": self._before}
        names = [script.name for script in draw.scripts]
        self.script = names.index(self._query.setting.script) if script is None else script
        """Its place among the scripts of its world."""
        self.name = names[self.script]
        own = [api for api in self._query.pool if api.source.reference == draw.world.name]
        self._apis = {api.source.operation: api for api in own}

    @property
    def said(self) -> list[str]:
        """The texts of its sample."""
        spoken = (m for m in self._before["messages"][1:] if m["role"] != "tool")
        return [message["content"] for message in spoken if message["content"]]

    @property
    def tried(self) -> int:
        """States that were drawn of its world."""
        return self._draw.drawn

    def fits(self, row: Play) -> bool:
        """Whether the dialogue has the same shape in another state."""
        return self._values(row) is not None

    def faults(self, row: Play) -> tuple[Finding, ...]:
        """What the certain checks say of a row that fits."""
        (choice,) = self._template.choices
        rows = (choice.rows[0], self._values(row) or ())
        update = {"choices": (choice.model_copy(update={"rows": rows}),)}
        made = TemplateRenderer(self._template.model_copy(update=update))
        return inspect(made.dialogue_of((1,)), world=self.machine)

    def drawn(self, chances: Iterable[Chance]) -> Template:
        """The template with what these states make of its script as rows, after the original."""
        (choice,) = self._template.choices
        rows = [choice.rows[0]]
        for chance in chances:
            row = self._draw.play(chance, *self._draw.start(chance.state))
            values = self._values(row) if row else None
            assert values is not None  # it was drawn before, from the same seed
            rows.append(values)
        update = {"rows": tuple(rows), "sources": {**choice.sources, "states": len(rows) - 1}}
        return self._template.model_copy(update={"choices": (choice.model_copy(update=update),)})

    def _values(self, row: Play) -> tuple[Any, ...] | None:
        """The values of the slots; None if the dialogue has another shape."""
        messages = None if {c.name for c in row.calls} - set(self._apis) else self._messages(row)
        if messages is None:
            return None
        setting, now = setting_of(self._draw, row), dt.datetime.fromisoformat(row.now)
        query = self._query.model_copy(update={"now": now, "setting": setting})
        script = self._draw.scripts[self.script]
        told = {
            "text": messages[0]["content"],
            "now": now.isoformat(),
            "scenario": scenario_of(script, row, self._draw.machine).value,
            "intent": [each.model_dump(mode="json") for each in intent_of(row, self._apis)],
            "setting": {**setting.model_dump(mode="json"), "story": [], "script": self._own},
        }
        opening = system_turn(query).model_dump(mode="json")
        dialogue = {
            **self._before,
            "query": {**self._before["query"], **told},
            "messages": [opening, *messages],
        }
        skeleton, values = slotted(dialogue)
        return tuple(values.values()) if skeleton == self._template.sample["dialogue"] else None

    def _messages(self, row: Play) -> list[JsonObject] | None:
        """What is said, called and returned, with the searches of the sample in their places; None
        if that has other messages."""
        limit = self._draw.recipe.observation_tokens
        turns = iter(turns_of(row, self._draw.machine))
        made: list[JsonObject] = []
        waiting: Iterator[MadeCall] = iter(())  # for their results
        for message in self._before["messages"][1:]:
            calls = message["tool_calls"]
            if API_SEARCH.function in (message["name"], *(c["function"]["name"] for c in calls)):
                made.append(message)
            elif message["role"] == "tool":
                call = next(waiting)
                api = self._apis[call.name]
                seen = executed(self._draw.world.name, call.response, call.error)
                back = seen.message(
                    message["tool_call_id"], api, lambda r, s: compress(r, s, limit)
                )
                made.append(back.model_dump(mode="json"))
            else:
                role, said, batch = next(turns, ("", None, ()))
                if len(batch) != len(calls):
                    return None
                named = [
                    {"name": self._apis[c.name].function, "arguments": c.arguments} for c in batch
                ]
                asked = [{**old, "function": new} for old, new in zip(calls, named, strict=True)]
                made.append({**message, "role": role, "content": said, "tool_calls": asked})
                waiting = iter(batch)
        return made if next(turns, None) is None else None


def turns_of(row: Play, machine: Machine) -> Iterator[tuple[str, str | None, tuple[MadeCall, ...]]]:
    """What is said, and calls that go side by side together: role, words, calls."""
    batch: list[MadeCall] = []
    for part, (_, said) in zip(story(row, machine), row.messages, strict=True):
        if batch and not part.beside:
            yield "assistant", None, tuple(batch)
            batch = []
        if isinstance(said, MadeCall):
            batch.append(said)
        else:
            yield part.role, said, ()
    if batch:
        yield "assistant", None, tuple(batch)


class WorldRows:
    """The rows of all templates of scripts: which states they have is settled, pass by pass."""

    def __init__(self, recipe: Recipe, worlds: Iterable[World]) -> None:
        # Each version that is added to draws states of its own.
        purpose = f"expand {recipe.extend.version if recipe.extend else ''}"
        self._draws = {world.hash: WorldDraw(recipe, world, purpose) for world in worlds}
        self._made: dict[str, int] = {}  # places of the scripts of tasks, by their templates' ids
        self._starts: dict[tuple[str, int], tuple[str, State]] = {}

    def of(self, template: Template) -> ScriptRows:
        """Those of a template."""
        query = template.sample["dialogue"]["query"]
        draw = self._draws[query["setting"]["hash"]]
        if query["setting"]["script"]:
            return ScriptRows(template, draw)
        if template.id not in self._made:
            self._made[template.id] = draw.add(self.derive(template).read(draw.machine))
        return ScriptRows(template, draw, self._made[template.id])

    def derive(self, template: Template) -> Derived:
        """The script that is made of a task's template. Raises Underivable."""
        setting = template.sample["dialogue"]["query"]["setting"]
        if setting["hash"] not in self._draws:
            raise Underivable(f"the world {setting['world']} is not there any more")
        dialogue = original_of(template).dialogue
        return derive(dialogue, self._draws[setting["hash"]].machine, template.id)

    def check(self, template: Template, made: Derived) -> None:
        """Raises Underivable for a script that has not `TRIED` rows in other states that the
        certain checks accept, or says the same in all of them."""
        draw = self._draws[template.sample["dialogue"]["query"]["setting"]["hash"]]
        place = draw.add(made.read(draw.machine))
        rows, fits, fell = ScriptRows(template, draw, place), 0, list[Finding]()
        told = {tuple(rows.said)}
        for number in range(STATES):
            row = draw.play(Chance(number, place, 0), *self._start(draw, number))
            if row is None or not rows.fits(row):
                continue
            found = rows.faults(row)
            fell += found[:1]
            if not found:
                fits += 1
                told.add(tuple(part for _, part in row.messages if isinstance(part, str)))
            if len(fell) == TRIED or (fits >= TRIED and len(told) > 1):
                break
        draw.scripts.pop()
        if len(fell) == TRIED:
            raise Underivable(f"its rows in other states fall: {fell[0].reason}, {fell[0].detail}")
        if fits < TRIED:
            raise Underivable(f"it fits {fits} of {STATES} other states")
        if len(told) == 1:
            raise Underivable("it says the same in every state")

    def _start(self, draw: WorldDraw, number: int) -> tuple[str, State]:
        """A state in which scripts are tried, kept for the next."""
        key = draw.hash, number
        if key not in self._starts:
            self._starts[key] = draw.start(number)
        return self._starts[key]

    def settle(self, wanted: Iterable[tuple[Template, int]]) -> dict[str, list[Chance]]:
        """For each template, by its id, the states in which it has rows: so many as are wanted, or
        as were found."""
        counts: dict[str, dict[int, int]] = defaultdict(dict)  # by world and script
        scripts: dict[str, dict[int, ScriptRows]] = defaultdict(dict)
        for template, count in wanted:
            rows = self.of(template)
            self._draws[rows.world].hold(rows.script, rows.said)
            counts[rows.world][rows.script] = count
            scripts[rows.world][rows.script] = rows
        found: dict[str, list[Chance]] = defaultdict(list)
        for world, own in scripts.items():
            for chance in self._draws[world].chances(counts[world], partial(_fits, own)):
                found[own[chance.script].id].append(chance)
        return found


def _fits(scripts: Mapping[int, ScriptRows], script: int, row: Play) -> bool:
    return scripts[script].fits(row)
