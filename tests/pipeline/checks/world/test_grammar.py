"""The language of worlds: what it reads, and what it says to a mistake."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.checks.world import grammar
from toolloom.pipeline.checks.world.grammar import Mistake, NameScope, clause, template, term
from toolloom.pipeline.checks.world.interpreter import Machine, State, as_term

NOW = "2026-01-20T10:00"


@pytest.fixture
def scope() -> NameScope:
    ref = {"type": "ref"}
    loan = {"loan_id": ref | {"entity": "loans"}, "member_id": ref | {"entity": "members"}}
    loan |= {"book_id": ref | {"entity": "books"}, "due": grammar.DATE}
    hold = {"hold_id": ref | {"entity": "holds"}, "book_id": loan["book_id"]}
    hold |= {"status": {"type": "choice", "choices": ["waiting", "ready"]}}
    return NameScope(
        entities={
            "members": {
                "member_id": loan["member_id"],
                "name": grammar.TEXT,
                "fines": grammar.NUMBER,
            },
            "books": {"book_id": loan["book_id"], "title": grammar.TEXT, "copies": grammar.INTEGER},
            "loans": loan | {"renewals": grammar.INTEGER},
            "holds": hold,
        },
        keys={name: f"{name[:-1]}_id" for name in ("members", "books", "loans", "holds")},
        args={"words": grammar.TEXT | {"optional": True}, "days": grammar.INTEGER},
        names={"me": grammar.row_of("members"), "loan": grammar.row_of("loans")},
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3 - -1", 10),
        ("me.fines / 2", 2.25),
        ("loan.book.title", "Emma"),
        ("loan.due + 2 weeks", "2026-02-06"),
        ("loan.due - $days days", "2026-01-20"),
        ("days(today, loan.due)", 3),
        ("weekday(now)", "Tuesday"),
        ("count(loans where member_id == me)", 1),
        ("if(me.fines > 4, 'much', 'little')", "much"),
        ("least(me.fines, 3)", 3),
        ("count(loans where member_id = me)", 1),
        ("count(holds where book.title = 'Persuasion' and status in ['waiting', 'ready'])", 1),
        ("sum(renewals + 1 for loans where member_id = me)", 2),
        ("max(loans.due)", "2026-01-23"),
        ("first(books where copies > 0 by title desc).title", "Persuasion"),
        ("first(books where title = 'x').title", None),
        ("books where title has $words by title [title]", [{"title": "Emma"}, {"title": "Persuasion"}]),
        ("loan[loan_id, book.title as title]", {"loan_id": "LOA-1", "title": "Emma"}),
        ("members as m limit 1 [name, loans where member_id = m [due] as loans]",
         [{"name": "Ann Lee", "loans": [{"due": "2026-01-23"}]}]),
        ("not loan.renewals > 1 and (me.fines = 0 or loan.due > today)", True),
        ("$words is given or loan.book.title same 'EMMA'", True),
    ],
)  # fmt: skip
def test_terms_mean_what_they_say(
    scope: NameScope, library: Machine, shelf: State, text: str, value: Any
) -> None:
    """Precedence, references, searches, views and moments, run on a shelf."""
    tree, _ = term(text, scope)
    frame = library.frame(shelf, {"days": 3}, NOW)
    frame.vars["loan"] = frame.tables["loans"]["LOA-1"]
    assert as_term(tree)(frame) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("loan.titel", "has no field `titel`"),
        ("loan.book.titel", "title can stand here"),
        ("lone.due", "loan"),
        ("words", "Write `$words`"),
        ("$word", "words can stand here"),
        ("loan.due > 3", "compares a date with a number"),
        ("loan.due + 3", "a span needs a unit"),
        ("loan.due + 3 hours", "A date has no hours"),
        ("loan.book.title + 1", "needs numbers"),
        ("count(holds where status = 'lost') > 0", "waiting, ready"),
        ("count(holds where book_id = loan.member_id) > 0", "a key of members"),
        ("count(loans where loan.renewals > 0 and due > today", "`)` is missing"),
        ("me > 3", "a row of members"),
        ("me.fines <", "A value is missing"),
        ("sum(books.title)", "`sum` adds numbers"),
        ("round(me.fines, 9)", "0 to 6 digits"),
        ("size(3)", "`size` takes list or text"),
        ("1 ~ 2", "cannot be read"),
        ("me.fines > 1 2", "An operator is missing"),
        ("(" * 99 + "1" + ")" * 99, "nested more than"),
        ("1 + " * 999 + "1", "characters"),
        ("1+" * 900 + "1", "words and signs"),
        ("-" * 250 + "1", "nested more than"),
        ("not " * 250 + "true", "nested more than"),
    ],
)
def test_a_mistake_is_told_with_what_can_stand_there(
    scope: NameScope, text: str, says: str
) -> None:
    """Names, types, constants of choices and units are checked while a text is read."""
    with pytest.raises(Mistake, match=r".") as mistake:
        clause(text, scope)
    assert says in str(mistake.value)


def test_a_name_that_could_be_two_things_is_refused(scope: NameScope) -> None:
    """A row's field that hides another name passed every other check: it has to be said."""
    inner = scope.bound("title", grammar.TEXT)
    with pytest.raises(Mistake, match="books as x"):
        term("count(books where title = 'Emma')", inner)
    assert term("count(books as b where b.title = 'Emma')", inner)
    with pytest.raises(Mistake, match="is in none"):
        term("count(books where this.title = 'Emma')", scope)


def test_templates_hold_terms(scope: NameScope, library: Machine, shelf: State) -> None:
    """`{me.fines|money}` is a term in a text; a brace alone is a mistake."""
    tree = template("{me.name} owes {me.fines|money}.", scope)
    assert as_term(tree)(library.frame(shelf, {}, NOW)) == "Ann Lee owes 4.50."
    for wrong in ("{me.name", "{me.name|shout}", "{me.nam}"):
        with pytest.raises(Mistake):
            template(wrong, scope)


@given(text=st.text(alphabet="abdemlnou.$'()[]<>=+-*/, 019{}", max_size=60))
def test_any_text_is_read_or_a_mistake(text: str) -> None:
    """The reader ends on whatever a model wrote, with a tree or with a Mistake."""
    scope = NameScope({"a": {"b": grammar.NUMBER}}, {"a": "b"}, names={"me": grammar.row_of("a")})
    try:
        term(text, scope)
        clause(text, scope)
    except Mistake:
        pass
