"""What a person sees of templates: goal, calls, values, and a few rows of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType

from toolloom.pipeline.pages.screens.apis import short
from toolloom.pipeline.render.terminal import grid, indented, messages_view, text
from toolloom.pipeline.templates.written.preview import Preview, Row
from toolloom.schemas import Choice, JsonObject, Rejected
from toolloom.schemas.template import CLOSE, OPEN

EXAMPLES = 3  # values shown of a choice


def preview_view(preview: Preview) -> RenderableType:
    """A template with its values and rows."""
    template = preview.template
    several = "s" if preview.possible != 1 else ""
    return Group(
        text(f"{template.id} · {template.kind} · {preview.possible:,} row{several}", "bold"),
        text(f"goal  {template.goal}"),
        *(text(f"call  {line}") for line in _calls(template.sample)),
        text(""),
        grid(("slots", "values", "from", "examples"), map(_choice, template.choices)),
        *(indented(f"kept as it is: {finding.detail}") for finding in template.refused),
        *(part for number, row in enumerate(preview.rows, 1) for part in _row(number, row)),
    )


def _calls(sample: JsonObject) -> Iterator[str]:
    """The calls as a person would write them, with {slots}."""
    for message in sample["dialogue"]["messages"]:
        for call in message.get("tool_calls") or ():
            arguments = json.dumps(call["function"]["arguments"], ensure_ascii=False)
            shown = arguments.replace(OPEN, "{").replace(CLOSE, "}")
            yield f"{call['function']['name']}({shown})"


def _choice(choice: Choice) -> Sequence[object]:
    shown = [", ".join(map(_value, row)) for row in choice.rows[:EXAMPLES]]
    more = " …" if len(choice.rows) > EXAMPLES else ""
    sources = ", ".join(choice.sources)
    return (
        ", ".join(choice.slots),
        len(choice.rows),
        sources or "–",
        short(" | ".join(shown), 68) + more,
    )


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _row(number: int, row: Row) -> Iterator[RenderableType]:
    yield text("")
    if row.findings:
        yield text(f"row {number}: the certain checks object", "red")
        yield from (indented(f"{f.check}: {f.reason}: {f.detail}") for f in row.findings)
    else:
        yield text(f"row {number}: passes the certain checks", "green")
    messages = row.sample.model_dump(mode="json")["dialogue"]["messages"]
    # The system turn is the same in all rows.
    yield messages_view(messages[1:])


def totals_text(previews: Sequence[Preview], total: int, refused: Iterable[Rejected]) -> str:
    """The last lines: how many templates and rows, what fails, what cannot be mined."""
    rows = [row for preview in previews for row in preview.rows]
    good = sum(not row.findings for row in rows)
    shown = f"{len(previews):,} of {total:,}" if total > len(previews) else f"{total:,}"
    several = "s" if total != 1 else ""
    lines = [
        f"{shown} template{several}, {sum(p.possible for p in previews):,} possible rows; "
        f"{good:,} of {len(rows):,} shown rows pass the certain checks."
    ]
    failing = [preview.template.id for preview in previews if preview.fails]
    if failing:
        lines.append(f"No row passes of {', '.join(failing)}.")
    reasons = Counter(str(one.reason) for one in refused)
    if reasons:
        told = ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())
        lines.append(f"{sum(reasons.values()):,} samples make no template: {told}.")
    return "\n".join(lines)
