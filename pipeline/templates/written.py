"""Templates that people write: YAML files whose texts are Jinja.

    apis: ../examples/bookshop.yaml
    templates:
      - name: books-on-a-subject
        goal: Find me a book about {{ subject }} for at most {{ max_price }} euros.
        calls:
          - api: find_books
            arguments: {subject: "{{ subject }}", max_price: "{{ max_price }}"}
        pools: {subject: [gardening, chess], max_price: {range: [10, 60, 5]}}

A mistake is told with its file, line and place, all mistakes of a file at once.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from toolloom.agents.query import Fact
from toolloom.agents.simulator import system_turn
from toolloom.pipeline.apis.sources import imported
from toolloom.pipeline.checks.grounding import is_code
from toolloom.pipeline.checks.replies import is_status
from toolloom.pipeline.checks.schema import (
    UncheckableSchema,
    as_dict,
    as_list,
    as_strings,
    first_type,
    fits,
    is_number,
    texts_in,
    violations,
)
from toolloom.pipeline.checks.text.words import listed
from toolloom.pipeline.checks.transcript import shown
from toolloom.pipeline.sampling.draw import Group
from toolloom.pipeline.sampling.values import NoValue, draw_value, faker_for, moment, rng_for
from toolloom.pipeline.store.documents import Place, WrittenDocument, nearest, read
from toolloom.pipeline.templates.filling import (
    LONGEST,
    Mistake,
    changed,
    filled,
    is_text,
    names_in,
    rendered,
)
from toolloom.schemas import (
    Ability,
    Api,
    ApiSource,
    Choice,
    Dialogue,
    Execution,
    FunctionCall,
    ImportFailed,
    Intention,
    JsonObject,
    Level,
    Message,
    Need,
    Observation,
    Provenance,
    Query,
    Reference,
    Sample,
    Scenario,
    Split,
    SplitPlan,
    Template,
    TemplateFileError,
    ToolCall,
    Verdict,
    canonical,
    marker,
)
from toolloom.schemas.splits import zone

SUFFIXES = (".yaml", ".yml")
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_ONE_NAME = re.compile(r"\{\{\s*([a-z][a-z0-9_]{0,39})\s*\}\}")
POOL_VALUES = 2_000
DRAWN = 20  # values of a pool that is drawn, unless it says how many
FIELD_VALUES = 12  # of a field of a response that is drawn
TRIES = 20  # draws for each value that is wanted: many come twice
FAR = 3_660  # days
F = TypeVar("F", bound="_Form")
FORMS = (
    "a pool is a list, `schema`, or one of `range: [first, last, step]` and `days: [first, last]`, "
    f"upwards, at most {FAR:,} days away and {POOL_VALUES:,} values, `faker: provider, n: 20`, "
    "`schema: 20`, and `table: [names], rows: [[values]]`"
)

FAKERS = listed("providers that may be named")
"""Faker's providers that may be named: public ones that give one word or line."""


class _Form(BaseModel):
    """What people write: closed, so that a slip of the pen is told."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class CallForm(_Form):
    """A call, and what comes of it."""

    api: str
    arguments: JsonObject = Field(default_factory=dict)
    response: Any = None


Text = Annotated[str, Field(min_length=1, max_length=LONGEST)]


class _Common(_Form):
    """What a file and a template both may have."""

    language: str | None = None
    now: dt.datetime | None = None
    pools: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_local(self) -> _Common:
        if self.now and (self.now.tzinfo or not 1900 <= self.now.year <= 2200):
            raise ValueError("`now` must be a local time of 1900 to 2200, such as 2026-03-02T09:30")
        return self


class TemplateForm(_Common):
    """A template as people write it."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,59}$")]
    goal: Text | None = None
    goals: Annotated[tuple[Text, ...], Field(max_length=50)] = ()
    calls: Annotated[tuple[CallForm, ...], Field(min_length=1, max_length=8)]
    answer: Text | None = None

    @model_validator(mode="after")
    def _has_goals(self) -> TemplateForm:
        if bool(self.goal) == bool(self.goals):
            raise ValueError("give either `goal` or `goals`")
        return self

    @property
    def wordings(self) -> list[tuple[str, Place, str]]:
        """Of each of its goals the template's name, the place and the text."""
        if self.goal:
            return [(self.name, ("goal",), self.goal)]
        numbered = enumerate(self.goals, 1)
        return [(f"{self.name}-{n}", ("goals", n - 1), goal) for n, goal in numbered]


