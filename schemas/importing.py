"""What an import came to: every operation that was read is in one of its lists."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from toolloom.schemas.base import Record


class Renamed(Record):
    """A name that models cannot call, or that another API of the pool has already."""

    api: str = Field(description="Id of the API.")
    old: str = Field(description="The name its source gives it.")
    new: str = Field(description="The function name it has now.")
    why: Literal["illegal", "taken"]


class Cut(Record):
    """Something of an API's description that was left out."""

    api: str = Field(description="Id of the API.")
    place: str = Field(description="Where in it, such as `parameters.filter.items`.")
    why: Literal["depth", "bytes", "cycle", "enum", "text", "invalid"] = Field(
        description="Nested too deep, over the byte budget, refers to itself, too many choices, "
        "too long a text, or no legal JSON Schema."
    )
    bytes: int = Field(default=0, description="How much was left out, where it can be told.")


class Unresolved(Record):
    """A reference that was not followed."""

    reference: str
    place: str = Field(description="Where it stands: an API's id or a place in the file.")
    why: Literal["remote", "missing", "outside", "unreadable"] = Field(
        description="On another machine, nothing there, outside the source's folder, or a file "
        "that cannot be read as JSON or YAML."
    )


class Skipped(Record):
    """Something that was read and is no API of the pool."""

    what: str = Field(description="An operation, a function, a row, a file.")
    why: str = Field(description="The reason, in a sentence.")


class ImportReport(Record):
    """One import of one source. `read` is `imported` and as many lines in `skipped` as differ;
    examples are counted apart."""

    source: str = Field(description="What was imported, without secrets.")
    format: str = Field(description="The format it was read as.")
    version: str = Field(default="", description="Version of that format, such as 3.1.0.")
    read: int = Field(description="Operations, functions or tools found in it.")
    imported: int = Field(description="Those that became APIs.")
    replaced: int = Field(default=0, description="Of these, APIs the pool had from this source.")
    examples: int = Field(default=0, description="Public APIs kept as examples for the API agent.")
    renamed: tuple[Renamed, ...] = ()
    cut: tuple[Cut, ...] = ()
    unresolved: tuple[Unresolved, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = Field(default=(), description="What else a user should know.")
    bytes: int = Field(default=0, description="Size of what was read.")
    seconds: float = Field(default=0, description="Time it took.")
