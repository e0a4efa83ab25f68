"""Makes versions of a dataset from finished runs.

A version never changes: it is built in a hidden folder and renamed when it is whole. It holds no
time of day, so equal runs make equal bytes, and a run that is published already is not again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version as installed
from pathlib import Path

from toolloom.pipeline.checks.world import interpreter
from toolloom.pipeline.dataset.build import Keep, build
from toolloom.pipeline.dataset.card import card, draw
from toolloom.pipeline.store.files import explain, write_lines
from toolloom.pipeline.store.locks import hold_folder
from toolloom.pipeline.store.run_folder import RunFolder
from toolloom.pipeline.store.version import (
    LAYOUT,
    Version,
    dotted,
    find_version,
    following,
    latest,
    numbers,
    open_version,
    point,
)
from toolloom.schemas import (
    Extension,
    Instruction,
    JsonObject,
    PublishError,
    Regeneration,
    Sample,
    StoreError,
    digest,
)
from toolloom.schemas.recipe import public_fields


@dataclass(frozen=True)
class Published:
    """A version, and whether it was made just now."""

    version: Version
    fresh: bool = False

    @property
    def path(self) -> Path:
        return self.version.path

    @property
    def manifest(self) -> JsonObject:
        return self.version.manifest

    @property
    def label(self) -> str:
        return self.version.label

    @property
    def load_line(self) -> str:
        return self.version.load_line


def publish(run: RunFolder, outputs: Path) -> Published:
    """Make a version of a finished run, or find the one it made. Raises PublishError.

    A run that regenerates a split, or adds rows, makes the version that follows from the one it
    names.
    """
    marks = {stage.name: mark for stage in run.plan if (mark := run.stage(stage.name).mark)}
    if not marks or len(marks) < len(run.plan):
        raise PublishError(f"{run.id} is not finished; run its recipe again to go on.")
    if not any(marks[name].accepted for name in _published(run)):
        raise PublishError(
            f"{run.id} accepted nothing, so there is nothing to publish. "
            f"`toolloom rejected {run.id}` shows why."
        )
    # What the version is made of: equal for equal runs, however fast and on whose account.
    hashes = [(mark.accepted_sha256, mark.rejected_sha256) for mark in marks.values()]
    recipe = public_fields(run.recipe.identity)
    content = digest([LAYOUT, installed("toolloom"), recipe, hashes], 64)
    keep = keep_of(run, outputs)
    folder = outputs / "datasets" / run.recipe.name
    if keep.parent:
        folder = outputs / "datasets" / keep.parent.name
        content = digest([content, keep.parent.manifest["content"]], 64)
    with hold_folder(folder):
        for version in map(_readable, (folder / dotted(n) for n in reversed(numbers(folder)))):
            if version and version.manifest["content"] == content:
                point(folder)
                return Published(version)
        version = _build(folder, content, run, keep)
        point(folder)
        return Published(version, fresh=True)


def keep_of(run: RunFolder, outputs: Path) -> Keep:
    """What stays of the version that a run names. Raises PublishError if it is another by now."""
    anew, extended = run.recipe.regenerate, run.recipe.extend
    if anew is not None:
        split = None if anew.keep else anew.split.value
        return Keep(_parent(anew, outputs), split, retries=anew.only_rejected)
    if extended is not None and extended.version:
        return Keep(_parent(extended, outputs))
    return Keep()


def _parent(wanted: Regeneration | Extension, outputs: Path) -> Version:
    parent = find_version(outputs, wanted.version)
    if parent.manifest["content"] != wanted.content:
        again = "Regenerate the split from" if isinstance(wanted, Regeneration) else "Add to"
        raise PublishError(
            f"{parent.path}: is not the version that this run was made for "
            f"({wanted.version} with the content {wanted.content[:12]}…). {again} the version that "
            "is there."
        )
    return parent


def came_to_nothing(run: RunFolder) -> bool:
    """Whether a run is finished and accepted nothing that could be published."""
    plan = run.plan if (run.path / "plan.json").is_file() else ()
    marks = {stage.name: run.stage(stage.name).mark for stage in plan}
    accepted = {name: mark.accepted for name, mark in marks.items() if mark}
    return 0 < len(accepted) == len(marks) and not any(accepted[n] for n in _published(run))


def _published(run: RunFolder) -> list[str]:
    """The stages whose accepted records are rows of the version."""
    kinds = (Sample.__name__, Instruction.__name__)
    beside = [stage.name for stage in run.plan if stage.beside and stage.writes in kinds]
    rows = [stage.name for stage in run.plan if not stage.beside]
    return beside if run.adds else [*rows[-1:], *beside]


def _readable(path: Path) -> Version | None:
    """A version; None if it is damaged or of another layout: it is not the one looked for."""
    try:
        return open_version(path)
    except StoreError:
        return None


def _build(folder: Path, content: str, run: RunFolder, keep: Keep) -> Version:
    parent = keep.parent or latest(folder)
    building = folder / ".building"  # the lock is held: nobody else builds here
    try:
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir()
        hashed = parent and sha256(parent.path / "manifest.json")
        manifest = {
            "layout": LAYOUT,
            "parent": parent and {"version": parent.number, "sha256": hashed},
            "content": content,
            "toolloom": installed("toolloom"),
            "code": code_hash(),
            **build(building, run, keep),
        }
        for name, entry in tables_of(manifest):
            actual = sha256(building / name)
            if entry.get("sha256", actual) != actual:  # a copy that is not what it was
                raise PublishError(
                    f"{name} of {manifest['parent']['version']}: is damaged (its SHA-256 is not "
                    "the one in its manifest), so no version can be made of it."
                )
            entry |= {"sha256": actual, "bytes": (building / name).stat().st_size}
        number = dotted(following(numbers(folder), parent, manifest))
        manifest = {"layout": LAYOUT, "name": folder.name, "version": number, **manifest}
        _describe(manifest, building)
        path = folder / number
        building.rename(path)
    except OSError as error:
        raise explain(folder, error, "written") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return Version(path, manifest)


def tables_of(manifest: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Path of each Parquet file, and what the manifest tells of it."""
    for config in manifest["configs"].values():
        for split in config.values():
            yield from split["files"].items()


