"""Templates, and the plan of the rows that are made of them (tool manipulation, sections 4.1 and
C.1)."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import Field, model_validator

from toolloom.schemas.base import JsonObject, Provenance, Record
from toolloom.schemas.sample import Finding
from toolloom.schemas.splits import Split

TemplateKind: TypeAlias = Literal["mined", "written"]

# Slots in a skeleton stand between these two: private characters, which no text of ours holds.
OPEN, CLOSE = "\ue000", "\ue001"


def marker(slot: str) -> str:
    """A slot as it stands in a skeleton."""
    return f"{OPEN}{slot}{CLOSE}"


class Choice(Record):
    """Slots that are filled together: one of the rows is drawn for each row of data.

    A value with others derived from it (Palo Alto → palo+alto) and values that belong together
    (a city and its country) are slots of one choice. Choices are independent of each other.
    """

    slots: tuple[str, ...] = Field(min_length=1, description="Names, unique in their template.")
    rows: tuple[tuple[Any, ...], ...] = Field(
        min_length=1, description="Values of the slots, row by row; the first is the original."
    )
    about: str = Field(description="What is chosen, such as `argument city of Travel/hotels/find`.")

    @model_validator(mode="after")
    def _rows_fit(self) -> Choice:
        if any(len(row) != len(self.slots) for row in self.rows):
            raise ValueError("each row needs a value for each slot")
        return self


class Template(Record):
    """A sample in which values are slots, and the values that may fill them.

    In `sample`, a string that is one marker and nothing else stands for the value itself, of any
    type; a marker inside a longer string for the value's text. The content of a tool message is
    JSON text, and its strings follow the same rule.
    """

    id: str = Field(description="Unique in its run; of one made of a sample, the sample's.")
    kind: TemplateKind
    goal: str = Field(description="The first user turn, with {slots}.")
    apis: tuple[str, ...] = Field(description="Ids of the APIs its calls go to, in order.")
    split: Split | None = Field(
        default=None, description="The split of its sample; None: any split its rows fall into."
    )
    sample: JsonObject = Field(description="A Sample as JSON, with slots.")
    choices: tuple[Choice, ...] = Field(min_length=1)
    texts: dict[str, str] = Field(
        default_factory=dict,
        description="Slots that are rendered of the others, with their Jinja, in order.",
    )
    refused: tuple[Finding, ...] = Field(
        default=(), description="Values that stay as they are, and why they are no slots."
    )
    provenance: tuple[Provenance, ...] = Field(default=(), description="How it was made.")

    @property
    def combination(self) -> tuple[str, ...]:
        """The APIs its calls go to, whatever their order; one that is called twice is there twice
        (C.1)."""
        return tuple(sorted(self.apis))


class ExpansionPlan(Record):
    """What templates are expanded into."""

    rows: int = Field(default=100, ge=1, description="Rows to make, of all templates together.")
    templates: tuple[str, ...] = Field(
        default=(), description="Written templates: YAML files, or folders of them."
    )
    mine: bool = Field(default=True, description="Make templates of accepted samples.")
    splits: tuple[Split, ...] = Field(
        default=(Split.TRAIN,), min_length=1, description="The splits that get rows."
    )
