"""The card of a version: its header, its figures and its cost, made of the manifest alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support import toys
from support.finished_runs import finished_run

from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.render.section import cell, table
from toolloom.schemas import Reason, Usage


def test_text_cannot_break_out_of_the_card() -> None:
    """Model and user text in a table stays in its cell."""
    evil = "a | b\n---\nconfigs: []\n<script> [x](http://evil)"
    assert "\n" not in cell(evil)
    assert table(("x",), [(evil,)]).count("\n") == 2
    assert "\\<script\\>" in cell(evil)
    assert "\x1b" not in cell("\x1b[2J") and "\u202e" not in cell("\u202etxt")


MODEL = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}


def card_of(tmp_path: Path, use: Usage, **changes: Any) -> str:
    """The card of a run of one accepted and one rejected record, which took so much."""
    lost = [toys.rejected(toys.query(1), "tested", Reason.UNHELPFUL_ANSWER)]
    run = finished_run(tmp_path, [toys.sample()], lost, use, **changes)
    return (publish(run, tmp_path).path / "README.md").read_text()


def test_the_card_tells_what_an_accepted_row_cost(tmp_path: Path) -> None:
    """All that was asked, for the rows that came of it; how much the endpoint had cached; and which
    model has no price."""
    tokens = {"prompt_tokens": 8000, "cached_tokens": 2000, "completion_tokens": 100}
    use = Usage(requests=9, **tokens, cost=0.0123)
    card = card_of(tmp_path, use, model=MODEL, prices={"m": {"prompt": 1}})
    assert "sent 8,000 tokens, 25 % of them cached by the endpoint, and wrote 100." in card
    assert "cost $0.0123: $0.0123 for each accepted dialogue (API-Bank's agents: $0.1)" in card
    assert "| tested | tester | 1 | 1 | 9 | 8000 | 25 % | 100 | $0.0123 |" in card
    prices = {"judge": {"prompt": 1}}
    changes = {"agents": {"query": {"model": "judge"}}, "prices": prices, "model": MODEL}
    lacking = card_of(tmp_path / "lacking", Usage(requests=1, cost=0.5), **changes)
    assert "cost $0.500, without m:" in lacking
