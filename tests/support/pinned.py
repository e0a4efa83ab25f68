"""All that the golden test compares: what commands write and say, made in an empty folder.

It asks the command line, the scripted endpoint and toolloom's public names; nothing else of the
package but the checks of a dialogue and the keys of requests, which no command shows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from support.mutations import PLANTED
from toolloom import load_recipe
from toolloom.cli import app
from toolloom.llm.messages import Mode, Request, fingerprint
from toolloom.llm.scripted import FakeServer, improvise
from toolloom.pipeline.checks import inspect
from toolloom.schemas import Dialogue

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parents[1] / "golden"
SCREEN = {"COLUMNS": "100", "LINES": "40", "TERM": "dumb", "NO_COLOR": "1"}
"""Help is laid out to the terminal's width; other output to no terminal is not."""

Pins = dict[str, bytes]
"""Contents by name; what stands before the last / of a name is its subject."""

PLAYED = """\
name: played
seed: 7
model: {base_url: "%s", model: fake, concurrency: 16}
apis: {categories: [Finance, Health, Weather], domains: 7, per_domain: 3, worlds: false}
queries: {count: 36, distractors: 2}
splits: {train: 4, validation: 2, test_instruction: 2, test_tool: 2, test_category: 1, unseen: [Weather]}
tester: {votes: 1}
shard_size: 16
"""
EXECUTED = """\
name: executed
description: Functions that are executed, operations that are not, and all that a recipe can ask.
seed: 3
model: {base_url: "%s", model: fake, concurrency: 16, temperature: 0.2}
agents:
  tester: {temperature: 0}
apis:
  sources:
    - path: recipes/examples/household.py
      execute: [convert_weight, convert_volume, split_bill, add_days]
      time_limit: 20
    - path: recipes/examples/bookshop.yaml
search: {found: 3, embeddings: {base_url: "%s", model: embed}}
queries: {count: 14, distractors: 3}
splits: {train: 3, validation: 1, test_instruction: 1, test_tool: 0, test_category: 0, seen: [household]}
tester: {votes: 3}
curation: {near: 0.5, same_calls: 1, against: [benchmark.jsonl], contaminated: drop, balance: {scenario: 2}}
expand: {rows: 12}
rewrite: {}
shard_size: 8
"""
QUICKSTART = """\
name: quickstart
description: All worlds that ship, and nobody is asked.
seed: 7
model: none
worlds: {use: [all], rows: 24, per_script: 1}
queries: {distractors: 3, abilities: {call: 2, retrieve_call: 1, plan_retrieve_call: 1}}
splits: {train: 0.8, validation: 0.1, test_instruction: 0.1}
tester: {votes: 0}
shard_size: 16
"""
FORMATS = (
    *("trl", "trl-dpo", "llamafactory", "axolotl", "verl", "openai", "hermes"),
    *("api-bank", "toolllama", "few-shot --shots 2", "all-shot"),
)
READ_BACK = {
    "trl": "trl/train.parquet",
    "openai": "openai/train.jsonl",
    "sharegpt": "llamafactory/train.jsonl",
    "hermes": "hermes/train.jsonl",
    "api-bank": "api-bank/train.json",
}
"""Exports that `audit` reads, by the name under which what it says is kept."""

MISTAKES = [
    "validate none.yaml",
    "validate wrong.yaml",
    "show nothing",
    "rejected --reason ungrounded",
    "export played --format trk",
    "export played/9.9.9 --format trl",
    "regenerate tests --dataset played",
    "apis list none",
    "audit benchmark.jsonl",
    "verify none",
]


