"""How much of a run's pool its queries and dialogues cover."""

from __future__ import annotations

from pydantic import Field

from toolloom.schemas import JsonObject, Level, Record, Scenario


class Combinations(Record):
    """Different combinations of several APIs at one level (ToolLLM, section 2.2)."""

    drawn: int = Field(default=0, description="That queries were drawn for.")
    accepted: int = Field(default=0, description="In accepted dialogues.")


class Coverage(Record):
    """How many of a run's APIs its queries and its accepted dialogues need."""

    pool: int = Field(description="APIs of the run.")
    drawn: int = Field(description="APIs that queries were drawn for.")
    accepted: int = Field(description="APIs that accepted dialogues need.")
    combinations: dict[str, Combinations] = Field(
        default_factory=dict, description="Combinations of several APIs, by level."
    )

    @classmethod
    def of(cls, pool: int, drawn: Covered, accepted: Covered) -> Coverage:
        levels = [level for level in Level if drawn.combinations.get(level)]
        return cls(
            pool=pool,
            drawn=len(drawn.apis),
            accepted=len(accepted.apis),
            combinations={
                str(level): Combinations(
                    drawn=len(drawn.combinations[level]),
                    accepted=len(accepted.combinations.get(level, ())),
                )
                for level in levels
            },
        )


class Covered:
    """What needs cover, in memory that grows with the APIs and their combinations."""

    def __init__(self) -> None:
        self.apis: set[str] = set()
        self.combinations: dict[str, set[frozenset[str]]] = {}

    def add(self, need: JsonObject) -> None:
        """Count a need, as JSON. An irrelevant one covers nothing: its API is not there to call."""
        if not need or need["scenario"] == Scenario.IRRELEVANCE:
            return
        wanted = frozenset(intention["api"] for intention in need["intent"])
        self.apis |= wanted
        if len(wanted) > 1:
            level = need.get("level", str(Level.SINGLE_TOOL))
            self.combinations.setdefault(level, set()).add(wanted)

    def __add__(self, other: Covered) -> Covered:
        both = Covered()
        both.apis = self.apis | other.apis
        for level in {**self.combinations, **other.combinations}:
            parts = (covered.combinations.get(level, set()) for covered in (self, other))
            both.combinations[level] = set[frozenset[str]]().union(*parts)
        return both
