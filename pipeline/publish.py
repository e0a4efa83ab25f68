"""Makes versions of a dataset from finished runs: `<outputs>/datasets/<name>/v1`, `v2`, …

A version never changes: it is built in a hidden folder and renamed when it is whole. It holds no
time of day, so equal runs make equal bytes, and a run that is published already is not again.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

from toolloom.pipeline.card import card
from toolloom.pipeline.jsonl import explain, locked, write_lines
from toolloom.pipeline.report import count
from toolloom.pipeline.store import RunFolder
from toolloom.pipeline.tables import CONFIGS, write_config
from toolloom.schemas import JsonObject, NothingFound, PublishError, StoreError, digest
from toolloom.schemas.recipe import public_fields, public_recipe

LAYOUT = 1  # part of what makes a version: raised when rows or columns change


@dataclass(frozen=True)
class Published:
    """A version on the disk."""

    path: Path
    manifest: JsonObject
    fresh: bool = False

    @property
    def label(self) -> str:
        return f"{self.manifest['name']}/{self.manifest['version']}"

    @property
    def load_line(self) -> str:
        """Python that loads it, whatever the working directory."""
        config = next(iter(self.manifest["configs"]))
        where = json.dumps(str(self.path.resolve()), ensure_ascii=False)
        return f'datasets.load_dataset({where}, "{config}", split="train")'


def publish(run: RunFolder, outputs: Path) -> Published:
    """Make a version of a finished run, or find the one it made. Raises PublishError."""
    _check(run)
    folder = outputs / "datasets" / run.recipe.name
    content = _content(run)
    with locked(folder):
        earlier = list(versions(folder))
        for published in reversed(earlier):
            if published.manifest["content"] == content:
                return published
        number = 1 + max((_number(p.path) for p in earlier), default=0)
        return _build(run, folder, f"v{number}", content)


def versions(folder: Path) -> Iterator[Published]:
    """A dataset's versions, oldest first."""
    for path in sorted(folder.glob("v*"), key=_number):
        if _number(path):
            yield open_version(path)


def open_version(path: Path) -> Published:
    """Read a version's manifest. Raises StoreError."""
    try:
        return Published(path, json.loads((path / "manifest.json").read_bytes()))
    except OSError as error:
        raise explain(path / "manifest.json", error, "read") from error
    except ValueError as error:
        raise StoreError(f"{path / 'manifest.json'}: is damaged ({error}).") from error


def find_dataset(outputs: Path, name: str) -> Published:
    """The newest version of `name`, `name/v2`, or the one at a path. Raises NothingFound."""
    if (Path(name) / "manifest.json").is_file():
        return open_version(Path(name))
    root = outputs / "datasets"
    dataset, _, wanted = name.rstrip("/").partition("/")
    if dataset in {path.name for path in root.glob("*")}:
        for published in reversed(list(versions(root / dataset))):
            if wanted in ("", published.path.name):
                return published
    known = sorted(f"{p.parent.parent.name}/{p.parent.name}" for p in root.glob("*/v*/*.json"))
    there = f"There are: {', '.join(known)}." if known else "There is none yet."
    raise NothingFound(f"There is no dataset {name!r} in {root}. {there}")


def _number(path: Path) -> int:
    """2 of `v2`; 0 of what is no version."""
    found = re.fullmatch(r"v([1-9]\d*)", path.name)
    return int(found[1]) if found else 0


def _check(run: RunFolder) -> None:
    marks = [run.stage(stage.name).mark for stage in run.plan]
    if not marks or None in marks:
        raise PublishError(f"{run.id} is not finished; run its recipe again to go on.")
    if not (last := marks[-1]) or not last.accepted:
        raise PublishError(
            f"{run.id} accepted nothing, so there is nothing to publish. "
            f"`toolloom rejected {run.id}` shows why."
        )


def _content(run: RunFolder) -> str:
    """What a version is made of: equal for equal runs, however fast and on whose account."""
    marks = [run.stage(stage.name).mark for stage in run.plan]
    hashes = [(m.accepted_sha256, m.rejected_sha256) for m in marks if m]
    recipe = public_fields(run.recipe.identity)
    return digest([LAYOUT, installed("toolloom"), recipe, hashes], 64)


def _build(run: RunFolder, folder: Path, version: str, content: str) -> Published:
    building = folder / ".building"  # the lock is held: nobody else builds here
    path = folder / version
    try:
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir()
        manifest = _fill(run, building, version, content)
        building.rename(path)
    except OSError as error:
        raise explain(path, error, "written") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return Published(path, manifest, fresh=True)


def _fill(run: RunFolder, folder: Path, version: str, content: str) -> JsonObject:
    """Write a version's files; its manifest."""
    recipe, counts = run.recipe, count(run)
    configs = _write_configs(run, folder)
    manifest = {
        "name": recipe.name,
        "version": version,
        "content": content,
        "run": run.id,
        "toolloom": installed("toolloom"),
        "recipe": public_recipe(recipe),
        "counts": counts.model_dump(mode="json"),
        "agents": _agents(run),
        "configs": configs,
    }
    write_lines(folder / "README.md", [card(manifest, counts).encode()])
    manifest["readme_sha256"] = _sha256(folder / "README.md")
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    write_lines(folder / "manifest.json", [text.encode() + b"\n"])
    return manifest


def _write_configs(run: RunFolder, folder: Path) -> JsonObject:
    """Write the configs that have rows: `datasets` cannot load a split without any."""
    made: JsonObject = {}
    for config in CONFIGS:
        written = write_config(config, run, folder / config.name)
        if written.rows:
            files = {str(f.relative_to(folder)): _sha256(f) for f in written.files}
            made[config.name] = {
                "rows": written.rows,
                "left_out": written.left_out,
                "files": files,
            }
    return made


def _agents(run: RunFolder) -> list[JsonObject]:
    """Who made the accepted records: stage, agent, model and the hashes of the prompts."""
    found: set[tuple[Any, ...]] = set()
    for stage in run.plan:
        for row in run.stage(stage.name).objects("accepted"):
            for p in row.get("provenance", ()):
                found.add((p["stage"], p["agent"], p["model"], tuple(p["prompts"])))
    order = [stage.name for stage in run.plan]
    names = ("stage", "agent", "model", "prompts")
    ranked = sorted(found, key=lambda f: (order.index(f[0]) if f[0] in order else -1, *f[1:]))
    return [dict(zip(names, one, strict=True)) for one in ranked]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
