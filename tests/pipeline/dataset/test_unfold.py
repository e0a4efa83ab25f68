import datetime as dt
import json
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import toys
from support.expanded_dataset import FIND, FOUND
from support.expanded_dataset import skeleton as drawn
from support.expanded_dataset import template as drawn_template
from support.json_values import json_values

from toolloom.pipeline.curation.parts import instruction
from toolloom.pipeline.dataset.rows import CONFIGS, SAMPLES, SFT, samples_row, sft_row
from toolloom.pipeline.dataset.unfold import (
    TemplateMisfit,
    TemplateRenderer,
    filled,
    text_of,
    write_expansion,
)
from toolloom.pipeline.store import tables
from toolloom.pipeline.store.files import to_text
from toolloom.pipeline.store.tables import VersionWriter
from toolloom.schemas import (
    Choice,
    Expansion,
    JsonObject,
    Provenance,
    Sample,
    Split,
    Template,
    Verdict,
    marker,
)
from toolloom.schemas.splits import signature

LETTERS = st.text(
    st.one_of(
        st.sampled_from('"\\\n\t\r/ {}[]:,a1é😀\u2028\x00\x1f\x7f'),
        st.characters(exclude_categories=("Cs", "Co")),
    ),
    max_size=8,
)
PLAIN = st.one_of(
    LETTERS,
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
)
VALUES = json_values(PLAIN, LETTERS, most=4)
SLOTS = ("city", "day", "odd name")
CITY = marker("city")


def parted(*slots: str) -> st.SearchStrategy[str]:
    """Texts with slots in them, alone or between words."""
    piece = st.one_of(LETTERS, st.sampled_from(list(map(marker, slots))))
    return st.lists(piece, min_size=1, max_size=4).map("".join)


def nested(slots: tuple[str, ...]) -> st.SearchStrategy[Any]:
    inner = st.one_of(parted(*slots), PLAIN, st.sampled_from(list(map(marker, slots))))
    return st.dictionaries(LETTERS, st.one_of(inner, st.lists(inner, max_size=2)), max_size=3)


def skeleton(text: str, arguments: Any, response: Any, answer: str) -> JsonObject:
    """A toy sample as JSON, with these parts, in each of which slots may be."""
    made = toys.sample().model_dump(mode="json")
    query, messages = made["dialogue"]["query"], made["dialogue"]["messages"]
    query["text"] = messages[0]["content"] = text
    query["intent"][0]["arguments"] = arguments
    messages[1]["tool_calls"][0]["function"]["arguments"] = arguments
    messages[2]["content"] = to_text({"response": response, "error": None})
    messages[3]["content"] = answer
    return dict(made)


def template(sample: JsonObject, *choices: Choice) -> Template:
    fields = {"id": "t0", "goal": "A goal.", "apis": ("weather/station/current",)}
    return Template(**fields, kind="mined", sample=sample, choices=choices)  # type: ignore[arg-type]


def choice(*rows: Any, slots: tuple[str, ...] = ("city",)) -> Choice:
    told = tuple(row if isinstance(row, tuple) else (row,) for row in rows)
    return Choice(slots=slots, rows=told, about="a toy")


def by_hand(of: Template, values: dict[str, Any], name: str, seed: int) -> JsonObject:
    """The sample of a row, with slots filled in Python objects."""
    made = json.loads(json.dumps(of.sample))
    dialogue = made["dialogue"]
    for message in dialogue["messages"]:
        if message["content"] and message["role"] == "tool":
            content = filled(json.loads(message["content"]), values)
            message["content"] = to_text(content)
        elif message["content"]:
            message["content"] = text_of(filled(message["content"], values))
        message["tool_calls"] = filled(message["tool_calls"], values)
    query = dialogue["query"]
    query["text"] = text_of(filled(query["text"], values))
    query["intent"] = filled(query["intent"], values)
    query["id"], query["provenance"], dialogue["provenance"] = name, [], []
    share = Provenance(stage="expanded", agent="", model="", seed=seed, parents=(of.id,))
    verdict, provenance = Verdict().model_dump(mode="json"), [share.model_dump(mode="json")]
    return {"dialogue": dialogue, "verdict": verdict, "flags": [], "provenance": provenance}


@st.composite
def templates(draw: st.DrawFn) -> Template:
    sample = skeleton(
        "ask " + draw(parted(*SLOTS)),
        {**draw(nested(SLOTS)), "each": [*map(marker, SLOTS)]},
        draw(nested(SLOTS)),
        "tell " + draw(parted(*SLOTS)),
    )
    pair = st.tuples(VALUES, VALUES)
    return template(
        sample,
        choice(*draw(st.lists(pair, min_size=1, max_size=3)), slots=SLOTS[:2]),
        choice(*draw(st.lists(st.tuples(VALUES), min_size=1, max_size=3)), slots=SLOTS[2:]),
    )


