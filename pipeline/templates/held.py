"""What a dataset holds already: rows that are not made again, and combinations of APIs by split."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from toolloom.pipeline.curation.rows import instruction, query
from toolloom.pipeline.stage import StageInput
from toolloom.pipeline.templates.drawing import combination, mark
from toolloom.schemas import JsonObject, Split, SplitPlan, Template
from toolloom.schemas.splits import api_id, shown, signature, split_of, tool_of

_NUMBERED = re.compile(r"(.+)-x(\d+)")


class HeldApart:
    """Rows of a dataset, eight bytes of each."""

    def __init__(self, given: StageInput, apart: bool) -> None:
        self.marks: set[int] = set()
        self._first: dict[str, int] = defaultdict(int)
        self._combined: dict[tuple[str, ...], set[Split]] = defaultdict(set)
        self._tools: dict[str, tuple[str, str]] = {}  # category and tool of an API
        self._plan, self._apart = given.recipe.splits, apart
        for _, row in given.rows.objects():
            self._hold(query(row), instruction(row))
        for _, row in given.known.objects():
            if found := _NUMBERED.fullmatch(row["id"]):
                self._first[found[1]] = max(self._first[found[1]], int(found[2]) + 1)
            self._hold(row, row["text"])

    def _hold(self, need: JsonObject, words: str) -> None:
        self.marks.add(mark(signature(need["intent"]), words))
        if self._apart:
            self._tools |= {api_id(api): tool_of(api) for api in shown(need)}
            if made := combination(need):
                self._combined[made].add(_split_of(self._plan, need, self._tools))

    def first(self, template: str) -> int:
        """The number of a template's next row: rows of an earlier expansion keep theirs."""
        return self._first[template]

    def exercise(self, template: Template) -> None:
        """A template makes rows of its split."""
        if template.split and template.combination:
            self._combined[template.combination].add(template.split)

    def apart(self, template: Template, splits: Sequence[Split]) -> list[Split]:
        """The split in which a template may make rows, so that no other calls the same APIs
        together; none if others do."""
        exercised = self._combined[template.combination] if template.combination else set[Split]()
        fits = [split for split in splits if exercised <= {split}]
        return fits[:1]

    def elsewhere(self, template: Template, splits: Sequence[Split]) -> list[Split]:
        """The splits in which the combination of a template is called, but for one."""
        found = self._combined[template.combination]
        return sorted(found - set(splits)) or sorted(found)


def _split_of(plan: SplitPlan, need: JsonObject, tools: dict[str, tuple[str, str]]) -> Split:
    """The split of a need; of known rows, which do not show their APIs, by the ids of these."""
    if "pool" in need:
        return split_of(plan, need)
    pool = []
    for api in {call["api"] for call in need["intent"]}:
        category, tool, name = (*api.split("/", 2), "", "")[:3]
        if api in tools:
            category, tool = tools[api]
            name = api.removeprefix(f"{category}/{tool}/")
        pool.append({"category": category, "tool": tool, "name": name})
    return split_of(plan, {**need, "pool": pool})
