"""Tasks on their way to a capable model: a solved task as a dialogue whose words are missing.

Calls, results and goal are settled; of each turn it is told what is to be said in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from toolloom.pipeline.checks.world.interpreter import Json, Machine
from toolloom.pipeline.worlds.scripts import MadeCall, Play
from toolloom.pipeline.worlds.tasks import SaidValue, Task, TaskCall, TaskTurn

FORMS = {
    "ask": "wants",
    "choose": "chooses",
    "agree": "agrees",
    "decline": "would rather not",
    "answer": "answers what the assistant had to ask",
    "retry": "tries another way",
}


def play_of(task: Task, machine: Machine) -> Play:
    """A task as a row without words: what is to be said stands in `says`."""
    row = Play("", task.now, task.start, task.start)
    for number, turn in enumerate(task.turns):
        row.messages.append(("user", ""))
        row.says.append(_wanted(turn))
        for call in task.calls:
            if call.turn == number:
                row.end, _, _ = machine.apply(row.end, call.name, call.arguments, task.now)
                made = MadeCall(call.name, call.arguments, call.response, call.error)
                row.messages.append(("call", made))
        row.messages.append(("assistant", ""))
        facts = [f"{f.field} = {_text(f.value)}" for f in task.facts if f.turn == number]
        more = [f"must tell {', '.join(facts)}"] if facts else []
        last = number == len(task.turns) - 1
        following = "" if last else task.turns[number + 1].form
        if following in ("agree", "decline"):
            more.append("says what it will do and what comes of it, and asks for a yes")
        elif following in ("choose", "answer"):
            more.append("asks which one, or for what is missing")
        if last and task.avoided:
            more.append(f"does not call {task.avoided.name}: {task.avoided.why}")
        row.says.append("; ".join(more))
    row.choices = [()] * len(row.says)
    row.facts = [(fact.value, _text(fact.value)) for fact in task.facts if fact.field != "error"]
    return row


def _wanted(turn: TaskTurn) -> str:
    """What the user of a turn wants and says, in the world's own names."""
    parts = [FORMS.get(turn.form, turn.form), *turn.operations]
    said = "; ".join(_said(each) for each in turn.said)
    asks = f" asks about {', '.join(turn.asks)}" if turn.asks else ""
    return " ".join(parts) + asks + (f": {said}" if said else "")


def _said(said: SaidValue) -> str:
    name = ".".join(map(str, said.path))
    if said.label:
        return f"{name} is the one with " + ", ".join(f"{k} {_text(v)}" for k, v in said.label)
    return f"{name} = {_text(said.value)}"


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# --- reading ---------------------------------------------------------------------------------


def as_text(task: Task) -> str:
    """A task as a plain list: what each turn says, the calls with where their arguments come from,
    the goal."""
    lines = [f"[{task.now}] {task.world}, {task.scenario}, {len(task.calls)} calls"]
    for number, turn in enumerate(task.turns):
        said = "; ".join(_part(part) for part in turn.said)
        asks = f" asks {', '.join(turn.asks)}" if turn.asks else ""
        lines.append(f"User ({turn.form}) {' + '.join(turn.operations)}: {said}{asks}")
        for index, call in enumerate(task.calls):
            if call.turn == number:
                lines += _lines(index, call)
    if task.avoided:
        args = json.dumps(task.avoided.arguments, ensure_ascii=False)
        lines.append(f"  not {task.avoided.name}({args}): {task.avoided.why}")
    lines += [f"  = {' '.join(map(str, change))}" for change in task.changes]
    lines += [f"  tell {fact.field}: {fact.value}" for fact in task.facts]
    return "\n".join(lines)


def _part(part: SaidValue) -> str:
    path = ".".join(map(str, part.path))
    if part.label:
        return f"{path} = the one with " + ", ".join(f"{n} {v}" for n, v in part.label)
    return f"{path} = {part.value}"


def _lines(index: int, call: TaskCall) -> Iterator[str]:
    args = json.dumps(call.arguments, ensure_ascii=False)
    agreed = " (agreed)" if call.agreed else ""
    yield f"  {index + 1} → {call.name}({args}){agreed}"
    for source in call.sources:
        if source.form == "result" and source.call is not None:
            where = ".".join(map(str, source.where)) or "shown"
            yield f"      {'.'.join(map(str, source.path))} from {source.call + 1}: {where}"
    text = json.dumps(call.response, ensure_ascii=False)
    yield f"    ← {'error ' + call.error + ': ' if call.error else ''}{text}"