class FileForm(_Common):
    """A file of templates."""

    apis: str | None = None
    templates: Annotated[list[Any], Field(min_length=1, max_length=2_000)]


def _read_form(form: type[F], raw: Any, place: Place, document: WrittenDocument) -> F | None:
    """What a person wrote as the form it should have; None, and faults, if it has not."""
    if not isinstance(raw, dict):
        known = ", ".join(f"`{name}`" for name in form.model_fields)
        document.fault(place, f"must be a mapping; its fields are {known}.")
        return None
    try:
        return form.model_validate(raw)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            loc = tuple(part for part in one["loc"] if part != "[key]")
            what = one["msg"].removeprefix("Value error, ")
            if one["type"] == "extra_forbidden":
                inner: type[_Form] = CallForm if loc[0] == "calls" and len(loc) > 1 else form
                known = nearest(str(loc[-1]), inner.model_fields, "known here are")
                what = f"unknown field; {known}"
            elif one["type"] == "missing":
                what = "missing; it must be there."
            document.fault((*place, *loc), what if what.endswith((".", "?")) else f"{what}.")
        return None


class Given(NamedTuple):
    """What templates are compiled with. Without `apis`, those that each file names; `splits` keep
    APIs that are held out for a test from the samples of others."""

    apis: Sequence[Api] | None = None
    seed: int = 0
    language: str = "English"
    distractors: int = 3
    splits: SplitPlan | None = None


def load_templates(paths: Iterable[str | Path], given: Given | None = None) -> list[Template]:
    """The templates of files and folders, in order; their ids are `written-` and their names.

    Several goals of one template make as many, numbered from 1. Raises TemplateFileError with all
    mistakes of all files, those of the APIs that files name among them.
    """
    of, found, taken = given or Given(), list[Template](), dict[str, str]()
    for document in _documents(paths):
        form, templates = _forms(document)
        if form is None:
            continue
        apis = of.apis if of.apis is not None else _apis(form, document)
        used: set[str] = set()
        for place, each in templates:
            for name, at, goal in each.wordings:
                if name in taken:
                    what = f"`{name}` is the name of {taken[name]} already."
                    document.fault((*place, "name"), what)
                line = document.lines.get(place, 1)
                taken.setdefault(name, f"the template in line {line} of {document.path}")
                said_at = (*place, *at)
                made = _Compiler(name, each, goal, said_at, place, document, form, of, apis, used)
                found += filter(None, [made.template()])
        for pool in form.pools if not document.faults else ():
            if pool not in used:
                document.fault(("pools", pool), "no template uses it.")
    return found


def check_files(paths: Iterable[str | Path]) -> None:
    """Raises TemplateFileError for files that no APIs could make templates of."""
    for document in _documents(paths):
        _forms(document)


def _documents(paths: Iterable[str | Path]) -> Iterator[WrittenDocument]:
    """Every file. After the last one raises TemplateFileError with all mistakes of all of them."""
    mistakes: list[str] = []
    for path in map(Path, paths):
        inside = [path]
        if path.is_dir():
            inside = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES and p.is_file())
            if not inside:
                raise TemplateFileError(f"{path}: the folder holds no .yaml file.")
        for file in inside:
            try:
                document = read(file, TemplateFileError)
            except TemplateFileError as error:
                mistakes.append(str(error))
            else:
                yield document
                mistakes += document.mistakes()
    if mistakes:
        raise TemplateFileError("\n".join(mistakes))


def _forms(document: WrittenDocument) -> tuple[FileForm | None, list[tuple[Place, TemplateForm]]]:
    """A file and those of its templates that have their form, with their places."""
    form, templates = _read_form(FileForm, document.value, (), document), []
    for number, raw in enumerate(form.templates if form else ()):
        place: Place = ("templates", number)
        if each := _read_form(TemplateForm, raw, place, document):
            templates.append((place, each))
    return form, templates


def _apis(form: FileForm, document: WrittenDocument) -> list[Api]:
    """The APIs of the source that a file names."""
    if not form.apis:
        document.fault((), "missing: the file names no `apis`, and no dataset was given.", "apis")
        return []
    path, found = document.path.parent / form.apis, list[Any]()
    what = f"there are no APIs in {path}." if path.exists() else f"there is no {path}."
    if path.exists():
        try:
            found, _ = imported(ApiSource(path=str(path)))
        except (ImportFailed, OSError) as error:
            what = str(error).removeprefix("apis.sources: ")
    apis = [item for item in found if isinstance(item, Api)]
    if not apis:
        document.fault(("apis",), what)
    return apis


