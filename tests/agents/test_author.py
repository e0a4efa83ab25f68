"""A world by the API agent: an author who is right, and authors who make each kind of mistake."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import lending
from support.author import LIBRARY, Author

from toolloom.agents.author import Draft, read_tables
from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.worlds import authoring, soundness
from toolloom.pipeline.worlds.authoring import Authored, write_world
from toolloom.pipeline.worlds.library import apis_of, load_world
from toolloom.pipeline.worlds.soundness import examine, score
from toolloom.prompts import render
from toolloom.schemas import Api, Domain, Reason

DOMAIN = Domain(category="", name="city library with holds")


@pytest.fixture(autouse=True)
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is small: fewer random calls reach all of it."""
    monkeypatch.setattr(soundness, "WALKS", 30)
    monkeypatch.setattr(soundness, "OF_MUTANTS", (6, 60))


async def authored(working: Any, author: Author, document: Sequence[Api] = ()) -> Authored:
    async with working(author, "api") as (job, _):
        return await write_world(DOMAIN, job, document=document)


async def test_a_world_that_is_right_is_taken_as_it_is(working: Any, tmp_path: Path) -> None:
    """Its file is read back to the same world, and passes the checks. Promises are written from the
    documentation alone: no step of an operation is shown to who writes them."""
    author = Author()
    made = await authored(working, author)
    assert made.world and not made.outcome.rejected and not made.mended
    assert made.asked == made.at_once == len(LIBRARY["operations"])
    (tmp_path / "library.yaml").write_text(made.world.text, "utf-8")
    again = load_world(tmp_path / "library.yaml")
    assert again == made.world.spec
    assert not examine(Machine(again)).findings
    assert score(made.world.spec).share > 0.8
    assert len(author.asked) == len(LIBRARY["operations"]) + 2
    (asked,) = [question for part, question in author.asked if part == "promises"]
    documented = asked.partition("The documentation of the API:")[2]
    assert "renew(loan_id: a key of loans)" in documented and "returns [loan_id, due]" in documented
    assert "It was renewed twice." in documented and "require" not in documented


def step(number: int, **change: Any) -> Callable[[Any], Any]:
    """An operation with one of its steps changed."""

    def changed(operation: Any) -> Any:
        operation["steps"][number] |= change
        return operation

    return changed


