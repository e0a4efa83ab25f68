"""API-Bank: descriptions, dialogues, training rows and scenes, as APIs and as dialogues; its rows.

An API is put together from all that a source says of it: its description, where one is given or
was found by a ToolSearcher call, and the calls made to it, whose values show what it takes and
gives. Many files of one folder are one source. ToolSearcher itself is API-Bank's API Search
(section 3.1), which toolloom has of its own.

Dialogues are annotated, a file each, or stand as text in the training rows made of them. Calls were
written as text, so a number in quotes is a number where the API takes one. A description tells the
fields of what an API puts out, but the annotated outputs are often a field's bare value, so outputs
are not held to it.

Written are the training rows (Lynx), `instruction`, `input`, `output`, with calls as text: one for
each request of the assistant and one for each of its replies.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from toolloom.pipeline.checks.grounding import same
from toolloom.pipeline.checks.schema import as_dict
from toolloom.pipeline.checks.text.call_text import CallTextError, literal, parse, write
from toolloom.pipeline.checks.transcript import shown
from toolloom.pipeline.formats import base
from toolloom.pipeline.formats.conversation import (
    Conversation,
    Reading,
    RowCall,
    excess,
    json_of,
    present,
    refused,
)
from toolloom.pipeline.formats.import_log import ImportLog, line, reference, text
from toolloom.pipeline.formats.json_schema import OTHER_NAMES, TYPES, schema_of, to_api
from toolloom.pipeline.formats.rows import LARGEST, UNREAD, ForeignRow, files, foreign_rows, rows
from toolloom.pipeline.render.section import counted
from toolloom.pipeline.store.files import file_text, to_text
from toolloom.schemas import (
    API_SEARCH,
    Api,
    ImportFailed,
    JsonObject,
    Message,
    Reason,
    Sample,
    Source,
    grouped,
)

TOOL = "API-Bank"
_ENDINGS = (".json", ".jsonl", ".txt")
SEARCH = "ToolSearcher"
_EXAMPLES = 5  # values of an argument, and results, that are kept of the calls of an API
_LARGEST_SCENE = 1_000_000
_LONGEST = 100_000  # letters of a line in running text that are looked at
_CALLED = re.compile(r"(?:API-Request\s*:\s*)?\[?\s*([A-Za-z_]\w*)\s*\(")
_ANSWERED = re.compile(r"\)\s*\]?\s*->\s*")


class Described(NamedTuple):
    """An API's description."""

    name: str
    description: str
    inputs: JsonObject
    outputs: JsonObject


class BankCall(NamedTuple):
    """A call of an API, and what it answered if it did."""

    name: str
    arguments: JsonObject
    output: Any = None
    answered: bool = False


Fact: TypeAlias = Described | BankCall


def fits(document: Any) -> bool:
    """Whether a document, or a list of them, is one of API-Bank's forms."""
    return any(map(is_bank_row, document[:20] if isinstance(document, list) else [document]))


def fits_text(content: str) -> bool:
    """Whether a text is a scene of API-Bank's level 3."""
    signs = (r"(?mi)^[ \t]*Scene[ \t]{0,9}:", r"(?i)API Calls?:")
    return all(re.search(sign, content) for sign in signs)


def read(
    source: Path, ledger: ImportLog, *, category: str = "", document: Any = UNREAD
) -> Iterator[Api]:
    """The APIs of a file, or of all files of a folder taken together."""
    paths = files(source, _ENDINGS) if source.is_dir() else [source]
    facts = chain.from_iterable(evidence(path, ledger, document) for path in paths)
    yield from put_together(facts, ledger, reference(source), category)


