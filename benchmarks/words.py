"""Which faults in the words of a dialogue in a world the certain checks find.

    python benchmarks/words.py                    # all worlds that ship
    python benchmarks/words.py shop --rows 400

A run without a model makes rows; in each a fault is planted, of each kind in turn, and the row is
judged as the tester does. A planted fault may be none: another row's value may be true here too,
and a sentence that is dropped may have told nothing. So no kind can be found whole. A row on which
nothing was planted must not be flagged, as every word of a script is true: what the run's own
tester rejects is counted as such.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from measure import show
from support.mutations import with_message, with_request

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.run import run_recipe
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.store.run_folder import RunFolder
from toolloom.pipeline.worlds.library import Worlds, shipped
from toolloom.schemas import Dialogue, parse_recipe

ROWS = 150  # of each world, in which faults are planted
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
OTHER = {**dict(pairwise(NUMBERS[1:])), "today": "tomorrow"}
OTHER |= {**dict(zip(WEEKDAYS, WEEKDAYS[1:] + WEEKDAYS[:1], strict=True)), "tomorrow": "today"}
OTHER |= {"$": "€", "£": "€", "hour": "minute", "minute": "hour", "day": "week", "week": "month"}
OTHER |= {"pm": "am", "am": "pm", "km": "miles", "yesterday": "today"}
FIGURES = rf"(?<![\w.:,-])(?:\d+|{'|'.join(NUMBERS[1:10])})(?![\w:,-]|\.\d)"
DAYS = rf"\b(?:{'|'.join(WEEKDAYS)}|today|tomorrow|yesterday|(?:{MONTHS}) \d+|\d+ (?:{MONTHS}))\b"
UNITS = r"[$£]|(?<= )(?:hour|minute|day|week)|(?<=[\d ])(?:am|pm|km)\b"
NAMES = r"\b[A-Z][a-z]+(?: [A-Z][a-z]+)*\b"


class Row(NamedTuple):
    """An accepted dialogue, and the others of its script."""

    dialogue: Dialogue
    peers: Sequence[Dialogue]


def spoken(dialogue: Dialogue, role: str) -> list[tuple[int, str]]:
    """What a side says, and where."""
    texts = ((m.role, at, m.content or "") for at, m in enumerate(dialogue.messages))
    return [(at, text) for who, at, text in texts if who == role and text.strip()]


def with_text(dialogue: Dialogue, place: int, text: str) -> Dialogue | None:
    """The dialogue with other words; none if they are the same. What the user says first is the
    query's text too."""
    if text == dialogue.messages[place].content or not text.strip():
        return None
    if place == 1:
        return with_request(dialogue, text)
    return with_message(dialogue, place, content=text)


def shuffled(items: Sequence[Any], rng: random.Random) -> list[Any]:
    return rng.sample(items, len(items))


def replaced(pattern: str, row: Row, rng: random.Random) -> Iterator[Dialogue | None]:
    """Something else in the place of a number, a day, a unit or a name in a reply."""
    setting = row.dialogue.query.setting
    columns: dict[tuple[str, str], set[str]] = defaultdict(set)
    for table, rows in setting.start["tables"].items() if setting else ():
        for field, value in ((f, v) for record in rows.values() for f, v in record.items()):
            columns[table, field] |= {str(value)}

    def other(text: str) -> str | None:
        if pattern == NAMES:  # that the state holds: another one of the same column
            columns_of = (sorted(names - {text}) for names in columns.values() if text in names)
            return next((rng.choice(left) for left in columns_of if left), None)
        day = re.sub(r"\d+", lambda number: str(int(number[0]) % 28 + 1), text)
        return OTHER.get(text) or (str(int(text) + 1) if text.isdigit() else day)

    for place, text in shuffled(spoken(row.dialogue, "assistant"), rng):
        for match in shuffled([*re.finditer(pattern, text)], rng):
            if new := other(match[0]):
                changed = text[: match.start()] + new + text[match.end() :]
                yield with_text(row.dialogue, place, changed)


def dropped(row: Row, rng: random.Random) -> Iterator[Dialogue | None]:
    """A reply without one of its sentences."""
    for place, text in shuffled(spoken(row.dialogue, "assistant"), rng):
        parts = re.split(r"(?<=[.!?])\s+", text)
        del parts[rng.randrange(len(parts))]
        yield with_text(row.dialogue, place, " ".join(parts))


