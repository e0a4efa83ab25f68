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
import json
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TypeAlias

from measure import show

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.run import run_recipe
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.store.version import open_version
from toolloom.pipeline.worlds.library import Worlds, shipped
from toolloom.schemas import Dialogue, parse_recipe

ROWS = 150  # of each world, in which faults are planted
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
UNITS = [("$", "€"), ("£", "€"), (" hour", " minute"), (" day", " week"), (" am", " pm")]
UNITS += [(" pm", " am"), (" minute", " hour"), (" week", " month"), ("km", "miles")]
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_NAME = re.compile(r"\b[A-Z][a-z]+(?: [A-Z][a-z]+)*\b")


@dataclass(frozen=True)
class Row:
    """An accepted dialogue, the others of its script, and those of its world's other scripts."""

    dialogue: Dialogue
    peers: Sequence[Dialogue]
    strangers: Sequence[Dialogue]


Fault: TypeAlias = Callable[[Row, random.Random], Dialogue | None]


def spoken(dialogue: Dialogue, role: str) -> list[int]:
    """The messages in which a side says something."""
    return [
        place
        for place, message in enumerate(dialogue.messages)
        if message.role == role and (message.content or "").strip()
    ]


def text_of(dialogue: Dialogue, place: int) -> str:
    return dialogue.messages[place].content or ""


def with_text(dialogue: Dialogue, place: int, text: str) -> Dialogue | None:
    """The dialogue with other words; none if they are the same. What the user says first is the
    query's text too."""
    if text == text_of(dialogue, place) or not text.strip():
        return None
    messages = list(dialogue.messages)
    messages[place] = messages[place].model_copy(update={"content": text})
    changes: dict[str, object] = {"messages": tuple(messages)}
    if place == 1:
        changes["query"] = dialogue.query.model_copy(update={"text": text})
    return dialogue.model_copy(update=changes)


def in_some(role: str, change: Callable[[str, random.Random], str | None]) -> Fault:
    """A fault in one message of a side: the first, in an order by chance, that can have it."""

    def plant(row: Row, rng: random.Random) -> Dialogue | None:
        places = spoken(row.dialogue, role)
        for place in rng.sample(places, len(places)):
            text = change(text_of(row.dialogue, place), rng)
            if text is not None and (made := with_text(row.dialogue, place, text)):
                return made
        return None

    return plant


def substituted(
    pattern: str, change: Callable[[re.Match[str]], str | None]
) -> Callable[[str, random.Random], str | None]:
    """Another text in the place of one match of a pattern."""

    def act(text: str, rng: random.Random) -> str | None:
        found = list(re.finditer(pattern, text))
        for match in rng.sample(found, len(found)):
            new = change(match)
            if new is not None:
                return text[: match.start()] + new + text[match.end() :]
        return None

    return act


def sentence_dropped(text: str, rng: random.Random) -> str | None:
    parts = _SENTENCE.split(text)
    if len(parts) < 2:
        return None
    parts.pop(rng.randrange(len(parts)))
    return " ".join(parts)


def more_or_less(match: re.Match[str]) -> str | None:
    """A number in figures or words, one more."""
    text = match.group()
    if text.lower() in NUMBERS:
        place = NUMBERS.index(text.lower())
        return NUMBERS[place + 1] if place + 1 < len(NUMBERS) else None
    return str(int(text) + 1)


def next_day(match: re.Match[str]) -> str | None:
    text = match.group()
    if text in WEEKDAYS:
        return WEEKDAYS[(WEEKDAYS.index(text) + 1) % 7]
    if text in ("today", "tomorrow", "yesterday"):
        return {"today": "tomorrow", "tomorrow": "today", "yesterday": "today"}[text]
    day = re.search(r"\d+", text)
    assert day
    number = int(day.group())
    return text.replace(day.group(), str(number + 1 if number < 28 else number - 1))


def other_unit(text: str, rng: random.Random) -> str | None:
    for old, new in rng.sample(UNITS, len(UNITS)):
        if old in text:
            return text.replace(old, new, 1)
    return None


def value_exchanged(role: str) -> Fault:
    """A run of words that another row of the script has otherwise."""

    def plant(row: Row, rng: random.Random) -> Dialogue | None:
        for peer in rng.sample(list(row.peers), len(row.peers)):
            mine, theirs = spoken(row.dialogue, role), spoken(peer, role)
            if len(mine) != len(theirs):
                continue
            pairs = list(zip(mine, theirs, strict=True))
            for place, other in rng.sample(pairs, len(pairs)):
                one, two = text_of(row.dialogue, place).split(" "), text_of(peer, other).split(" ")
                blocks = SequenceMatcher(None, one, two, autojunk=False)
                if blocks.ratio() < 0.7:  # another alternative
                    continue
                slots = [code for code in blocks.get_opcodes() if code[0] == "replace"]
                if slots:
                    _, a, b, c, d = rng.choice(slots)
                    return with_text(row.dialogue, place, " ".join([*one[:a], *two[c:d], *one[b:]]))
        return None

    return plant


