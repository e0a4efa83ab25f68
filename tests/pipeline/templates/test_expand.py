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
from toolloom.pipeline.dataset.unfold import TemplateRenderer
from toolloom.pipeline.templates import expand as stage
from toolloom.pipeline.templates import verdicts
from toolloom.pipeline.templates.expand import expand
from toolloom.schemas import Dialogue, Expansion, Reason, Sample, Split, SplitPlan
from toolloom.schemas.splits import split_of_need

SEEN: dict[str, Any] = {"test_tool": 0, "test_category": 0}


def samples(expansions: list[Expansion]) -> list[Sample]:
    """The samples that the rows are."""
    return [
        TemplateRenderer(each.template).sample(row, each.sample_id(place), 0)
        for each in expansions
        for place, row in enumerate(each.rows)
    ]


def test_as_many_rows_as_are_wanted(tmp_path: Path) -> None:
    """Distinct ones that pass all checks, numbered on; none is the sample of its template, and
    the same seed gives the same rows."""
    rooms = template(SINGLE, **MANY, split=Split.TRAIN)
    found = list(expand(given(tmp_path, [rooms], expand={"rows": 150}, seed=3)))
    assert found == list(expand(given(tmp_path, [rooms], expand={"rows": 150}, seed=3)))
    [made], fell = parted(found)
    assert (len(set(made.rows)), fell, made.first, made.split) == (150, [], 0, Split.TRAIN)
    assert (0,) * 6 not in made.rows
    rows = samples([made])
    assert [row.id for row in rows] == [f"t0-x{n:06d}" for n in range(150)]
    assert not any(inspect(row.dialogue) for row in rows)
    assert 12 < made.inspected < 150
    [other], _ = parted(list(expand(given(tmp_path, [rooms], expand={"rows": 150}, seed=4))))
    assert other.rows != made.rows


def test_what_is_left_is_made_in_another_pass(tmp_path: Path) -> None:
    """Where a template has fewer rows than it seemed to: two of its pools say the same."""
    twin = template(SINGLE, "twin", **{**{k: v[:1] for k, v in MANY.items()}, "city": CITIES * 10})
    room = template(SINGLE, "room", **MANY)
    made, _ = parted(list(expand(given(tmp_path, [room, twin], expand={"rows": 60}))))
    counted = Counter[str]()
    for each in made:
        assert each.first == counted[each.template.id]
        counted[each.template.id] += len(each.rows)
    assert counted.total() == 60
    assert len({(r.dialogue.query.text, str(r.dialogue.query.intent)) for r in samples(made)}) == 60


@pytest.mark.parametrize("wanted", [["train"], ["validation", "test_instruction"]])
def test_rows_are_in_the_wanted_splits(wanted: list[str], tmp_path: Path) -> None:
    """By their calls, as the plan of splits tells; a mined template keeps its sample's."""
    templates = [
        template(SINGLE, "any", **PLAIN, kind="written"),
        template(SINGLE, "mine", **{**PLAIN, "city": ["Bern", *CITIES]}, split=Split.VALIDATION),
    ]
    fields: Any = {"splits": SEEN, "expand": {"rows": 120, "splits": wanted}}
    made, _ = parted(list(expand(given(tmp_path, templates, **fields))))
    for each in made:
        rows = samples([each])
        found = {split_of_need(SplitPlan(**SEEN), r.dialogue.query) for r in rows}
        assert found == {each.split}
        assert each.split.value in wanted
        assert each.template.id == "any" or each.split is Split.VALIDATION
    ids = {each.template.id for each in made}
    assert ids == ({"any"} if wanted == ["train"] else {"any", "mine"})


def test_no_row_is_made_again(tmp_path: Path) -> None:
    """Not one that is published, nor a sample; numbers go on where those of the version end."""
    few = {**{name: pool[:1] for name, pool in PLAIN.items()}, "city": CITIES, "day": DAYS}
    room = template(SINGLE, **few)
    rows = [(1, 0, 0, 0, 0, 0), (2, 0, 0, 0, 0, 0)]
    mould = TemplateRenderer(room)
    published, sample = (mould.sample(row, "x", 0).model_dump(mode="json") for row in rows)
    old, text = published["dialogue"]["query"], sample["dialogue"]["query"]["text"]
    known = [{**{k: old[k] for k in ("ability", "scenario", "text", "intent")}, "id": "t0-x000041"}]
    folder = given(tmp_path, [room], [sample], known, expand={"rows": 50})
    [made], _ = parted(list(expand(folder)))
    assert len(made.rows) == 12 - 1 - 2
    assert not {*rows} & {*made.rows}
    assert (made.first, made.sample_id(0)) == (42, "t0-x000042")
    assert text not in {row.dialogue.query.text for row in samples([made])}


def test_values_that_fall_are_in_no_row(tmp_path: Path) -> None:
    """They are out of the template that the rows go with, and rejected with what was found."""
    odd = template(SINGLE, **{**PLAIN, "guests": [2, "many", 3]})
    [made], fell = parted(list(expand(given(tmp_path, [odd], expand={"rows": 200}))))
    assert made.template.choices[2].rows == ((2,), (3,))
    assert not any(inspect(row.dialogue) for row in samples([made]))
    assert {each.reason for each in fell} == {Reason.INVALID_INPUT_PARAMETERS}
    for each in fell:
        assert each.record["dialogue"]["query"]["id"] == each.id
        assert each.findings == inspect(Dialogue.model_validate(each.record["dialogue"]))
    assert len({each.id for each in fell}) == len(fell)