class House:
    """A folder with recipes and a scripted endpoint, and what is pinned of it so far."""

    def __init__(self, home: Path, server: FakeServer, asked: list[str]) -> None:
        self.home = home
        self.pins: Pins = {}
        self._address = server.base_url
        self._asked = asked
        self._known: dict[str, str] = {}

    def write_recipes(self) -> None:
        shutil.copytree(ROOT / "recipes", "recipes")
        Path("templates").mkdir()  # where they lay when this was recorded, as they were
        for path in Path("recipes/templates").iterdir():
            text = path.read_text().replace("../examples", "../recipes/examples")
            Path("templates", path.name).write_text(
                text.replace(" recipes/templates/", " templates/")
            )
        shutil.copytree(GOLDEN / "apis", "apis")
        shutil.copytree(GOLDEN / "foreign", "foreign")
        Path("apis/shop.py.txt").rename("apis/shop.py")  # no code of ours: no tool shall read it
        Path("played.yaml").write_text(PLAYED % self._address)
        Path("executed.yaml").write_text(EXECUTED % (self._address, self._address))
        Path("quickstart.yaml").write_text(QUICKSTART)
        Path("wrong.yaml").write_text("name: wrong\nqueries: {count: none, cuont: 3}\n")
        row = {"question": "Please convert 3 kilograms to pounds for my parcel."}
        Path("benchmark.jsonl").write_text(json.dumps(row) + "\n")

    def tell(self, name: str, command: str, errors: bool = True) -> None:
        """Pin what a command says. `errors`: also on standard error, where commands that make
        something tell their progress, at times that differ."""
        arguments = shlex.split(command)
        ran = invoke(arguments)
        said = f"$ toolloom {' '.join(arguments)}\n{ran.stdout}"
        # What takes seconds tells its progress: whether it does depends on the machine.
        progress = (
            r"(?m)^([\d,]+ of [\d,]+ \w+ \w+|[\d,]+ rows, .*|\S+: [\d,]+ APIs so far), \d+ s\n"
        )
        complaint = re.sub(progress, "", ran.stderr)
        if errors and complaint:
            said += f"--- standard error\n{complaint}"
        self._learn()
        told = untimed(self.steady(f"{said}--- exit code {ran.exit_code}\n"))
        self.pins[name] = settled(name, told).encode()

    def make(self, name: str, command: str) -> None:
        """Pin what a command that makes something says, and what it asks the endpoint."""
        self._asked.clear()
        self.tell(f"told/{name}", f"{command} --engine local", errors=False)
        # They come in any order.
        self.pins[f"asked/{name}"] = "\n".join([*sorted(self._asked), ""]).encode()

    def keep(self, subject: str, folder: Path, kept: str = "*") -> None:
        """Pin the files below a folder."""
        for path in sorted(folder.rglob(kept)):
            inner = path.relative_to(folder).as_posix()
            if path.is_file() and path.stat().st_size and path.name not in {".lock", ".held"}:
                content = self._content(path)
                if path.name == "imports.jsonl":
                    content = untimed(content.decode()).encode()
                self.pins[f"{subject}/{inner}"] = content

    def keep_all(self) -> None:
        """Pin the stage files of all runs, and all versions."""
        self._learn()
        for run in sorted(Path("outputs/runs").iterdir()):
            self.keep(f"runs/{self.steady(run.name)}", run)
        for version in Path("outputs/datasets").glob("*/[0-9]*"):
            number = f"{version.parent.name}-{version.name}"
            self.keep(f"versions/{number}", version)
            card = self.pins.pop(f"versions/{number}/README.md")
            self.pins[f"cards/{number}.md"] = card

    def steady(self, text: str) -> str:
        """A text without what is another in each folder, at each port or in each commit.

        - The folder itself, and the endpoint's port.
        - What follows from the port, as a recipe's address is a part of them: ids of runs and
          the content hash of a version, from which the number that the loader caches by follows.
          That they stay what they are is pinned by recipes of fixed addresses, in `ids`.
        - The hash of toolloom's own code, and its version.
        - What follows from these: hashes of manifests and cards, which a manifest, SHA256SUMS
          and `verify` tell.

        Each becomes a number as long as it was, so that tables keep their widths.
        """
        if self._known:
            pattern = "|".join(map(re.escape, sorted(self._known, key=len, reverse=True)))
            text = re.sub(pattern, lambda found: self._known[found[0]], text)
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:00000", text)
        text = text.replace(str(self.home), "/home")
        text = re.sub(r'("code": ")[0-9a-f]{64}"', r'\1code"', text)
        text = re.sub(r'("toolloom": ")[0-9.]+"', r'\1version"', text)
        text = re.sub(r"By toolloom [0-9.]+ \(code [0-9a-f]{12}\)", "By toolloom version", text)
        return re.sub(r"(\n  version: 0\.0\.)\d+", r"\g<1>0", text)

    def keep_text(self, name: str, path: str) -> None:
        """Pin a text that a command wrote."""
        self.pins[name] = self.steady(Path(path).read_text()).encode()

    def _content(self, path: Path) -> bytes:
        raw = path.read_bytes()
        try:
            return self.steady(raw.decode()).encode()
        except UnicodeDecodeError:  # Parquet: it holds nothing of these
            return raw

    def _learn(self) -> None:
        """Note ids and hashes of what was made since, in the order in which it was made."""
        runs = Path("outputs/runs").glob("*-????????")
        for run in sorted(runs, key=lambda path: (path / "recipe.yaml").stat().st_mtime_ns):
            self._note(run.name, f"{run.name[:-8]}{len(self._known):08}")
        for version in sorted(Path("outputs/datasets").glob("*/[0-9]*")):
            name = f"{version.parent.name}-{version.name}"
            content = json.loads((version / "manifest.json").read_text())["content"]
            self._note(content, f"content-{name:->56}")
            self._note(content[:16], f"{name:->16}")
            for file in ("manifest.json", "README.md"):
                self._note(
                    digest((version / file).read_bytes()), f"{file}-{name:->{63 - len(file)}}"
                )

    def _note(self, found: str, steady: str) -> None:
        assert len(found) == len(steady)
        self._known.setdefault(found, steady)