def put_together(
    facts: Iterable[Fact], ledger: ImportLog, named: str, category: str = ""
) -> Iterator[Api]:
    """The APIs of what files say of them. `named`: what their source is called."""
    known = grouped((fact.name, fact) for fact in facts)
    ledger.format = "api-bank"
    source, looked_at = Source(kind="api-bank", reference=named), 0
    for name, told in known.items():
        calls = [fact for fact in told if isinstance(fact, BankCall)]
        looked_at += len(calls)
        if name == SEARCH:
            ledger.refuse(name, "It is API-Bank's API Search; toolloom has its own.")
            continue
        # Descriptions of one name agree, but for their wording.
        described = (fact for fact in told if isinstance(fact, Described))
        said = next(described, Described(name, "", {}, {}))
        yield from to_api(
            ledger,
            source,
            category=category,
            tool=TOOL,
            name=name,
            description=said.description,
            parameters=_parameters(said, calls),
            returns=_returns(said, calls),
        )
    if looked_at:
        ledger.note(
            f"{named}: looked at {counted(looked_at, 'call')} of {counted(len(known), 'API')}."
        )


def _parameters(described: Described, calls: list[BankCall]) -> JsonObject:
    """Described arguments, else those that were given; needed is what no call leaves out."""
    given = grouped(item for call in calls for item in call.arguments.items())
    properties: JsonObject = {}
    required: list[str] = []
    for name, said in (described.inputs or {key: {} for key in given}).items():
        values: list[Any] = []
        for value in given.get(name, ()):
            if len(values) < _EXAMPLES and value not in values:
                values.append(value)
        schema = typed(said) if said else schema_of(values)
        fitting = [v for v in values if schema_of([v]).get("type") == schema.get("type")]
        properties[name] = {**schema, **({"examples": fitting} if fitting else {})}
        about = text(as_dict(said).get("description"))
        if len(given.get(name, ())) == len(calls) and "optional" not in about.lower():
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _returns(described: Described, calls: list[BankCall]) -> JsonObject | None:
    """What its calls answered, in the words of its description where the two agree."""
    outputs = [call.output for call in calls if call.answered][:_EXAMPLES]
    said = {name: typed(about) for name, about in described.outputs.items()}
    seen = schema_of(outputs)
    keys = {key for output in outputs if isinstance(output, dict) for key in output}
    if not outputs or (seen.get("type") == "object" and keys <= {*said}):
        return {"type": "object", "properties": said} if said else seen or None
    about = next(iter(said.values())).get("description") if len(said) == 1 else None
    return {**seen, "description": about} if about and seen["type"] != "object" else seen


def typed(said: Any) -> JsonObject:
    """A described argument or result, such as `{"type": "list(str)", "description": …}`."""
    given = as_dict(said)
    written = line(given.get("type"))
    inner = re.fullmatch(r"(?i)list\s*[\[(]\s*(\w+)\s*[\])]", written)
    kind = TYPES.get(written.lower(), "array" if inner else "")
    made: JsonObject = {"type": kind} if kind else {}
    if inner and inner[1].lower() in TYPES:
        made["items"] = {"type": TYPES[inner[1].lower()]}
    if about := text(given.get("description")).strip():
        made["description"] = about
    return made


def searches(path: Path) -> list[tuple[str, str]]:
    """(keywords, the API that was meant) of each ToolSearcher call that found some, in order.

    Meant is, of the APIs found, the last one called before the next search; where none is, the
    last one found: ToolSearcher puts GetUserToken before an API that needs a token.
    """
    pairs: dict[tuple[str, str], None] = {}
    for file in files(path, _ENDINGS):
        keywords, found, meant = "", list[str](), ""
        calls = (f for f in evidence(file, ImportLog(file.name)) if isinstance(f, BankCall))
        for call in (*calls, BankCall(SEARCH, {})):
            if call.name != SEARCH:
                meant = call.name if call.name in found else meant
                continue
            if keywords and meant:
                pairs[keywords, meant] = None
            keywords = line(call.arguments.get("keywords"))
            listed = call.output if isinstance(call.output, list) else [call.output]
            found = [line(entry.get("name")) for entry in listed if isinstance(entry, dict)]
            meant = found[-1] if found else ""
    return list(pairs)


