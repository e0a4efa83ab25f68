"""Endpoints cache what prompts begin with: what is the same for every record comes first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import jinja2.meta
import jinja2.nodes
import pytest

from toolloom.prompts import FOLDER, environment, render

TEMPLATES = sorted(path.stem for path in FOLDER.glob("*.j2"))
SHOT = "{% block shot1_user %}"
SENTENCE = 60  # characters; what is shorter is a label of the value beside it
SAME_FOR_A_RUN: dict[str, Any] = {"describe": True, "count": 2}
LATER = {
    "dialogue": "the system turn of the training data, which tells the moment first",
    "mend": "comes after the answer that it is about",
}


class Value(str):
    """Text that can also be a list or a mapping, of values that are texts of their own."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Value:
        return Value(f"{self} {name}")

    def __iter__(self) -> Iterator[Value]:
        yield from (Value(f"{self} first"), Value(f"{self} second"))


def source(name: str) -> str:
    return (FOLDER / f"{name}.j2").read_text(encoding="utf-8")


def spoken(name: str, word: str) -> str:
    """A template with values made of a word, as one text."""
    tree = environment().parse(source(name))
    values = {v: Value(f"{word} {v}") for v in jinja2.meta.find_undeclared_variables(tree)}
    made = render(name, {**values, **{k: v for k, v in SAME_FOR_A_RUN.items() if k in values}})
    return "\n".join(f"{m['role']}: {m['content']}" for m in made.messages)


def sentences(name: str) -> list[str]:
    """The lines of a template that hold no values, labels left out."""
    tree = environment().parse(source(name))
    texts = (node.data for node in tree.find_all(jinja2.nodes.TemplateData))
    lines = (line.strip() for text in texts for line in text.splitlines())
    return [line for line in lines if len(line) >= SENTENCE]


def shared_by(one: str, other: str) -> str:
    """What two texts begin with."""
    pairs = zip(one, other, strict=False)
    return "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_is_constant_comes_first(name: str) -> None:
    """Two records' prompts begin alike, up to and with the last sentence that is in both."""
    one, other = spoken(name, "one"), spoken(name, "other")
    shared = shared_by(one, other)
    later = [line for line in sentences(name) if line in one and line not in shared]
    assert bool(later) == (name in LATER), later


@pytest.mark.parametrize("name", [n for n in TEMPLATES if "_" in n and SHOT in source(n)])
def test_most_of_a_small_question_is_constant(name: str) -> None:
    """Instructions and examples, which an endpoint can cache, are most of it."""
    one, other = spoken(name, "one"), spoken(name, "other")
    assert len(shared_by(one, other)) > 0.7 * len(one)
