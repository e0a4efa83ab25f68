from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import toys
from support.curation_rows import fallen, in_split, kept, row, sift

from toolloom.pipeline.curation.duplicates import (
    balance,
    deduplicate,
    folded,
    jaccard,
    text_parts,
)
from toolloom.schemas import Ability, Intention, Reason, RecipeError, Sample, Split

LONG = "Could you look up the weather in the old harbour town where my brother lives, please"


def similarity(one: str, other: str) -> float:
    return jaccard(*(text_parts(folded(text)) for text in (one, other)))


def test_rows_that_say_the_same_are_one(tmp_path: Path) -> None:
    """Case, accents, punctuation and spaces do not make another instruction, and a word more makes
    a near duplicate, unless the threshold is one. The row and the likeness are told."""
    texts = [f"{LONG} in Zürich?", f"{LONG.upper()}  in ZURICH", f"{LONG} in Zürich today?", "Why?"]
    rows = [row(name, text) for name, text in zip("abcd", texts, strict=True)]
    found = sift(deduplicate, rows, tmp_path)
    assert kept(found) == ["a", "d"]
    exact, near = fallen(found)["b"], fallen(found)["c"]
    assert (exact.reason, near.reason) == (Reason.EXACT_DUPLICATE, Reason.NEAR_DUPLICATE)
    assert exact.detail == "The user says the same as in a."
    assert "nearly the same as in a (similarity 0.9" in near.detail
    assert kept(sift(deduplicate, rows, tmp_path, curation={"near": 1})) == ["a", "c", "d"]


def continued(name: str, text: str, more: str) -> Sample:
    """A dialogue in which the user says more."""
    begun = row(name, text)
    turn = begun.dialogue.messages[0].model_copy(update={"content": more})
    dialogue = begun.dialogue.model_copy(update={"messages": (*begun.dialogue.messages, turn)})
    return begun.model_copy(update={"dialogue": dialogue})


OTHER = LONG.replace("the old harbour town", "that village by the lake")


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([row("a", LONG), row("b", OTHER)], id="a pattern that says other things"),
        pytest.param([row("a", "Weather in Rome?"), row("b", "Weather, Bern")], id="short ones"),
        pytest.param(
            [row("a", "Is it cold?"), continued("b", "Is it cold?", "And how is it in Rome?")],
            id="all that the user says",
        ),
        # Vowels and tones are marks in Unicode, and not left out.
        pytest.param([row("a", "दिल की दवा"), row("b", "दाल की दवा")], id="vowels of Hindi"),
        pytest.param([row("a", "バスはどこ"), row("b", "ハスはどこ")], id="marks of Japanese"),
        pytest.param([row("a", "ไก่ กี่ ตัว"), row("b", "ไข่ กี่ ตัว")], id="letters of Thai"),
        pytest.param([row("a", "ปา"), row("b", "ป้า")], id="tones of Thai"),
    ],
)
def test_rows_that_say_other_things_stay(rows: list[Sample], tmp_path: Path) -> None:
    """However alike they look, or begin."""
    assert kept(sift(deduplicate, rows, tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("split", [Split.VALIDATION, Split.TEST_INSTRUCTION])
def test_rows_of_tests_stay_before_rows_of_train(split: Split, tmp_path: Path) -> None:
    """A row of train that says what a row of a test or of validation says goes, wherever it is."""
    rows = [in_split(Split.TRAIN, "a", LONG), in_split(split, "b", f"{LONG} today")]
    found = sift(deduplicate, rows, tmp_path)
    assert kept(found) == ["b"]
    assert "in b" in fallen(found)["a"].detail


def test_rows_that_make_the_same_calls_are_few(tmp_path: Path) -> None:
    """At most `same_calls` rows of one ability and scenario make the same calls."""
    asks = ["Rain in Rome?", "Umbrella or not", "I fly south tomorrow", "How are the skies there"]
    rows = [row(f"q{n}", text, "Rome") for n, text in enumerate(asks)]
    other = row("other", "Shall I take a coat to Rome", "Rome", ability=Ability.RETRIEVE_CALL)
    found = sift(deduplicate, [*rows, other], tmp_path, curation={"same_calls": 2})
    assert kept(found) == ["q0", "q1", "other"]
    assert fallen(found)["q2"].reason is Reason.EXACT_DUPLICATE
    assert fallen(found)["q3"].detail == "2 rows make the same calls already, such as q0."


def test_calls_are_nearly_the_same_if_few_of_many_values_differ(tmp_path: Path) -> None:
    """One of ten values is little; one of two is another call."""

    def calling(name: str, values: int, last: str) -> Sample:
        arguments = {f"k{n}": n for n in range(values - 1)} | {"last": last}
        asked = {"wide": values}
        intent = (Intention(api="weather/station/current", arguments={**arguments, **asked}),)
        return row(name, f"Another wish, number {name * 9}", intent=intent)

    rows = [calling(*each) for each in zip("abcd", (12, 12, 2, 2), "xyxy", strict=True)]
    found = sift(deduplicate, rows, tmp_path, curation={"same_calls": 1})
    assert kept(found) == ["a", "c", "d"]
    assert fallen(found)["b"].reason is Reason.NEAR_DUPLICATE
    assert fallen(found)["b"].detail.startswith("1 row makes nearly the same calls already, such")


def test_rows_without_calls_are_not_alike_for_that(tmp_path: Path) -> None:
    """Any number of rows may ask for nothing that can be called."""
    asks = ["Hello there", "What a day it is", "Good evening to you", "Thanks for everything"]
    rows = [row(f"q{n}", text, intent=()) for n, text in enumerate(asks)]
    assert len(kept(sift(deduplicate, rows, tmp_path, curation={"same_calls": 1}))) == 4


def test_rows_of_published_splits_are_known(tmp_path: Path) -> None:
    """A row that repeats one of a split that is kept goes, and the version is named."""
    need = row("old", LONG, "Rome").dialogue.query.model_dump(mode="json")
    known = [{k: need[k] for k in ("id", "text", "ability", "scenario", "intent")}]
    again = {"version": "toy/1.0.0", "content": "c", "split": "train"}
    rows = [row("a", f"{LONG} now"), row("b", "Rain in Rome?", "Rome")]
    plan = {"same_calls": 1}
    found = sift(deduplicate, rows, tmp_path, known, curation=plan, regenerate=again)
    assert kept(found) == []
    assert "as in old in toy/1.0.0 (" in fallen(found)["a"].detail
    assert fallen(found)["b"].detail.endswith("already, such as old in toy/1.0.0.")


WORDS = [f"{a}{b}" for a in ("ta", "ro", "mi", "ku", "le") for b in ("n", "so", "rit", "va")]


# So few examples, as LSH may miss a pair: of 200 seeds about one has such a pair.
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), near=st.sampled_from([0.6, 0.8, 0.9]))
def test_no_two_rows_that_stay_are_alike(seed: int, near: float, tmp_path: Path) -> None:
    """Each row that goes is as like the named one as is said, and that one stays."""
    rng = random.Random(seed)
    bases = [rng.choices(WORDS, k=12) for _ in range(4)]
    texts = {}
    for number in range(24):
        words = list(rng.choice(bases))
        for _ in range(rng.randrange(3)):
            words[rng.randrange(12)] = rng.choice(WORDS)
        texts[f"q{number}"] = " ".join(words)
    rows = [row(name, text) for name, text in texts.items()]
    found = sift(deduplicate, rows, tmp_path, curation={"near": near})
    left = kept(found)
    pairs = [(a, b) for a in left for b in left if a < b]
    assert all(similarity(texts[a], texts[b]) < near for a, b in pairs)
    for name, finding in fallen(found).items():
        other = finding.detail.split(" in ")[1].split()[0].strip(".")
        assert other in left
        assert similarity(texts[name], texts[other]) >= near


