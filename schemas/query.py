"""Domains, worlds, and what users need there: first drawn (`Need`), then worded (`Query`)."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from functools import cached_property
from typing import Any

from pydantic import Field

from toolloom.schemas.api import Api
from toolloom.schemas.base import JsonObject, Provenance, Record, digest, empty


class Brief(Record):
    """An order to the domain agent: `count` domains of one category of the taxonomy."""

    category: str = Field(description="A category of the seed taxonomy.")
    about: str = Field(description="What belongs to the category, in a few words.")
    examples: tuple[str, ...] = Field(default=(), description="Domains that show the grain.")
    count: int = Field(ge=1, description="How many domains to name.")

    @property
    def id(self) -> str:
        return self.category


class Domain(Record):
    """An application domain, such as «dental procedure cost estimates» (API-Bank, section 4)."""

    category: str = Field(description="The taxonomy category it belongs to.")
    name: str = Field(description="The domain in two to six words.")
    description: str = Field(default="", description="What people do there, in one sentence.")
    provenance: tuple[Provenance, ...] = Field(default=(), description="How it was made.")

    @property
    def id(self) -> str:
        return f"{self.category}/{self.name}"


class World(Record):
    """A world as a run uses it, whole: operations, policies, and the dialogues written for it.

    `pipeline/checks/world/interpreter.py` runs its `spec`, and tells what a state, a call and a
    change look like.
    """

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

    @cached_property
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


class Ability(StrEnum):
    """What a model must be able to do (API-Bank, section 2.1)."""

    CALL = "call"
    RETRIEVE_CALL = "retrieve_call"
    PLAN_RETRIEVE_CALL = "plan_retrieve_call"

    @property
    def searches(self) -> bool:
        """Only API Search is given; every other API must be found before it is called."""
        return self is not Ability.CALL


class Scenario(StrEnum):
    """What a dialogue exercises."""

    SINGLE = "single"
    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"
    MULTI_TURN = "multi_turn"
    CLARIFICATION = "clarification"
    IRRELEVANCE = "irrelevance"
    ERROR_RECOVERY = "error_recovery"
    # Of worlds alone: only these have policies.
    REFUSAL = "refusal"  # a policy forbids it: nothing changes, and the reply says why
    CONFIRMATION = "confirmation"  # a policy wants consent before it is done

    @property
    def of_worlds(self) -> bool:
        return self in (Scenario.REFUSAL, Scenario.CONFIRMATION)


class Level(StrEnum):
    """Where the APIs of one need come from (ToolLLM, section 2.2)."""

    SINGLE_TOOL = "single_tool"  # I1
    CATEGORY = "category"  # I2: several tools of one category
    COLLECTION = "collection"  # I3: several tools of one collection


class Reference(Record):
    """An argument whose value an earlier observation gives."""

    call: int = Field(ge=0, description="Index of the earlier intended call.")
    field: str = Field(description="Top-level field of that call's response.")


class Intention(Record):
    """One call the user's need amounts to. Its values are fixed before any words are."""

    api: str = Field(description="Id of the API.")
    turn: int = Field(default=0, ge=0, description="User turn (from 0) that asks for it.")
    arguments: JsonObject = Field(description="Values the user knows.")
    references: dict[str, Reference] = Field(
        default_factory=dict, description="Arguments that come from an earlier observation."
    )


class PlannedFault(Record):
    """An execution that fails, planned for an error recovery dialogue."""

    call: int = Field(ge=0, description="Index of the intended call that fails first.")
    error: str = Field(description="The error the execution reports.")
    transient: bool = Field(description="True: the same call works when tried again.")
    real: bool = Field(
        default=False, description="The execution itself is to fail, on a value that is wrong."
    )


class Need(Record):
    """What a user wants, before it is put into words."""

    id: str = Field(description="Unique in its run.")
    ability: Ability
    scenario: Scenario
    level: Level = Field(
        default=Level.SINGLE_TOOL, description="Where the APIs it needs come from."
    )
    language: str = Field(default="English", description="Language of the dialogue.")
    now: dt.datetime = Field(description="The dialogue's present, told in its system turn.")
    pool: tuple[Api, ...] = Field(description="APIs on offer: needed ones and distractors.")
    outside: Api | None = Field(
        default=None, description="Irrelevance: the API the user would need; not in the pool."
    )
    intent: tuple[Intention, ...] = Field(description="The calls the need amounts to, in order.")
    withheld: tuple[str, ...] = Field(
        default=(), description="Clarification: arguments of the first call told only when asked."
    )
    fault: PlannedFault | None = Field(default=None, description="Error recovery: what fails.")
    setting: Setting | None = Field(
        default=None, exclude_if=empty, description="Its place in a world, if it plays in one."
    )
    text: str = Field(
        default="", exclude_if=empty, description="The first user turn, where a script words it."
    )

    def api(self, api_id: str) -> Api:
        """The API of the pool, or the one outside it, with this id."""
        for api in (*self.pool, *([self.outside] if self.outside else [])):
            if api.id == api_id:
                return api
        raise KeyError(api_id)

    @property
    def due(self) -> tuple[Intention, ...]:
        """The calls that ought to be made: none when the pool cannot serve the need."""
        return () if self.scenario is Scenario.IRRELEVANCE else self.intent

    @property
    def needed(self) -> tuple[Api, ...]:
        """The APIs of the intent, each once, in order."""
        return tuple({i.api: self.api(i.api) for i in self.intent}.values())

    @property
    def turns(self) -> int:
        """How many user turns ask for something new."""
        return 1 + max((i.turn for i in self.intent), default=0)


class Query(Need):
    """A need in a user's words."""

    text: str = Field(min_length=1, description="The first user turn.")
    provenance: tuple[Provenance, ...] = Field(default=(), description="How it was made.")