def name_exchanged(row: Row, rng: random.Random) -> Dialogue | None:
    """A name that the state holds, another of the same column in its place."""
    setting = row.dialogue.query.setting
    assert setting
    columns: dict[tuple[str, str], list[str]] = defaultdict(list)
    for table, rows in setting.start["tables"].items():
        for record in rows.values():
            for field, value in record.items():
                if isinstance(value, str) and _NAME.fullmatch(value):
                    columns[table, field].append(value)

    def other(match: re.Match[str]) -> str | None:
        for names in columns.values():
            left = sorted({*names} - {match.group()})
            if match.group() in names and left:
                return rng.choice(left)
        return None

    return in_some("assistant", substituted(_NAME.pattern, other))(row, rng)


def turn_of(role: str, others: str) -> Fault:
    """A message of another row: of the same script at the same place, or of another one."""

    def plant(row: Row, rng: random.Random) -> Dialogue | None:
        place = rng.choice(spoken(row.dialogue, role))
        number = spoken(row.dialogue, role).index(place)
        sources: Sequence[Dialogue] = getattr(row, others)
        for other in rng.sample(list(sources), min(8, len(sources))):
            theirs = spoken(other, role)
            if others == "strangers":
                return with_text(row.dialogue, place, text_of(other, rng.choice(theirs)))
            if number < len(theirs) and (
                made := with_text(row.dialogue, place, text_of(other, theirs[number]))
            ):
                return made
        return None

    return plant


FIGURES = rf"(?<![\w.:,-])(?:\d+|{'|'.join(NUMBERS[1:10])})(?![\w:,-]|\.\d)"
DAYS = rf"\b(?:{'|'.join(WEEKDAYS)}|today|tomorrow|yesterday|(?:{MONTHS}) \d+|\d+ (?:{MONTHS}))\b"
KINDS: dict[str, Fault] = {
    "a reply's value, of another row": value_exchanged("assistant"),
    "a user's value, of another row": value_exchanged("user"),
    "a sentence of a reply dropped": in_some("assistant", sentence_dropped),
    "a reply's number, one more": in_some("assistant", substituted(FIGURES, more_or_less)),
    "a reply's day moved by one": in_some("assistant", substituted(DAYS, next_day)),
    "a reply's unit or currency": in_some("assistant", other_unit),
    "a reply's name exchanged": name_exchanged,
    "a reply of another row": turn_of("assistant", "peers"),
    "a reply of another script": turn_of("assistant", "strangers"),
    "a user's turn of another row": turn_of("user", "peers"),
    "a user's turn of another script": turn_of("user", "strangers"),
}


def accepted(world: str, per_script: int, seed: int) -> tuple[list[Dialogue], list[str]]:
    """The dialogues of a version that a run without a model makes, and why others were rejected:
    every word of a script is true, so that each of these is a false alarm."""
    fields = {"name": "words", "model": "none", "seed": seed}
    worlds = {"use": [world], "per_script": per_script}
    recipe = parse_recipe({**fields, "worlds": worlds}, "a recipe")
    with tempfile.TemporaryDirectory() as folder:
        made = run_recipe(recipe, Path(folder))
        assert made.published
        version = open_version(made.published.path)
        lines = (Path(made.summary.path) / "tested" / "rejected.jsonl").read_text().splitlines()
        alarms = [f"{row['id']}: {row['detail']}" for row in map(json.loads, lines)]
        rows = version.rows("samples")
        return [Dialogue.model_validate_json(row["dialogue"]) for row in rows], alarms


def script_of(dialogue: Dialogue) -> str:
    return dialogue.query.setting.script if dialogue.query.setting else ""


def rows_of(dialogues: Sequence[Dialogue], rng: random.Random, count: int) -> Iterator[Row]:
    for one in rng.sample(dialogues, min(count, len(dialogues))):
        same = [d for d in dialogues if script_of(d) == script_of(one) and d is not one]
        yield Row(one, same, [d for d in dialogues if script_of(d) != script_of(one)])


def main() -> None:
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("worlds", nargs="*", default=list(shipped()))
    asked.add_argument("--rows", type=int, default=ROWS)
    asked.add_argument("--per-script", type=int, default=2)
    asked.add_argument("--seed", type=int, default=0)
    given = asked.parse_args()
    planted, found, flagged = Counter[str](), Counter[str](), Counter[str]()
    by_reason: dict[str, Counter[str]] = defaultdict(Counter)
    total = Counter[str]()
    for name in given.worlds:
        machines = Worlds([name])
        dialogues, alarms = accepted(name, given.per_script, given.seed)
        total[name], flagged[name] = len(dialogues) + len(alarms), len(alarms)
        print(*alarms, sep="\n")
        for row in rows_of(dialogues, rng_for(given.seed, name), given.rows):
            setting = row.dialogue.query.setting
            assert setting
            machine = machines.machine(name, setting.hash)
            for kind, plant in KINDS.items():
                made = plant(row, rng_for(given.seed, row.dialogue.query.id, kind))
                if made is None:
                    continue
                planted[kind] += 1
                findings = inspect(made, world=machine)
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
        for kind in KINDS
    ]
    rows.append(
        {
            "kind": "nothing planted",
            "planted": total.total(),
            "found": flagged.total(),
            "share": f"{flagged.total() / max(1, total.total()):.0%}",
        }
    )
    columns = {"planted": "rows", "found": "found", "share": "share", "reasons": "reasons"}
    show("Faults planted in words", rows, {"kind": "fault", **columns})


if __name__ == "__main__":
    main()
