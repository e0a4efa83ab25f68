"""The shape of rows whose goals and calls are lines of text: few-shot and all-shot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from pydantic import Field, model_validator

from toolloom.pipeline.dataset.export.all_shot import HEAD
from toolloom.pipeline.dataset.export.goals import ACTIONS, GoalLines, read_documents, read_lines
from toolloom.pipeline.formats.row_shapes import Message, RowShape

_Functions: TypeAlias = Mapping[str, frozenset[str] | None]
"""Names, and the arguments of each where no others may be given."""


def _known(found: list[GoalLines], functions: _Functions | None = None) -> None:
    """All calls are there, and go to functions and arguments that are described.

    Raises ValueError.
    """
    for one in found:
        if one.calls is None:
            raise ValueError(f"a goal has no actions: {one.goal[:60]!r}")
        for call in one.calls:
            if functions is not None and call.name not in functions:
                raise ValueError(f"{call.name!r} is called, which no API function describes")
            known = functions[call.name] if functions is not None else None
            if known is not None and (odd := sorted({*call.arguments} - known)):
                raise ValueError(f"{call.name!r} has no argument {odd[0]!r}")


class FewShotRow(RowShape):
    id: str
    messages: list[Message] = Field(min_length=3, max_length=3)
    demonstrations: list[str]

    @model_validator(mode="after")
    def _reads(self) -> FewShotRow:
        if [message.role for message in self.messages] != ["system", "user", "assistant"]:
            raise ValueError("the messages are not system, user and assistant")
        system, user, assistant = (message.content or "" for message in self.messages)
        functions, shown = self._system(system)
        if len(shown) != len(self.demonstrations):
            raise ValueError(f"the system turn shows {len(shown)} demonstrations")
        _known(shown)  # whose functions need not be described
        if len(read_lines(user)) != 1 or not user.endswith(ACTIONS):
            raise ValueError("the user's turn is not one goal without its actions")
        _known(read_lines(f"{user} {assistant}"), functions)
        return self

    @staticmethod
    def _system(text: str) -> tuple[_Functions, list[GoalLines]]:
        """The functions that are described, and the demonstrations."""
        _, head, body = f"{text}\n".partition(f"\n{HEAD}")
        if not head:
            raise ValueError("the system turn has no API functions")
        documents, _, shown = f"\n{body}".partition("\n\nDemonstrations:\n")
        return read_documents([line for line in documents.split("\n") if line]), read_lines(shown)


class Segment(RowShape):
    label: bool
    text: str = Field(min_length=1)


class AllShotRow(RowShape):
    ids: list[str] = Field(min_length=1)
    apis: list[str]
    segments: list[Segment] = Field(min_length=2)

    @model_validator(mode="after")
    def _reads(self) -> AllShotRow:
        whole = "".join(segment.text for segment in self.segments)
        if not whole.startswith(HEAD):
            raise ValueError("the text does not begin with the API functions")
        documents, _, goals = f"\n{whole.removeprefix(HEAD)}".partition("\n\n")
        lines = [line for line in documents.split("\n") if line]
        found = read_lines(goals)
        if (len(lines), len(found)) != (len(self.apis), len(self.ids)):
            raise ValueError(f"the text has {len(lines)} API functions and {len(found)} goals")
        _known(found, read_documents(lines))
        if list(self._losses()) != list(_calls(whole)):
            raise ValueError("not every call has a loss, or more than calls has one")
        return self

    def _losses(self) -> Iterator[tuple[int, int]]:
        """Where segments with a loss begin and end."""
        at = 0
        for segment in self.segments:
            if segment.label:
                yield at, at + len(segment.text)
            at += len(segment.text)


def _calls(text: str) -> Iterator[tuple[int, int]]:
    """Where calls begin and end, with the end of their line."""
    at = 0
    for line in text.split("\n"):
        end = at + len(line) + 1
        if line.startswith(ACTIONS):
            yield at + len(ACTIONS), min(end, len(text))
        at = end
