"""Strategies of JSON, and the places of a document, for property tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=9)


def json_values(
    leaves: st.SearchStrategy[Any] = SCALARS,
    keys: st.SearchStrategy[str] = st.text(max_size=6),  # noqa: B008 - it is never changed
    size: int = 3,
    most: int = 10,
) -> st.SearchStrategy[Any]:
    """JSON values of these leaves; lists and objects have up to `size` entries, all `most` leaves."""
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=size) | st.dictionaries(keys, inner, max_size=size),
        max_leaves=most,
    )


def places(part: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a document: what holds it, and its key there."""
    for key, value in list(part.items() if isinstance(part, dict) else enumerate(part)):
        yield part, key
        if isinstance(value, dict | list):
            yield from places(value)
