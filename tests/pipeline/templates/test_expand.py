from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.expanded_dataset import (
    CITIES,
    DAYS,
    FIND,
    FOUND,
    HOSTS,
    MANY,
    PLAIN,
    SINGLE,
    given,
    parted,
    skeleton,
    template,
)

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.templates import expand as stage
from toolloom.pipeline.templates.expand import expand
from toolloom.pipeline.templates.filling import TemplateRenderer
from toolloom.schemas import Dialogue, Reason, Sample, Split, SplitPlan
from toolloom.schemas.splits import split_of_need

SEEN: dict[str, Any] = {"test_tool": 0, "test_category": 0}


def made_of(rows: list[Sample]) -> Counter[str]:
    """How many rows each template has."""
    return Counter(row.id.rpartition("-x")[0] for row in rows)


def said(rows: list[Sample]) -> set[tuple[str, str]]:
    return {(row.dialogue.query.text, str(row.dialogue.query.intent)) for row in rows}


def test_as_many_rows_as_are_wanted(tmp_path: Path) -> None:
    """Distinct ones that pass all checks, numbered on; none is the sample of its template, and
    the same seed gives the same rows."""
    rooms = template(SINGLE, **MANY, split=Split.TRAIN)
    found = list(expand(given(tmp_path, [rooms], expand={"rows": 150}, seed=3)))
    assert found == list(expand(given(tmp_path, [rooms], expand={"rows": 150}, seed=3)))
    rows, fell = parted(found)
    assert (len(said(rows)), fell) == (150, [])
    assert [row.id for row in rows] == [f"t0-x{n:06d}" for n in range(150)]
    assert not any(inspect(row.dialogue) for row in rows)
    first = TemplateRenderer(rooms).sample((0,) * 6)["dialogue"]["query"]
    assert first["text"] not in {row.dialogue.query.text for row in rows}
    others, _ = parted(list(expand(given(tmp_path, [rooms], expand={"rows": 150}, seed=4))))
    assert said(others) != said(rows)


def test_processes_make_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same order, however many tasks there are."""
    monkeypatch.setattr(stage, "ROWS", 10)
    rooms = [template(SINGLE, name, **MANY) for name in ("one", "two")]
    alone = list(expand(given(tmp_path, rooms, expand={"rows": 60})))
    monkeypatch.setattr(stage, "SHARED", 1)
    assert list(expand(given(tmp_path, rooms, expand={"rows": 60}))) == alone
    assert made_of(parted(alone)[0]).total() == 60


def test_what_is_left_is_made_in_another_pass(tmp_path: Path) -> None:
    """Where a template has fewer rows than it seemed to: two of its pools say the same."""
    twin = template(SINGLE, "twin", **{**{k: v[:1] for k, v in MANY.items()}, "city": CITIES * 10})
    room = template(SINGLE, "room", **MANY)
    rows, _ = parted(list(expand(given(tmp_path, [room, twin], expand={"rows": 60}))))
    assert len(rows) == len(said(rows)) == 60
    assert made_of(rows)["twin"] == len(CITIES)
    ids = [row.id for row in rows if row.id.startswith("room")]
    assert ids == [f"room-x{n:06d}" for n in range(len(ids))]


@pytest.mark.parametrize("wanted", [["train"], ["validation", "test_instruction"]])
def test_rows_are_in_the_wanted_splits(wanted: list[str], tmp_path: Path) -> None:
    """By their calls, as the plan of splits tells; a mined template keeps its sample's."""
    templates = [
        template(SINGLE, "any", **PLAIN, kind="written"),
        template(SINGLE, "mine", **{**PLAIN, "city": ["Bern", *CITIES]}, split=Split.VALIDATION),
    ]
    fields: Any = {"splits": SEEN, "expand": {"rows": 120, "splits": wanted}}
    rows, _ = parted(list(expand(given(tmp_path, templates, **fields))))
    for row in rows:
        split = split_of_need(SplitPlan(**SEEN), row.dialogue.query)
        assert split in wanted if row.id.startswith("any") else split is Split.VALIDATION
    assert set(made_of(rows)) == ({"any"} if wanted == ["train"] else {"any", "mine"})