def _variable(value: Any) -> str:
    """The variable that a text is, and nothing else."""
    one = _ONE_NAME.fullmatch(value) if isinstance(value, str) else None
    return one[1] if one else ""


def _names_in(value: Any) -> set[str]:
    """The variables of all texts in a value."""
    return {name for text in texts_in(value) if is_text(text) for name in names_in(text)}


class _Part(NamedTuple):
    """An argument, a response or a part of one, where it was written, and what it should be."""

    value: Any
    place: Place
    name: str
    schema: Any
    about: str

    def texts(self) -> Iterator[_Part]:
        """The texts in it."""
        schema, inside = as_dict(self.schema), list[tuple[Any, str | int, str, Any]]()
        if isinstance(self.value, dict):
            fields = as_dict(schema.get("properties"))
            inside = [(part, key, key, fields.get(key, True)) for key, part in self.value.items()]
        elif isinstance(self.value, list):
            items = schema.get("items", True)
            inside = [(part, n, self.name, items) for n, part in enumerate(self.value)]
        elif is_text(self.value):
            yield self
        for part, key, name, of in inside:
            yield from _Part(part, (*self.place, key), name, of, self.about).texts()


def _fields(api: Api) -> JsonObject:
    """The fields of a response, or of each item where it is a list, with their schemas."""
    returns = as_dict(api.returns)
    return as_dict(returns.get("properties") or as_dict(returns.get("items")).get("properties"))


def _may_vary(name: str, value: Any) -> bool:
    """Whether a field of a response is a variable: a text that is not long, or a number."""
    scalar = is_number(value) or (isinstance(value, str) and len(value) <= 200)
    return scalar and bool(NAME.fullmatch(name))


