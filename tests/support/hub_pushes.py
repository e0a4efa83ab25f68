"""Small versions to push, and the command that pushes them to the loopback Hub."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.hub_server import TOKEN, Hub

PUSH = [sys.executable, "-c", "from toolloom.cli import main; main()", "push"]
CARD = """---
configs:
- config_name: sft
  data_files:
  - {split: train, path: "sft/train-*.parquet"}
  - {split: test_tool, path: "sft/test_tool-*.parquet"}
- config_name: samples
  data_files:
  - {split: train, path: "samples/train-*.parquet"}
---
# toy
"""


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sft_row(number: int) -> dict[str, Any]:
    arguments = {"city": "Graz", "days": number, "exact": number % 2 == 0, "more": [1.5, None]}
    call = {"type": "function", "function": {"name": "weather", "arguments": arguments}}
    return {
        "id": f"train-7-{number:06d}",
        "messages": [
            {"role": "user", "content": f"Rain in {number} days? – «ü»"},
            {"role": "assistant", "tool_calls": [call]},
        ],
        "tools": [{"type": "function", "function": {"name": "weather"}}] * (number % 3),
    }


def make_version(outputs: Path, number: str, rows: int = 5, plots: int = 1) -> Path:
    """A version as publishing lays it out, with as few columns as will do."""
    from datasets import Dataset, Features, Json, List, Value

    sft = Features({"id": Value("string"), "messages": List(Json()), "tools": List(Json())})
    texts_only = Features({"id": Value("string"), "dialogue": Value("string")})
    folder = outputs / "datasets" / "toy" / number
    sizes = {"train": rows, "test_tool": 2}
    made = {f"sft/{s}": (sft, [sft_row(i) for i in range(n)]) for s, n in sizes.items()}
    texts = [{"id": row["id"], "dialogue": json.dumps(row)} for row in made["sft/train"][1]]
    made["samples/train"] = (texts_only, texts)
    configs: dict[str, Any] = {"sft": {}, "samples": {}}
    for name, (features, content) in made.items():
        config, split = name.split("/")
        path = folder / f"{name}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        Dataset.from_list(content, features=features).to_parquet(path)
        file = {"sha256": sha256(path), "bytes": path.stat().st_size, "rows": len(content)}
        table = {"rows": len(content), "left_out": 0}
        configs[config][split] = {**table, "files": {path.relative_to(folder).as_posix(): file}}
    (folder / "README.md").write_text(CARD + f"Version {number}, {rows} rows.\n")
    (folder / "plots").mkdir()
    for plot in range(plots):
        (folder / "plots" / f"{plot}.svg").write_text(f"<svg>{plot}</svg>")
    others = ["README.md", *(f"plots/{plot}.svg" for plot in range(plots))]
    manifest = {"layout": 2, "name": "toy", "version": number, "content": number}
    manifest |= {"parent": None, "regenerated": None, "toolloom": "1", "code": "", "plan": {}}
    manifest |= {"runs": {}, "splits": {}, "apis": {}, "configs": configs}
    manifest["files"] = {name: sha256(folder / name) for name in others}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    sums(folder)
    return folder


def sums(folder: Path) -> None:
    """Write SHA256SUMS, as `sha256sum` does."""
    names = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    lines = [f"{sha256(folder / name)}  {name}\n" for name in names if name != "SHA256SUMS"]
    (folder / "SHA256SUMS").write_text("".join(lines))


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.*")} | {
        "SHA256SUMS": (folder / "SHA256SUMS").read_bytes()
    }


def environment(hub: Hub, home: Path, **more: str) -> dict[str, str]:
    """Of a process that may reach the loopback Hub."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
    hubs = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home / "hf"), "HF_TOKEN": TOKEN}
    return {**kept, **hubs, "HF_DATASETS_DISABLE_PROGRESS_BARS": "1", **more}


def push(
    hub: Hub, outputs: Path, *arguments: str, version: str = "latest", **more: str
) -> tuple[int, str]:
    """The exit status of the command, and all that it printed."""
    given = arguments or ("me/toy",)
    ran = subprocess.run(
        [*PUSH, "toy", version, *given, "--outputs", str(outputs)],
        env=environment(hub, outputs, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert TOKEN not in ran.stdout
    assert "s3cret" not in ran.stdout  # of a signed address
    assert hub.leaked == []
    return ran.returncode, ran.stdout


def refused(hub: Hub, outputs: Path, *arguments: str, **more: str) -> str:
    """What a push says that ends with a mistake."""
    status, printed = push(hub, outputs, *arguments, **more)
    assert status == 2, printed
    assert "Traceback" not in printed
    return printed
