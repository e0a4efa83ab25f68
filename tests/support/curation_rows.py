"""Rows for tests of curation, and stages that sift them without a run around."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from support import toys
from toolloom.pipeline.stage import Sifted, StageInput
from toolloom.pipeline.store.files import Rows, record_line, to_line, write_lines
from toolloom.schemas import (
    Ability,
    Finding,
    Intention,
    JsonObject,
    Recipe,
    Rejected,
    Sample,
    Split,
    SplitPlan,
)
from toolloom.schemas.splits import split_of_need

SPLITS = {"test_tool": 0, "test_category": 0}  # all toys are seen


def row(name: str, text: str, city: str = "", **changes: Any) -> Sample:
    """A sample in which the user says this and asks for the weather of a city of its own."""
    arguments = {"city": city or f"city of {name}"}
    fields: dict[str, Any] = {
        "ability": Ability.CALL,
        "intent": (Intention(api=toys.api().id, arguments=arguments),),
        **changes,
    }
    return toys.sample(toys.query(0, id=name, text=text, **fields), arguments=arguments)


def in_split(split: Split, name: str, text: str, plan: SplitPlan | None = None) -> Sample:
    """Such a row in a split, which the city decides."""
    plan = plan or SplitPlan(**SPLITS)
    cities = (f"{name} {number}" for number in range(1000))
    rows = (row(name, text, city) for city in cities)
    return next(r for r in rows if split_of_need(plan, r.dialogue.query) is split)


def sift(
    stage: Callable[[StageInput], Iterator[Sifted]],
    rows: Iterable[Sample],
    folder: Path,
    known: Sequence[JsonObject] = (),
    **fields: Any,
) -> list[Sifted]:
    """What a stage makes of rows; `fields` are the recipe's."""
    folder.mkdir(parents=True, exist_ok=True)
    path, others = folder / "rows.jsonl", folder / "known.jsonl"
    count, _ = write_lines(path, map(record_line, rows))
    write_lines(others, map(to_line, known))
    recipe: Recipe = toys.recipe(**{"splits": SPLITS, **fields})
    given = StageInput(recipe, "curated", Rows(path, count), Rows(others, len(known)))
    return list(stage(given))


def kept(sifted: Iterable[Sifted]) -> list[str]:
    """Ids of the rows that stay; they are whole samples."""
    return [Sample.model_validate_json(each).id for each in sifted if isinstance(each, bytes)]


def fallen(sifted: Iterable[Sifted]) -> dict[str, Finding]:
    """The first finding of the rows that go, by id."""
    return {each.id: each.findings[0] for each in sifted if isinstance(each, Rejected)}