@dataclass
class _Compiler:
    """Makes one goal of a template, as it is written, a Template. Faults go to the document."""

    name: str
    form: TemplateForm
    goal: str
    said_at: Place
    place: Place
    document: WrittenDocument
    file: FileForm
    given: Given
    every: Sequence[Api]
    used: set[str]  # pools of the file
    pools: list[tuple[Place, Choice]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)  # slots that are rendered, in order
    fields: dict[str, int] = field(default_factory=dict)  # of responses, and whose they are

    def __post_init__(self) -> None:
        self.rng = self._rng_for()
        self.now = self.form.now or self.file.now or moment(self.rng)
        self.language = self.form.language or self.file.language or self.given.language
        self._found = self.document.found

    def _rng_for(self, *parts: str) -> random.Random:
        return rng_for(self.given.seed, "written", self.name, *parts)

    def _drawer(self, rng: random.Random) -> Callable[[str, Any], Any]:
        return partial(draw_value, rng=rng, now=self.now, language=self.language)

    def fault(self, place: Place, what: str) -> None:
        self.document.fault((*self.place, *place), what)

    @property
    def sound(self) -> bool:
        return self.document.found == self._found

    def template(self) -> Template | None:
        """The template; None if anything is wrong with it."""
        known = {name: api.bare() for api in self.every for name in (api.function, api.id)}
        for number, call in enumerate(self.form.calls):
            if call.api not in known and known:
                what = f"there is no API `{call.api}`; {nearest(call.api, known)}"
                self.fault(("calls", number, "api"), what)
        said = self._names(self.goal, self.said_at)
        if not said and self.sound:
            what = "has no `{{ variable }}`: all rows would be the same."
            self.document.fault(self.said_at, what)
        self.apis = [known[call.api] for call in self.form.calls if call.api in known]
        if not self.sound or len(self.apis) != len(self.form.calls):
            return None
        parts = [part for n, api in enumerate(self.apis) for part in self._parts(n, api)]
        leaves = [text for part in parts for text in part.texts()]
        texts = [(self.said_at, self.goal), ((*self.place, "answer"), self.form.answer or "")]
        texts += [(leaf.place, leaf.value) for leaf in leaves]
        needed = {name for place, source in texts for name in self._names(source, place)}
        if not self.sound:
            return None
        self._add_pools(needed | {n for api in self.apis for n in _fields(api)}, said, leaves)
        responses = [self._response(n, api) for n, api in enumerate(self.apis)]
        values = self.slots | {*self.texts}
        for place, source in texts:
            for name in sorted(self._names(source, place) - values):
                hint = nearest(name, values, "variables with values are")
                what = f"nothing gives `{name}` a value: write a pool for it; {hint}"
                self.document.fault(place, what)
        for part in parts if self.sound else ():
            self._check(part)
        intent = self._intent(said) if self.sound else ()
        return self._made(intent, responses) if self.sound else None

    def _names(self, source: str, place: Place) -> set[str]:
        try:
            return set(names_in(source)) if is_text(source) else set()
        except Mistake as error:
            self.document.fault(place, f"{error}.")
            return set()

    def _parts(self, number: int, api: Api) -> Iterator[_Part]:
        """What is written of a call; faults for arguments that its API does not have, or lacks."""
        call, at = self.form.calls[number], (*self.place, "calls", number)
        for name, value in call.arguments.items():
            place, about = (*at, "arguments", name), f"argument {name} of {api.id}"
            if name in api.properties:
                yield _Part(value, place, name, api.properties[name], about)
            else:
                hint = nearest(name, api.properties, "it has")
                self.document.fault(place, f"{call.api} has no argument `{name}`; {hint}")
        if missing := [f"`{name}`" for name in api.required if name not in call.arguments]:
            self.document.fault((*at, "arguments"), f"{call.api} also needs {', '.join(missing)}.")
        if "response" in call.model_fields_set:
            schema = True if api.returns is None else api.returns
            about = f"response of {api.id}"
            yield _Part(call.response, (*at, "response"), "response", schema, about)

    @property
    def slots(self) -> set[str]:
        """The variables that have their values."""
        return {name for _, pool in self.pools for name in pool.slots}

    def _add_pools(self, wanted: set[str], said: set[str], leaves: Sequence[_Part]) -> None:
        """The template's own pools, then those of its file for what has no values yet, then values
        of the schema of what the goal or a response tells."""
        fills = {name: leaf for leaf in leaves if (name := _variable(leaf.value))}
        for slot, raw in self.form.pools.items():
            place, names = (*self.place, "pools", slot), _names_of(slot, raw)
            if again := [name for name in names if name in self.slots]:
                self.document.fault(place, f"`{again[0]}` has its values already.")
            elif not wanted & {*names}:
                self.document.fault(place, f"no text has the variable `{slot}`.")
            else:
                self._add_pool(slot, raw, place, fills.get(slot))
        for slot, raw in self.file.pools.items():
            names = _names_of(slot, raw)
            if wanted & {*names} and not self.slots & {*names}:
                self.used.add(slot)
                self._add_pool(slot, raw, ("pools", slot), fills.get(slot))
        for leaf in leaves:
            name = _variable(leaf.value)
            if name and (name in said or "response" in leaf.place) and name not in self.slots:
                self._add_pool(name, "schema", leaf.place, leaf)

    def _add_pool(self, slot: str, raw: Any, place: Place, leaf: _Part | None) -> None:
        names = _names_of(slot, raw)
        about = leaf.about if leaf else f"values of {', '.join(names)}"
        try:
            rows = self._rows(names, raw, leaf, self._rng_for(slot))
        except Mistake as error:
            self.document.fault(place, f"`{slot}`: {error}.")
        else:
            at = place if len(names) == 1 else (*place, "rows")
            self.pools.append((at, Choice(slots=names, rows=tuple(rows), about=about)))

    def _rows(
        self, names: Sequence[str], raw: Any, leaf: _Part | None, rng: random.Random
    ) -> list[tuple[Any, ...]]:
        """The values of a pool as it is written. Raises Mistake."""
        if odd := next((name for name in names if not NAME.fullmatch(name)), None):
            raise Mistake(f"`{odd}` is not a name: lower-case letters, digits and `_`")
        rows, values = list[tuple[Any, ...]](), list[Any]()
        match raw:
            case list():
                values, keys = raw, list(map(canonical, raw))
                if twice := next((key for key in keys if keys.count(key) > 1), ""):
                    raise Mistake(f"the value {twice[:80]} stands twice")
            case "schema" | {"schema": int()}:
                if leaf is None:
                    what = "the variable is neither an argument nor a field of a response"
                    raise Mistake(f"`schema`: {what}")
                values = self._of_schema(leaf, raw["schema"] if raw != "schema" else DRAWN, rng)
            case {"range": [int() | float(), int() | float(), *_] as numbers}:
                values = _counted(*numbers)
            case {"days": [int() as first, int() as last]} if first >= -FAR and last <= FAR:
                days = map(dt.timedelta, range(first, last + 1))
                values = [(self.now.date() + day).isoformat() for day in days]
            case {"faker": str() as provider}:
                values = _made_up(provider, int(raw.get("n", DRAWN)), rng, self.language)
            case {"table": list(), "rows": list(), **more} if not more:
                rows = [tuple(row) if isinstance(row, list) else () for row in raw["rows"]]
                if {len(row) for row in rows} != {len(names)} or len(set(names)) < len(names):
                    raise Mistake("each row of a table needs a value for each of its names")
            case _:
                raise Mistake(FORMS)
        rows = rows or [(value,) for value in values]
        if not 0 < len(rows) <= POOL_VALUES:
            raise Mistake(f"has {len(rows):,} values; a pool has 1 to {POOL_VALUES:,}")
        return rows

    def _of_schema(self, leaf: _Part, count: int, rng: random.Random) -> list[Any]:
        """Values of the enum, else the examples, else drawn. Raises Mistake."""
        schema, count = as_dict(leaf.schema), min(count, POOL_VALUES)
        for key in ("enum", "examples"):
            told = [v for v in as_list(schema.get(key)) if v not in (None, "")]
            if usable := [v for v in told if fits(schema, v)]:
                return _distinct(usable, count)
        tries = range(1 if first_type(schema) == "boolean" else count * TRIES)
        draw = self._drawer(rng)
        try:
            return _distinct((draw(leaf.name, leaf.schema) for _ in tries), count)
        except NoValue as error:
            what = f"the schema of {leaf.about} gives no values; write some under `pools`"
            raise Mistake(what) from error

    def _first(self) -> JsonObject:
        """The first value of each variable."""
        first = {
            n: v for _, pool in self.pools for n, v in zip(pool.slots, pool.rows[0], strict=True)
        }
        for name, source in self.texts.items():
            with suppress(Mistake):
                first[name] = rendered(source, first)
        return first

    def _marked(self, value: Any) -> Any:
        """A value with slots in place of its texts."""

        def mark(part: Any) -> Any:
            if not is_text(part):
                return part
            if only := _variable(part):
                return marker(only)
            slot = next((s for s, source in self.texts.items() if source == part), "")
            slot = slot or f"text {len(self.texts) + 1}"
            self.texts[slot] = part
            return marker(slot)

        return changed(value, mark)

    def _response(self, number: int, api: Api) -> Any:
        """The response of a call as it stands in the skeleton; its fields are variables of what
        comes after."""
        call = self.form.calls[number]
        given = "response" in call.model_fields_set
        made = call.response if given else self._drawn(number, api, call.arguments)
        for name, value in item_of(made).items():
            self.fields.setdefault(name, number)
            if name not in self.slots | {*self.texts} and _may_vary(name, value):
                self.texts[name] = value if isinstance(value, str) else f"{{{{ {value!r} }}}}"
        return self._marked(made)

    def _drawn(self, number: int, api: Api, arguments: JsonObject) -> Any:
        """A response that fits what the API promises: an argument comes back in the field of its
        name, and each other field is a variable of its name."""
        rng, schemas = self._rng_for(f"call {number}"), _fields(api)
        try:
            known = filled(self._marked(arguments), self._first())
            first = self._first()  # with the texts that were just marked
            made = respond(api, {**first, **known}, self._drawer(rng))
        except (NoValue, KeyError) as error:
            what = f"nothing says what `{error}` in the response of {api.id} looks like"
            self.fault(("calls", number), f"{what}; write a `response`.")
            return None
        item = item_of(made) if api.returns else {}
        for name, value in item.items():
            if name in arguments:
                item[name] = arguments[name]
            elif name in first and fits(schemas.get(name, True), first[name]):
                item[name] = f"{{{{ {name} }}}}"
            elif name not in first and _may_vary(name, value):
                about = f"field {name} of the response of {api.id}"
                leaf = _Part("", self.place, name, schemas.get(name, True), about)
                values = [value]
                with suppress(Mistake):
                    others = self._of_schema(leaf, FIELD_VALUES, rng)
                    values = _distinct([value, *others], FIELD_VALUES)
                rows = tuple((each,) for each in values)
                self.pools.append((self.place, Choice(slots=(name,), rows=rows, about=about)))
                item[name] = f"{{{{ {name} }}}}"
        return made

    def _check(self, part: _Part) -> None:
        """A fault if it does not fit, with any value of its pools beside the first ones of the
        others."""
        first, names = self._first(), _names_in(part.value)
        cases = [(part.place, first)]
        for place, pool in self.pools:
            for number, row in enumerate(pool.rows if names & {*pool.slots} else ()):
                values = {**first, **dict(zip(pool.slots, row, strict=True))}
                cases.append(((*place, number), values))
        for place, values in cases:
            try:
                made = changed(part.value, partial(rendered, values=values))
            except Mistake as error:
                self.document.fault(part.place, f"{error}.")
                return
            if why := _why(part.schema, made):
                self.document.fault(place, f"{shown(made)} is not a valid {part.about}: {why}.")
                return

    def _intent(self, said: set[str]) -> tuple[Intention, ...]:
        """What the user knows, and what earlier calls find out; faults for what nobody says."""
        told = {n for _, pool in self.pools if said & {*pool.slots} for n in pool.slots}
        found = []
        for number, api in enumerate(self.apis):
            known: JsonObject = {}
            references: dict[str, Reference] = {}
            for name, value in self.form.calls[number].arguments.items():
                unsaid = _names_in(value) - told
                if (only := _variable(value)) in unsaid and self.fields.get(only, number) < number:
                    references[name] = Reference(call=self.fields[only], field=only)
                    continue
                for each in sorted(unsaid):
                    what = "neither the goal nor an earlier response tells it."
                    place = ("calls", number, "arguments", name)
                    self.fault(place, f"nobody says `{each}`: {what}")
                known[name] = self._marked(value)
            found.append(Intention(api=api.id, arguments=known, references=references))
        return tuple(found)

    def _made(self, intent: tuple[Intention, ...], responses: Sequence[Any]) -> Template | None:
        scenario = Scenario.PARALLEL if len(intent) > 1 else Scenario.SINGLE
        tools = {(api.category, api.tool) for api in self.apis}
        level = Level.SINGLE_TOOL if len(tools) == 1 else Level.CATEGORY
        if self.form.answer is None and self.language != "English":
            self.fault(("answer",), f"missing: none can be made up in {self.language}.")
            return None
        query = Query(
            id=f"written-{self.name}",
            ability=Ability.CALL,
            scenario=Scenario.SEQUENTIAL if any(i.references for i in intent) else scenario,
            level=level if len({category for category, _ in tools}) == 1 else Level.COLLECTION,
            language=self.language,
            now=self.now,
            pool=self._offered(),
            intent=intent,
            text=self._marked(self.goal),
        )
        answer = self._marked(self.form.answer)
        if answer is None:
            answer = tell(query, responses, filled([*responses], self._first()))
        messages = (
            system_turn(query),
            Message(role="user", content=query.text),
            *_played(query, responses),
            Message(role="assistant", content=answer),
        )
        sample = Sample(dialogue=Dialogue(query=query, messages=messages), verdict=Verdict())
        return Template(
            id=query.id,
            kind="written",
            goal=self.goal,
            apis=tuple(api.id for api in self.apis),
            sample=sample.model_dump(mode="json"),
            choices=tuple(pool for _, pool in self.pools),
            texts=self.texts,
            provenance=(Provenance(stage="templates", agent="", model="", seed=self.given.seed),),
        )

    def _offered(self) -> tuple[Api, ...]:
        """The APIs that a sample is shown with: none that its split must not see."""
        plan, zones = self.given.splits, (Split.TRAIN, Split.TEST_TOOL, Split.TEST_CATEGORY)

        def rank(api: Api) -> int:  # each zone is shown with those before it
            return zones.index(zone(plan, api.category, api.tool)) if plan else 0

        most = max(map(rank, self.apis))
        offers = Group(api.bare() for api in self.every if rank(api) <= most)
        return offers.offer(self.apis, self.given.distractors, self.rng)


