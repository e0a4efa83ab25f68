"""What is in a pool, counted and shown, and rules that leave APIs out of one, each with a name.

The rules judge descriptions: what can be said without a call. ToolLLM (appendix A.1) calls each API
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
from statistics import median
from typing import Any

from pydantic import Field

from toolloom.pipeline.apis.pool import PoolFolder, together
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.render.section import FIRST, Section, first, safe_json, short
from toolloom.pipeline.store.files import record_line, to_text
from toolloom.schemas import Api, Record, StoreError


class MedianAndMost(Record):
    """The middle and the most of something."""

    median: float = 0
    most: int = 0


class SourceCount(Record):
    """APIs of one source."""

    kind: str
    reference: str
    licence: str
    apis: int


class PoolCounts(Record):
    """What is in a pool. Equal for equal pools."""

    apis: int
    examples: int
    kinds: dict[str, int] = Field(description="APIs by kind of source, most first.")
    categories: dict[str, int]
    tools: dict[str, int] = Field(description="APIs by `category/tool`, most first.")
    collections: dict[str, int]
    parameters: MedianAndMost = Field(description="Parameters of an API.")
    descriptions: MedianAndMost = Field(description="Characters of an API's description.")
    returns: int = Field(description="APIs that say what they return.")
    deprecated: int
    sources: tuple[SourceCount, ...]
    imports: int = Field(description="Imports so far, repeated ones included.")


def count_pool(pool: PoolFolder) -> PoolCounts:
    """Read a pool once, an API at a time."""
    kinds, categories, tools, collections = (Counter[str]() for _ in range(4))
    sources: Counter[tuple[str, str, str]] = Counter()
    parameters: list[int] = []
    descriptions: list[int] = []
    returns = deprecated = 0
    for api in pool.apis():
        source = api.source
        kinds[source.kind] += 1
        categories[api.category] += 1
        tools[f"{api.category}/{api.tool}"] += 1
        collections.update(api.collections)
        sources[source.kind, source.reference, source.licence] += 1
        parameters.append(len(api.properties))
        descriptions.append(len(api.description))
        returns += bool(api.returns)
        deprecated += api.deprecated
    return PoolCounts(
        apis=len(parameters),
        examples=sum(1 for _ in pool.examples()),
        kinds=dict(kinds.most_common()),
        categories=dict(categories.most_common()),
        tools=dict(tools.most_common()),
        collections=dict(collections.most_common()),
        parameters=_spread(parameters),
        descriptions=_spread(descriptions),
        returns=returns,
        deprecated=deprecated,
        sources=tuple(
            SourceCount(kind=kind, reference=reference, licence=licence, apis=number)
            for (kind, reference, licence), number in sources.items()
        ),
        imports=sum(1 for _ in pool.reports()),
    )


def _spread(numbers: list[int]) -> MedianAndMost:
    return MedianAndMost(median=median(numbers), most=max(numbers)) if numbers else MedianAndMost()


def sections(counts: PoolCounts) -> list[Section]:
    """The tables of a pool's counts, and two sentences."""
    kinds = {
        "kind of source": counts.kinds,
        "category": counts.categories,
        "category/tool": counts.tools,
        "collection": counts.collections,
    }
    tables = [
        Section(head=(title, "APIs"), rows=[*first(numbers).items()])
        for title, numbers in kinds.items()
        if numbers
    ]
    sources = [(s.kind, s.reference, s.licence or "not known", s.apis) for s in counts.sources]
    if sources:
        more = f"… and {len(sources) - FIRST:,} more" if len(sources) > FIRST else ""
        head = ("source", "reference", "licence", "APIs")
        tables.append(Section(head=head, rows=sources[:FIRST], note=more))
    share = f"{counts.returns / counts.apis:.0%}" if counts.apis else "none"
    parameters, described = counts.parameters, counts.descriptions
    in_words = (
        f"{counts.apis:,} APIs of {len(counts.tools):,} tools in {len(counts.categories):,} "
        f"categories and {len(counts.collections):,} collections, from {len(counts.sources):,} "
        f"sources in {counts.imports:,} imports; {counts.examples:,} public APIs as examples.\n"
        f"Parameters of an API: median {parameters.median:g}, at most {parameters.most:,}. "
        f"Characters of a description: median {described.median:g}, at most {described.most:,}. "
        f"{share} say what they return, {counts.deprecated:,} are deprecated."
    )
    return [*tables, Section(note=in_words)]


def list_section(apis: Iterable[Api]) -> Section:
    """A line for each API."""
    rows = [
        (a.function, short(f"{a.category}/{a.tool}", 40), _answers(a), short(a.description))
        for a in apis
    ]
    return Section(head=("function", "category/tool", "answered by", "description"), rows=rows)


def _answers(api: Api) -> str:
    """Who answers a call in a run, unless the recipe has it executed."""
    return f"world {api.source.reference}" if api.source.kind == "world" else "simulator"


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
    Rule(
        "undocumented_parameters",
        "Has parameters and describes none of them.",
        lambda a: bool(a.properties) and not any(map(_described, a.properties.values())),
    ),
    Rule(
        "undescribed_required",
        "Requires a parameter that it does not describe.",
        lambda a: not all(_described(a.properties.get(name)) for name in a.required),
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

    def add(self, broken: Sequence[str]) -> None:
        """Count an API that breaks these rules."""
        self.kept += not broken
        self.dropped += bool(broken)
        self.broken.update(broken)


def judge(
    apis: Iterable[Api], names: Sequence[str] = USUAL
) -> Iterator[tuple[Api, tuple[str, ...]]]:
    """Each API with the names of the rules it breaks. Memory: a hash for each API."""
    chosen = [rule for rule in RULES if rule.name in names]
    kept: set[bytes] = set()
    for api in apis:
        broken = tuple(rule.name for rule in chosen if rule.broken(api))
        # In ASCII, which holds whatever text a document has.
        text = json.dumps([api.description, api.parameters], sort_keys=True)
        content = hashlib.sha256(text.encode()).digest()[:16]
        if DUPLICATE.name in names and api.description.strip() and content in kept:
            broken = (*broken, DUPLICATE.name)
        if not broken:
            kept.add(content)
        yield api, broken


def count_broken(pool: PoolFolder, names: Sequence[str] = USUAL) -> Filtered:
    """What a filter would come to."""
    counted = Filtered()
    for _, broken in judge(pool.apis(), names):
        counted.add(broken)
    return counted


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
        counted, ledger = Filtered(), ImportLog(pool.name, "pool")
        files = ("apis.jsonl", "dropped.jsonl", "examples.jsonl", "imports.jsonl")
        with together(*(into.path / name for name in files)) as (apis, dropped, examples, imports):
            for api, broken in judge(pool.apis(), names):
                ledger.read += 1
                counted.add(broken)
                if broken:
                    ledger.skip(api.id, f"It breaks {', '.join(broken)}.")
                    dropped.write(record_line(Dropped(rules=broken, api=api)))
                else:
                    apis.write(record_line(api))
            examples.writelines(map(record_line, pool.examples()))
            imports.writelines(map(record_line, pool.reports()))
            imports.write(record_line(ledger.report(imported=counted.kept)))
        return counted


def section(rules: Iterable[Rule], counted: Filtered) -> Section:
    """The rules with how many APIs break each of them."""
    rows = [(rule.name, counted.broken[rule.name], rule.description) for rule in rules]
    return Section(head=("rule", "APIs", "what it leaves out"), rows=rows)
