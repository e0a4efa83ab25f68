"""Worlds as a run and a version hold them, and a row's place in one.

The world itself is JSON that `pipeline/checks/world/interpreter.py` runs; what a state, a call and
a change look like is told there.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from toolloom.schemas.base import JsonObject, Provenance, Record, digest, empty


class World(Record):
    """A world as a run uses it, whole: operations, policies, and the dialogues written for it."""

    name: str = Field(description="Unique in its run.")
    category: str = Field(description="Category of its operations as APIs.")
    tool: str = Field(description="Tool (service) that its operations belong to.")
    about: str = Field(description="What it is, in a sentence.")
    licence: str = Field(
        default="",
        exclude_if=empty,
        description="SPDX identifier, where known: of the worlds that ship.",
    )
    spec: JsonObject = Field(description="The world as its interpreter takes it.")
    scripts: tuple[JsonObject, ...] = Field(default=(), description="Its scripts, as written.")
    text: str = Field(
        default="", exclude_if=empty, description="Its YAML file, if the API agent wrote it."
    )
    provenance: tuple[Provenance, ...] = Field(default=(), description="How it was chosen.")

    @classmethod
    def of(cls, spec: JsonObject, **more: Any) -> World:
        """The world that a spec is, which was read; of no category or tool it is one itself."""
        named = {field: spec[field] or spec["name"] for field in ("category", "tool")}
        return cls(name=spec["name"], about=spec["about"], spec=spec, **named, **more)

    @property
    def id(self) -> str:
        return self.name

    @property
    def hash(self) -> str:
        """Names what its operations do: equal worlds have equal hashes."""
        return digest(self.spec)


class Told(Record):
    """A value of a result that the assistant has to tell."""

    value: Any = Field(description="As the result has it.")
    said: str = Field(description="As it may be said: «tomorrow at 9 am».")
    field: str = Field(
        default="",
        exclude_if=empty,
        description="The result's field, where no words were written for it yet.",
    )


class WorldGoal(Record):
    """What a dialogue in a world comes to, whatever path leads there."""

    changes: tuple[tuple[Any, ...], ...] = Field(
        default=(),
        description="Of the state: [entity, key, field, value], [entity, 'new', row] or "
        "[entity, key, 'deleted']. None: nothing may change.",
    )
    facts: tuple[Told, ...] = Field(default=(), description="What the user has to learn.")


class Turn(Record):
    """A turn of the user and the reply to it: what is to be said, or the words for it."""

    user: str
    assistant: str


class Setting(Record):
    """A dialogue's place in a world: where it starts, and what is to come of it."""

    world: str = Field(description="Name of the world.")
    hash: str = Field(description="Hash of what its operations do.")
    script: str = Field(default="", description="The script it is a row of.")
    start: JsonObject = Field(description="The state before: `me`, `next`, `tables`.")
    told: tuple[str, ...] = Field(
        default=(), description="What the system turn tells: the service, who speaks, policies."
    )
    goal: WorldGoal
    seed: int = Field(default=0, description="Of what the script draws: rows, and words.")
    plan: tuple[Turn, ...] = Field(
        default=(),
        exclude_if=empty,
        description="Of a solved task: what is to be said, turn by turn; empty once it is played.",
    )
    words: tuple[Turn, ...] = Field(
        default=(), exclude_if=empty, description="The words for it; empty once they are played."
    )
