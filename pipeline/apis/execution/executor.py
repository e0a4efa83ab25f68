"""What executes a call: the protocol that a model, a Python process and an MCP server share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from toolloom.schemas import Api, Execution, JsonObject, Observation

Search: TypeAlias = Callable[[Sequence[Api], str], Awaitable[list[JsonObject]]]
"""Documentation of the APIs that fit keywords best, best first."""
Shorten: TypeAlias = Callable[[Any, JsonObject | None], tuple[Any, int | None]]
"""A response within the token limit, and how long it was if it is not whole any more."""


@dataclass(frozen=True)
class Executed:
    """What came of a call, and how."""

    observation: Observation
    execution: Execution


class Executor(Protocol):
    """Executes the calls of one sample, from a state that is fresh when the sample begins."""

    def runs(self, api: Api) -> bool:
        """Whether this API is one it executes."""

    async def run(self, api: Api, arguments: JsonObject) -> Executed:
        """The observation of a call. A failure of the call is an observation with an error."""
