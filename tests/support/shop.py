"""What is exported in tests: a version of a dataset that is not on the disk, and samples changed in
one place."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from toolloom.schemas import FunctionCall, JsonObject, Message, Sample, StoreError


class Shop:
    """Samples by split; one that `breaks` is damaged where each split ends."""

    name = "shop"

    def __init__(self, splits: Mapping[str, Iterable[Sample]], breaks: bool = False) -> None:
        self._splits, self._breaks = splits, breaks

    def splits(self, config: str) -> list[str]:
        return list(self._splits)

    def samples(self, split: str | None = None) -> Iterator[Sample]:
        assert split
        yield from self._splits[split]
        if self._breaks:
            raise StoreError("the version is damaged")


def changed(sample: Sample, messages: Iterable[Message] = (), **query: Any) -> Sample:
    """The sample with other messages, or other fields of its query."""
    dialogue = sample.dialogue
    parts: dict[str, Any] = {"query": dialogue.query.model_copy(update=query)}
    parts["messages"] = tuple(messages) or dialogue.messages
    return sample.model_copy(update={"dialogue": dialogue.model_copy(update=parts)})


def with_arguments(sample: Sample, arguments: Any) -> Sample:
    """The sample of one call with other arguments."""
    messages = list(sample.dialogue.messages)
    (call,) = messages[2].tool_calls
    function = FunctionCall(name=call.function.name, arguments=arguments)
    calls = (call.model_copy(update={"function": function}),)
    messages[2] = messages[2].model_copy(update={"tool_calls": calls})
    return changed(sample, messages)


def lines(path: Path) -> list[JsonObject]:
    """The rows of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