def _describe(manifest: JsonObject, folder: Path) -> None:
    """Add plots, card, manifest and checksums to the tables."""
    draw(manifest, folder / "plots")
    if manifest.get("worlds"):
        for name, content in replay_files().items():
            write_lines(folder / name, [content])
    write_lines(folder / "README.md", [card(manifest).encode("utf-8", "replace")])
    tables = dict(tables_of(manifest))
    others = sorted(name for name in _names(folder) if name not in tables)
    manifest["files"] = {name: sha256(folder / name) for name in others}
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    write_lines(folder / "manifest.json", [text.encode("utf-8", "replace") + b"\n"])
    write_lines(folder / "SHA256SUMS", list(sums(folder)))  # all of them, before it is there


def replay_files() -> dict[str, bytes]:
    """What replays the rows of `environments` without toolloom, by path in the version."""
    machine = Path(interpreter.__file__).read_bytes()
    return {"replay/README.md": REPLAY.encode(), "replay/world.py": machine}


REPLAY = """# Replay

`world.py` runs a world and needs Python's standard library alone. In this folder:

```python
import glob, json
import pyarrow.parquet as parquet  # or any other reader of Parquet
from world import Machine, difference, state_of

def rows(config):
    for name in sorted(glob.glob(f"../{config}/*.parquet")):
        yield from parquet.read_table(name).to_pylist()

worlds = {row["hash"]: Machine(json.loads(row["spec"])) for row in rows("worlds")}
for row in rows("environments"):
    machine, start = worlds[row["hash"]], json.loads(row["start"])
    before = state = state_of(start["tables"], start["me"], start["next"])
    for call in json.loads(row["calls"]):  # or those of your own model
        name, arguments = call["operation"], call["arguments"]
        state, response, error = machine.apply(state, name, arguments, row["now"])
    reached = difference(machine, before, state) == json.loads(row["goal"])["changes"]
    print(row["id"], "reached" if reached else "not reached")
```

`apply` never raises, whatever the arguments are: a call that fails has the code of its `error`, the
text of it as `response`, and leaves the state as it was. What the user has to learn besides is in
the goal's `facts`: each has its `value` and how it may be `said`.
"""


def _names(folder: Path) -> Iterator[str]:
    """The files below a folder, as paths in it."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.relative_to(folder).as_posix()


def sums(folder: Path) -> Iterator[bytes]:
    """The lines of SHA256SUMS, in the form that `sha256sum --check` reads."""
    for name in sorted(_names(folder)):
        if name != "SHA256SUMS":
            yield f"{sha256(folder / name)}  {name}\n".encode()


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def code_hash() -> str:
    """SHA-256 over the package's own files: code, prompts, catalogue."""
    root, hashed = Path(__file__).parents[2], hashlib.sha256()
    for room in ("__init__.py", "flows.py", *_ROOMS):
        for path in sorted((root / room).rglob("*") if (root / room).is_dir() else [root / room]):
            if path.suffix in {".py", ".j2", ".yaml"} and path.is_file():
                hashed.update(f"{path.relative_to(root).as_posix()}\0".encode())
                hashed.update(path.read_bytes())
    return hashed.hexdigest()


_ROOMS = ("agents", "cli", "llm", "pipeline", "prompts", "schemas")