def untimed(said: str) -> str:
    """What a command says, without times: how long it took, and when the cache was used.

    Sizes of a version go as well, which hold the lengths of what `steady` takes away, and the
    spaces that fill a table's last column.
    """
    said = re.sub(r"\bin \d[\d.]* (s|min|h)( \d+ (s|min))?(?=\W)", "in 0 s", said)
    said = re.sub(r"(?m)^(time +)[\d.]+ s", r"\g<1>0 s", said)
    said = re.sub(r"\b20\d\d-\d\d-\d\d \d\d:\d\d(?=( to |\.\n))", "2000-01-01 00:00", said)
    said = re.sub(r'("seconds": ?)[\d.e-]+', r"\g<1>0", said)
    said = re.sub(r'("size": ?)\d+', r"\g<1>0", said)
    said = re.sub(r"(?m)^(files +\d+ with )[\d,]+ bytes", r"\g<1>0 bytes", said)
    return re.sub(r"(?m) +$", "", said)


def settled(name: str, told: str) -> str:
    """What a command says, without what differs from run to run in single commands only.

    - Imports tell seconds in the last column of their table.
    - How many requests for embeddings are sent, and how many the cache answers, depends on what
      waits at the same moment.
    - Of what an audit of ToolBench rows has no place for, equal counts come in the order of a set,
      which PYTHONHASHSEED decides: the lines are compared without their order.
    """
    if name.startswith(("imports/", "pools/import")):
        return re.sub(r"(?m)  [\d.]+$", "  0.0", told)
    if name == "told/run-executed.txt":
        sent = r"This time: [\d,]+ requests sent, [\d,]+ answered"
        return re.sub(sent, "This time: 0 requests sent, 0 answered", told)
    if name == "told/cache.txt":
        told = re.sub(r"(?m)^(embed .*kB +)\d+", r"\g<1>0", told)
        return re.sub(r"(?m)^(executed-.*kB +)\d+", r"\g<1>0", told)
    if name.startswith("audits/") and "toolbench" in name:
        return "\n".join(sorted(told.replace(",\n", "\n").splitlines()))
    return told


