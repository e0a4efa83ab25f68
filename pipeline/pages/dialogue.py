"""One record as a person reads it: as HTML for the report and the notebook, and on a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from rich.console import Group, RenderableType
from rich.text import Text

from toolloom.pipeline.checks.calls import differences, fits, pair
from toolloom.pipeline.checks.transcript import made
from toolloom.pipeline.pages.sections import preview_sections
from toolloom.pipeline.render.section import render
from toolloom.pipeline.render.terminal import indented, messages_view, text, view
from toolloom.schemas import Dialogue, JsonObject, Sample
from toolloom.schemas.splits import api_id, need_of

if TYPE_CHECKING:
    from toolloom.pipeline.dataset.diff import Example
    from toolloom.pipeline.templates.filling import TemplatePreview

SHORT = 200  # characters of JSON that are shown without being asked for
# Shown elsewhere on the page, or of no use to a reader.
TECHNICAL = ("id", "pool", "outside", "intent", "provenance", "seed", "ability", "scenario")


def dialogue_html(record: JsonObject, *, raw: bool = False, longest: int | None = None) -> str:
    """An accepted sample, a rejected record or an instruction, each as JSON, as one `<article>`.

    Findings stand at the turn they are about, the intent beside the call that serves it. `raw`:
    with the model's raw responses, folded. `longest`: characters of each text that are shown.
    """
    rejected = record if "reason" in record else None
    inner: JsonObject = record["record"] if rejected else record
    need, dialogue = need_of(inner), inner.get("dialogue", inner)
    messages, verdict = dialogue.get("messages") or (), inner.get("verdict") or {}
    findings: list[JsonObject] = [*(record.get("findings") or ())]
    if not rejected:
        findings += [*(verdict.get("findings") or ()), *(record.get("flags") or ())]
    intents, served = _intents(need), _served(dialogue, need) if messages else {}
    made_for = {index for index, _ in served.values()}
    wanted = {intent["api"] for intent in need.get("intent") or ()}
    loose = [f for f in findings if f.get("turn") not in range(len(messages))]
    return render(
        "dialogue.html.j2",
        id=record.get("id") or need.get("id", ""),
        kinds=[need[key] for key in ("ability", "scenario") if key in need],
        rejected=rejected,
        loose=[f for f in loose if f.get("detail") != record.get("detail")],
        messages=messages,
        findings=findings,
        intents=intents,
        served=served,
        unmade=[one for index, one in enumerate(intents) if index not in made_for],
        unserved=need.get("scenario") == "irrelevance",
        fields=[] if messages else [*_fields(inner, need)],
        offered=sorted(need.get("pool") or (), key=lambda api: api_id(api) not in wanted),
        needed=lambda api: api_id(api) in wanted,
        votes=verdict.get("votes") or (),
        raw=[(spoken(one), one) for one in (record.get("raw") or () if raw else ())],
        made_by=_made_by(record, inner),
        observed=_observed,
        as_json=_plain,
        longest=longest,
    )


def _intents(need: JsonObject) -> list[JsonObject]:
    """What the user means, call by call; values that an earlier call gives are named by it."""
    apis = [*(need.get("pool") or ()), need.get("outside")]
    names = {api_id(api): str(api["function"]) for api in apis if api}
    functions = [names.get(one["api"], str(one["api"])) for one in need.get("intent") or ()]

    def source(reference: JsonObject) -> str:
        number = reference["call"]
        return f"← {reference['field']} of {functions[number] if number < len(functions) else '?'}"

    return [
        {
            "function": function,
            "arguments": intent.get("arguments") or {},
            "taken": {n: source(each) for n, each in (intent.get("references") or {}).items()},
        }
        for function, intent in zip(functions, need.get("intent") or (), strict=True)
    ]


def _served(dialogue: JsonObject, need: JsonObject) -> dict[tuple[int, int], tuple[int, list[str]]]:
    """By message and number of a call: the intent that it serves, and how it differs from that."""
    try:
        known = Dialogue.model_validate({"provenance": (), **dialogue})
        pairs = {id(call): index for index, call in pair(known).calls.items()}
        readable_calls = iter(made(known))
        served = {}
        for number, message in enumerate(known.messages):
            for nth, each in enumerate(message.tool_calls):
                if not isinstance(each.function.arguments, dict):
                    continue
                call = next(readable_calls)
                index = pairs.get(id(call))
                if index is None and call.failed:  # what it was made for, if it says the same
                    meant = (i for i, due in enumerate(known.query.due) if fits(due, call))
                    index = next(meant, None)
                if index is not None:
                    served[number, nth] = index, [*differences(known.query.due[index], call)]
        return served
    except (RecursionError, ValidationError):
        return {}  # as far as it came it is no dialogue


def _observed(content: Any) -> JsonObject | None:
    """Response and error of a tool's message, short and whole; None of one that is no envelope."""
    try:
        envelope = json.loads(content)
    except (TypeError, ValueError, RecursionError):
        return None
    if not isinstance(envelope, dict) or not set(envelope) <= {"response", "error"}:
        return None
    response, error = envelope.get("response"), envelope.get("error")
    line = _plain(response)
    # The functions whose documentation an API Search gave.
    items = response if isinstance(response, list) else []
    described = [i for i in items if isinstance(i, dict) and {"name", "parameters"} <= set(i)]
    found = [str(i["name"]) for i in described] if len(described) == len(items) else []
    short = f"finds {', '.join(found)}" if found else line
    return {
        "error": None if error is None else str(error),
        "line": f"{short[:SHORT]}…" if len(short) > SHORT else short,
        "whole": _plain(response, 2) if len(line) > SHORT or found else None,
    }


