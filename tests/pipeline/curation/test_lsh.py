from __future__ import annotations

import numpy as np
import pytest

from toolloom.pipeline.curation.duplicates import BANDS, Buckets, bands, slots_in_band
from toolloom.pipeline.curation.parts import call_parts, digests, jaccard, text_parts
from toolloom.schemas import JsonObject


def need(*calls: JsonObject, scenario: str = "parallel") -> JsonObject:
    return {"ability": "call", "scenario": scenario, "intent": list(calls)}


def call(api: str = "a/b/c", **arguments: object) -> JsonObject:
    return {"api": api, "arguments": arguments, "references": {}}


def alike(one: JsonObject, other: JsonObject) -> float:
    return jaccard(*(call_parts(each) for each in (one, other)))


def test_hashes_are_the_same_everywhere() -> None:
    """Runs of letters, digests and bands do not depend on process or machine: these are fixed."""
    parts = text_parts("is it cold in zurich")
    assert set(text_parts("is it c").tolist()) < set(parts.tolist())
    assert int(parts.sum()) == 40439366939
    assert digests([parts], 4).tolist() == [[79533675, 64384553, 216058425, 131072582]]
    assert bands([parts], 2)[:2, 0].tolist() == [3546954473, 2489259201]


def test_short_texts_have_one_part() -> None:
    """A text of up to five letters is compared as a whole, an empty one too."""
    assert [len(text_parts(text)) for text in ("", "hi", "hello", "hello!")] == [1, 1, 1, 2]
    assert text_parts("hi").tolist() != text_parts("ho").tolist()


def test_calls_are_what_they_say() -> None:
    """The order of calls and arguments and the way of writing a value say nothing."""
    one, two = call(city="Rome", days=2), call(city="Bern", days=3)
    assert alike(need(one, two), need(two, one)) == 1
    assert alike(need(call(n=5, t="Zürich!")), need(call(t="zurich", n=5.0))) == 1
    assert alike(need(call(n=5, t="x")), need(call(n=6, t="x"))) == 0.5
    assert alike(need(one), need(one, scenario="single")) == 0
    assert alike(need(call(at={"x": [1, 2]})), need(call(at={"x": [2, 1]}))) == 1


def test_long_values_are_compared_by_their_words() -> None:
    """A word more in a long note makes nearly the same call."""
    note = "buy milk and eggs and bread on the way home tonight"
    assert 0.7 < alike(need(call(note=note)), need(call(note=f"{note} please"))) < 1


@pytest.mark.parametrize(("near", "slots"), [(0.3, 1), (0.5, 2), (0.8, 8), (0.95, 8)])
def test_bands_find_what_is_near(near: float, slots: int) -> None:
    """The likelier a pair, the more slots a band may have; 99 % of those at the edge are found."""
    assert slots_in_band(near) == slots
    assert 1 - (1 - near**slots) ** BANDS >= 0.99


def test_rows_meet_in_buckets() -> None:
    """Rows are candidates if a band or the whole is equal, those with most in common first."""
    keys = np.array([[1, 1, 2, 3], [5, 6, 6, 7]], np.uint32)
    buckets = Buckets(np.array([9, 8, 7, 6], np.uint64), keys)
    assert buckets.shared.tolist() == [True, True, True, False]
    for row in range(4):
        assert buckets.like(3) == []
        buckets.add(row)
    assert buckets.like(1) == [1, 0, 2]
    assert Buckets(np.array([4, 4], np.uint64), np.zeros((0, 2), np.uint32)).shared.all()
