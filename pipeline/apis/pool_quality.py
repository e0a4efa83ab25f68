"""What is in a pool, shown, and rules that leave APIs out of one, each with a name.

The rules judge descriptions: what can be said without a call. ToolLLM (appendix A.1) calls each API
and drops what does not answer, answers slowly, or answers with HTML or an error. Of that only
`error_returns` is here, for a response whose description is that of an error; that an API is
alive and quick is found out by executing it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from toolloom.pipeline.apis.pool import PoolFolder
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.render.section import Section, safe_json, short
from toolloom.pipeline.store.files import to_text
from toolloom.schemas import Api, StoreError


def list_section(apis: Iterable[Api]) -> Section:
    """A line for each API; it is answered by the simulator unless the recipe has it executed."""
    rows = [
        (
            a.function,
            short(f"{a.category}/{a.tool}", 40),
            f"world {a.source.reference}" if a.source.kind == "world" else "simulator",
            short(a.description),
        )
        for a in apis
    ]
    return Section(head=("function", "category/tool", "answered by", "description"), rows=rows)


def api_sections(api: Api) -> list[Section]:
    """An API as a person reads it."""
    source = api.source
    marks = [
        *(source.kind, source.reference, source.operation, source.licence),
        f"collections: {', '.join(api.collections)}" if api.collections else "",
        "deprecated" if api.deprecated else "",
        "" if api.repeatable else "not repeatable",
    ]
    parameters = [
        (
            name,
            type_of(schema),
            "yes" if name in api.required else "",
            str(schema.get("description", "")) if isinstance(schema, dict) else "",
        )
        for name, schema in api.properties.items()
    ]
    shown = [
        Section(api.function, note=f"{api.id}\n{' · '.join(filter(None, marks))}"),
        Section(note=api.description or "(no description)"),
        Section(head=("parameter", "type", "required", "description"), rows=parameters),
    ]
    if api.returns is not None:
        shown.append(Section(note="returns", items=[safe_json(api.returns)]))
    return shown


def type_of(schema: Any) -> str:
    """A schema's type in a word or two, such as `array of string`."""
    if not isinstance(schema, dict):
        return "any"
    kinds = schema.get("type", "any")
    named = " or ".join(map(str, kinds)) if isinstance(kinds, list) else str(kinds)
    if isinstance(schema.get("enum"), list):
        return f"{named}: " + short(" | ".join(map(str, schema["enum"])), 40)
    if named == "array" and isinstance(schema.get("items"), dict):
        return f"array of {type_of(schema['items'])}"
    return named


# fmt: off
MEANINGLESS = frozenset((
    "test", "tests", "testing", "test1", "test2", "foo", "bar", "baz", "qux", "foobar", "asdf",
    "asd", "qwerty", "xxx", "xyz", "abc", "aaa", "untitled", "unnamed", "unknown", "dummy",
    "tmp", "temp", "todo", "default", "demo", "example", "sample", "null", "none", "undefined",
    "endpoint", "request", "operation", "function", "method", "api", "call", "handler",
))
# fmt: on
METHODS = frozenset(("get", "head", "post", "put", "patch", "delete", "options"))
ERRORS = frozenset(("error", "errors"))
BESIDE_ERRORS = ERRORS | {"code", "detail", "details", "message", "status", "success", "timestamp"}
MARKUP = re.compile(r"<(!doctype html|html|head|body)\b", re.IGNORECASE)


def _described(schema: Any) -> bool:
    said = schema.get("description") if isinstance(schema, dict) else None
    return isinstance(said, str) and bool(said.strip())


def _meaningless(api: Api) -> bool:
    """A method and path, such as `GET /pets`, is no name; there the function name counts."""
    path = "/" in api.name
    word = re.sub(r"[\W_]+", "", api.function if path else api.name).lower()
    short_one = len(word) < 2 and word.isascii()  # one Chinese character is a word
    return short_one or word.isdigit() or word in MEANINGLESS or (path and word in METHODS)