def is_bank_row(row: Any) -> bool:
    """Whether a JSON value is a description, a turn of a dialogue or a training row."""
    if not isinstance(row, dict):
        return False
    if row.get("role") in ("User", "AI", "API"):
        return "text" in row or "api_name" in row
    if isinstance(row.get("input_parameters"), dict) or "apiCode" in row:
        return True
    asked = text(row.get("instruction")) + text(row.get("input"))
    return "input" in row and ("API descriptions" in asked or "API-Request" in asked)


def evidence(path: Path, ledger: ImportLog, document: Any = UNREAD) -> Iterator[Fact]:
    """All that one file says. What cannot be read of it is booked as skipped."""
    if path.suffix.lower() == ".txt":
        yield from _scene(path, ledger)
        return
    for place, row in rows(path, ledger, document):
        for number, entry in enumerate(row if isinstance(row, list) else [row], 1):
            if not is_bank_row(entry):
                ledger.refuse(f"{place}, row {number}", "It is none of API-Bank's forms.")
            elif entry.get("role") == "API":
                name, result = line(entry.get("api_name")), as_dict(entry.get("result"))
                answered = "output" in result and not result.get("exception")
                given = as_dict(entry.get("param_dict"))
                if name:
                    yield from _answered(BankCall(name, given, result.get("output"), answered))
            elif "input_parameters" in entry or "apiCode" in entry:
                yield from descriptions(entry)
            else:
                for key in ("instruction", "input", "output", "expected_output"):
                    for one in text(entry.get(key)).splitlines():
                        yield from _running(one[:_LONGEST].strip())


def descriptions(listed: Any) -> Iterator[Described]:
    """The APIs that a value describes: a list of descriptions, or one. Training rows of level 3
    call their fields otherwise."""
    for row in listed if isinstance(listed, list) else [listed]:
        if isinstance(row, dict):
            name = line(row.get("name")) or line(row.get("apiCode"))
            inputs = row.get("input_parameters", row.get("parameters"))
            outputs = as_dict(row.get("output_parameters", row.get("response")))
            if name and isinstance(inputs, dict):
                yield Described(name, text(row.get("description")), inputs, outputs)


def described_in(one: str) -> Iterator[Described]:
    """The description that a line of running text may be."""
    if one.lstrip().startswith("{"):
        yield from descriptions(json_of(one))


def _answered(call: BankCall) -> Iterator[Fact]:
    """A call, and what it found if it is a search."""
    yield call
    if call.name == SEARCH:
        yield from descriptions(call.output)


def _running(one: str) -> Iterator[Fact]:
    """A line of a training row: a description, or a call with or without its answer."""
    yield from described_in(one)
    if one.startswith("API-Request"):
        asked, answer = _split(one)
        output = _answer(answer) if answer and answer[0] in "{[" else None
        for call in _parsed(asked):
            yield from _answered(call._replace(output=output))


def _split(one: str) -> tuple[str, str | None]:
    """A request, and its answer where one follows behind an arrow."""
    arrow = _ANSWERED.search(one)
    if not arrow:
        return one, None
    asked = one[: arrow.start()] + ")" + ("]" if "[" in one[: arrow.start()] else "")
    return asked, one[arrow.end() :].strip()


def _answer(written: str) -> Any:
    """What a call gave, which Python wrote; text that is none of its values stays as it is."""
    try:
        return literal(written)
    except ValueError:
        return written


def _scene(path: Path, ledger: ImportLog) -> Iterator[BankCall]:
    content = file_text(path, LARGEST, ImportFailed)[:_LARGEST_SCENE]
    ledger.bytes += path.stat().st_size
    after = re.split(r"(?i)API Calls?:", content, maxsplit=1)[1:]
    for one in (one.strip()[:_LONGEST] for part in after for one in part.splitlines()):
        if one:
            calls = _parsed(one[: one.rfind(")") + 1])
            yield from calls
            if not calls:
                ledger.refuse(f"{path.name}: {one[:80]}", "It cannot be read as a call.")


def _parsed(written: str) -> list[BankCall]:
    try:
        calls = parse(written) if _CALLED.match(written) else []
    except (CallTextError, RecursionError):
        return []
    return [BankCall(c.name, c.arguments) for c in calls if isinstance(c.arguments, dict)]


