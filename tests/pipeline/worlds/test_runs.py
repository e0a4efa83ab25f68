"""Runs in worlds, from recipe to version."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import lending
from support.author import Author
from support.toys import ALL_IN_TRAIN

from toolloom import FakeServer
from toolloom.llm.scripted import improvise
from toolloom.pipeline.dataset.verify import verify
from toolloom.pipeline.run import Made, run_recipe
from toolloom.pipeline.worlds.sampler import check_worlds
from toolloom.schemas import Reason, RecipeError, parse_recipe


def rows(made: Made, stage: str, kind: str = "accepted") -> list[dict[str, Any]]:
    path = Path(made.summary.path) / stage / f"{kind}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def act_of(message: dict[str, Any]) -> dict[str, Any]:
    """A turn of an assistant as the simulator answers it."""
    calls = [call["function"] for call in message["tool_calls"]]
    return {"calls": calls, "reply": message["content"] or ""}


def test_a_domain_gets_a_world(tmp_path: Path) -> None:
    """Its operations are the APIs, its dialogues are tasks that the query agent words; its file can
    be named in the next recipe. A second domain of the same world is none, and a file that is there
    already, which somebody may have changed, stays."""
    with (server := FakeServer(Author())).serve_in_thread():
        model = {"base_url": server.base_url, "model": "large"}
        fields = {"name": "own", "model": model, "tester": {"votes": 0}, "splits": ALL_IN_TRAIN}
        domains = {"apis": {"domains": 2}, "queries": {"count": 6}}
        made = run_recipe(parse_recipe({**fields, **domains}, "a recipe"), tmp_path)
        file = tmp_path / "worlds" / "library.yaml"
        written = file.read_text("utf-8")
        file.write_text("mine", "utf-8")
        again = run_recipe(parse_recipe({**fields, **domains}, "a recipe"), tmp_path)
        assert file.read_text("utf-8") == "mine"
        file.write_text(written, "utf-8")
        named = {"worlds": {"use": [str(file)], "rows": 2}}
        next_one = run_recipe(parse_recipe({**fields, **named, "name": "next"}, "b"), tmp_path)
    assert made.published and verify(made.published.path).good
    assert again.published and again.published.path == made.published.path
    (world,) = rows(made, "worlds")
    (other,) = rows(made, "worlds", "rejected")
    assert other["reason"] == Reason.NEAR_DUPLICATE and world["text"] == file.read_text("utf-8")
    assert {api["name"] for api in rows(made, "apis")} == set(world["spec"]["operations"])
    needs = rows(made, "queries")
    assert len(needs) == 6 and all(need["setting"]["world"] == "library" for need in needs)
    assert rows(made, "tested")
    assert next_one.published and rows(next_one, "worlds")[0]["spec"] == world["spec"]


@pytest.mark.parametrize("does", ["all", "more", "nothing", "unlikely"])
def test_a_solved_task_may_be_played_live(does: str, tmp_path: Path) -> None:
    """What comes of it counts, not the calls: one more look is accepted, and doing nothing is
    not."""
    for path in lending.LIBRARY.parent.glob("library*.yaml"):
        shutil.copyfile(path, tmp_path / path.name)
    known, asked_of = dict[tuple[str, ...], list[Any]](), Counter[tuple[str, ...]]()

    def script(body: Any) -> Any:
        system, asked = (message["content"] for message in body["messages"][:2])
        if system.startswith("You write what is said"):
            words: Any = improvise(body)
            if does == "all" and len(body["messages"]) == 2:
                words["turns"][0]["assistant"] += " It costs $987."  # goes back once
            return {**words, "likely": does != "unlikely"}
        if not system.startswith("You play the assistant"):
            return improvise(body)
        said = next(k for k in known if k[0] in asked and f"User: {k[1]}\n" in asked)
        asked_of[said] += 1
        look: Any = {"calls": [{"name": "list_holds", "arguments": {}}], "reply": ""}
        if does == "nothing":
            return look | {"calls": [], "reply": "I cannot say."}
        return [*([look] if does == "more" else []), *known[said]][asked_of[said] - 1]

    with (server := FakeServer(script)).serve_in_thread():
        fields: dict[str, Any] = {"model": {"base_url": server.base_url, "model": "large"}}
        fields |= {"splits": ALL_IN_TRAIN, "tester": {"votes": 0}, "seed": 4}
        fields["queries"] = {"abilities": {"call": 1}}
        worlds = {"use": [str(tmp_path / "library.yaml")], "rows": 6, "words": "model"}
        first = {**fields, "name": "replayed", "worlds": worlds}
        settled = rows(run_recipe(parse_recipe(first, "a recipe"), tmp_path / "out"), "tested")
        for row in settled:
            messages = row["dialogue"]["messages"]
            acts = [act_of(m) for m in messages if m["role"] == "assistant"]
            known[messages[0]["content"], messages[1]["content"]] = acts
        assert len(settled) == (0 if does == "unlikely" else 6)
        if not settled:
            return
        live = {**fields, "name": "live", "worlds": {**worlds, "solution": "played"}}
        made = run_recipe(parse_recipe(live, "a recipe"), tmp_path / "out")
    there, accepted = (
        {row["dialogue"]["query"]["id"]: row["dialogue"]["messages"] for row in found}
        for found in (settled, rows(made, "tested"))
    )
    if does == "nothing":
        reasons = {row["reason"] for row in rows(made, "tested", "rejected")}
        assert len(accepted) < 6 and reasons - {Reason.FACT_NOT_TOLD} == {Reason.GOAL_NOT_REACHED}
    else:
        assert accepted.keys() == there.keys() and made.published
        assert verify(made.published.path).good
        longer = {len(accepted[name]) - len(messages) for name, messages in there.items()}
        assert longer == {2 if does == "more" else 0}


def test_scripts_are_not_played_live() -> None:
    """Their words are settled: who asks for live play has to name who plays."""
    fields = {"name": "dead", "model": "none", "worlds": {"use": ["shop"], "solution": "played"}}
    with pytest.raises(RecipeError, match="needs a capable model"):
        check_worlds(parse_recipe(fields, "a recipe"))
