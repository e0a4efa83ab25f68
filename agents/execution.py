"""What executes a call: the protocol that a model, a Python process and an MCP server share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from toolloom.schemas import Api, Execution, JsonObject, Observation


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