def value_of_peer(role: str, row: Row, rng: random.Random) -> Iterator[Dialogue | None]:
    """A run of words that another row of the script has otherwise."""
    mine = spoken(row.dialogue, role)
    for peer in shuffled(row.peers, rng):
        theirs = spoken(peer, role)
        pairs = zip(mine, theirs, strict=True) if len(mine) == len(theirs) else ()
        for (place, text), (_, other) in shuffled([*pairs], rng):
            one, two = text.split(" "), other.split(" ")
            blocks = SequenceMatcher(None, one, two, autojunk=False)
            slots = [code for code in blocks.get_opcodes() if code[0] == "replace"]
            if slots and blocks.ratio() >= 0.7:  # else it is another alternative
                _, a, b, c, d = rng.choice(slots)
                yield with_text(row.dialogue, place, " ".join([*one[:a], *two[c:d], *one[b:]]))


def turn_of(role: str, row: Row, rng: random.Random) -> Iterator[Dialogue | None]:
    """A message of another row, at the same place."""
    number, (place, _) = rng.choice([*enumerate(spoken(row.dialogue, role))])
    for other in shuffled(row.peers, rng)[:8]:
        theirs = [text for _, text in spoken(other, role)]
        if number < len(theirs):
            yield with_text(row.dialogue, place, theirs[number])


KINDS: dict[str, Callable[[Row, random.Random], Iterator[Dialogue | None]]] = {
    "a reply's value, of another row": partial(value_of_peer, "assistant"),
    "a user's value, of another row": partial(value_of_peer, "user"),
    "a sentence of a reply dropped": dropped,
    "a reply's number, one more": partial(replaced, FIGURES),
    "a reply's day moved by one": partial(replaced, DAYS),
    "a reply's unit or currency": partial(replaced, UNITS),
    "a reply's name exchanged": partial(replaced, NAMES),
    "a reply of another row": partial(turn_of, "assistant"),
    "a user's turn of another row": partial(turn_of, "user"),
}


def accepted(world: str, seed: int) -> tuple[list[Dialogue], list[str]]:
    """The dialogues of a version that a run without a model makes, and why others were rejected:
    every word of a script is true, so that each of these is a false alarm."""
    worlds = {"use": [world], "per_script": 2}
    fields = {"name": "words", "model": "none", "seed": seed, "worlds": worlds}
    with tempfile.TemporaryDirectory() as folder:
        made = run_recipe(parse_recipe(fields, "a recipe"), Path(folder))
        assert made.published
        rejected = RunFolder(Path(made.summary.path)).stage("tested").objects("rejected")
        alarms = [f"{row['id']}: {row['detail']}" for row in rejected]
        return [sample.dialogue for sample in made.published.samples()], alarms


def main() -> None:
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("worlds", nargs="*", default=list(shipped()))
    asked.add_argument("--rows", type=int, default=ROWS)
    asked.add_argument("--seed", type=int, default=0)
    given = asked.parse_args()
    planted, found = Counter[str](), Counter[str]()
    by_reason: dict[str, Counter[str]] = defaultdict(Counter)
    for name in given.worlds:
        machines = Worlds([name])
        dialogues, alarms = accepted(name, given.seed)
        planted["nothing planted"] += len(dialogues) + len(alarms)
        found["nothing planted"] += len(alarms)
        print(*alarms, sep="\n")
        by_script: dict[str, list[Dialogue]] = defaultdict(list)
        for one in dialogues:
            assert one.query.setting
            by_script[one.query.setting.script].append(one)
        for one in shuffled(dialogues, rng_for(given.seed, name))[: given.rows]:
            same = by_script[one.query.setting.script]
            row = Row(one, [d for d in same if d is not one])
            machine = machines.machine(one.query.setting)
            for kind, plant in KINDS.items():
                made = next(filter(None, plant(row, rng_for(given.seed, one.query.id, kind))), None)
                if made:
                    findings = inspect(made, world=machine)
                    planted[kind] += 1
                    found[kind] += bool(findings)
                    by_reason[kind].update({f.reason.value for f in findings})
    rows = [
        {
            "kind": kind,
            "planted": planted[kind],
            "found": found[kind],
            "share": f"{found[kind] / max(1, planted[kind]):.0%}",
            "reasons": ", ".join(f"{name} {n}" for name, n in by_reason[kind].most_common(3)),
        }
        for kind in (*KINDS, "nothing planted")
    ]
    columns = {"planted": "rows", "found": "found", "share": "share", "reasons": "reasons"}
    show("Faults planted in words", rows, {"kind": "fault", **columns})


if __name__ == "__main__":
    main()
