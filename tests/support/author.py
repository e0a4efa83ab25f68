"""A scripted author of worlds: it writes the library, right or with a mistake."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from toolloom.llm.scripted import improvise

LIBRARY: Any = yaml.load(
    (Path(__file__).parent / "library.yaml").read_text("utf-8"), yaml.BaseLoader
)


class Author:
    """Answers each question with the library's part, or with what a mistake makes of it.

    `first` and `mended` change an answer by the part that is asked for, the first time and when it
    is asked again.
    """

    def __init__(
        self,
        first: dict[str, Callable[[Any], Any]] | None = None,
        mended: dict[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        self.first, self.mended = first or {}, mended or {}
        self.asked: list[tuple[str, str]] = []  # the part, and the whole question

    def __call__(self, body: Any) -> Any:
        said = [message["content"] for message in body["messages"]]
        if not said[0].startswith("You write a small world"):
            return improvise(body)
        part, value = self._part(said[1])
        again = len(said) > 2
        self.asked.append((part, "\n".join(said)))
        change = (self.mended if again else self.first).get(part, lambda answer: answer)
        if again and part not in self.mended:
            change = self.first[part]  # it does not learn
        answer = change(copy.deepcopy(value))
        return answer if isinstance(answer, str) else yaml.safe_dump(answer, sort_keys=False)

    def _part(self, question: str) -> tuple[str, Any]:
        if question.startswith("Domain: "):
            plan = {name: spec["about"] for name, spec in LIBRARY["operations"].items()}
            frame = {key: LIBRARY[key] for key in ("world", "about", "actor", "entities")}
            return "tables", {**frame, "plan": plan}
        if name := re.search(r"Write `(\w+)`", question):
            return name[1], LIBRARY["operations"][name[1]]
        if "Random calls found" in question:
            name = re.search(
                r"(?m)^- (?:After )?(\w+)", question.partition("Random calls found")[2]
            )
            assert name
            parts = ("operations", "promises")
            return f"mend {name[1]}", {part[:-1]: LIBRARY[part][name[1]] for part in parts}
        return "promises", {key: LIBRARY[key] for key in ("promises", "policies")}