def test_combinations_are_held_apart(tmp_path: Path) -> None:
    """A template that calls what rows or templates of another split call together is rejected."""
    both = [
        template(SINGLE, "one", **PLAIN, split=Split.TRAIN),
        template(SINGLE, "two", **PLAIN, split=Split.VALIDATION),
    ]
    fields: Any = {"splits": SEEN, "expand": {"rows": 20, "apart": True}}
    made, fell = parted(list(expand(given(tmp_path / "a", both, **fields))))
    assert (made, [each.id for each in fell]) == ([], ["one"])
    assert (fell[0].reason, fell[0].detail) == (
        Reason.COMBINATION_HELD_OUT,
        "travel/desk/find are called together in validation already.",
    )
    made, fell = parted(list(expand(given(tmp_path / "b", both[:1], **fields))))
    assert ([each.template.id for each in made], fell) == (["one"], [])
    mould = TemplateRenderer(both[0])
    rows = (mould.sample((a, 0, c, 0, 0, 0), f"s{a}{c}", 0) for a in range(4) for c in range(3))
    plan = SplitPlan(**SEEN)
    held = next(r for r in rows if split_of_need(plan, r.dialogue.query) is not Split.TRAIN)
    made, fell = parted(
        list(expand(given(tmp_path / "c", both[:1], [held.model_dump(mode="json")], **fields)))
    )
    assert (made, [each.reason for each in fell]) == ([], [Reason.COMBINATION_HELD_OUT])


def test_a_template_that_fits_nothing_is_rejected(tmp_path: Path) -> None:
    """The others make their rows."""
    odd = template(SINGLE, "odd", city=CITIES)
    room = template(SINGLE, "room", **PLAIN)
    made, [fell] = parted(list(expand(given(tmp_path, [odd, room], expand={"rows": 9}))))
    assert (fell.id, fell.reason) == ("odd", Reason.NOTHING_TO_VARY)
    assert "no choice fills the slot `day`" in fell.detail
    assert [len(each.rows) for each in made] == [9]


def test_rows_of_a_benchmark_are_not_made(tmp_path: Path) -> None:
    """Those that say what it says, or call what it calls, fall one by one."""
    room = template(SINGLE, **{**PLAIN, "city": CITIES[:2]})
    said = TemplateRenderer(room).sample((1, 1, 1, 1, 1, 1), "x", 0).dialogue.query.text
    path = tmp_path / "bench.jsonl"
    path.write_text(json.dumps({"id": "b", "question": [[{"role": "user", "content": said}]],
                                "function": []}) + "\n")  # fmt: skip
    fields: Any = {"curation": {"against": [str(path)]}, "expand": {"rows": 1000}}
    made, fell = parted(list(expand(given(tmp_path / "run", [room], **fields))))
    assert {each.reason for each in fell} == {Reason.CONTAMINATED}
    texts = {row.dialogue.query.text for row in samples(made)}
    assert said not in texts
    assert texts


def test_long_expansions_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record holds so many rows; ids go on in the next one."""
    monkeypatch.setattr(stage, "ROWS", 40)
    room = template(SINGLE, **MANY)
    made, _ = parted(list(expand(given(tmp_path, [room], expand={"rows": 100}))))
    assert [(len(e.rows), e.first, e.id) for e in made] == [
        (40, 0, "t0-e000000"),
        (40, 40, "t0-e000040"),
        (20, 80, "t0-e000080"),
    ]


def test_rows_do_not_stand_on_a_wrong_composition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a composed verdict falls, the rows before it are inspected too."""
    monkeypatch.setattr(verdicts, "FIRST", 1)
    monkeypatch.setattr(verdicts, "LOOKED_AT", 0)
    monkeypatch.setattr(verdicts, "ONE_IN", 20)
    monkeypatch.setattr(
        "toolloom.pipeline.templates.composition.Composition.verdict", lambda *_: True
    )
    odd = template(SINGLE, **{**MANY, "guests": [2, "many", 3, "few", 6]})
    made, fell = parted(list(expand(given(tmp_path, [odd], expand={"rows": 250}))))
    assert not any(inspect(row.dialogue) for row in samples(made))
    assert sum(e.inspected for e in made) == sum(len(e.rows) for e in made) > 50
    assert fell


def test_hopeless_templates_end(tmp_path: Path) -> None:
    """No row of one passes: some are kept, and the others have its share."""
    reply = "It is at Nowhere, for <price> euros, offer <offer>."
    asked = "Find a room in <city> on <day> for <guests> guests of <host>."
    arguments = {"city": "<city>", "day": "<day>", "guests": "<guests>"}
    broken = skeleton((asked, [(FIND, arguments, FOUND)], reply))
    bad = template(broken, "bad", **{**MANY, "host": HOSTS})
    good = template(SINGLE, "good", **MANY)
    made, fell = parted(list(expand(given(tmp_path, [bad, good], expand={"rows": 80}))))
    assert sum(len(e.rows) for e in made if e.template.id == "good") == 80
    assert (len(made) <= 2, len(fell)) == (True, verdicts.KEPT)
