"""A dataset to verify, played by the scripted endpoint, and a forger, who tampers with a version and
makes all hashes right again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from toolloom.llm.scripted import FakeServer
from toolloom.pipeline.dataset.configs import CONFIGS
from toolloom.pipeline.dataset.publish import card
from toolloom.pipeline.dataset.verify import FaultKind, VerifyReport, VersionFault
from toolloom.pipeline.growth import plan_extension, plan_regeneration
from toolloom.pipeline.run import make_dataset, run_recipe
from toolloom.pipeline.store.version import VersionWriter
from toolloom.schemas import ExpansionPlan, RewritePlan, parse_recipe

Row = dict[str, Any]


def rows_of(version: Path, config: str, split: str) -> list[Row]:
    path = version / config / f"{split}-00000-of-00001.parquet"
    return pq.read_table(path, arrow_extensions_enabled=False).to_pylist()


def write_rows(version: Path, config: str, split: str, rows: list[Row]) -> None:
    known = {each.name: each for each in CONFIGS}
    with VersionWriter(version / "new") as tables:
        for row in rows:
            tables.add(known[config], split, row)
        tables.finish()
    name = f"{config}/{split}-00000-of-00001.parquet"
    (version / "new" / name).replace(version / name)
    shutil.rmtree(version / "new")


def read_manifest(version: Path) -> Row:
    return json.loads((version / "manifest.json").read_bytes())


def fix(version: Path, manifest: Row | None = None, remade: bool = True) -> None:
    """Make numbers of rows, hashes, the card and the sums fit what is there."""
    manifest = manifest or read_manifest(version)
    for config in manifest["configs"].values():
        for sheet in config.values():
            for name, told in sheet["files"].items():
                raw = (version / name).read_bytes()
                rows = pq.read_metadata(version / name).num_rows
                told |= {"rows": rows, "sha256": hashed(raw), "bytes": len(raw)}
            sheet["rows"] = sum(told["rows"] for told in sheet["files"].values())
    if remade:
        (version / "README.md").write_text(card(manifest))
    for name in manifest["files"]:
        manifest["files"][name] = hashed((version / name).read_bytes())
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    (version / "manifest.json").write_text(text)
    names = sorted(p.relative_to(version).as_posix() for p in version.rglob("*") if p.is_file())
    lines = [f"{hashed((version / n).read_bytes())}  {n}\n" for n in names if n != "SHA256SUMS"]
    (version / "SHA256SUMS").write_text("".join(lines))


def hashed(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def found(report: VerifyReport, kind: FaultKind) -> list[VersionFault]:
    return [fault for fault in report.faults if fault.kind is kind]


FIELDS = {
    "name": "toy",
    "seed": 7,
    "apis": {"domains": 6, "per_domain": 3, "worlds": False},
    "queries": {"count": 60, "distractors": 2},
    "tester": {"votes": 1},
    "splits": {"train": 4, "validation": 2, "test_instruction": 2, "test_tool": 2},
}


def play(outputs: Path) -> None:
    """A dataset that the scripted endpoint plays, and its next version with a new split."""
    with FakeServer().serve_in_thread() as server:
        model = {"base_url": server.base_url, "model": "fake", "concurrency": 16}
        asyncio.run(
            make_dataset(parse_recipe({**FIELDS, "model": model}, "a recipe"), outputs=outputs)
        )
        again = plan_regeneration(outputs, "toy", "train", seed=9)
        asyncio.run(make_dataset(again, outputs=outputs))


def grow(outputs: Path) -> None:
    """1.0.0 of the scripted endpoint, 1.1.0 with instructions, 1.2.0 with rows of templates."""
    splits = {"train": 8, "validation": 1, "test_instruction": 1, "test_tool": 1}
    with FakeServer().serve_in_thread() as server:
        model = {"base_url": server.base_url, "model": "fake", "concurrency": 16}
        few = {"queries": {"count": 40, "distractors": 2}, "splits": splits, "model": model}
        asyncio.run(make_dataset(parse_recipe({**FIELDS, **few}, "a recipe"), outputs=outputs))
        for more in ({"rewrite": RewritePlan(votes=1)}, {"expand": ExpansionPlan(rows=12)}):
            again = plan_extension(outputs, "toy", **more)  # type: ignore[arg-type]
            asyncio.run(make_dataset(again, outputs=outputs))


IN_A_WORLD = {
    "name": "small",
    "model": "none",
    "worlds": {"use": ["clinic"], "rows": 12},
    "splits": {"train": 0.7, "validation": 0.3, "test_instruction": 0, "test_tool": 0}
    | {"test_category": 0},
}


def play_in_a_world(outputs: Path) -> None:
    """A small version of dialogues in a world, and the one it grew to."""
    run_recipe(parse_recipe(IN_A_WORLD, "a recipe"), outputs)
    run_recipe(plan_regeneration(outputs, "small", "train", keep=True), outputs)


def only(report: VerifyReport) -> set[FaultKind]:
    return set(report.counts)
