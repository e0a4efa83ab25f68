"""Rules that leave APIs out of a pool, each with a name.

They judge descriptions: what can be said without a call. ToolLLM (appendix A.1) calls each API
and drops what does not answer, answers slowly, or answers with HTML or an error. Of that only
`error_returns` is here, for a response whose description is that of an error; that an API is
alive and quick is found out by executing it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolloom.pipeline.apis.pool.folder import PoolFolder, together
from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.pipeline.render.section import Section
from toolloom.pipeline.store.files import record_line, to_text
from toolloom.schemas import Api, Record, StoreError

FEWEST_WORDS = 3  # «List pets» leaves open which; «List all pets» does not
LONGEST = 1_024  # characters: OpenAI's limit for the description of a function
LARGEST = 8_000  # bytes of the parameters' schema: some 2,000 tokens, of each prompt that shows it
MOST_PARAMETERS = 20  # beyond, examples of a call fill few of them
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


@dataclass(frozen=True)
class Rule:
    """A reason to leave an API out. `usual`: applied unless others are named."""

    name: str
    description: str
    broken: Callable[[Api], bool]
    usual: bool = True


def _described(schema: Any) -> bool:
    said = schema.get("description") if isinstance(schema, dict) else None
    return isinstance(said, str) and bool(said.strip())


def _undocumented(api: Api) -> bool:
    return bool(api.properties) and not any(map(_described, api.properties.values()))


def _undescribed_required(api: Api) -> bool:
    return any(not _described(api.properties.get(name)) for name in api.required)


def _meaningless(api: Api) -> bool:
    """A method and path, such as `GET /pets`, is no name; there the function name counts."""
    path = "/" in api.name
    name = api.function if path else api.name
    word = re.sub(r"[\W_]+", "", name).lower()
    short = len(word) < 2 and word.isascii()  # one Chinese character is a word
    return short or word.isdigit() or word in MEANINGLESS or (path and word in METHODS)


def _error_returns(api: Api) -> bool:
    fields = set(api.fields)
    shown = to_text([(api.returns or {}).get(key) for key in ("description", "examples")])
    asked_for = "error" in f"{api.name} {api.description}".lower()  # such as `list_errors`
    only_error = bool(fields & ERRORS) and fields <= BESIDE_ERRORS and not asked_for
    return only_error or bool(MARKUP.search(shown))


RULES = (
    Rule("no_description", "Says nothing of what it does.", lambda a: not a.description.strip()),
    Rule(
        "short_description",
        f"Says what it does in fewer than {FEWEST_WORDS} words.",
        lambda a: 0 < len(a.description.split()) < FEWEST_WORDS,
        usual=False,
    ),
    Rule(
        "overlong_description",
        f"Its description has more than {LONGEST:,} characters.",
        lambda a: len(a.description) > LONGEST,
    ),
    Rule("deprecated", "Its source advises against using it.", lambda a: a.deprecated),
    Rule("meaningless_name", "One letter, a number, or a word such as test.", _meaningless),
    Rule("undocumented_parameters", "Has parameters and describes none of them.", _undocumented),
    Rule(
        "undescribed_required",
        "Requires a parameter that it does not describe.",
        _undescribed_required,
        usual=False,
    ),
    Rule(
        "too_many_parameters",
        f"Has more than {MOST_PARAMETERS} parameters.",
        lambda a: len(a.properties) > MOST_PARAMETERS,
    ),
    Rule(
        "oversized_schema",
        f"The schema of its parameters has more than {LARGEST:,} bytes.",
        lambda a: len(to_text(a.parameters).encode()) > LARGEST,
    ),
    Rule("no_returns", "Does not say what it returns.", lambda a: not a.returns, usual=False),
    Rule("error_returns", "All it says to return is an error or a web page.", _error_returns),
    Rule(
        "destructive",
        "Its HTTP method is DELETE; other ways to destroy are not seen.",
        lambda a: a.source.operation.startswith("DELETE "),
        usual=False,
    ),
)
DUPLICATE = Rule(
    "duplicate",
    "Has the description and parameters of an earlier one that is kept.",
    lambda a: False,  # judged with what came before, in `judge`
)
ALL = (*RULES, DUPLICATE)
NAMES = tuple(rule.name for rule in ALL)
USUAL = tuple(rule.name for rule in ALL if rule.usual)


class Dropped(Record):
    """An API that a filter left out."""

    rules: tuple[str, ...]
    api: Api


@dataclass
class Filtered:
    """What a filter came to. An API can break several rules."""

    kept: int = 0
    dropped: int = 0
    broken: Counter[str] = field(default_factory=Counter)


def judge(
    apis: Iterable[Api], names: Sequence[str] = USUAL
) -> Iterator[tuple[Api, tuple[str, ...]]]:
    """Each API with the names of the rules it breaks. Memory: a hash for each API."""
    chosen = [rule for rule in RULES if rule.name in names]
    kept: set[bytes] = set()
    for api in apis:
        broken = tuple(rule.name for rule in chosen if rule.broken(api))
        content = _fingerprint(api)
        if DUPLICATE.name in names and api.description.strip() and content in kept:
            broken = (*broken, DUPLICATE.name)
        if not broken:
            kept.add(content)
        yield api, broken


def _fingerprint(api: Api) -> bytes:
    # In ASCII, which holds whatever text a document has.
    text = json.dumps([api.description, api.parameters], sort_keys=True)
    return hashlib.sha256(text.encode()).digest()[:16]


def count_broken(pool: PoolFolder, names: Sequence[str] = USUAL) -> Filtered:
    """What a filter would come to."""
    made = Filtered()
    for _, broken in judge(pool.apis(), names):
        made.kept += not broken
        made.dropped += bool(broken)
        made.broken.update(broken)
    return made


def filter_pool(pool: PoolFolder, names: Sequence[str], into: PoolFolder) -> Filtered:
    """Make the pool `into` of the APIs that break no rule; `dropped.jsonl` there has the others.

    A pool that an earlier filter made is made anew. Raises StoreError for any other one.
    """
    if into.path.resolve() == pool.path.resolve():
        raise StoreError(f"{into.path}: is the pool to filter. Give --into another name.")
    with into.locked():
        holds_pool = (into.path / "apis.jsonl").exists()
        if holds_pool and not (into.path / "dropped.jsonl").exists():
            raise StoreError(
                f"{into.path}: holds a pool that no filter made, which would be lost. "
                "Give --into another name, or remove that pool."
            )
        return _write(pool, names, into)


def _write(pool: PoolFolder, names: Sequence[str], into: PoolFolder) -> Filtered:
    made, ledger = Filtered(), ImportLog(pool.name, "pool")
    files = ("apis.jsonl", "dropped.jsonl", "examples.jsonl", "imports.jsonl")
    with together(*(into.path / name for name in files)) as (apis, dropped, examples, imports):
        for api, broken in judge(pool.apis(), names):
            ledger.read += 1
            made.broken.update(broken)
            if broken:
                made.dropped += 1
                ledger.skip(api.id, f"It breaks {', '.join(broken)}.")
                dropped.write(record_line(Dropped(rules=broken, api=api)))
            else:
                made.kept += 1
                apis.write(record_line(api))
        examples.writelines(map(record_line, pool.examples()))
        imports.writelines(map(record_line, pool.reports()))
        imports.write(record_line(ledger.report(imported=made.kept)))
    return made


def section(rules: Iterable[Rule], counted: Filtered) -> Section:
    """The rules with how many APIs break each of them."""
    rows = [(rule.name, counted.broken[rule.name], rule.description) for rule in rules]
    return Section(head=("rule", "APIs", "what it leaves out"), rows=rows)
