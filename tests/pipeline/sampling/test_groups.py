from __future__ import annotations

import random
from typing import Any

import pytest
from support import toys

from toolloom.pipeline.sampling.groups import MOST, Link, content_words, find_links, levels_of
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


def named(*apis: Api) -> list[tuple[str, str, str]]:
    return [(link.first.name, link.second.name, link.field) for link in links(*apis)]


def test_a_field_gives_an_argument_of_its_name() -> None:
    """But not one that the first API asks for itself: the user would know it."""
    one, two = api("find", gives={"offer_id": TEXT}), api("book", takes={"offer_id": TEXT})
    assert named(one, two) == [("find", "book", "offer_id")]
    assert named(api("find", {"offer_id": TEXT}, {"offer_id": TEXT}), two) == []
    assert named(api("find", gives={"offer": {"properties": {"offer_id": TEXT}}}), two) == []


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
    found = named(api("find", gives={"ref_no": field}), api("book", takes={"ref_no": argument}))
    assert bool(found) == linked


def test_an_id_is_the_id_of_the_same_thing() -> None:
    """`id`, `name` and the like link only within a tool, where names or paths share a word."""
    find = api("searchPets", gives={"id": TEXT})
    assert named(find, api("pet_photo", takes={"id": TEXT})) == [("searchPets", "pet_photo", "id")]
    assert named(find, api("get_order", takes={"id": TEXT})) == []
    assert named(find, api("pet_photo", takes={"id": TEXT}, tool="vet")) == []
    by_path = api("fetch", takes={"id": TEXT}, operation="GET /pets/{id}")
    assert named(find, by_path) == [("searchPets", "fetch", "id")]
    in_braces = api("fetch", takes={"id": TEXT}, operation="GET /things/{pets}")
    assert named(find, in_braces) == []


def test_what_all_of_a_tool_is_about_tells_nothing() -> None:
    """`repos` in every path of a service does not make two of its APIs belong together."""
    others = [api(f"other{n}", operation=f"GET /repos/x{n}") for n in range(20)]
    find = api("find", gives={"id": TEXT}, operation="GET /repos/issues")
    assert named(find, api("tag", {"id": TEXT}, operation="GET /repos/tags"), *others) == []
    assert named(find, api("close", {"id": TEXT}, operation="POST /repos/issues/{id}"), *others)


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


def test_ids_of_real_services_stay_in_their_tool() -> None:
    """An account here is no account there; invented services of a category share their ids."""
    one = api("find", gives={"offer_id": TEXT})
    two = api("book", takes={"offer_id": TEXT}, tool="desk")
    assert named(one, two) == []
    made = [each.model_copy(update={"source": Source()}) for each in (one, two)]
    assert named(*made) == [("find", "book", "offer_id")]


def test_options_make_no_link() -> None:
    """Real APIs take back all they give; a link is what the second one needs, or an id."""
    one = api("find", gives={"colour": TEXT, "offer_id": TEXT, "parts": {"type": "object"}})
    takes = {"type": "object", "properties": {"colour": TEXT, "offer_id": TEXT}}
    assert named(one, api("book", parameters=takes)) == [("find", "book", "offer_id")]
    assert named(one, api("book", takes={"parts": {"type": "object"}})) == []
    invented = api("book", parameters=takes, source=Source())
    assert len(named(one, invented)) == 2


def test_names_tell_what_they_are_about() -> None:
    """However they are written; verbs count only where there is nothing else."""
    assert content_words("listPetOwners") == {"pet", "owner"}
    assert content_words("GET /pet-owners/{petId}") == {"pet", "owner"}
    assert content_words("get") == {"get"}


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