# Dialogues


_OUTPUTS = "tools: output_parameters, since annotated outputs are often a field's bare value"
_UNDESCRIBED = "an API without a description: its calls are not held to a schema"
_KINDS: dict[str, Any] = {
    "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict,
}  # fmt: skip
_SPEAKS = re.compile(r"^\s*(User|AI|API-Request|API-Response)\s*:", re.MULTILINE)
_ASKED = re.compile(r"\s*Generate (?:API Request|AI Response):\s*\Z")
_LONGEST_ROW = 1_000_000  # letters of a training row
_MOST_TURNS = 5_000


def dialogues(path: Path) -> Iterator[Reading]:
    """Dialogues of one file each, or training rows. Raises StoreError.

    What a search of any of the files found describes an API for all of them.
    """
    found = files(path, (".json", ".jsonl"))
    known: dict[str, Described] = {}
    for row in (row for file in found for row in foreign_rows(file)):
        if isinstance(row.value, dict) and not excess(row.value):
            result = row.value.get("result")
            if row.value.get("api_name") == SEARCH and isinstance(result, dict):
                for one in descriptions(result.get("output")):
                    known.setdefault(one.name, one)
    for file in found:
        turns, faulty = list[JsonObject](), None
        for row in foreign_rows(file):
            value = as_dict(row.value)
            if why := excess(value):
                row, value = ForeignRow(row.place, fault=why), {}
            if "role" in value and len(turns) < _MOST_TURNS:
                turns.append(value)
            elif "input" in value or "instruction" in value:
                yield _training_dialogue(row, value, known)
            elif turns:
                faulty = faulty or row
            else:
                yield refused(row, row.fault or "neither a turn of a dialogue nor a training row")
        whole = ForeignRow(file.name, turns)
        if turns and faulty:
            yield refused(whole, f"{faulty.place}: {faulty.fault or 'no turn of a dialogue'}")
        elif turns:
            yield _annotated(whole, turns, known)


def _annotated(row: ForeignRow, turns: list[JsonObject], known: dict[str, Described]) -> Reading:
    """A dialogue of turns with the roles User, AI and API."""
    bank = _BankDialogue(row, known)
    for turn in turns:
        role = turn.get("role")
        if role == "User":
            bank.user(turn.get("text"))
        elif role == "AI":
            bank.assistant(turn.get("text"))
        elif role != "API":
            bank.fault(Reason.MALFORMED_DIALOGUE, f"a turn of the role {shown(role)}")
        elif not line(turn.get("api_name")):
            bank.fault(Reason.FALSE_API_CALL_FORMAT, "a call without a name")
        else:
            bank.turn(text(turn["api_name"]), turn.get("param_dict"), turn.get("result"))
    return bank.reading()


def _training_dialogue(row: ForeignRow, value: JsonObject, known: dict[str, Described]) -> Reading:
    """A row of the released training data: the dialogue so far as text, and what is to follow."""
    asked = f"{text(value.get('instruction'))}\n{text(value.get('input'))}"
    output = text(value.get("output")) or text(value.get("expected_output"))
    if len(asked) > _LONGEST_ROW or not output.strip():
        return refused(row, "it is too long" if output.strip() else "it has no `output`")
    bank = _BankDialogue(row, known)
    if now := present(asked):
        bank.system("", now)
    for one in asked.splitlines():
        for description in described_in(one):
            bank.listed(description)
    story = text(value.get("input")) if _SPEAKS.search(text(value.get("input"))) else asked
    for role, words in (*_said(story), next(_said(output), ("AI", output))):
        if role == "User":
            bank.user(words)
        elif words and role == "AI":
            bank.assistant(words)
        elif words:
            request, answer = _split(words)
            try:
                calls = parse(request)
            except (CallTextError, RecursionError) as error:
                bank.fault(Reason.FALSE_API_CALL_FORMAT, f"{error}: {shown(words)}")
                continue
            result = None if answer is None else _answer(answer)
            if answer is not None and not (isinstance(result, dict) and "exception" in result):
                result = {"output": result}
            for call in calls:
                bank.call(call.name, call.arguments, result)
    return bank.reading()


