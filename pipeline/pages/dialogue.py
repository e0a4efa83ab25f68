"""One record as a person reads it: on a terminal, and as HTML for the report and the notebook; and
the samples that a report shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from rich.console import Group, RenderableType
from rich.text import Text

from toolloom.pipeline.checks.intent import differences, fits, pair
from toolloom.pipeline.checks.transcript import CallMade, made
from toolloom.pipeline.dataset.figures import LEVELS
from toolloom.pipeline.pages.plans import preview_sections
from toolloom.pipeline.pages.reading import ReadRows, Row, readable
from toolloom.pipeline.render.html import render
from toolloom.pipeline.render.terminal import indented, messages_view, text, view
from toolloom.pipeline.store.version import PARTS, Version
from toolloom.schemas import Dialogue, Instruction, JsonObject, Sample
from toolloom.schemas.splits import api_id, need_of

if TYPE_CHECKING:
    from toolloom.pipeline.dataset.diff import Example
    from toolloom.pipeline.templates.written.files import TemplatePreview


_SHORT = 200  # characters of JSON that are shown without being asked for


def dialogue_html(record: JsonObject, *, raw: bool = False, longest: int | None = None) -> str:
    """An accepted sample, a rejected record or an instruction, each as JSON, as one `<article>`.

    Findings stand at the turn they are about, the intent beside the call that serves it. `raw`:
    with the model's raw responses, folded. `longest`: characters of each text that are shown.
    """
    return render("dialogue.html.j2", **_View(record, raw, longest).variables())


class _View:
    """What the template shows of a record."""

    def __init__(self, record: JsonObject, raw: bool, longest: int | None) -> None:
        self._record = record
        self._longest = longest
        self._is_rejected = "reason" in record
        self._raw = record.get("raw") or () if raw else ()
        inner: Any = record["record"] if self._is_rejected else record
        self._inner: JsonObject = inner
        self._need = need_of(inner)
        self._findings: list[JsonObject] = [*(record.get("findings") or ())]
        if not self._is_rejected:
            self._findings += (record.get("verdict") or {}).get("findings") or ()
            self._findings += record.get("flags") or ()

    def variables(self) -> JsonObject:
        dialogue = self._inner.get("dialogue", self._inner)
        messages = dialogue.get("messages") or ()
        intents = _Intents(dialogue if messages else {}, self._need)
        turns = [self._turn(index, m, intents) for index, m in enumerate(messages)]
        known = {turn["number"] for turn in turns}
        loose = [f for f in self._findings if f.get("turn") not in known]
        return {
            "id": self._record.get("id") or self._need.get("id", ""),
            "kinds": [self._need[key] for key in ("ability", "scenario") if key in self._need],
            "rejected": {
                **{key: self._record[key] for key in ("stage", "agent", "reason")},
                "detail": self._text(self._record["detail"]),
            }
            if self._is_rejected
            else None,
            "loose": [f for f in loose if f.get("detail") != self._record.get("detail")],
            "stopped": self._is_rejected and bool(turns) and not self._findings,
            "turns": turns,
            "unmade": intents.unmade(),
            "unserved": self._need.get("scenario") == "irrelevance",
            "fields": [] if turns else [*self._fields()],
            "offered": self._offered(),
            "votes": [
                {**vote, "explanation": self._text(vote.get("explanation", ""))}
                for vote in (self._inner.get("verdict") or {}).get("votes") or ()
            ],
            "raw": [(self._text(spoken(one)), self._text(one)) for one in self._raw],
            "made_by": _made_by(self._record, self._inner),
        }

    def _turn(self, index: int, message: JsonObject, intents: _Intents) -> JsonObject:
        content = message.get("content")
        seen = _observed(content) if message["role"] == "tool" else None
        return {
            "number": index,
            "role": message["role"],
            "text": None if content is None or seen else self._text(content),
            "observed": self._observation(*seen) if seen else None,
            "name": message.get("name") or "",
            "came_about": message.get("execution") or None,
            "calls": [
                self._call(call["function"], intents.of(index, nth))
                for nth, call in enumerate(message.get("tool_calls") or ())
            ],
            "findings": [f for f in self._findings if f.get("turn") == index],
        }

    def _call(self, function: JsonObject, intent: JsonObject | None) -> JsonObject:
        arguments = function.get("arguments")
        readable = isinstance(arguments, dict)
        return {
            "name": function.get("name", ""),
            "arguments": self._values(arguments) if isinstance(arguments, dict) else [],
            "unread": None if readable else self._text(arguments),
            "intent": {**intent, "arguments": self._values(intent["arguments"])}
            if intent
            else None,
        }

    def _values(self, arguments: JsonObject) -> list[tuple[str, str]]:
        return [(name, self._text(_plain(value))) for name, value in arguments.items()]

    def _observation(self, response: Any, error: Any) -> JsonObject:
        line = _plain(response)
        whole = _pretty(response)
        # The functions whose documentation an API Search gave.
        items = response if isinstance(response, list) else []
        described = [i for i in items if isinstance(i, dict) and {"name", "parameters"} <= set(i)]
        functions = [str(i["name"]) for i in described] if len(described) == len(items) else []
        is_long = len(line) > _SHORT or bool(functions)
        short = f"finds {', '.join(functions)}" if functions else line
        return {
            "error": None if error is None else self._text(error),
            "line": f"{short[:_SHORT]}…" if len(short) > _SHORT else short,
            "whole": self._text(whole) if is_long else None,
        }

    def _fields(self) -> Iterator[tuple[str, str]]:
        """What there is to read of a record that has no messages."""
        seed = self._inner.get("seed")
        if isinstance(seed, dict):  # an instruction that fell
            yield "request", self._text(seed.get("hybrid", ""))
            yield "calls", ", ".join(str(s.get("function")) for s in seed.get("steps") or ())
        for name, value in (self._need or self._inner).items():
            if name in _TECHNICAL or value in (None, "", [], (), {}):
                continue
            yield name, self._text(value if isinstance(value, str) else _pretty(value))

    def _offered(self) -> list[JsonObject]:
        """The APIs of the pool; those that are needed first."""
        wanted = {intent["api"] for intent in self._need.get("intent") or ()}
        shown = [
            {
                "function": api["function"],
                "about": self._text(api.get("description", "")),
                "needed": api_id(api) in wanted,
            }
            for api in self._need.get("pool") or ()
        ]
        return sorted(shown, key=lambda api: not api["needed"])

    def _text(self, value: object) -> str:
        text = str(value)
        if self._longest is None or len(text) <= self._longest:
            return text
        return f"{text[: self._longest]}… ({len(text) - self._longest:,} more characters)"


# Shown elsewhere, or of no use to a reader.
_TECHNICAL = ("id", "pool", "outside", "intent", "provenance", "seed", "ability", "scenario")


class _Intents:
    """The intent beside the calls: what the user means, and where a call differs from it."""

    def __init__(self, dialogue: JsonObject, need: JsonObject) -> None:
        apis = [*(need.get("pool") or ()), need.get("outside")]
        self._functions = {api_id(api): api["function"] for api in apis if api}
        self._intents: list[JsonObject] = [*(need.get("intent") or ())]
        self._served: dict[tuple[int, int], tuple[int, list[str]]] = {}
        try:
            known = Dialogue.model_validate({"provenance": (), **dialogue})
            pairs = {id(call): index for index, call in pair(known).calls.items()}
            for message, nth, call in _numbered(known):
                index = pairs.get(id(call))
                if index is None:
                    # What a call that failed was made for, if it says the same.
                    meant = (i for i, due in enumerate(known.query.due) if fits(due, call))
                    index = next(meant, None) if call.failed else None
                if index is not None:
                    wanted = known.query.due[index]
                    self._served[message, nth] = index, [*differences(wanted, call)]
        except (RecursionError, ValidationError):
            return  # as far as it came it is no dialogue

    def of(self, message: int, nth: int) -> JsonObject | None:
        """The intent that the nth call of a message serves, and how the call differs."""
        if (message, nth) not in self._served:
            return None
        index, differs = self._served[message, nth]
        return {**self._shown(index), "differs": differs}

    def unmade(self) -> list[JsonObject]:
        """What the user means and no call serves."""
        served = {index for index, _ in self._served.values()}
        rest = (index for index in range(len(self._intents)) if index not in served)
        return [
            {**shown, "arguments": [(n, _plain(value)) for n, value in shown["arguments"].items()]}
            for shown in map(self._shown, rest)
        ]

    def _shown(self, index: int) -> JsonObject:
        intent = self._intents[index]
        references = intent.get("references") or {}
        taken = {
            name: f"← {reference['field']} of {self._function(reference['call'])}"
            for name, reference in references.items()
        }
        return {
            "number": index + 1,
            "function": self._function(index),
            "arguments": intent.get("arguments") or {},
            "taken": taken,
        }

    def _function(self, index: int) -> str:
        wanted = self._intents[index]["api"] if index < len(self._intents) else "?"
        return str(self._functions.get(wanted, wanted))


def _numbered(dialogue: Dialogue) -> Iterator[tuple[int, int, CallMade]]:
    """Readable calls with the index of their message and their number in it."""
    readable = iter(made(dialogue))
    for index, message in enumerate(dialogue.messages):
        for nth, call in enumerate(message.tool_calls):
            if isinstance(call.function.arguments, dict):
                yield index, nth, next(readable)


def _observed(content: Any) -> tuple[Any, Any] | None:
    """Response and error of a tool's message; None of one that is no envelope."""
    try:
        envelope = json.loads(content)
    except (TypeError, ValueError, RecursionError):
        return None
    if not isinstance(envelope, dict) or not set(envelope) <= {"response", "error"}:
        return None
    return envelope.get("response"), envelope.get("error")


