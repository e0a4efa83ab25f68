"""The account of an import, and texts without markup."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.formats.import_log import (
    LONGEST,
    ImportLog,
    legal,
    legible,
    sentence,
    shortened,
)


@given(st.lists(st.text(max_size=80), max_size=12))
def test_names_are_legal_and_given_once(wanted: list[str]) -> None:
    """Whatever a source calls its functions, models can call each, and no two are the same."""
    ledger = ImportLog("a source")
    given = [ledger.function(name, f"t/{name}") for name in wanted]
    assert len(set(given)) == len(given)
    assert all(legal(name) == name and 0 < len(name) <= LONGEST for name in given)
    renamed = ledger.report(imported=0).renamed
    assert len(renamed) == sum(a != b for a, b in zip(wanted, given, strict=True))


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("<p>Feeds <b>one</b> animal.<br/>Daily.</p>", "Feeds one animal. Daily."),
        ('## Feeding\n\nSee [the plan](https://zoo.example/plan "Plan").', "Feeding See the plan."),
        ("Use **care** and `id` &amp; <name>.", "Use care and `id` & <name>."),
        ("| a | b |\n| --- | --- |\n| 1 | 2 |", "| a | b | | 1 | 2 |"),
        ("a\x00b\x1b[31m\u2028c", "a b [31m c"),
        (None, ""),
        (["text"], ""),
    ],
)
def test_markup_goes_and_words_stay(given_text: object, expected: str) -> None:
    """A model reads words: no tags, headings, link addresses or control characters."""
    assert sentence(given_text) == expected


@given(st.text(), st.integers(min_value=0, max_value=60))
def test_texts_are_legible_and_short_enough(text: str, limit: int) -> None:
    """Any text can be written as UTF-8 and keeps to the limit."""
    found = shortened(sentence(text), limit)
    found.encode()
    assert len(found) <= limit or found == ""
    assert legible(found) == found


@pytest.mark.parametrize("part", ["<a ", "[", "[a](", " ", "**a", "__", "|-", "&#", "> "])
def test_no_text_takes_long(part: str) -> None:
    """Ten megabytes of what looks like the beginning of markup are read in a moment."""
    start = time.perf_counter()
    sentence(part * 5_000_000)
    assert time.perf_counter() - start < 20


def test_a_text_is_cut_after_a_sentence_or_a_word() -> None:
    """The rest of a cut text still reads well."""
    assert shortened("One two three. Four five six.", 22) == "One two three."
    assert shortened("Onetwo threefour fivesix", 18) == "Onetwo threefour…"
