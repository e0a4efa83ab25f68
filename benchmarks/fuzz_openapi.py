"""Broken OpenAPI descriptions: each must end in legal APIs or in ImportFailed, and soon.

    python benchmarks/fuzz_openapi.py specs/*.json --inputs 1000 --seed 1

Descriptions are changed at random places by a seeded generator: cut short, parts deleted or
replaced by odd values, moved into each other, nested, and referred to from everywhere. What
fails is printed with its number, so that it can be made again.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from toolloom.pipeline.formats.files import load
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.openapi import read
from toolloom.schemas import ImportFailed

SLOW = 10.0  # seconds for one input, checks included
LARGEST = 400_000  # bytes of a file that is used
ODD: list[Any] = [
    *(None, True, False, 0, -1, 10**30, 1e308, "", "x", "\x00", "\ud800", "é" * 300),
    *(
        [],
        {},
        [[]],
        [None],
        {"": None},
        {"$ref": 5},
        {"$ref": "#"},
        {"$ref": "#/"},
        [{"$ref": "#"}],
    ),
    *("string", "object", "array", "null", "any", "#/paths", ["string", 5], {"type": "object"}),
    *({"type": ["array", "object"]}, {"allOf": [{"$ref": "#"}]}, {"required": True}, "a" * 200_000),
    *(
        {"properties": {"$ref": {"$ref": "#"}}},
        {"enum": list(range(5_000))},
        {"pattern": "(((a+)+)+"},
    ),
]
REFERENCES = [
    *("#", "#/", "#/paths", "#/components/schemas", "#/paths/~1", "../secret.json", "/etc/passwd"),
    *(
        "http://zoo.example/a.json",
        "//zoo.example",
        "file:///etc/passwd",
        "",
        "#x",
        "%00",
        "~",
        ".",
    ),
    *(
        "root.json",
        "root.json#/paths",
        "%2e%2e/%2e%2e/etc/passwd",
        "#" + "/a" * 5_000,
        "#/info/title",
    ),
]
Parts = list[tuple[Any, Any]]  # (object or list, key or position)


def parts(document: Any, most: int = 60_000) -> Parts:
    """Every place of a document, by what holds it."""
    found: Parts = []
    stack, seen = [document], set()
    while stack and len(found) < most:
        part = stack.pop()
        if not isinstance(part, dict | list) or id(part) in seen:
            continue
        seen.add(id(part))
        pairs = part.items() if isinstance(part, dict) else enumerate(part)
        for key, value in list(pairs):
            found.append((part, key))
            stack.append(value)
    return found


def delete(chance: random.Random, places: Parts) -> None:
    holder, key = chance.choice(places)
    if isinstance(holder, dict):
        holder.pop(key, None)
    elif holder:
        holder.pop()


def odd(chance: random.Random, places: Parts) -> None:
    put(chance.choice(places), copy.deepcopy(chance.choice(ODD)))


def refer(chance: random.Random, places: Parts) -> None:
    put(chance.choice(places), {"$ref": chance.choice(REFERENCES)})


def move(chance: random.Random, places: Parts) -> None:
    """One part becomes another's: often a cycle, which only YAML can write down."""
    holder, key = chance.choice(places)
    target = chance.choice(places)
    put(target, held(holder, key))


def swap(chance: random.Random, places: Parts) -> None:
    """A value of the other kind: a list of the object's values, an object of the list's."""
    place = chance.choice(places)
    value = held(*place)
    if isinstance(value, dict):
        put(place, list(value.values()))
    elif isinstance(value, list):
        put(place, {str(number): each for number, each in enumerate(value)})
    else:
        put(place, [value] if chance.random() < 0.5 else {"type": value})


def nest(chance: random.Random, places: Parts) -> None:
    place = chance.choice(places)
    value = held(*place)
    around: list[Callable[[Any], Any]] = [
        lambda v: {"allOf": [v, v]},
        lambda v: {"anyOf": [v, {"type": "string"}, v]},
        lambda v: {"type": "object", "properties": {"a": v, "b": v}},
        lambda v: {"type": "array", "items": v},
        lambda v: [v],
    ]
    wrap = chance.choice(around)
    for _ in range(chance.choice([1, 3, 12, 90])):
        value = wrap(value)
    put(place, value)