# Values


def kinds(**counts: int) -> list[Sample]:
    """Rows of train by ability."""
    return [
        row(f"{ability}-{n}", f"Wish {n} of {ability}", ability=Ability(ability))
        for ability, count in counts.items()
        for n in range(count)
    ]


def test_a_value_has_at_most_some_times_the_median(tmp_path: Path) -> None:
    """What is over goes, with the counts; rarer values lose nothing. Whatever the order of rows, the
    same ones stay."""
    rows = kinds(call=20, retrieve_call=5, plan_retrieve_call=2)
    mixed = random.Random(1).sample(rows, len(rows))
    plan, splits = {"balance": {"ability": 2}}, toys.ALL_IN_TRAIN
    found, again = (
        sift(balance, each, tmp_path, curation=plan, splits=splits) for each in (rows, mixed)
    )
    assert sorted(kept(again)) == sorted(kept(found))
    left = Counter(name.partition("-")[0] for name in kept(found))
    assert left == {"call": 10, "retrieve_call": 5, "plan_retrieve_call": 2}
    finding = next(iter(fallen(found).values()))
    assert finding.reason is Reason.OVERREPRESENTED
    assert finding.detail == (
        "train has 20 rows of ability «call», and 5 of the median one: 10 stay."
    )


def test_each_split_is_balanced_on_its_own(tmp_path: Path) -> None:
    """A value that is rare in a test and frequent in train goes in train only."""
    rows = [in_split(Split.TRAIN, f"t{n}", f"Wish {n}") for n in range(4)]
    rows += [in_split(Split.VALIDATION, f"v{n}", f"Other wish {n}") for n in range(2)]
    found = sift(balance, rows, tmp_path, curation={"balance": {"scenario": 1}})
    assert len(kept(found)) == 6


def test_several_dimensions_take_one_after_the_other(tmp_path: Path) -> None:
    """A row that has gone for one is not counted for the next."""
    rows = kinds(call=8, retrieve_call=2)
    plan = {"balance": {"scenario": 1, "ability": 1}}
    found = sift(balance, rows, tmp_path, curation=plan, splits=toys.ALL_IN_TRAIN)
    assert Counter(name.partition("-")[0] for name in kept(found)) == {
        "call": 5,
        "retrieve_call": 2,
    }


@pytest.mark.parametrize("factor", [0.5, float("nan"), float("inf")])
def test_a_factor_leaves_the_median(factor: float) -> None:
    """Less than the median would drop what is not frequent."""
    with pytest.raises(RecipeError, match="balance.ability: Input should be"):
        toys.recipe(curation={"balance": {"ability": factor}})