def test_no_row_is_made_again(tmp_path: Path) -> None:
    """Not one that is published, nor a sample; numbers go on where those of the version end."""
    few = {**{name: pool[:1] for name, pool in PLAIN.items()}, "city": CITIES, "day": DAYS}
    room = template(SINGLE, **few)
    renderer = TemplateRenderer(room)
    published, sample = (renderer.sample((city, 0, 0, 0, 0, 0), "x") for city in (1, 2))
    old = published["dialogue"]["query"]
    known = [{**{k: old[k] for k in ("ability", "scenario", "text", "intent")}, "id": "t0-x000041"}]
    rows, _ = parted(list(expand(given(tmp_path, [room], [sample], known, expand={"rows": 50}))))
    assert len(rows) == 12 - 1 - 2
    assert rows[0].id == "t0-x000042"
    texts = {row.dialogue.query.text for row in rows}
    assert not texts & {old["text"], sample["dialogue"]["query"]["text"]}


def test_values_that_fall_are_in_no_row(tmp_path: Path) -> None:
    """Some rows that they fell in are rejected with what was found."""
    odd = template(SINGLE, **{**PLAIN, "guests": [2, "many", 3]})
    rows, fell = parted(list(expand(given(tmp_path, [odd], expand={"rows": 200}))))
    assert {row.dialogue.query.intent[0].arguments["guests"] for row in rows} == {2, 3}
    assert not any(inspect(row.dialogue) for row in rows)
    assert {each.reason for each in fell} == {Reason.INVALID_INPUT_PARAMETERS}
    for each in fell:
        assert each.record["dialogue"]["query"]["id"] == each.id
        assert each.findings == inspect(Dialogue.model_validate(each.record["dialogue"]))
    assert len({each.id for each in fell}) == len(fell) <= stage.KEPT


def test_rows_of_a_benchmark_are_not_made(tmp_path: Path) -> None:
    """Those that say what it says, or call what it calls, fall one by one."""
    room = template(SINGLE, **{**PLAIN, "city": CITIES[:2]})
    said = TemplateRenderer(room).sample((1, 1, 1, 1, 1, 1))["dialogue"]["query"]["text"]
    path = tmp_path / "bench.jsonl"
    path.write_text(json.dumps({"id": "b", "question": [[{"role": "user", "content": said}]],
                                "function": []}) + "\n")  # fmt: skip
    fields: Any = {"curation": {"against": [str(path)]}, "expand": {"rows": 1000}}
    rows, fell = parted(list(expand(given(tmp_path / "run", [room], **fields))))
    assert {each.reason for each in fell} == {Reason.CONTAMINATED}
    assert rows and said not in {row.dialogue.query.text for row in rows}


def test_hopeless_templates_end(tmp_path: Path) -> None:
    """No row of one passes: some are kept, and the others have its share."""
    reply = "It is at Nowhere, for <price> euros, offer <offer>."
    asked = "Find a room in <city> on <day> for <guests> guests of <host>."
    arguments = {"city": "<city>", "day": "<day>", "guests": "<guests>"}
    broken = skeleton((asked, [(FIND, arguments, FOUND)], reply))
    bad = template(broken, "bad", **{**MANY, "host": HOSTS})
    good = template(SINGLE, "good", **MANY)
    rows, fell = parted(list(expand(given(tmp_path, [bad, good], expand={"rows": 80}))))
    assert made_of(rows) == {"good": 80}
    assert len(fell) == stage.KEPT


def test_values_keep_their_types_and_texts_their_letters() -> None:
    """A value that is all of a string stands for itself, inside one for its text; quotes and
    braces in it are its own."""
    odd = template(SINGLE, **{**PLAIN, "host": ['The "Inn" {x}'], "price": [81.5]})
    sample = Sample.model_validate(TemplateRenderer(odd).sample((0,) * 6, "x"))
    call = sample.dialogue.messages[2].tool_calls[0].function
    assert call.arguments == {"city": "Zurich", "day": "2026-04-05", "guests": 2}
    seen = json.loads(sample.dialogue.messages[3].content or "")
    assert seen["response"] == {"host": 'The "Inn" {x}', "price": 81.5, "offer": "QX7781"}
    assert 'at The "Inn" {x} for 81.5 euros' in (sample.dialogue.messages[-1].content or "")
