"""`toolloom estimate`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from support.commands import call

from toolloom import FakeServer

estimate = partial(call, "estimate", "toy.yaml", "-n", 3)
RECIPE = """
name: toy
model: {base_url: "%s", model: fake}
apis: {domains: 4, per_domain: 3, worlds: false}
queries: {count: 30}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a recipe that asks a scripted endpoint."""
    monkeypatch.chdir(tmp_path)
    server = FakeServer()
    with server.serve_in_thread():
        (tmp_path / "toy.yaml").write_text(RECIPE % server.base_url)
        yield tmp_path


def test_a_forecast_is_printed_and_written(home: Path) -> None:
    """The table names each stage; the file holds the same numbers."""
    ran = estimate("--json", "told.json")
    assert ran.exit_code == 0, ran.output
    told = json.loads((home / "told.json").read_text())
    assert [s["name"] for s in told["stages"]] == [
        line.split()[0] for line in ran.stdout.splitlines()[2:8]
    ]
    assert f"{told['expected']['use']['prompt_tokens']:,}" in ran.stdout
    assert "From a sample of 3 queries" in ran.stdout


@pytest.mark.slow
def test_without_prices_there_are_no_dollars(home: Path) -> None:
    """Nothing is guessed: tokens are counted."""
    assert "$" not in estimate().stdout
    with (home / "toy.yaml").open("a") as file:
        file.write("prices: {fake: {prompt: 1, completion: 4}}\n")
    priced = estimate()
    assert "cost" in priced.stdout
    assert "for each (API-Bank's agents: $0.1)" in priced.stdout


@pytest.mark.slow
def test_the_cache_can_be_elsewhere(home: Path) -> None:
    """`--cache` keeps the sample's answers where it says."""
    assert estimate("--cache", str(home / "answers.sqlite")).exit_code == 0
    assert (home / "answers.sqlite").exists()
    assert not (home / "outputs").exists()
    again = estimate("--cache", str(home / "answers.sqlite"))
    assert " 0 requests sent" in again.stdout, again.output
