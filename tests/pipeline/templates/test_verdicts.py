from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from support.expanded_dataset import (
    ASKED,
    BOOK,
    CITIES,
    DAYS,
    FIND,
    FOUND,
    PLAIN,
    SINGLE,
    skeleton,
    template,
)

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.dataset.unfold import TemplateRenderer
from toolloom.pipeline.templates import verdicts
from toolloom.pipeline.templates.verdicts import Checker
from toolloom.schemas import JsonObject, Scenario, Template

PARALLEL = skeleton(
    (
        "I need a room in <city1> on <day1> for <guests1> guests, and one in <city2> on <day2> for "
        "<guests2> guests.",
        [
            (
                FIND,
                {"city": f"<city{n}>", "day": f"<day{n}>", "guests": f"<guests{n}>"},
                {"host": f"<host{n}>", "price": f"<price{n}>", "offer": f"AB{n}77"},
            )
            for n in (1, 2)
        ],
        "<host1> offers one for <price1> euros. The other is at <host2> for <price2> euros.",
    ),
    scenario=Scenario.PARALLEL,
)
CHAIN = skeleton(
    (
        "Find a room in <city> on <day> for <guests> guests and book it, please.",
        [
            (FIND, ASKED, FOUND),
            (BOOK, {"offer": "<offer>"}, {"status": "<status>", "ticket": "<ticket>"}),
        ],
        "Your room at <host> is <status>; the ticket is <ticket>.",
    ),
    scenario=Scenario.SEQUENTIAL,
    references={1: {"offer": (0, "offer")}},
)
TURNS = skeleton(
    (
        "Is there a room in <city> on <day> for <guests> guests?",
        [(FIND, ASKED, FOUND)],
        "Yes, at <host> for <price> euros; the offer is <offer>.",
    ),
    (
        "Please book the offer <offer>.",
        [(BOOK, {"offer": "<offer>"}, {"status": "confirmed", "ticket": "<ticket>"})],
        "It is confirmed, with the ticket <ticket>.",
    ),
    scenario=Scenario.MULTI_TURN,
)


SAID = "Please find me a room in <city> on <day> for <guests> guests."


def room(reply: str, offer: str = "<offer>", said: str = SAID) -> JsonObject:
    """One call for a room, and a reply unlike that of `SINGLE`."""
    return skeleton((said, [(FIND, ASKED, {**FOUND, "offer": offer})], reply))


BORROWED = room(
    "I found one at <host> for <price> euros; breakfast starts at <guests1> euros.", "AB77"
)
"""Its reply tells a number that only another value may bear out."""
CONSTANT = room("I found one at <host> for <price> euros. Breakfast costs 6 euros.", "AB77")
"""And this one such a number of its own."""
SHORT = room(
    "The room at <host> costs <price>. The offer code is <offer>.",
    said="A room for <guests> guests, city <city>, day <day>.",
)
"""Its reply tells something new as long as one of its values is new, and no mere code."""
BORDERING = room("No cheaper room than <price> at <host>, 2 guests fit; the offer is <offer>.")
"""Its reply has a number that days may bear out, and one that a name may make a time of."""
FEW = {name: pool[:2] for name, pool in PLAIN.items()}
TEMPLATES: dict[str, Template] = {
    "plain": template(SINGLE, **{**PLAIN, "price": [81.5, 120], "day": DAYS[:2]}),
    "one in the other": template(
        SINGLE, **{**FEW, "city": ["Palo Alto", "Palo", "Verde"], "host": ["Casa Palo", "Palo"]}
    ),
    "the same twice": template(
        PARALLEL,
        city1=CITIES[:3],
        city2=["Bern", "Oslo"],
        day1=["2026-04-05"],
        day2=["2026-05-17", "2026-04-05"],
        guests1=[2, 3],
        guests2=[3, 2],
        host1=["Casa Verde", "Blue Lodge"],
        host2=["Inn Altona", "Blue Lodge"],
        price1=[81.5],
        price2=[120, 81.5],
    ),
    "a chain": template(
        CHAIN,
        **FEW,
        status=["confirmed", "booked", "cancelled", "not confirmed"],
        ticket=["TK4411", "TK9075"],
    ),
    "several turns": template(TURNS, **FEW, ticket=["TK4411", "QX7781", "TK 12"]),
    "borrowed": template(
        BORROWED,
        city=CITIES[:2],
        day=DAYS,
        guests=[2, 5, 17],
        host=["Casa Verde", "The 9 Inn"],
        price=[81.5, 9, 120],
        guests1=[2, 5, 9, 120, 4],
    ),
    "a constant": template(
        CONSTANT,
        city=CITIES[:2],
        day=["2026-04-15", "2026-04-06"],
        guests=[6, 2, 3],
        host=["Casa Verde", "Six Inn"],
        price=[81.5, 6],
    ),
    "nothing told": template(
        SHORT,
        city=["Oslo", "US"],
        day=["2026-04-05", "2026-07-06"],
        guests=[2, 3],
        host=["Casa Verde", "10:30", "On", "Open", "Oslo"],
        price=[81.5, 2],
        offer=["QX7781", "Blue Lodge"],
    ),
    "bordering": template(
        BORDERING,
        city=["Oslo", "Zurich"],
        day=["2026-03-02", "2026-04-05", "2026-10-10"],
        guests=[2, 31, 1000],
        host=["Casa Verde", "Morning Star"],
        price=[81.5, 6],
        offer=["QX7781"],
    ),
    "odd values": template(
        SINGLE,
        **{
            **FEW,
            "city": ["Zurich", "St. Gallen", "not Oslo", "Bern? No", "US", ""],
            "host": ["Casa Verde", "Uma Sol", "if open", 'The "Oslo" Inn', "House of Zurich"],
        },
    ),
    "of other kinds": template(
        SINGLE, **{**FEW, "guests": [2, "two", None, True, [2]], "price": [81.5, "cheap", 1e20]}
    ),
}


