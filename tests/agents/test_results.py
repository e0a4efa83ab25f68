from __future__ import annotations

from typing import Any

import pytest
from support import toys

from toolloom.agents.results import LONGEST, MOST, told_by

RETURNS = {
    "type": "object",
    "properties": {
        "owner": {
            "type": "object",
            "properties": {"login": {"type": "string", "description": "name of the account"}},
        }
    },
}


def told(response: Any) -> list[tuple[str, Any]]:
    return [(f.name, f.value) for f in told_by(toys.api(), response)]


def test_a_nested_value_is_named_by_its_path() -> None:
    """A fact's name is the path to it, and its description that of the inner schema."""
    (fact,) = told_by(
        toys.api().model_copy(update={"returns": RETURNS}), {"owner": {"login": "ada"}}
    )
    assert (fact.name, fact.about, fact.value) == ("owner_login", "name of the account", "ada")


def test_of_a_list_of_objects_the_first_is_told() -> None:
    """Lists of objects give the facts of their first item, lists of scalars are one fact."""
    assert told([{"title": "Emma"}, {"title": "Dune"}]) == [("title", "Emma")]
    assert told({"tags": ["a", "b"]}) == [("tags", ["a", "b"])]


def test_a_text_is_told_line_by_line() -> None:
    """`Name: value` names its fact, a heading is passed over, another line is a result."""
    text = "Commit history:\nAuthor: Ada\nnothing to commit"
    assert told(text) == [("author", "Ada"), ("result", "nothing to commit")]


@pytest.mark.parametrize("empty", [None, "", {}, [], {"a": None}, {"a": ""}, {"a": []}])
def test_what_is_empty_tells_nothing(empty: Any) -> None:
    """No fact is made of nothing."""
    assert told(empty) == []


def test_few_and_short_facts_are_told() -> None:
    """At most a handful of facts, none of them longer than a sentence can hold."""
    assert len(told({f"f{i}": i for i in range(20)})) == MOST
    assert told({"long": "x" * (LONGEST + 1), "short": "y"}) == [("short", "y")]