MISTAKES = {
    "a hidden effect": (
        "renew",
        lambda operation: {
            **operation,
            "steps": [{"update": "me", "set": {"fines": "fines + 2"}}, *operation["steps"]],
        },
        Reason.PROMISE_BROKEN,
        "has an effect that is not promised",
    ),
    "a condition forgotten": (
        "pay_fines",
        lambda operation: {**operation, "steps": operation["steps"][1:]},
        Reason.WORLD_UNSOUND,
        "ends in",
    ),
    "never": ("renew", step(0, require="loan.renewals < 0"), Reason.WORLD_UNREACHABLE, "never"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_each_kind_of_mistake_is_found_and_can_be_mended(working: Any, mistake: str) -> None:
    """What random calls find goes back once, with an example; put right, the operation stands."""
    name, change, reason, told = MISTAKES[mistake]
    stubborn = Author({name: change, f"mend {name}": lambda _: "I would rather not."})
    made = await authored(working, stubborn)
    assert name in made.dropped and told in made.dropped[name]
    dropped = next(r for r in made.outcome.rejected if r.record["operation"] == name)
    assert dropped.reason == reason and dropped.record["written"]
    assert made.world is None or not examine(Machine(made.world.spec)).findings
    willing = Author({name: change})
    made = await authored(working, willing)
    assert made.world and made.mended == [name] and not made.dropped
    asked = next(question for part, question in willing.asked if part == f"mend {name}")
    assert told in asked


async def test_what_cannot_be_read_goes_back_with_its_line(working: Any) -> None:
    """And what cannot be read then is dropped, with both answers."""
    unread = {"renew": step(0, require="loan.renewed < 2")}
    author = Author(unread, {"renew": lambda operation: operation})
    made = await authored(working, author)
    assert made.world and not made.dropped and made.at_once == made.asked - 1
    again = [question for part, question in author.asked if part == "renew"][1]
    assert re.search(r"line \d+: steps\[0\].*renewed", again)
    others: Any = {"promises": lambda answer: {**answer, "policies": []}}
    made = await authored(working, Author(unread | others))
    assert made.world and "renewed" in made.dropped["renew"]
    (dropped,) = made.outcome.rejected
    assert dropped.reason == Reason.WORLD_UNSOUND and len(dropped.raw) == 2
    assert "renew" not in made.world.spec["promises"]


async def test_garbage_is_no_world(working: Any) -> None:
    """Prose, a refusal, tables of which no state can be drawn: the domain is rejected, with all
    that was said."""
    impossible = {"rules": ["fines > 100"]}

    def undrawable(answer: Any) -> Any:
        answer["entities"]["members"] |= impossible
        return answer

    for change, told in (
        (lambda _: "As a language model I cannot help with libraries.", "mapping"),
        (lambda _: "world: [", "YAML"),
        (lambda _: {"world": "library"}, "entities"),
        (undrawable, "members"),
    ):
        made = await authored(working, Author({"tables": change}))
        assert made.world is None
        (rejected,) = made.outcome.rejected
        assert rejected.reason == Reason.WORLD_UNSOUND and told in rejected.detail
        assert len(rejected.raw) == 4 and rejected.record["name"] == DOMAIN.name


def planning(more: int) -> Author:
    """An author whose plan has more operations than the library."""

    def longer(answer: Any) -> Any:
        plan = {f"operation_{number}": "Does something." for number in range(more)}
        return {**answer, "plan": {**answer["plan"], **plan}}

    return Author({"tables": longer})


async def test_an_author_of_many_operations_is_bounded(working: Any) -> None:
    """Three hundred are refused; of twenty too many the first ten are asked for."""
    author = planning(300)
    made = await authored(working, author)
    assert made.world is None and len(author.asked) == 4
    assert "at most 120 operations" in made.outcome.rejected[0].detail
    made = await authored(working, planning(20))
    assert made.world and made.asked == 10
    assert sum("are not asked for" in why for why in made.dropped.values()) == 17


@pytest.mark.parametrize("limit", [9_000, 24_000])
async def test_no_world_costs_more_than_its_tokens(
    working: Any, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where every first answer has to be given again."""
    monkeypatch.setattr(authoring, "TOKENS", limit)
    parts = ["tables", *LIBRARY["operations"], "promises"]
    author = Author(
        {part: lambda _: "I would rather not." for part in parts},
        {part: lambda answer: answer for part in parts},
    )
    made = await authored(working, author)
    assert 0 < made.costs.usage.prompt_tokens <= limit
    assert bool(made.world) == (limit > 14_000)


async def test_too_little_is_no_world(working: Any) -> None:
    """Where most operations fail, the world goes with its commonest reason."""
    bare = {name: lambda operation: {"about": operation["about"]} for name in LIBRARY["operations"]}
    author = Author(bare | {f"mend {name}": lambda _: "No." for name in bare})
    made = await authored(working, author)
    assert made.world is None
    assert "operations are left" in made.outcome.rejected[-1].detail


def test_the_tables_that_are_shown_are_tables_that_there_are() -> None:
    """The example of the page is read without a mistake, beside the table that it refers to."""
    empty = {"category": "", "domain": "", "description": "", "entities": "", "actor": ""}
    rest = {"plan": (), "name": "", "apis": "", "piece": "", "findings": (), "document": ""}
    said = render("world_author", {"part": "tables", **empty, **rest}).messages[0]["content"]
    (block,) = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", f"{said}\n", re.MULTILINE)
    frame = yaml.load(textwrap.dedent(block), yaml.BaseLoader)
    members = {"key": "member_id MEM-", "called": "{name}", "fields": {"name": "person label"}}
    frame["entities"]["members"] = members
    frame["plan"] |= {"list_loans": "Your loans.", "cancel_booking": "Cancel one."}
    draft = read_tables(yaml.safe_dump(frame, sort_keys=False), DOMAIN, {})
    assert draft.frame["entities"]["loans"]["fields"]


def test_a_policy_goes_with_the_last_operation_that_it_is_about() -> None:
    """The others stay named; one that holds of words alone stays."""
    both = {"says": "x", "calls": ["a", "b"], "first": ["c", "d"]}
    of_one = {"says": "y", "calls": ["b"], "consent": "true"}
    draft = Draft({}, operations={"a": {}, "c": {}}, policies=[both, of_one, {"words": "true"}])
    kept = draft.raw()["policies"]
    assert kept == [{**both, "calls": ["a"], "first": ["c"]}, {"words": "true"}]


async def test_mending_that_leaves_less_is_undone(
    working: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would stand without it stands, and only what failed at first is dropped."""

    async def spoil(self: Any, draft: Draft, ailing: Any) -> None:
        for name in ("list_loans", "list_holds", "search_books"):
            draft.operations[name] = {"about": "Nothing.", "returns": "count(loans)"}
            del draft.promises[name]

    monkeypatch.setattr(authoring._Authoring, "_mend", spoil)
    made = await authored(working, Author({"renew": step(0, require="loan.renewals < 0")}))
    assert made.world and list(made.dropped) == ["renew"] and not made.mended
    assert [each.record["operation"] for each in made.outcome.rejected] == ["renew"]


# --- behind a document -------------------------------------------------------------------------


def documented(**changes: dict[str, Any]) -> list[Api]:
    """The library's operations as a document's, whose schemas say more of some."""
    return [
        api.model_copy(update={"description": f"Of {api.name}.", **changes.get(api.name, {})})
        for api in apis_of(lending.world())
    ]


async def test_a_world_keeps_the_signatures_and_words_of_a_document(working: Any) -> None:
    """Its descriptions stand before the author's, whose own are kept; what the model did not choose
    is left out with its reason."""
    title = {"properties": {"title": {"type": "string", "description": "Words."}, "page": {}}}
    first, *others = documented(list_loans={"parameters": title})
    made = await authored(
        working,
        Author({"tables": lambda answer: {**answer, "left_out": {"export": "returns a file"}}}),
        [first, *others, *(first.model_copy(update={"function": n}) for n in ("export", "z"))],
    )
    assert made.world and not made.dropped and made.unused == {"list_loans": ["page"]}
    assert made.left["export"] == "returns a file" and "others" in made.left["z"]
    spec = made.world.spec["operations"]["list_loans"]
    assert spec["about"] == f"Of list_loans. {LIBRARY['operations']['list_loans']['about']}"
    assert spec["args"]["title"]["about"] == "Part of the title."


UNLIKE: dict[str, tuple[str, dict[str, Any], str]] = {
    "no parameter": ("renew", {"parameters": {"properties": {}}}, "args.loan_id is not in"),
    "a type": (
        "renew",
        {"returns": {"type": "object", "properties": {"due": {"type": "integer"}, "loan_id": {}}}},
        "returns.due is of type string",
    ),
    "a required field": (
        "search_books",
        {"returns": {"type": "array", "items": {"properties": {"isbn": {}}, "required": ["isbn"]}}},
        "returns[].isbn is missing",
    ),
    "a value": (
        "cancel_hold",
        {"returns": {"properties": {"hold_id": {}, "status": {"enum": ["waiting", "ready"]}}}},
        "returns.status can be cancelled",
    ),
    "a moment": (
        "renew",
        {"returns": {"properties": {"loan_id": {}, "due": {"format": "date-time"}}}},
        "returns.due is a date",
    ),
}


@pytest.mark.parametrize("mistake", UNLIKE)
async def test_what_is_not_as_the_document_has_it_goes_back(working: Any, mistake: str) -> None:
    """A parameter, a type, a required field, a value: each is named, and then costs its operation."""
    name, change, told = UNLIKE[mistake]
    without: Any = {"promises": lambda answer: {**answer, "policies": []}}
    author = Author({name: lambda answer: answer, **without})
    made = await authored(working, author, documented(**{name: change}))
    assert told in made.dropped[name] and made.world
    again = [question for part, question in author.asked if part == name][1]
    assert told in again


async def test_a_parameter_for_show_is_found(working: Any) -> None:
    """An operation that takes what nothing in it uses is told so, and dropped if that stays."""

    def taking(operation: Any) -> Any:
        return {**operation, "args": {**operation["args"], "channel": "text(web; phone)"}}

    author = Author({"renew": taking, "mend renew": lambda _: "no"})
    made = await authored(working, author)
    assert "renew takes `channel`, and nothing in it uses it." in made.dropped["renew"]
