"""A world as the executor of one dialogue: its calls, in order, from the dialogue's start state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from toolloom.pipeline.apis.execution.results import Executed
from toolloom.pipeline.checks.world.interpreter import Machine, State, state_of
from toolloom.pipeline.checks.world.outcome import observed
from toolloom.schemas import Api, Execution, Failure, JsonObject, Query, Setting, digest


@dataclass
class WorldSession:
    """The state of one dialogue as its calls change it."""

    machine: Machine
    setting: Setting
    now: str
    state: State = field(init=False)

    def __post_init__(self) -> None:
        start = self.setting.start
        self.state = state_of(start["tables"], start["me"], start["next"])

    def runs(self, api: Api) -> bool:
        return api.source.kind == "world" and api.source.reference == self.setting.world

    async def run(self, api: Api, arguments: JsonObject) -> Executed:
        """What a call returns; a failure changes nothing, and is an observation with its error."""
        operation = api.source.operation
        self.state, response, error = self.machine.apply(self.state, operation, arguments, self.now)
        return executed(self.setting.world, response, error)


def executed(world: str, response: Any, error: str | None) -> Executed:
    """What a call's result in a world is to those who called."""
    seen = observed(response, error)
    return Executed(
        seen,
        Execution(
            kind="executed",
            by=f"world:{world}",
            failure=Failure.TOOL_ERROR if error else None,
            digest=digest(seen.model_dump(mode="json"), 64),
        ),
    )


def moment_of(query: Query) -> str:
    """The present of a dialogue, as an interpreter takes it."""
    return f"{query.now:%Y-%m-%dT%H:%M}"