def _fields(inner: JsonObject, need: JsonObject) -> Iterator[tuple[str, str]]:
    """What there is to read of a record that has no messages."""
    if isinstance(seed := inner.get("seed"), dict):  # an instruction that was rejected
        yield "request", str(seed.get("hybrid", ""))
        yield "calls", ", ".join(str(step.get("function")) for step in seed.get("steps") or ())
    for name, value in (need or inner).items():
        if name not in TECHNICAL and value not in (None, "", [], (), {}):
            yield name, value if isinstance(value, str) else _plain(value, 2)


def _plain(value: Any, indent: int | None = None) -> str:
    """A value as JSON: text without its quotes would look like a number."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent)
    except RecursionError:  # of the encoder that indents sooner
        return "(too deep to be shown)" if indent is None else _plain(value)


def _made_by(record: JsonObject, inner: JsonObject) -> list[JsonObject]:
    """Everyone's share: the record's own, its dialogue's, its query's; each once, in that order."""
    shares: list[JsonObject] = []
    layers: list[Any] = [record, inner]
    while isinstance(deeper := layers[-1].get("dialogue") or layers[-1].get("query"), dict):
        layers.append(deeper)
    for layer in layers:
        shares += (share for share in layer.get("provenance") or () if share not in shares)
    return shares[::-1]


def sample_view(sample: Sample) -> RenderableType:
    """A dialogue as a person reads it."""
    row = sample.model_dump(mode="json")
    return Group(_title(sample.id, need_of(row)), messages_view(row["dialogue"]["messages"]))


def rejected_view(row: JsonObject, verbatim: bool = False) -> RenderableType:
    """A rejected record: what was found, the dialogue as far as it came, what the model said.
    `verbatim`: the endpoint's whole responses in place of the model's text in them."""
    record, need = row["record"], need_of(row["record"])
    agent = f" ({row['agent']})" if row["agent"] else ""
    parts: list[RenderableType] = [
        _title(row["id"], need),
        text(f"rejected by {row['stage']}{agent}: {row['reason']}", "red"),
        text(row["detail"]),
    ]
    for finding in row["findings"]:
        turn = "" if finding["turn"] is None else f", message {finding['turn']}"
        told = f"{finding['check']}{turn}: {finding['reason']}: {finding['detail']}"
        parts.append(text(f"  {told}"))
    dialogue = record.get("dialogue", record)
    if "seed" not in record and isinstance(dialogue, dict) and dialogue.get("messages"):
        parts.append(messages_view(dialogue["messages"]))
    else:
        parts += (text(f"{name}: {value}", "dim") for name, value in _fields(record, need))
    for number, raw in enumerate(row["raw"], 1):
        parts.append(text(f"response {number}", "dim"))
        parts.append(indented(raw if verbatim else spoken(raw)))
    return Group(*parts)


def spoken(raw: str) -> str:
    """The model's text in a chat completion, and why it stopped if it was cut off; else `raw`."""
    try:
        choice = json.loads(raw)["choices"][0]
        said, stopped = choice["message"]["content"], choice.get("finish_reason")
    except (ValueError, KeyError, IndexError, TypeError):
        return raw
    if not isinstance(said, str):
        return raw
    return said if stopped in (None, "stop") else f"{said} [{stopped}]"


def _title(name: str, need: JsonObject) -> Text:
    kinds = [str(need[key]) for key in ("ability", "scenario") if key in need]
    return text(" · ".join([name, *kinds]), "bold")


def examples_view(examples: Iterable[Example]) -> Iterator[RenderableType]:
    """Rows that differ between two versions, as they were and as they are."""
    for example in examples:
        yield text("")
        yield text(f"{example.kind} in {example.split}: {example.id}", "bold")
        for when, sample in (("before", example.before), ("after", example.after)):
            if sample is not None:
                if example.kind == "changed":
                    yield text(when, "dim")
                yield sample_view(Sample.model_validate(sample))


def preview_view(preview: TemplatePreview) -> RenderableType:
    """A template with its values, and its rows with what the certain checks say of them."""
    parts: list[RenderableType] = [view(preview_sections(preview))]
    for number, row in enumerate(preview.rows, 1):
        parts.append(text(""))
        if row.findings:
            parts.append(text(f"row {number}: the certain checks object", "red"))
            parts += (indented(f"{f.check}: {f.reason}: {f.detail}") for f in row.findings)
        else:
            parts.append(text(f"row {number}: passes the certain checks", "green"))
        messages = row.sample.model_dump(mode="json")["dialogue"]["messages"]
        parts.append(messages_view(messages[1:]))  # the system turn is the same in all rows
    return Group(*parts)