def _said(story: str) -> Iterator[tuple[str, str]]:
    """Roles and words of a dialogue that is written as text."""
    parts = _SPEAKS.split(story)
    for role, words in zip(parts[1::2], parts[2::2], strict=True):
        yield role, _ASKED.sub("", words.strip()).strip()


class _BankDialogue(Conversation):
    """One dialogue on its way into our record. ToolSearcher is our API Search."""

    def __init__(self, row: ForeignRow, known: dict[str, Described]) -> None:
        super().__init__("api-bank", row)
        self._known = dict(known)
        self._search = SEARCH  # what API Search is called
        self._listed = False  # the row itself describes its APIs

    def turn(self, name: str, given: Any, result: Any) -> None:
        """A turn of the role API. Its result repeats name and arguments of the call."""
        result = result if isinstance(result, dict) else None
        echo = result.get("input") if result else None
        if isinstance(echo, dict) and isinstance(given, dict):
            is_same = echo.keys() == given.keys() and all(same(echo[k], given[k]) for k in given)
            if not is_same:
                detail = f"{name}: the result is of another call, with {shown(echo)}"
                self.fault(Reason.MALFORMED_DIALOGUE, detail)
        if result and result.get("api_name", name) != name:
            detail = f"{name}: the result is of {shown(result['api_name'])}"
            self.fault(Reason.MALFORMED_DIALOGUE, detail)
        self.call(name, given, result)

    def call(self, name: str, given: Any, result: JsonObject | None) -> None:
        """A call, and what it gave: `output`, or an `exception`."""
        output = result.get("output") if result else None
        if name == self._search:
            self.searches = True
            output = [output] if isinstance(output, dict) else output  # a search that found one
            self.assistant("", [RowCall(API_SEARCH.function, given)])
        else:
            self._offer_called(name, given)
            self.assistant("", [RowCall(name, self._typed(name, given))])
        if result is not None:
            failed = result.get("exception")
            self.observed(output, None if failed is None else str(failed))

    def _offered(self, entry: Any) -> None:
        """What a search finds is described as API-Bank does, and not as tools are."""
        for one in descriptions(entry):
            self._known.setdefault(one.name, one)

    def _offer_called(self, name: str, given: Any) -> None:
        """The API of a call. Of one nobody describes only what the call shows is known."""
        if self.api(name):
            return
        if name in self._known:
            self._describe(self._known[name])
        elif not self._listed and not (self._known and self.searches):
            self.note(_UNDESCRIBED)
            properties: JsonObject = {key: {} for key in as_dict(given)}
            self.tool(name, "", {"type": "object", "properties": properties})

    def listed(self, one: Described) -> None:
        """An API that the row describes: what it does not describe is not on offer."""
        self._listed = True
        if one.name in (SEARCH, API_SEARCH.function) and list(one.inputs) == ["keywords"]:
            self.searches, self._search = True, one.name
        else:
            self._describe(one)

    def _describe(self, one: Described) -> None:
        """Offer an API by its description; all its parameters are needed, but optional ones."""
        parameters = one.inputs
        if parameters.get("type") != "object" or not isinstance(parameters.get("properties"), dict):
            parameters = {
                "type": "object",
                "properties": {k: typed(v) for k, v in one.inputs.items()},
                "required": [k for k, v in one.inputs.items() if not _is_optional(v)],
            }
        self.tool(one.name, one.description, parameters)
        if one.outputs:
            self.note(_OUTPUTS)

    def _typed(self, name: str, given: Any) -> Any:
        """Arguments with text read as the type the API takes, where it reads as one."""
        api = self.api(name)
        if not isinstance(given, dict) or api is None:
            return given
        typed_values = dict(given)
        for key, value in given.items():
            kind = as_dict(api.properties.get(key)).get("type")
            if isinstance(value, str) and isinstance(kind, str) and kind in _KINDS:
                read = json_of(value.lower() if kind == "boolean" else value)
                typed_values[key] = read if isinstance(read, _KINDS[kind]) else value
        return typed_values


