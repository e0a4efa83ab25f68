"""`{slots}` in the texts of written templates. `{{` and `}}` are braces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from toolloom.pipeline.dataset.unfold import text_of
from toolloom.schemas import marker

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class SlotMistake(ValueError):
    """A text whose braces make no slot."""


def slots_in(value: Any) -> Iterator[str]:
    """The slots of a text, or of all texts in a value, in order; repeated ones too.

    Raises SlotMistake.
    """
    for text in texts_in(value):
        yield from (slot for literal, slot in _pieces(text) if slot)


def texts_in(value: Any) -> Iterator[str]:
    """The texts in a value, at every depth; keys of objects are none."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from texts_in(part)


def whole_slot(value: Any) -> str | None:
    """The slot that a value is, if it is one and nothing else."""
    found = _PIECE.fullmatch(value) if isinstance(value, str) else None
    return found[1] if found else None


def with_markers(value: Any) -> Any:
    """A value with the slots of its texts as they stand in a skeleton."""
    return _mapped(value, marker)


def filled(value: Any, values: Mapping[str, Any]) -> Any:
    """A value with its slots filled: one that is nothing but a slot keeps the type."""
    return _mapped(value, lambda slot: values[slot], whole=True)


def _mapped(value: Any, given: Callable[[str], Any], *, whole: bool = False) -> Any:
    if isinstance(value, dict):
        return {key: _mapped(part, given, whole=whole) for key, part in value.items()}
    if isinstance(value, list):
        return [_mapped(part, given, whole=whole) for part in value]
    if not isinstance(value, str):
        return value
    if whole and (slot := whole_slot(value)):
        return given(slot)
    return "".join(text_of(given(slot)) if slot else literal for literal, slot in _pieces(value))


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """(literal text, "") and ("", slot), in order. Raises SlotMistake."""
    end = 0
    for found in _PIECE.finditer(text):
        yield text[end : found.start()], ""
        end = found.end()
        if found[0] in ("{{", "}}"):
            yield found[0][0], ""
        elif found[1] is not None and NAME.fullmatch(found[1]):
            yield "", found[1]
        elif found[1] is not None:
            raise SlotMistake(
                f"`{found[0][:60]}` is no slot: its name is lower-case letters, digits and `_`; "
                "a brace of the text itself is written twice"
            )
        else:
            raise SlotMistake(
                f"a lone `{found[0]}`: a slot is `{{name}}`, a brace of the text is written twice"
            )
    yield text[end:], ""