@settings(max_examples=150, deadline=None)
@given(templates(), st.data(), LETTERS)
def test_a_row_is_the_text_of_the_sample_filled_by_hand(
    of: Template, data: st.DataObject, name: str
) -> None:
    """Whatever the values are and wherever slots stand, at every depth of escaping."""
    mould = TemplateRenderer(of)
    rows = [tuple(data.draw(st.integers(0, len(c.rows) - 1)) for c in of.choices) for _ in range(3)]
    wanted = [by_hand(of, mould.filled(row), f"{name}{n}", 7) for n, row in enumerate(rows)]
    names = [f"{name}{n}" for n in range(3)]
    texts = [mould.sample_text(row, n, 7) for row, n in zip(rows, names, strict=True)]
    assert texts == list(map(to_text, wanted))
    places = list(zip(*rows, strict=True))
    queries = [row["dialogue"]["query"] for row in wanted]
    assert mould.signatures(places, 3) == [signature(query["intent"]) for query in queries]
    assert [mould.intent(row) for row in rows] == [query["intent"] for query in queries]
    assert mould.words(places, 3) == list(map(instruction, wanted))
    sft = [SFT.encode(sft_row(row)) for row in wanted]
    samples = list(map(samples_row, wanted))
    assert mould.sft_columns(rows, names) == {k: [row[k] for row in sft] for k in SFT.columns}
    assert mould.samples_columns(rows, names, 7) == {
        k: [row[k] for row in samples] for k in SAMPLES.columns
    }


def test_a_row_is_a_sample() -> None:
    """It has its own id, says whose row it is, and keeps the moment of its template."""
    of = template(skeleton(f"In {CITY}?", {"city": CITY}, {"in": CITY}, "Ok."), choice("a", "b"))
    row = TemplateRenderer(of).sample((1,), "t0-x000001", 3)
    assert isinstance(row, Sample)
    assert (row.id, row.dialogue.query.text) == ("t0-x000001", "In b?")
    assert row.dialogue.query.now == dt.datetime(2026, 3, 2, 9, 30)
    assert [p.parents for p in row.provenance] == [("t0",)]


IN_CITY = skeleton(CITY, {}, 1, "x")


@pytest.mark.parametrize(
    ("sample", "choices", "why"),
    [
        (skeleton(marker("day"), {}, 1, "x"), [choice("a")], "no choice fills the slot `day`"),
        (skeleton("x", {}, 1, "x"), [choice("a")], "the slot `city` stands nowhere"),
        (IN_CITY, [choice("a"), choice("b")], "the slot `city` is filled twice"),
        (skeleton(CITY, {CITY: 1}, 1, "x"), [choice("a")], "stands in the name of a field"),
        (skeleton("\ue000city", {"a": CITY}, 1, "x"), [choice("a")], "half a slot stands in"),
        (IN_CITY, [choice(CITY)], "a value is a slot itself"),
        (IN_CITY, [choice(float("nan"))], "no number of JSON"),
        ({"dialogue": {}}, [choice("a")], "its sample is none"),
        (
            skeleton(marker("#name"), {}, CITY, "x"),
            [choice("a", slots=("#name",))],
            "begins with `#`",
        ),
    ],
)
def test_what_does_not_fit_is_refused(sample: JsonObject, choices: list[Choice], why: str) -> None:
    """A template whose slots and choices do not fit each other makes no row."""
    with pytest.raises(TemplateMisfit, match=why):
        TemplateRenderer(template(sample, *choices))


TOUCHING = drawn(
    ("A room in <city>.", [(FIND, {"city": "<city>"}, FOUND)], "<price><guests> is it.<day>")
)


@pytest.mark.parametrize(
    ("pools", "limits"),
    [
        ({"city": ["Bern", "Oslo"], "price": [81.5, 120]}, {}),
        (
            {"city": ["Bern", "Na"], "price": [1e-7, 0.1 + 0.2, 2**70, 12345678.5]},
            {"LETTERS_IN_GROUP": 30_000},
        ),
        (
            {"city": ["NaN", "\\ud83d", "1e+5"], "price": [1234567890, "1e", "1234.5"]},
            {"ROWS_IN_FILE": 8},
        ),
    ],
)
def test_expansions_are_written_as_their_samples_are(
    pools: dict[str, list[Any]],
    limits: dict[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the same rows left out of `sft`, in the same files, groups of rows and bytes, however
    rows and columns take turns."""
    for name, value in {"ROWS_IN_GROUP": 4, **limits}.items():
        monkeypatch.setattr(tables, name, value)
    more = {"guests": [2, "+5", 99999999], "day": ["N", ""], "host": ["Casa"], "offer": ["AB77"]}
    of = drawn_template(TOUCHING, **pools, **more)
    rows = tuple(product(*(range(len(choice.rows)) for choice in of.choices)))
    made = Expansion(id="e", template=of, split=Split.TRAIN, first=7, rows=rows, inspected=0)
    mould = TemplateRenderer(of)
    samples = [
        mould.sample(row, made.sample_id(place), 3).model_dump(mode="json")
        for place, row in enumerate(rows)
    ]
    with (
        VersionWriter(tmp_path / "one", CONFIGS) as one,
        VersionWriter(tmp_path / "many", CONFIGS) as many,
    ):
        for sample in (samples[0], *samples, samples[0]):
            one.add_made(SFT, "train", sft_row(sample))
            one.add_made(SAMPLES, "train", samples_row(sample))
        for turn in range(2):
            many.add_made(SFT, "train", sft_row(samples[0]))
            many.add_made(SAMPLES, "train", samples_row(samples[0]))
            if not turn:
                write_expansion(made, many, 3)
        assert one.finish() == many.finish()
    for path in (tmp_path / "one").rglob("*.parquet"):
        name = path.relative_to(tmp_path / "one")
        assert path.read_bytes() == (tmp_path / "many" / name).read_bytes()
        assert pq.ParquetFile(path).metadata.num_row_groups >= 2