def _is_optional(said: Any) -> bool:
    """Said so, or that there is a default, or in which case it is needed."""
    about = text(as_dict(said).get("description")).lower()
    when = re.search(r"\boptional|\bdefault|\brequired (?:when|if)\b|\bif not\b", about)
    return as_dict(said).get("required") is False or bool(when)


# Rows written

_REQUEST = (
    "Write the next API request of this dialogue as [ApiName(key1='value1', key2='value2', ...)]."
    "\nExpected output:\nAPI-Request: [ApiName(key1='value1', key2='value2', ...)]"
)
_SPEAKER = re.compile(r"\n\s*(?:User|AI|API-Request|Generate API Request|Generate AI Response):")
_REPLY = "Write the assistant's next reply in this dialogue.\nExpected output:\nAI: the reply"


def api_bank(sample: Sample, form: base.Arguments) -> base.Exported:
    said = base.spoken(sample.dialogue.messages)
    if any(_SPEAKER.search(message.content or "") for message in said if message.role != "tool"):
        raise base.NotRepresentable("words look like another speaker's line")
    documents = [
        base.spaced(
            {
                "name": api.function,
                "description": api.description,
                "input_parameters": _fields(api.properties, {*api.properties} - {*api.required}),
                "output_parameters": _fields(api.fields),
            }
        )
        for api in base.given(sample)
    ]
    lines: list[str] = []
    rows: list[tuple[str, JsonObject]] = []
    for place, message in enumerate(said):
        if message.role == "assistant":
            rows.append(("sft", _training_row(sample, [*documents, *lines], message)))
        lines += _lines(message, said[place + 1 :])
    lost = ["what schemas say beyond type and description", *base.words_beside_calls(said)]
    return base.Exported(
        tuple(rows), tuple(lost if any(a.properties for a in base.given(sample)) else ())
    )


_PYTHON_TYPES = {**{kind: words.split()[0] for kind, words in OTHER_NAMES.items()}, "null": "None"}


def _fields(properties: dict[str, JsonObject], optional: Collection[str] = ()) -> JsonObject:
    """API-Bank has no list of what is required; what may be left out says so in its words."""
    fields = {}
    for name, found in properties.items():
        schema = as_dict(found)
        told, kinds = schema.get("description", ""), schema.get("type")
        told = told if isinstance(told, str) else to_text(told)
        if isinstance(kinds, list):
            kinds = next((kind for kind in kinds if kind != "null"), "null")
        fields[name] = {
            "type": _PYTHON_TYPES.get(str(kinds), "any"),
            "description": f"{told} Optional.".lstrip() if name in optional else told,
        }
    return fields


def _training_row(sample: Sample, lines: Sequence[str], message: Message) -> JsonObject:
    request, ask, output = _REPLY, "Generate AI Response: ", f"AI: {message.content or ''}"
    if base.calls(message):
        written = write([call.function for call in message.tool_calls])
        request, ask, output = _REQUEST, "Generate API Request: ", f"API-Request: {written}"
    head = "\n".join(filter(None, (request, base.system_of(sample))))
    return {
        "instruction": f"{head}\nAPI descriptions:\n",
        "input": "\n".join([*lines, ask]),
        "output": output,
    }


def _lines(message: Message, later: Sequence[Message]) -> list[str]:
    """A message as lines of the dialogue; a request stands with its result behind an arrow."""
    if message.role == "user":
        return [f"User: {message.content or ''}"]
    if message.role == "tool":
        return []
    if not message.tool_calls:
        return [f"AI: {message.content or ''}"]
    lines = []
    for call in message.tool_calls:
        seen = base.outcome(call, later)
        shown = base.spaced({"error": seen.error} if seen.error else seen.response)
        lines.append(f"API-Request: {write([call.function])}->{shown}")
    return lines