def _error_returns(api: Api) -> bool:
    fields = set(api.fields)
    shown = to_text([(api.returns or {}).get(key) for key in ("description", "examples")])
    asked_for = "error" in f"{api.name} {api.description}".lower()  # such as `list_errors`
    only_error = bool(fields & ERRORS) and fields <= BESIDE_ERRORS and not asked_for
    return only_error or bool(MARKUP.search(shown))


DUPLICATE = "duplicate"
RULES: dict[str, tuple[str, Callable[[Api], bool]]] = {
    "no_description": ("Says nothing of what it does.", lambda a: not a.description.strip()),
    "short_description": (  # «List all pets» tells which, «List pets» not
        "Says what it does in fewer than 3 words.",
        lambda a: 0 < len(a.description.split()) < 3,
    ),
    "overlong_description": (  # OpenAI's limit
        "Its description has more than 1,024 characters.",
        lambda a: len(a.description) > 1_024,
    ),
    "deprecated": ("Its source advises against using it.", lambda a: a.deprecated),
    "meaningless_name": ("One letter, a number, or a word such as test.", _meaningless),
    "undocumented_parameters": (
        "Has parameters and describes none of them.",
        lambda a: bool(a.properties) and not any(map(_described, a.properties.values())),
    ),
    "undescribed_required": (
        "Requires a parameter that it does not describe.",
        lambda a: not all(_described(a.properties.get(name)) for name in a.required),
    ),
    "too_many_parameters": (  # beyond, examples of a call fill few of them
        "Has more than 20 parameters.",
        lambda a: len(a.properties) > 20,
    ),
    "oversized_schema": (  # 2,000 tokens of each prompt
        "The schema of its parameters has more than 8,000 bytes.",
        lambda a: len(to_text(a.parameters).encode()) > 8_000,
    ),
    "no_returns": ("Does not say what it returns.", lambda a: not a.returns),
    "error_returns": ("All it says to return is an error or a web page.", _error_returns),
    "destructive": (
        "Its HTTP method is DELETE; other ways to destroy are not seen.",
        lambda a: a.source.operation.startswith("DELETE "),
    ),
    DUPLICATE: (  # judged with what came before, in `judge`
        "Has the description and parameters of an earlier one that is kept.",
        lambda a: False,
    ),
}
ON_REQUEST = ("short_description", "undescribed_required", "no_returns", "destructive")
USUAL = tuple(name for name in RULES if name not in ON_REQUEST)


Judged: TypeAlias = list[tuple[Api, tuple[str, ...]]]


def judge(apis: Iterable[Api], names: Sequence[str] = USUAL) -> Judged:
    """Each API with the names of the rules it breaks."""
    judged: Judged = []
    kept: set[str] = set()
    for api in apis:
        broken = [name for name, (_, breaks) in RULES.items() if name in names and breaks(api)]
        # In ASCII, which holds whatever text a document has.
        content = json.dumps([api.description, api.parameters], sort_keys=True)
        if DUPLICATE in names and api.description.strip() and content in kept:
            broken.append(DUPLICATE)
        if not broken:
            kept.add(content)
        judged.append((api, tuple(broken)))
    return judged


def filter_pool(pool: PoolFolder, judged: Judged, into: PoolFolder) -> None:
    """Make the pool `into` of the APIs that break no rule; its report names the others.

    Raises StoreError where there is a pool already.
    """
    with into.locked():
        if (into.path / "apis.jsonl").exists():
            raise StoreError(
                f"{into.path}: holds a pool, which would be lost. Give --into another name, or "
                "remove that pool."
            )
        ledger = ImportLog(pool.name, "pool")
        for api, broken in judged:
            if broken:
                ledger.skip(api.id, f"It breaks {', '.join(broken)}.")
        ledger.read = len(judged)
        kept = [api for api, broken in judged if not broken]
        into.write(kept, [*pool.reports(), ledger.report(imported=len(kept))])


def rules_section(names: Sequence[str], judged: Judged) -> Section:
    """The rules with how many APIs break each of them. An API can break several."""
    counted = Counter(name for _, broken in judged for name in broken)
    rows = [(name, counted[name], told) for name, (told, _) in RULES.items() if name in names]
    return Section(head=("rule", "APIs", "what it leaves out"), rows=rows)