def invoke(arguments: Sequence[str]) -> Any:
    return CliRunner().invoke(app, list(arguments), env=SCREEN)


def everything(home: Path) -> Pins:
    """All that is pinned, made in an empty folder."""
    asked: list[str] = []

    def script(body: Any) -> Any:
        asked.append(digest(body))
        return improvise(body)

    with contextlib.chdir(home), FakeServer(script).serve_in_thread() as server:
        house = House(home.resolve(), server, asked)
        house.write_recipes()
        import_apis(house)
        make_datasets(house)
        export_all(house)
        read_all(house)
        house.keep_all()
        audit_all(house)
        for number, command in enumerate(MISTAKES):
            house.tell(f"mistakes/{number}-{command.split()[0]}.txt", command)
        house.pins |= {f"help/{name}.txt": page for name, page in help_pages()}
        house.pins["ids/runs.txt"] = run_ids()
    house.pins["ids/requests.txt"] = request_keys()
    house.pins |= findings()
    return house.pins


def import_apis(house: House) -> None:
    """Each document into a pool of its own, then all of them into one."""
    for path in sorted(Path("apis").iterdir()):
        pool = path.name.replace(".", "_")
        report = f"{pool}.report.json"
        house.tell(f"imports/{pool}.txt", f"apis import {path} --into {pool} --report {report}")
        house.pins[f"imports/{pool}.json"] = untimed(
            house.steady(Path(report).read_text())
        ).encode()
    every = "apis import apis recipes/examples/bookshop.yaml --into all --collection mixed"
    house.tell("pools/import.txt", every)
    house.tell("pools/list.txt", "apis list all")
    house.tell("pools/show.txt", "apis show all weather")
    house.tell("pools/search.txt", "apis search all 'find a pet'")
    house.tell("pools/filter.txt", "apis filter all --into good")
    for pool in Path("outputs/pools").iterdir():
        house.keep(f"pools/{pool.name}", pool)


def make_datasets(house: House) -> None:
    """A dataset that grows in all ways, one of all that a recipe can ask, and one of worlds."""
    house.make("run.txt", "run played.yaml")
    house.make("keep.txt", "regenerate train --dataset played --keep")
    house.make("regenerate.txt", "regenerate validation --dataset played")
    house.make("expand.txt", "expand played --rows 40")
    house.make("rewrite.txt", "rewrite played")
    house.make("run-executed.txt", "run executed.yaml")
    house.tell("told/validate.txt", "validate played.yaml")
    house.tell("told/validate-executed.txt", "validate executed.yaml")
    written = "expand executed --rows 30 --templates templates --no-mine"
    house.make("expand-written.txt", written)
    house.make("run-quickstart.txt", "run quickstart.yaml")


def export_all(house: House) -> None:
    for options in FORMATS:
        form = options.split()[0]
        house.tell(f"exports/{form}.txt", f"export played --format {options}")
        folder = Path("outputs/exports/played/2.2.0") / form
        house.keep(f"exports/{form}", folder)
    house.tell("exports/trl-text.txt", "export executed --format trl --arguments string")
    house.keep("exports/trl-text", Path("outputs/exports/executed/1.1.0/trl"))


def read_all(house: House) -> None:
    """What the commands that only read have to say."""
    for name in ("played", "executed", "quickstart"):
        house.tell(f"told/verify-{name}.txt", f"verify {name}")
        house.tell(f"told/verify-{name}.json", f"verify {name} --json -")
        house.tell(f"told/versions-{name}.txt", f"versions {name}")
        house.tell(f"told/show-{name}.txt", f"show {name} -n 2")
        house.tell(f"told/complexity-{name}.txt", f"complexity {name}")
        house.tell(f"told/report-{name}.txt", f"report {name} --output {name}.html")
        house.keep_text(f"reports/{name}.html", f"{name}.html")
    house.tell("told/complexity.json", "complexity played --demonstrations --json -")
    house.tell("told/diff.txt", "diff played 1.0.0 --json diff.json")
    house.keep_text("told/diff.json", "diff.json")
    house.tell("told/show-1.0.0.txt", "show played/1.0.0")
    for run in sorted(Path("outputs/runs").iterdir()):
        name = house.steady(run.name)
        house.tell(f"told/rejected-{name}.txt", f"rejected {run.name} -n 3")
        house.tell(f"told/show-{name}.txt", f"show {run.name} -n 0")
    house.tell("told/cache.txt", "cache stats")
    written = "recipes/templates/bookshop.yaml recipes/templates/household.yaml"
    house.tell("told/templates.txt", f"expand preview {written} -n 2")


