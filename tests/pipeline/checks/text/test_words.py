"""Words as they are compared."""

from __future__ import annotations

import re
from itertools import product

import pytest
import snowballstemmer

from toolloom.pipeline.checks.text.words import found_in, lowered, stem

# Every ending that Snowball's English rules name, and words they except.
ENDINGS = """
ed eed ing edly eedly ingly y ied ies s sses ss us at bl iz bb tional enci anci abli entli izer
ization ational ation ator alism aliti alli fulness ousli ousness iveness iviti biliti bli ogi
ogist fulli lessli li alize icate iciti ical ful ness ative al ance ence er ic able ible ant
ement ment ent ism ate iti ous ive ize ion e l skis skies sky idly gently ugly early only singly
news howe atlas cosmos bias andes inning outing canning herring earring evening proceed exceed
succeed gener commun arsen past univers later emerg organ inter
""".split()  # noqa: SIM905 - a table of words
STARTS = ("", "a", "bo", "tre", "yoy", "gener", "hopp", "relat", "sens")
LETTERS = ("", *"abcdefghijklmnopqrstuvwxyz")


def test_words_the_stemmer_is_spared_are_their_own_stems() -> None:
    """A stem is Snowball's, whether its rules were run or the word's ending told the answer."""
    stemmer = snowballstemmer.stemmer("english")
    words = ("".join(parts) for parts in product(STARTS, ENDINGS, LETTERS))
    for word in (*words, "1", "12", "1,000.50", "12:30"):  # figures have no endings
        assert stem(word) == stemmer.stemWord(word)


@pytest.mark.parametrize("text", ["Am FREITAG", "freitag", "Köln, Freitag", "Freıtag, FREİTAG"])
def test_case_is_ignored_where_small_letters_are_looked_through(text: str) -> None:
    """What is found, and where, is what the expression finds that ignores case."""
    spans = [m.span() for m in found_in(re.compile("freitag"), text, lowered(text))]
    assert spans == [m.span() for m in re.finditer("freitag", text, re.IGNORECASE)]
