"""Schemas told from values."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolloom.pipeline.formats.importers.inference import schema_of

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.lists(values, max_size=4))
def test_all_values_fit_their_schema(seen: list[Any]) -> None:
    """A schema is valid and accepts every value it was told from, shallow ones at least."""
    schema = schema_of(seen)
    Draft202012Validator.check_schema(schema)
    assert all(Draft202012Validator(schema).is_valid(value) for value in seen)


def test_keys_that_are_data_are_no_properties() -> None:
    """An object by numbers is told as an object alone."""
    assert schema_of([{"10032": {"name": "Ann"}}]) == {"type": "object"}


def test_whole_and_broken_numbers_are_numbers() -> None:
    """Integers among numbers do not make two types."""
    assert schema_of([1, 2.5]) == {"type": "number"}
    assert schema_of([[{"n": 1}], [{"n": 2.5}]])["items"]["properties"]["n"] == {"type": "number"}