def _why(schema: Any, value: Any) -> str:
    """What is wrong with a value; nothing if it fits."""
    try:
        found = violations(schema, value)
    except UncheckableSchema as error:
        return f"its schema cannot be checked ({error})"[:200]
    return str(found[0])[:200].rstrip(".") if found else ""


def _names_of(slot: str, raw: Any) -> tuple[str, ...]:
    """The variables that a pool fills."""
    table = as_dict(raw).get("table")
    return tuple(map(str, table)) if isinstance(table, list) and table else (slot,)


def _made_up(provider: str, count: int, rng: random.Random, language: str) -> list[Any]:
    """Values of one of Faker's providers. Raises Mistake."""
    if provider not in FAKERS:
        hint = nearest(provider, FAKERS, "some that may are")
        raise Mistake(f"no provider `{provider}` may be used; {hint}")
    faker, count = faker_for(language, rng), min(count, POOL_VALUES)

    def draw() -> Any:
        if provider == "name":  # without titles
            return f"{faker.first_name()} {faker.last_name()}"
        more = {"separator": ""} if provider == "isbn13" else {}
        return getattr(faker, provider)(**more)

    try:
        return _distinct((draw() for _ in range(count * TRIES)), count)
    except AttributeError as error:
        raise Mistake(f"Faker has no `{provider}` for {language}; write the values") from error