def _plain(value: Any) -> str:
    """A value as it is told: text without its quotes would look like a number."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(too deep to be shown)"


def _pretty(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=2)
    except RecursionError:  # of the encoder that indents, which goes less deep
        return _plain(value)


def _made_by(record: JsonObject, inner: JsonObject) -> list[JsonObject]:
    """Everyone's share: the record's own, its dialogue's, its query's; each once, in that order."""
    shares: list[JsonObject] = []
    layers: list[Any] = [record, inner]
    while isinstance(layers[-1], dict) and (deeper := _deeper(layers[-1])) is not None:
        layers.append(deeper)
    for layer in layers:
        shares += (share for share in layer.get("provenance") or () if share not in shares)
    return shares[::-1]


def _deeper(layer: JsonObject) -> JsonObject | None:
    inner = layer.get("dialogue") or layer.get("query")
    return inner if isinstance(inner, dict) else None


def sample_view(sample: Sample) -> RenderableType:
    """A dialogue as a person reads it."""
    row = sample.model_dump(mode="json")
    return Group(_title(sample.id, need_of(row)), messages_view(row["dialogue"]["messages"]))


def instruction_view(instruction: Instruction) -> RenderableType:
    """A request at one granularity, in a line."""
    return text(f"{instruction.id}: {instruction.text}")


def rejected_view(row: JsonObject, verbatim: bool = False) -> RenderableType:
    """A rejected record: what was found, the dialogue as far as it came, what the model said.

    `verbatim`: the endpoint's whole responses in place of the model's text in them.
    """
    need = need_of(row["record"])
    agent = f" ({row['agent']})" if row["agent"] else ""
    parts: list[RenderableType] = [
        _title(row["id"], need),
        text(f"rejected by {row['stage']}{agent}: {row['reason']}", "red"),
        text(row["detail"]),
        *(text("  " + _finding(finding)) for finding in row["findings"]),
        _record_view(row["record"], need),
    ]
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


def _finding(finding: JsonObject) -> str:
    turn = "" if finding["turn"] is None else f", message {finding['turn']}"
    return f"{finding['check']}{turn}: {finding['reason']}: {finding['detail']}"


def _record_view(record: JsonObject, need: JsonObject) -> RenderableType:
    if "seed" in record:
        return _draft_view(record)
    dialogue = record.get("dialogue", record)
    if isinstance(dialogue, dict) and dialogue.get("messages"):
        return messages_view(dialogue["messages"])
    shown = need or record
    hidden = {"provenance", "pool", "id", "ability", "scenario"}
    rest = {k: v for k, v in shown.items() if k not in hidden and v not in (None, "", [], {})}
    return text(json.dumps(rest, indent=2, ensure_ascii=False), "dim")


def _draft_view(record: JsonObject) -> RenderableType:
    """What became of a request at one granularity, beside the request."""
    seed = record["seed"]
    steps = [step.get("function") for step in seed.get("steps", ())]
    draft = {"request": seed.get("hybrid"), "calls": steps, record.get("level"): record.get("text")}
    rest = {str(k): v for k, v in draft.items() if k and v}
    return text(json.dumps(rest, indent=2, ensure_ascii=False), "dim")


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


REASONS = 16  # of which rejected records are shown, the most frequent ones
LONGEST = 20_000  # characters of a text that are shown
RAW = 12  # raw responses of a record that are shown
RAW_LONGEST = 2_000  # and characters of each
RAW_NOTE = "… (cut here: the config `rejected` has it whole)"
_JSON = ("findings", "record", "provenance")


@dataclass(frozen=True)
class Shown:
    """A sample on the page, and what it can be found by."""

    group: str
    html: str
    facets: dict[str, str] = field(default_factory=dict)


def samples(version: Version, seen: ReadRows) -> Iterator[Shown]:
    """Of each ability, of rows of templates, of each reason, of scripts with several rows, and of
    requests with instructions.

    Raises StoreError for a row that is damaged.
    """
    for show, row in _drawn(seen):
        with readable(version, row[1]):
            yield show(row)
    for world, script, rows in seen.sheets.items():
        sheet = [_accepted(row).html for row in rows]
        html = render("sheet.html.j2", world=world, script=script, rows=sheet)
        yield Shown("scripts", html, {"world": world})
    yield from map(_instructed, seen.instructed.items())


def _drawn(seen: ReadRows) -> Iterator[tuple[Callable[[Row], Shown], Row]]:
    for ability in sorted(seen.accepted.seen()):
        yield from ((_accepted, row) for row in seen.accepted.items(ability))
    for reason in [*seen.rejected.seen()][:REASONS]:
        yield from ((_rejected, row) for row in seen.rejected.items(reason))
    yield from ((_expanded, row) for row in seen.templates.items())


def _expanded(row: Row) -> Shown:
    return _accepted(row, "templates")


def _accepted(row: Row, group: str = "accepted") -> Shown:
    split, stored = row
    record = {part: json.loads(stored[part]) for part in PARTS}
    html = dialogue_html({"id": stored["id"], **record}, longest=LONGEST)
    return _shown(group, html, split, record)


def _rejected(row: Row) -> Shown:
    split, stored = row
    record = {**stored, **{name: json.loads(stored[name]) for name in _JSON}}
    record["raw"] = [
        (raw if len(raw) <= RAW_LONGEST else raw[:RAW_LONGEST] + RAW_NOTE)
        for raw in stored["raw"][:RAW]
    ]
    html = dialogue_html(record, raw=True, longest=LONGEST)
    return _shown("rejected", html, split, record["record"], stored)


def _shown(
    group: str, html: str, split: str, record: JsonObject, row: JsonObject | None = None
) -> Shown:
    need, fallen = need_of(record), row or {}
    facets = {
        "reason": fallen.get("reason"),
        "stage": fallen.get("stage"),
        "ability": need.get("ability"),
        "scenario": need.get("scenario"),
        "words": _words(need),
        "split": split,
    }
    return Shown(group, html, {k: str(v) for k, v in facets.items() if v})


def _words(need: JsonObject) -> str:
    """Whose words a dialogue in a world has: a script can be played again, and nobody is asked."""
    if not need.get("setting"):
        return ""
    return "of a script, free to use again" if need["setting"]["script"] else "of a model"


def _instructed(rows: list[Row]) -> Shown:
    """A request as it is said at each level, from little to all."""
    split, first = rows[0]
    levels = sorted((row for _, row in rows), key=lambda row: _depth(row["level"]))
    said = [(row["level"], row["instruction"][:LONGEST]) for row in levels]
    html = render("instructions.html.j2", id=first["sample"], said=said, path=first["path"] or ())
    return Shown("instructions", html, {"split": split, "source": first["source"]})


def _depth(level: str) -> int:
    return LEVELS.index(level) if level in LEVELS else len(LEVELS)
