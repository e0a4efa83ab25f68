from __future__ import annotations

import random
from typing import Any

import pytest
from support import toys

from toolloom.pipeline.sampling.draw import MOST, Link, find_links, levels_of
from toolloom.schemas import Api, JsonObject, Level, Source

TEXT: JsonObject = {"type": "string"}


def api(
    name: str,
    takes: dict[str, Any] | None = None,
    gives: dict[str, Any] | None = None,
    tool: str = "shop",
    operation: str = "",
    **changes: Any,
) -> Api:
    fields = {
        "tool": tool,
        "parameters": {"type": "object", "properties": takes or {}, "required": [*(takes or {})]},
        "returns": {"type": "object", "properties": gives or {}},
        "source": Source(kind="openapi", operation=operation),
    }
    return toys.api("c", name).model_copy(update={**fields, **changes})


def links(*apis: Api) -> list[Link]:
    return find_links(apis, random.Random(0))


OFFER: JsonObject = {"offer_id": TEXT}
PETS = api("searchPets", gives={"id": TEXT})
ISSUES = api("find", gives={"id": TEXT}, operation="GET /repos/issues")
SAID = {"type": "object", "properties": {"colour": TEXT, **OFFER}}
GIVEN = {"colour": TEXT, "parts": {"type": "object"}, **OFFER}
INVENTED = Source()


@pytest.mark.parametrize(
    ("first", "second", "fields"),
    [
        (api("find", gives=OFFER), api("book", OFFER), ["offer_id"]),
        # The user knows what the first API asks for itself.
        (api("find", OFFER, OFFER), api("book", OFFER), []),
        (api("find", gives={"offer": {"properties": OFFER}}), api("book", OFFER), []),
        # `id` and the like link within a tool, where names or paths share a word.
        (PETS, api("pet_photo", {"id": TEXT}), ["id"]),
        (PETS, api("get_order", {"id": TEXT}), []),
        (PETS, api("pet_photo", {"id": TEXT}, tool="vet"), []),
        (PETS, api("fetch", {"id": TEXT}, operation="GET /pets/{id}"), ["id"]),
        (PETS, api("fetch", {"id": TEXT}, operation="GET /things/{pets}"), []),
        # An account here is no account there; invented services of a category share their ids.
        (api("find", gives=OFFER), api("book", OFFER, tool="desk"), []),
        (
            api("find", gives=OFFER, source=INVENTED),
            api("book", OFFER, tool="desk", source=INVENTED),
            ["offer_id"],
        ),
        # Real APIs take back all they give: a link is what the second one needs, or an id.
        (api("find", gives=GIVEN), api("book", parameters=SAID), ["offer_id"]),
        (api("find", gives=GIVEN), api("book", {"parts": {"type": "object"}}), []),
        (
            api("find", gives=GIVEN),
            api("book", parameters=SAID, source=INVENTED),
            ["colour", "offer_id"],
        ),
    ],
)
def test_a_field_gives_an_argument_of_its_name(first: Api, second: Api, fields: list[str]) -> None:
    """Where it is plain that they are the same, and only there."""
    assert sorted(link.field for link in links(first, second)) == fields


@pytest.mark.parametrize(
    ("field", "argument", "linked"),
    [
        ({"type": "integer"}, TEXT, False),
        ({}, {}, False),
        ({"type": ["string", "null"]}, {"anyOf": [TEXT, {"type": "null"}]}, True),
        ({"type": "boolean"}, {"type": "boolean"}, False),
        (TEXT, {"type": "string", "enum": ["a"]}, False),
        (TEXT, {"type": "string", "format": "date"}, False),
        ({"type": "string", "format": "date"}, TEXT, True),
    ],
)
def test_types_and_choices_must_agree(
    field: JsonObject, argument: JsonObject, linked: bool
) -> None:
    """A field whose values the argument may refuse gives nothing."""
    found = links(api("find", gives={"ref_no": field}), api("book", {"ref_no": argument}))
    assert bool(found) == linked


def test_what_all_of_a_tool_is_about_tells_nothing() -> None:
    """`repos` in every path of a service does not make two of its APIs belong together."""
    others = [api(f"other{n}", operation=f"GET /repos/x{n}") for n in range(20)]
    assert not links(ISSUES, api("tag", {"id": TEXT}, operation="GET /repos/tags"), *others)
    assert links(ISSUES, api("close", {"id": TEXT}, operation="POST /repos/issues/{id}"), *others)


def test_links_cross_tools_by_category_and_collection() -> None:
    """Those of other categories and no common collection have nothing to do with each other."""
    one = api("find", gives={"city": TEXT}, collections=("travel",))
    near = api("book", takes={"city": TEXT}, tool="desk")
    far = api("hold", takes={"city": TEXT}, tool="hall", category="d", collections=("travel",))
    strange = api("drop", takes={"city": TEXT}, tool="hole", category="e")
    found = {link.second.name: link.levels for link in links(one, near, far, strange)}
    assert found == {"book": {Level.CATEGORY}, "hold": {Level.COLLECTION}}
    assert levels_of(one, one) == {Level.SINGLE_TOOL}
    assert levels_of(one, strange) == frozenset()


@pytest.mark.timeout(60)
def test_links_of_many_apis_are_a_sample() -> None:
    """Their number and the time are bounded, and the seed decides which."""
    apis = [
        api(f"f{n}", {"city": TEXT} if n % 2 else {}, {"city": TEXT}, tool=f"t{n % 50}")
        for n in range(4000)
    ]
    found = links(*apis)
    assert MOST / 2 < len(found) <= 51 * MOST  # a group for each tool, and one for the category
    assert found == links(*apis)
    assert len({(link.first.id, link.second.id) for link in found}) == len(found)
