"""What the version before made is still read, verified, grown and resumed: see before/README.md."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from support import processes
from support.processes import Endpoint, committed
from typer.testing import CliRunner

from toolloom.cli import app

BEFORE = Path(__file__).parent / "before"
LOCAL = ("--engine", "local")
RUN = ("run", BEFORE / "recipe.yaml", *LOCAL)
GROW = ("regenerate", "train", "--dataset", "before", "--keep", *LOCAL)
CONFIGS = {"sft", "samples", "instructions", "planning", "rejected", "apis"}
RESPONSES = {"1.0.0": 199, "1.1.0": 143}
HOLDS = "Nothing has changed, and every check passes."


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with processes.endpoint(tmp_path_factory.mktemp("endpoint")) as endpoint:
        yield endpoint


@pytest.fixture
def endpoint(scripted: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """The scripted endpoint, as the proxy of the recipe's address, which no machine has."""
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, scripted.base_url.removesuffix("/v1"))
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return scripted


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """A copy of both versions and their cache."""
    return copied("outputs", tmp_path)


def copied(name: str, folder: Path) -> Path:
    return Path(shutil.copytree(BEFORE / name, folder / name, symlinks=True))


def toolloom(*arguments: Any, outputs: Path) -> str:
    ended = CliRunner().invoke(app, [*map(str, arguments), "-o", str(outputs)])
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def manifest(outputs: Path, version: str) -> Any:
    return json.loads((outputs / "datasets" / "before" / version / "manifest.json").read_bytes())


def rows(outputs: Path, version: str, config: str, split: str) -> list[Any]:
    (path,) = (outputs / "datasets" / "before" / version / config).glob(f"{split}-*.parquet")
    return list(pyarrow.parquet.read_table(path).to_pylist())


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run_files(outputs: Path) -> dict[str, str]:
    """The hash of each file of runs, but of those that only lock."""
    found = [path for path in (outputs / "runs").rglob("*") if path.is_file()]
    return {
        path.relative_to(outputs).as_posix(): sha256(path) for path in found if path.name != ".lock"
    }


def kept_run_files(run: str) -> dict[str, str]:
    """The same of a finished run of the version before."""
    lines = [line.split() for line in (BEFORE / "RUNS.sha256").read_text().splitlines()]
    return {name: found for found, name in lines if name.startswith(f"runs/{run}/")}


def version_files(outputs: Path, version: str) -> dict[str, Any]:
    """The hashes of a version's files; of its manifest and card what they hold, but for what names
    the code that wrote them, and hashes of what does."""
    folder = outputs / "datasets" / "before" / version
    found = [path for path in folder.rglob("*") if path.is_file() and path.name != "SHA256SUMS"]
    told = manifest(outputs, version)
    for name in ("toolloom", "code"):
        del told[name]
    del told["files"]["README.md"]
    if told["parent"]:
        del told["parent"]["sha256"]
    card = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    (named,) = (line for line in card if line.startswith("By toolloom "))
    card.remove(named)
    hashes = {path.relative_to(folder).as_posix(): sha256(path) for path in found}
    return {**hashes, "manifest.json": told, "README.md": card}


@pytest.mark.parametrize("version", RESPONSES)
def test_a_version_is_shown_verified_and_loaded(outputs: Path, version: str) -> None:
    """Nothing is found in it, and each config has the rows that its manifest tells."""
    import datasets

    shown = toolloom("show", f"before/{version}", outputs=outputs)
    assert re.search(r"\d+ dialogues accepted", shown)
    assert HOLDS in toolloom("verify", f"before/{version}", outputs=outputs)
    configs = manifest(outputs, version)["configs"]
    assert set(configs) == CONFIGS
    path = str(outputs / "datasets" / "before" / version)
    for config, splits in configs.items():
        loaded = datasets.load_dataset(path, config)
        assert {split: table.num_rows for split, table in loaded.items()} == {
            split: told["rows"] for split, told in splits.items()
        }


def test_two_versions_are_listed_and_compared(outputs: Path, tmp_path: Path) -> None:
    """The second has every row of the first, and more in `train`."""
    listed = toolloom("versions", "before", outputs=outputs).splitlines()
    assert [line.split()[0] for line in listed[1:3]] == ["1.0.0", "1.1.0"]
    figures = tmp_path / "diff.json"
    toolloom("diff", "before", "1.0.0", "1.1.0", "--json", figures, outputs=outputs)
    compared = {row["split"]: row for row in json.loads(figures.read_text())["rows"]}
    assert all(row["same"] == row["before"] > 0 for row in compared.values())
    assert {split for split, row in compared.items() if row["added"]} == {"train"}


def test_a_version_is_exported(outputs: Path, tmp_path: Path) -> None:
    """Each row of a split, as a trainer reads it."""
    file = tmp_path / "train.jsonl"
    command = ("export", "before/1.0.0", "--format", "openai", "--split", "train", "--into", file)
    toolloom(*command, outputs=outputs)
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == len(rows(outputs, "1.0.0", "sft", "train")) > 0
    assert all(line["messages"] for line in lines)


def test_a_dataset_grows(endpoint: Endpoint, outputs: Path) -> None:
    """Rows of the version before stay in their places, new ones come after them."""
    told = toolloom(*GROW, outputs=outputs)
    assert "New version: before/1.2.0" in told
    assert HOLDS in toolloom("verify", "before/1.2.0", outputs=outputs)
    for config in CONFIGS - {"apis"}:
        old, new = (rows(outputs, v, config, "train") for v in ("1.1.0", "1.2.0"))
        assert new[: len(old)] == old
        assert len(new) > len(old)


def test_a_cache_answers_all_that_it_was_asked(endpoint: Endpoint, tmp_path: Path) -> None:
    """With nothing but the cache both versions are made again, byte by byte, for no request."""
    outputs = copied("outputs", tmp_path)
    shutil.rmtree(outputs / "datasets")
    before = endpoint.answered()
    for command, version in ((RUN, "1.0.0"), (GROW, "1.1.0")):
        told = toolloom(*command, outputs=outputs)
        assert f"0 requests sent, {RESPONSES[version]} answered by the cache" in told
        assert f"New version: before/{version}" in told
        assert version_files(outputs, version) == version_files(BEFORE / "outputs", version)
    assert endpoint.answered() == before
    assert run_files(outputs) == kept_run_files("before-856b5281") | kept_run_files(
        "before-ab358668"
    )


def test_an_unfinished_run_is_resumed(endpoint: Endpoint, outputs: Path, tmp_path: Path) -> None:
    """Only what its cache lacks is asked for, and it ends with the bytes of the unbroken run."""
    whole = committed(outputs / "cache.sqlite")
    outputs = copied("unfinished", tmp_path)
    known, before = committed(outputs / "cache.sqlite"), len(endpoint.answered())
    assert len(known) == 144
    told = toolloom(*RUN, outputs=outputs)
    asked = endpoint.answered()[before:]
    assert len(asked) == len(set(asked)) == RESPONSES["1.0.0"] - len(known)
    assert set(asked) <= whole - known
    assert "New version: before/1.0.0" in told
    assert run_files(outputs) == kept_run_files("before-856b5281")
    assert version_files(outputs, "1.0.0") == version_files(BEFORE / "outputs", "1.0.0")