def rename(chance: random.Random, places: Parts) -> None:
    holder, key = chance.choice(places)
    if isinstance(holder, dict) and key in holder:
        names = ["$ref", "type", "allOf", "properties", "", "a/b~c", "x" * 300, "\ud800", "get"]
        holder[chance.choice(names)] = holder.pop(key)


def held(holder: Any, key: Any) -> Any:
    if isinstance(holder, dict):
        return holder.get(key)
    return holder[key] if key < len(holder) else None


def put(place: tuple[Any, Any], value: Any) -> None:
    holder, key = place
    if isinstance(holder, dict) or key < len(holder):
        holder[key] = value


CHANGES = (delete, odd, odd, refer, refer, move, swap, nest, rename)


def written(document: Any, chance: random.Random) -> bytes:
    """As JSON, or as YAML where it holds itself; one in eight is damaged as text."""
    try:
        if count(document) > 200_000:
            raise ValueError("shared parts that would multiply")
        text = json.dumps(document)
    except (ValueError, RecursionError):
        text = as_yaml(document)
    raw = text.encode("utf-8", "replace")
    if chance.random() < 0.125:
        at = chance.randrange(1, len(raw))
        junk = chance.choice([b"", b"", b"\xff", b"\x00", b"\t", b'"', b"{", b"*a", b"<<: [1]\n"])
        raw = raw[:at] + junk + (raw[at + 1 :] if junk else b"")
    return raw


def count(document: Any, most: int = 200_001) -> int:
    """Values that would be written, shared ones each time, up to `most`."""
    stack, number = [document], 0
    while stack and number < most:
        part = stack.pop()
        number += 1
        if isinstance(part, dict):
            stack.extend(islice(part.values(), most))
        elif isinstance(part, list):
            stack.extend(part[:most])
    return number


def as_yaml(document: Any) -> str:
    try:
        return yaml.dump(document, Dumper=yaml.CSafeDumper, allow_unicode=False)
    except (RecursionError, UnicodeEncodeError, yaml.YAMLError):
        return "openapi: 3.0.0\npaths: &p {/a: *p}\n"


def attempt(file: Path) -> str:
    """What came of one input. Anything but legal APIs or ImportFailed is an exception."""
    ledger = ImportLog("root")
    start, number, functions = time.perf_counter(), 0, set()
    try:
        for api in read(file, ledger):
            number += 1
            functions.add(api.function)
            Draft202012Validator.check_schema(api.parameters)
            Draft202012Validator.check_schema(api.returns or {})
            assert set(api.required) <= set(api.properties), "required names that do not exist"
            assert len(api.model_dump_json()) < 40_000, "a large API"
            assert "root:x:0" not in api.model_dump_json(), "a file from outside"
    except ImportFailed as error:
        assert str(error), "an error without a word"
        return "refused"
    report = ledger.report(imported=number)
    report.model_dump_json()
    assert report.read == number + len(report.skipped), "operations that are not accounted for"
    assert len(functions) == number, "function names that repeat"
    assert time.perf_counter() - start < SLOW, f"{time.perf_counter() - start:.1f} s"
    return "imported" if number else "no operations"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+", type=Path)
    parser.add_argument("--inputs", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="make this one again")
    chosen = parser.parse_args()
    files = [s for s in chosen.sources if s.is_file() and s.stat().st_size < LARGEST]
    originals = [load(file) for file in files]
    done: Counter[str] = Counter()
    slowest, end = 0.0, time.monotonic() + chosen.seconds
    numbers = range(chosen.inputs) if chosen.only is None else [chosen.only]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "inner" / "root.json"
        file.parent.mkdir()
        for number in numbers:
            if time.monotonic() > end:
                break
            chance = random.Random(f"{chosen.seed} {number}")
            document = copy.deepcopy(chance.choice(originals))
            for _ in range(chance.choice([1, 2, 5, 20])):
                chance.choice(CHANGES)(chance, parts(document) or [({}, "a")])
            file.write_bytes(written(document, chance))
            start = time.perf_counter()
            try:
                done[attempt(file)] += 1
            except Exception:  # noqa: BLE001  # whatever fails is what is looked for
                done["failed"] += 1
                print(f"input {number} of seed {chosen.seed}:\n{traceback.format_exc()[-1500:]}")
            slowest = max(slowest, time.perf_counter() - start)
    told = ", ".join(f"{number} {what}" for what, number in sorted(done.items()))
    print(f"{done.total()} inputs from {len(files)} files: {told}; slowest {slowest:.2f} s")
    return 1 if done["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