def _counted(*told: Any) -> list[Any]:
    """Numbers from the first to the last. Raises Mistake."""
    try:  # decimals, as 0.1 + 0.2 is not what anybody means
        low, high, step = (Decimal(str(number)) for number in (*told, 1)[:3])
        if len(told) > 3 or step <= 0 or not 0 <= high - low < step * POOL_VALUES:
            raise Mistake(FORMS)
    except ArithmeticError as error:
        raise Mistake(FORMS) from error
    numbers = (low + step * i for i in range(int((high - low) / step) + 1))
    return [int(n) if n == int(n) else float(n) for n in numbers]


def _distinct(values: Iterable[Any], count: int) -> list[Any]:
    """The first values that differ, no more than are wanted."""
    found: dict[str, Any] = {}
    for value in values:
        found.setdefault(canonical(value), value)
        if len(found) == count:
            break
    return list(found.values())


# A whole sample of a need and what is said and observed in it: the form the simulator plays. Of the
# values any may be slots: what is built of them is the skeleton of a template.

PLAIN: JsonObject = {"status": "ok"}  # of an API that promises nothing
_BARE = frozenset(["type", "title", "description"])  # keywords of a schema that promises nothing
_NOTHING: tuple[Any, ...] = (None, {})
MOST_FIELDS = 8
MOST_FACTS = 4  # told of one response
MOST_LETTERS = 80  # of a value that is told
DONE = "It is done."
_ADJECTIVES = ("ed", "able", "ible", "open", "valid", "active")
_PREPOSITIONS = frozenset(["until", "by", "at", "on", "from", "to", "in"])


