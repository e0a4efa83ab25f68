"""A world as an environment: its interpreter runs the calls, from a start state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

from toolloom.pipeline.checks.world.interpreter import Machine, State, difference, state_of
from toolloom.pipeline.checks.world.outcome import observed
from toolloom.pipeline.environments.environment import Executed, Executor
from toolloom.schemas import Api, Execution, Failure, JsonObject, Need, Setting, digest


def moment_of(need: Need) -> str:
    """The present of a dialogue, as an interpreter takes it."""
    return f"{need.now:%Y-%m-%dT%H:%M}"


@dataclass
class WorldSession(Executor):
    """A world as the executor of one dialogue: its calls, in order, from its start state."""

    machine: Machine
    setting: Setting
    now: str
    start: State = field(init=False)
    state: State = field(init=False)

    def __post_init__(self) -> None:
        start = self.setting.start
        self.start = self.state = state_of(start["tables"], start["me"], start["next"])

    def runs(self, api: Api) -> bool:
        return api.source.kind == "world" and api.source.reference == self.setting.world

    async def run(self, api: Api, arguments: JsonObject) -> Executed:
        """What a call returns; a failure changes nothing, and is an observation with its error."""
        operation = api.source.operation
        self.state, response, error = self.machine.apply(self.state, operation, arguments, self.now)
        seen = observed(response, error)
        return Executed(
            seen,
            Execution(
                kind="executed",
                by=f"world:{self.setting.world}",
                failure=Failure.TOOL_ERROR if error else None,
                digest=digest(seen.model_dump(mode="json"), 64),
            ),
        )

    def fork(self) -> Self:
        fork = replace(self)
        fork.state = self.state  # states are never changed, only followed by others
        return fork

    def changes(self) -> list[tuple[Any, ...]]:
        return [tuple(change) for change in difference(self.machine, self.start, self.state)]