def rows_of(of: Template) -> list[tuple[int, ...]]:
    return list(product(*(range(len(choice.rows)) for choice in of.choices)))


@pytest.fixture
def nothing_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is inspected that can be composed, from the first row on."""
    monkeypatch.setattr(verdicts, "FIRST", 1)
    monkeypatch.setattr(verdicts, "LOOKED_AT", 0)
    monkeypatch.setattr(verdicts, "ONE_IN", 10**9)


def passes(mould: TemplateRenderer, row: tuple[int, ...]) -> bool:
    dialogue: Any = mould.sample(row, "row", 0).dialogue
    return not inspect(dialogue)


@pytest.mark.usefixtures("nothing_looked_at")
@pytest.mark.parametrize("name", TEMPLATES)
def test_composed_verdicts_are_those_of_inspection(name: str) -> None:
    """For every row of a template; but for rows with a value that falls in nearly all of them."""
    mould = TemplateRenderer(TEMPLATES[name])
    rows = rows_of(TEMPLATES[name])
    checker = Checker(mould, "expanded", 0, wanted=10**6)
    verdict = dict(zip(rows, checker.accepted(rows), strict=True))
    wrong = [row for row, ok in verdict.items() if ok and not passes(mould, row)]
    assert not wrong, [mould.filled(row) for row in wrong[:3]]
    lost = [
        row
        for row, ok in verdict.items()
        if not ok and checker.dropped.isdisjoint(enumerate(row)) and passes(mould, row)
    ]
    assert not lost, [mould.filled(row) for row in lost[:3]]
    assert any(verdict.values())


@pytest.mark.usefixtures("nothing_looked_at")
def test_most_rows_of_a_plain_template_are_not_inspected() -> None:
    """Values that do not interfere are proven once."""
    of = template(SINGLE, **PLAIN)
    checker, rows = Checker(TemplateRenderer(of), "expanded", 0, wanted=10**6), rows_of(of)
    assert all(checker.accepted(rows))
    assert checker.inspected < len(rows) / 20


def test_rows_are_passed_over_only_where_others_are_composed() -> None:
    """Of two names side by side every pair is new: with rows to spare they are inspected too."""
    said = "Please find me a room in <city1> <city2> on <day> for <guests> guests."
    asked = {**ASKED, "city": "<city1> <city2>"}
    found = {**FOUND, "price": 81.5}
    of = template(
        skeleton((said, [(FIND, asked, found)], "It is at <host>, with the offer <offer>.")),
        city1=CITIES[:2],
        city2=["Nord", "Ost", "Mitte"],
        **{n: PLAIN[n][:3] for n in ("day", "guests", "host", "offer")},
    )
    checker = Checker(TemplateRenderer(of), "expanded", 0, wanted=20, spare=10**9)
    assert sum(checker.accepted(rows_of(of))) >= 20


def test_few_rows_are_all_inspected() -> None:
    """Nothing is composed for them."""
    of = TEMPLATES["plain"]
    rows = rows_of(of)[:10]
    checker = Checker(TemplateRenderer(of), "expanded", 0, wanted=10)
    assert all(checker.accepted(rows))
    assert checker.inspected == 1 + len(rows)