def respond(api: Api, arguments: JsonObject, draw: Callable[[str, Any], Any]) -> Any:
    """A response that fits what the API promises to return; arguments of a field's name come back,
    `draw` gives the value of any other field by its name and schema.

    Raises NoValue where nothing says what a field that must be there looks like.
    """
    schema = api.returns
    if not schema or (schema.keys() <= _BARE and fits(schema, PLAIN)):
        return dict(PLAIN)
    made = _whole(schema, arguments, draw)
    if made in ({}, [], [{}]) or not fits(schema, made):
        raise NoValue("result")
    return made


def _whole(schema: JsonObject, arguments: JsonObject, draw: Callable[[str, Any], Any]) -> Any:
    """An object with all the fields that can be drawn, or whatever else the schema asks for."""
    items = schema.get("items")
    if "properties" not in schema and isinstance(items, dict) and "properties" in items:
        return [_whole(items, arguments, draw)]
    if "properties" not in schema:
        return draw("result", schema)
    required = as_strings(schema.get("required"))
    fields = as_dict(schema["properties"])
    made: JsonObject = {}
    for name in sorted(fields, key=lambda n: n not in required):
        if name in arguments and fits(fields[name], arguments[name]):
            made[name] = arguments[name]
        elif len(made) < MOST_FIELDS or name in required:
            try:
                made[name] = draw(name, fields[name])
            except NoValue:
                # Null, or an object without content: a field may hold what says nothing.
                empty = [value for value in _NOTHING if fits(fields[name], value)]
                if name in required and not empty:
                    raise
                if name in required:
                    made[name] = empty[0]
    if not any(value not in _NOTHING for value in made.values()):
        raise NoValue(next(iter(fields), "result"))
    return {name: made[name] for name in fields if name in made}