def audit_all(house: House) -> None:
    """Rows of others with faults in them, and our own exports."""
    for path in sorted(Path("foreign").iterdir()):
        form = path.name.partition(".")[0]
        flagged = f"{form}.flagged"
        house.tell(f"audits/{form}.txt", f"audit {path} --flagged {flagged}")
        house.tell(f"audits/{form}.json", f"audit {path} --json -")
        if Path(flagged).exists():
            house.pins[f"audits/{form}-flagged.jsonl"] = Path(flagged).read_bytes()
    for form, exported in READ_BACK.items():
        path = f"outputs/exports/played/2.2.0/{exported}"
        house.tell(f"audits/own-{form}.txt", f"audit {path}")


def help_pages() -> Iterator[tuple[str, bytes]]:
    """The help of each command and group, as it is on a terminal of 100 columns."""
    pending: list[tuple[tuple[str, ...], Any]] = [((), typer.main.get_command(app))]
    while pending:
        words, command = pending.pop()
        if not command.hidden:
            page = re.sub(r"\x1b\[[\d;]*m", "", invoke([*words, "--help"]).stdout)
            yield "-".join(("toolloom", *words)), page.encode()
        inner = getattr(command, "commands", {})
        pending += [((*words, name), one) for name, one in inner.items()]


def run_ids() -> bytes:
    """What recipes of fixed addresses are to toolloom: the ids of their runs."""
    recipes = [*sorted(Path("recipes").glob("*.yaml"))]
    for path in (Path("fixed-played.yaml"), Path("fixed-executed.yaml")):
        text = PLAYED if "played" in path.name else EXECUTED
        path.write_text(text.replace("%s", "http://127.0.0.1:8123/v1"))
        recipes.append(path)
    return "".join(f"{path.name}: {load_recipe(path).run_id}\n" for path in recipes).encode()


def request_keys() -> bytes:
    """The keys under which the cache holds answers: another key would be paid for once more."""
    messages = ({"role": "user", "content": "Grüezi"},)
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    requests = [Request(messages, None, 512, 0.7, 0), Request(messages, schema, 99, 0.5, 7)]
    keys = [
        f"{mode} {fingerprint('http://127.0.0.1:8123/v1', 'fake', request, mode)}\n"
        for request in requests
        for mode in Mode
    ]
    return "".join(keys).encode()


def findings() -> Pins:
    """What the checks find in good dialogues and in those that each kind of defect spoils."""
    lines = (GOLDEN / "good.jsonl").read_text().splitlines()
    good = [Dialogue.model_validate_json(line) for line in lines]
    found = {"findings/good": [(one.query.id, inspect(one)) for one in good]}
    for mutate, _ in PLANTED:
        judged = [(one.query.id, inspect(bad)) for one in good for bad in mutate(one)]
        found[f"findings/{mutate.__name__}"] = judged
    return {
        name: "".join(
            f"{json.dumps([known, [f.model_dump(mode='json') for f in each]], ensure_ascii=False)}\n"
            for known, each in judged
        ).encode()
        for name, judged in found.items()
    }


def digest(value: Any) -> str:
    """SHA-256 of bytes, or of a JSON value whatever the order of its keys."""
    if not isinstance(value, bytes):
        value = json.dumps(value, sort_keys=True, ensure_ascii=False).encode()
    return hashlib.sha256(value).hexdigest()
