"""Scripts: whole dialogues, written once, with the conditions under which every word stays true.

    - voice: terse
      find:
        - o: one(orders where customer_id = me and status = 'pending')
        - need: o.total < 60
      turns:
        - user: "Cancel my order from {o.placed|on}, please."
        - search: [cancel an order, see recent orders]
        - found: list_orders(status = 'pending')
        - assistant: "…"

A row draws a state that meets the conditions, runs the calls again and fills the slots from the
results: so results are true, and sums are right. A script that no state meets in `STATES` draws has
run dry. Where API Search is all that is given, `search` says what is searched for, in the words of
somebody who has seen the dialogue so far and no documentation: one set of keywords after the other,
until what is called before the next `search` is found. Where nothing is called, all are in vain.
(Template-based programmatic data, `tool-manipulation` section 3, with a state behind it.)
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Any, TypeAlias

from toolloom.pipeline.checks.schema import texts_in
from toolloom.pipeline.checks.world import grammar
from toolloom.pipeline.checks.world.grammar import Kind, Mistake, NameScope, Tree
from toolloom.pipeline.checks.world.interpreter import (
    CallRefused,
    Frame,
    Machine,
    State,
    as_term,
    nodes,
    plain,
)
from toolloom.pipeline.checks.world.outcome import Acted
from toolloom.pipeline.checks.world.reading import fitting
from toolloom.pipeline.checks.world.wording import Voice, Words, read_words
from toolloom.pipeline.environments import environment
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.states import draw_now, draw_state
from toolloom.schemas import FunctionCall, Message, Query, Scenario, Told

STATES = 800  # draws until a state meets a script's conditions
Place: TypeAlias = tuple[str | int, ...]
_CALL = re.compile(r"([a-z][a-z0-9_]*)\((.*)\)(?:\s+fails\s+([a-z_]+))?", re.DOTALL)


@dataclass(frozen=True)
class ScriptEntry:
    """One entry of a script: words, a call, a search, or a condition on what came before."""

    form: str  # user, assistant, call, search, need, let
    words: tuple[Words, ...] = ()  # alternatives in one voice
    keywords: tuple[str, ...] = ()  # of a search, in the order in which they are tried
    name: str = ""  # of the result
    operation: str = ""
    args: tuple[tuple[str, Any], ...] = ()  # trees, or lists of such pairs for lists of objects
    fails: str = ""
    tree: Tree | None = None
    unique: bool = False  # exactly one row may meet the search


@dataclass(frozen=True)
class WorldScript:
    name: str
    voice: str
    british: bool
    scenario: str  # where the writer says it
    written: str  # by which model, if not by a person
    opening: tuple[ScriptEntry, ...]  # what is looked for in a state
    turns: tuple[ScriptEntry, ...]

    @property
    def searches(self) -> bool:
        """Whether it can be played with API Search: it is searched before anything is said."""
        forms = (turn.form for turn in self.turns)
        return next((f for f in forms if f in ("assistant", "call", "search")), "") == "search"


@dataclass(frozen=True)
class MadeCall:
    name: str
    arguments: dict[str, Any]
    response: Any
    error: str | None
    follows: bool = False  # from what a call before it returned, with no words in between


@dataclass
class Play:
    """One row of a script: what was said, called and searched for, in a state and at a moment."""

    script: str
    now: str
    start: State
    end: State
    messages: list[tuple[str, str | MadeCall | tuple[str, ...]]] = field(default_factory=list)
    facts: list[Told] = field(default_factory=list)  # that the assistant tells

    def call(
        self, machine: Machine, name: str, arguments: dict[str, Any], follows: bool = False
    ) -> MadeCall:
        """Make a call in the state that those before it left."""
        self.end, response, error = machine.apply(self.end, name, arguments, self.now)
        made = MadeCall(name, arguments, response, error, follows)
        self.messages.append(("call", made))
        return made

    @property
    def calls(self) -> list[MadeCall]:
        return [part for _, part in self.messages if isinstance(part, MadeCall)]

    @property
    def words(self) -> list[str]:
        """What is said."""
        return [part for _, part in self.messages if isinstance(part, str)]


# --- reading ---------------------------------------------------------------------------------


def read_scripts(
    raw: Any, machine: Machine, fault: Callable[[Place, str], None]
) -> list[WorldScript]:
    """The scripts of a world; every mistake is told with its place."""
    scripts = []
    if not isinstance(raw, list):
        fault((), "A list of scripts (`- name: …`) is needed here.")
        return []
    for number, spec in enumerate(raw):
        if isinstance(spec, dict):
            scripts.append(_ScriptReader(machine, fault).script(spec, number))
        else:
            fault((number,), "A script is a mapping with `turns`.")
    return scripts


def script_name(spec: Mapping[str, Any], number: int) -> str:
    """The name of a script, as it is written, of this number among those of its world."""
    return str(spec.get("name", number + 1))


class _ScriptReader:
    def __init__(self, machine: Machine, fault: Callable[[Place, str], None]) -> None:
        self.machine = machine
        self.fault = fault
        world = machine.world
        known = machine.entities.items()
        entities = {n: {e.key: {"type": "ref", "entity": n}, **e.fields} for n, e in known}
        names = {"me": grammar.row_of(world["actor"])} if world["actor"] else {}
        self.scope = NameScope(entities, {name: e.key for name, e in known}, names=names)

    def script(self, spec: dict[str, Any], number: int) -> WorldScript:
        place: Place = (number,)
        known = {"name", "written", "voice", "dialect", "scenario", "find", "turns"}
        for key in spec.keys() - known:
            self.fault((*place, key), "is unknown in a script.")
        opening = self.entries(spec.get("find"), (*place, "find"), finding=True)
        turns = self.entries(spec.get("turns"), (*place, "turns"), finding=False)
        if not turns:
            self.fault(place, "A script needs `turns`.")
        scenario = spec.get("scenario", "")
        if scenario and scenario not in set(Scenario):
            hints = grammar.near(str(scenario), [each.value for each in Scenario])
            self.fault((*place, "scenario"), f"is not a scenario{hints}.")
        return WorldScript(
            name=script_name(spec, number),
            voice=str(spec.get("voice", "")),
            british=spec.get("dialect") == "uk",
            scenario=str(scenario),
            written=str(spec.get("written", "")),
            opening=tuple(opening),
            turns=tuple(turns),
        )

    def entries(self, raw: Any, place: Place, finding: bool) -> list[ScriptEntry]:
        turns: list[ScriptEntry] = []
        for number, entry in enumerate(raw if isinstance(raw, list) else []):
            where = (*place, number)
            if not isinstance(entry, dict) or len(entry) != 1:
                self.fault(where, "One `name: …` is needed here.")
                continue
            ((name, value),) = entry.items()
            try:
                turns.append(self.entry(str(name), value, finding))
            except Mistake as mistake:
                self.fault((*where, name), str(mistake))
                self.scope = self.scope.bound(str(name), grammar.ANY)
        return turns

    def entry(self, name: str, value: Any, finding: bool) -> ScriptEntry:
        if name == "need":
            return ScriptEntry("need", tree=grammar.clause(str(value), self.scope))
        texts = value if isinstance(value, list) else [value]
        if name == "search":
            if not texts or not all(isinstance(each, str) and each.strip() for each in texts):
                raise Mistake("Keywords are needed, or a list of them that are tried in turn.")
            return ScriptEntry(name, keywords=tuple(each.strip() for each in texts))
        if name in ("user", "assistant"):
            return ScriptEntry(name, words=tuple(read_words(str(t), self.scope) for t in texts))
        text = str(value).strip()
        match = None if finding else _CALL.fullmatch(text)
        if match and match[1] in self.machine.operations:
            return self.call(name, match[1], match[2], match[3] or "")
        unique = re.fullmatch(r"one\((.*)\)", text, re.DOTALL)
        tree, kind = grammar.term(unique[1] if unique else text, self.scope)
        if finding and kind["type"] == "list":
            kind = kind["of"]
            self.scope = self.scope.bound(name, kind)
            return ScriptEntry("pick", name=name, tree=tree, unique=bool(unique))
        self.scope = self.scope.bound(name, kind)
        return ScriptEntry("let", name=name, tree=tree)

    def call(self, name: str, operation: str, inner: str, fails: str) -> ScriptEntry:
        args = tuple(self.arguments(inner, self.machine.operations[operation].args, operation))
        known = self.machine.world["operations"][operation]
        if fails and fails not in known["errors"] and not fails.startswith("unknown_"):
            hints = grammar.near(fails, known["errors"])
            raise Mistake(f"{operation} has no error `{fails}`{hints}.")
        kind: Kind = grammar.TEXT if fails else known["shape"]
        self.scope = self.scope.bound(name, kind)
        return ScriptEntry("call", name=name, operation=operation, args=args, fails=fails)

    def arguments(self, text: str, takes: dict[str, Kind], where: str) -> Iterator[tuple[str, Any]]:
        for part in _parts(text):
            name, equals, value = part.partition("=")
            name = name.strip()
            if not equals or name not in takes:
                raise Mistake(f"{where} has no argument `{name}`{grammar.near(name, takes)}.")
            yield name, self.argument(value.strip(), takes[name])

    def argument(self, text: str, kind: Kind) -> Any:
        if kind["type"] == "list" and text.startswith("[("):
            fields = kind["of"].get("fields", {})
            items = _parts(text[1:-1])
            return [list(self.arguments(item.strip()[1:-1], fields, "an item")) for item in items]
        if kind["type"] == "list" and text.startswith("["):
            return [[("", self.argument(item.strip(), kind["of"]))] for item in _parts(text[1:-1])]
        return fitting(text, self.scope, kind)


def _parts(text: str) -> list[str]:
    """What commas part, outside of brackets and quotations."""
    parts, depth, start, quoted = [], 0, 0, False
    for at, char in enumerate(text):
        if char == "'" and text[at - 1 : at] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += (char in "([") - (char in ")]")
            if char == "," and not depth:
                parts.append(text[start:at])
                start = at + 1
    parts.append(text[start:])
    return [part for part in parts if part.strip()]


# --- playing ---------------------------------------------------------------------------------


def proofs(
    scripts: Sequence[WorldScript], machine: Machine, seed: int, count: int
) -> list[list[Play]]:
    """So many rows of each script, in the first states that meet its conditions; fewer where no
    more of `STATES` do. A state is drawn once for all scripts."""
    rows: list[list[Play]] = [[] for _ in scripts]
    for number in range(STATES):
        lacking = [place for place, found in enumerate(rows) if len(found) < count]
        if not lacking:
            break
        rng = rng_for(seed, "proof", number)
        now = draw_now(rng)
        state = draw_state(machine, rng, now)
        for place in lacking:
            script = scripts[place]
            row = play_in(script, machine, state, now, rng_for(seed, script.name, number))
            rows[place] += [row] if row else []
    return rows


def play_in(
    script: WorldScript, machine: Machine, state: State, now: str, rng: random.Random
) -> Play | None:
    """A row of a script in one state; None if the state does not meet its conditions, or a term of
    it looks at too many rows there."""
    with suppress(CallRefused):
        frame = machine.frame(state, {}, now)
        row = Play(script.name, now, state, state)
        voice = Voice(now, machine.world["currency"], script.british)
        fresh: set[str] = set()  # names that come of results since the last words
        for turn in (*script.opening, *script.turns):
            if turn.form == "search":
                row.messages.append(("search", turn.keywords))
                continue
            if turn.form in ("user", "assistant"):
                fresh = set()
                filled = (words.fill(frame, voice) for words in turn.words)
                texts = [text for text in filled if text is not None]
                if len(texts) < len(turn.words):
                    return None
                row.messages.append((turn.form, rng.choice(texts)))
                if turn.form == "assistant":
                    first, *others = (words.told(frame, voice) for words in turn.words)
                    told = [fact for fact in first if all(fact in other for other in others)]
                    row.facts += [Told(value=value, said=said) for value, said in told]
                continue
            trees = [turn.tree, [value for _, value in turn.args]]
            follows = any(node[0] == "var" and node[1] in fresh for node in nodes(trees))
            if turn.form == "call" or follows:
                fresh |= {turn.name, turn.form}  # after a condition on a result all follows
            if turn.form == "call":
                after = _called(turn, machine, frame, row, follows or "need" in fresh)
                if after is None:
                    return None
                frame = after
            elif not _bound(turn, frame, rng):
                return None
        return row
    return None


def _bound(turn: ScriptEntry, frame: Frame, rng: random.Random) -> bool:
    """Whether a condition holds, or a search found what it looked for."""
    value = as_term(turn.tree or [])(frame)
    if turn.form == "need":
        return bool(value)
    if turn.form == "pick":
        rows = value or []
        if not rows or (turn.unique and len(rows) > 1):
            return False
        value = rng.choice(rows)
    frame.vars[turn.name] = value
    return value is not None


def _called(
    turn: ScriptEntry, machine: Machine, frame: Frame, row: Play, follows: bool
) -> Frame | None:
    """The names after a call, with the rows they stand for as they are now."""
    made = row.call(machine, turn.operation, plain(_given(turn.args, frame)), follows)
    if (made.error or "") != turn.fails:
        return None
    fresh = machine.frame(row.end, {}, row.now)
    fresh.vars.update({**frame.vars, **({"me": fresh.me} if fresh.me else {})})
    fresh.vars[turn.name] = made.response
    return fresh


def _given(args: tuple[tuple[str, Any], ...], frame: Frame) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, value in args:
        if value and isinstance(value[0], list) and value[0] and isinstance(value[0][0], tuple):
            items = [_given(tuple(item), frame) for item in value]
            given[name] = [item.get("", item) for item in items]
        else:
            given[name] = as_term(value)(frame)
    return {name: value for name, value in given.items() if value is not None}


def acts(row: Play) -> list[Acted]:
    """The calls of a row, each with whether the user agreed to it after being told."""
    calls, spoken = [], ""
    for form, part in row.messages:
        if isinstance(part, MadeCall):
            calls.append(Acted(part.name, part.arguments, spoken.endswith("assistant user")))
        elif isinstance(part, str):
            spoken = f"{spoken} {form}"
    return calls


def as_text(row: Play) -> str:
    """A row as a person reads it: moment, speakers, searches (?), calls (→) and results (←)."""
    lines = [f"[{row.now}]"]
    for form, part in row.messages:
        if isinstance(part, MadeCall):
            given = ", ".join(f"{name}={value!r}" for name, value in part.arguments.items())
            result = f"error {part.error}: {part.response}" if part.error else repr(part.response)
            lines += [f"  → {part.name}({given})", f"  ← {result}"]
        elif isinstance(part, str):
            lines.append(f"{form.capitalize()}: {part}".rstrip(": "))
        else:
            lines.append(f"  ? {' / '.join(part)}")
    return "\n".join(lines)


# --- how a row is played ----------------------------------------------------------------------


def moves(row: Play, machine: Machine, query: Query) -> Iterator[environment.Move]:
    """What is said, called and, in an ability that searches, searched for."""
    searches, name = query.ability.searches, machine.world["name"]
    own = (api for api in query.pool if api.source.reference == name)
    functions = {api.source.operation: api.function for api in own}
    batches = _batches(row, machine, searches)
    wanted = [{functions[c.name] for _, c in b if isinstance(c, MadeCall)} for b in batches]
    keywords, begins = (), False

    def ahead(place: int, *stops: str) -> set[str]:
        """What is called after a place, up to the next of these."""
        later = takewhile(lambda n: batches[n][0][0] not in stops, range(place + 1, len(batches)))
        return set[str]().union(*(wanted[n] for n in later))

    for place, parts in enumerate(batches):
        role, first = parts[0]
        if role == "search":
            keywords, begins = first, True
            continue
        if searches and role != "user":  # for what is called now, or may be offered by a reply
            needed = wanted[place] or ahead(place, "assistant", "search")
            if begins:
                needed = needed or ahead(place, "search")
            if needed or begins:
                # What a rule or the user forbids is found at once, as far as anybody knows.
                there = query.scenario in (Scenario.REFUSAL, Scenario.CONFIRMATION)
                times = 1 if there else environment.IN_VAIN
                yield environment.Searching(keywords, frozenset(needed), times)
            begins = False
        if isinstance(first, str):
            yield Message(role="user" if role == "user" else "assistant", content=first)
        else:
            calls = [FunctionCall(name=functions[c.name], arguments=c.arguments) for _, c in parts]
            yield tuple(calls)


def _batches(row: Play, machine: Machine, searches: bool = False) -> list[list[tuple[str, Any]]]:
    """The parts of a row one by one, but calls that go side by side together."""
    batches: list[list[tuple[str, Any]]] = [[]]
    for number, (role, part) in enumerate(row.messages):
        if role == "search" and not searches:
            continue
        calls = [call for _, call in batches[-1] if isinstance(call, MadeCall)]
        later = [call for _, call in row.messages[number:] if isinstance(call, MadeCall)]
        if calls and isinstance(part, MadeCall) and _independent(part, calls, later, machine):
            batches[-1].append((role, part))
        else:
            batches.append([(role, part)])
    return batches[1:]


def _independent(
    call: MadeCall, batch: Sequence[MadeCall], later: Sequence[MadeCall], machine: Machine
) -> bool:
    """Whether a call may go side by side with those before it: it reads, as they do, or does the
    same to another thing; nothing of theirs is in it; and none of theirs could have made it
    needless. A search after a search may be made because of what the first one found, and another
    look-up for what the first one did not show: of two lockers, the one that no parcel is in."""
    in_vain = any(other.error or other.response in (None, []) for other in batch)
    if call.follows or call.error or in_vain:
        return False
    same = all(other.name == call.name for other in batch)
    keyed = any(kind["type"] == "ref" for kind in machine.operations[call.name].args.values())
    changes = any(machine.operations[other.name].changes for other in (call, *batch))
    if not keyed if same else changes:
        return False
    if any(
        other.name != call.name and _serves(other, later) & _serves(call, later) for other in batch
    ):
        return False
    given = set(texts_in(call.arguments))
    return not given & {text for other in batch for text in texts_in(other.response)}


def _serves(call: MadeCall, later: Sequence[MadeCall]) -> set[tuple[str, str]]:
    """Operations and arguments that later calls give a text of a call's result."""
    shown = {*texts_in(call.response)}
    given = ((each.name, item) for each in later for item in each.arguments.items())
    return {(name, argument) for name, (argument, value) in given if {*texts_in(value)} & shown}


def scenario_of(script: WorldScript, row: Play, machine: Machine) -> Scenario:
    """What a row exercises: as its writer says, else as its calls tell."""
    if script.scenario:
        return Scenario(script.scenario)
    calls = row.calls
    if not calls:
        return Scenario.IRRELEVANCE
    roles = [role for role, _ in row.messages if role != "search"]
    if any(a.error and not b.error for a, b in pairwise(calls)):
        return Scenario.ERROR_RECOVERY
    if "assistant" in roles[: roles.index("call")]:
        return Scenario.CLARIFICATION
    consent = {n for p in machine.world["policies"] if p.get("consent") for n in p["calls"]}
    if any(act.agreed and act.name in consent for act in acts(row)) and roles.count("user") == 2:
        return Scenario.CONFIRMATION
    if roles.count("user") > 1:
        return Scenario.MULTI_TURN
    if any(len(batch) > 1 for batch in _batches(row, machine)):
        return Scenario.PARALLEL
    return Scenario.SEQUENTIAL if len(calls) > 1 else Scenario.SINGLE