def tell(need: Need, responses: Sequence[Any], examples: Sequence[Any]) -> str:
    """One plain sentence for each fact that the responses of a need tell. In English.

    `examples`: the same responses with values in place of slots. What feeds a later call is not
    told: only what comes of it is.
    """
    feeding = {r.call for i in need.intent for r in i.references.values()}
    told = {i: facts_of(need, i, r) for i, r in enumerate(responses) if i not in feeding}
    labels = Counter(f.label for facts in told.values() for f in facts)
    several = len(told) > 1 and any(times > 1 for times in labels.values())
    found: list[str] = []
    for i, facts in told.items():
        values = [f.value for f in facts_of(need, i, examples[i])]
        # Where nothing but codes, days and states is told, that it worked is said too.
        little = all(isinstance(v, str) and (is_code(v) or is_status(v)) for v in values)
        sentences = [*([DONE] if little else []), *map(_sentence, facts)]
        if about := _about(need, i) if several else "":
            # One sentence: said of each call in turn, the same words would come over and over.
            clauses = [f"{one[:1].lower()}{one[1:]}".removesuffix(".") for one in sentences]
            sentences = [f"For {about}, {' and '.join(clauses)}."]
        found += sentences
    return " ".join(dict.fromkeys(found))


def facts_of(need: Need, index: int, response: Any) -> list[Fact]:
    """The first few facts of a response that the call does not already say: scalars at any depth,
    of a list its first item."""
    if response == PLAIN:
        return []
    intention = need.intent[index]
    given = list(intention.arguments.values())
    facts = _leaves("", response, need.api(intention.api).returns or {})
    told = [f for f in facts if f.value not in (None, "") and len(f.shown) <= MOST_LETTERS]
    return [f for f in told[:MOST_FACTS] if f.value not in given and _sentence(f)]


def _leaves(name: str, value: Any, schema: JsonObject) -> Iterator[Fact]:
    if isinstance(value, dict):
        for key, part in value.items():
            inner = as_dict(as_dict(schema.get("properties")).get(key))
            yield from _leaves(f"{name}_{key}" if name else key, part, inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict | list):
        yield from _leaves(name, value[0], as_dict(schema.get("items")))
    elif value not in ([], {}):
        known = {"title": name, **schema} if name else schema
        yield Fact(name or "result", str(schema.get("description", "")), value, known)


def _about(need: Need, index: int) -> str:
    """A value that tells this call from the others."""
    others = [v for n, i in enumerate(need.intent) if n != index for v in i.arguments.values()]
    for value in need.intent[index].arguments.values():
        if isinstance(value, str | int | float) and value is not True and value not in others:
            return str(value)
    return ""


def _sentence(fact: Fact) -> str:
    """«The booking number is 7.» Nothing for what has no plain words."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", fact.label)
    label = " ".join(parted.lower().split()).removeprefix("is ") or "result"
    if isinstance(fact.value, bool):
        return f"It is {label}." if fact.value and label.endswith(_ADJECTIVES) else ""
    shown = fact.shown.rstrip(".")
    if not shown:
        return ""
    if label.split()[-1] in _PREPOSITIONS:
        verb = "" if label.split()[0].endswith("s") else "is "
        return f"It {verb}{label} {shown}."
    return f"The {label} is {shown}."


def _played(need: Need, responses: Sequence[Any]) -> Iterator[Message]:
    """The calls and their observations. Calls that refer to nothing that is still to come are made
    at once, as in a parallel dialogue."""
    acts: list[list[int]] = [[]]
    for index, intention in enumerate(need.intent):
        if {r.call for r in intention.references.values()} & {*acts[-1]}:
            acts.append([])  # it needs what its own act would only find out
        acts[-1].append(index)
    for act in acts:
        names = {i: need.api(need.intent[i].api).function for i in act}
        calls = (
            ToolCall(
                id=f"call_{i}",
                function=FunctionCall(name=name, arguments=_arguments(need.intent[i], responses)),
            )
            for i, name in names.items()
        )
        yield Message(role="assistant", tool_calls=tuple(calls))
        for index, name in names.items():
            yield Message(
                role="tool",
                tool_call_id=f"call_{index}",
                name=name,
                content=Observation(response=responses[index]).model_dump_json(),
                execution=Execution(kind="simulated"),
            )


def _arguments(intention: Intention, responses: Sequence[Any]) -> JsonObject:
    """What the user knows, and what earlier responses give."""
    references = intention.references.items()
    found = {name: item_of(responses[told.call])[told.field] for name, told in references}
    return {**intention.arguments, **found}


def item_of(response: Any) -> JsonObject:
    """The object of a response, or the first one where it is a list."""
    return as_dict(response[0] if isinstance(response, list) and response else response)
