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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from toolloom.pipeline.apis.sources import imported
from toolloom.pipeline.checks.schema import (
    UncheckableSchema,
    as_dict,
    first_type,
    fits,
    violations,
)
from toolloom.pipeline.checks.transcript import shown
from toolloom.pipeline.sampling.groups import Group
from toolloom.pipeline.sampling.needs import moment
from toolloom.pipeline.sampling.values import NoValue, draw_value, faker_for, rng_for
from toolloom.pipeline.store.documents import Place, WrittenDocument, nearest, read
from toolloom.pipeline.templates.filling import (
    LONGEST,
    TextMistake,
    filled,
    is_text,
    names_in,
    rendered,
)
from toolloom.pipeline.templates.plain_sample import build, level_of, respond, scenario_of, tell
from toolloom.schemas import (
    Ability,
    Api,
    ApiSource,
    Choice,
    ImportFailed,
    Intention,
    JsonObject,
    Need,
    Provenance,
    Reference,
    Split,
    SplitPlan,
    Template,
    TemplateFileError,
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

FAKERS = (
    "building_number", "city", "color_name", "company", "country", "country_code", "currency_code",
    "domain_name", "email", "file_name", "first_name", "ipv4", "isbn13", "job", "language_code",
    "language_name", "last_name", "license_plate", "month_name", "name", "postcode",
    "street_address", "street_name", "url", "user_name", "uuid4", "year",
)  # fmt: skip
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


class FileForm(_Common):
    """A file of templates."""

    apis: str | None = None
    templates: Annotated[list[Any], Field(min_length=1, max_length=2_000)]


def read_form(form: type[F], raw: Any, place: Place, document: WrittenDocument) -> F | None:
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


@dataclass(frozen=True)
class Given:
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
    found: list[Template] = []
    taken: dict[str, str] = {}

    def compile_file(document: WrittenDocument) -> None:
        form = read_form(FileForm, document.value, (), document)
        if form is None:
            return
        of = given or Given()
        apis = of.apis if of.apis is not None else _apis(form, document)
        used: set[str] = set()
        for number, raw in enumerate(form.templates):
            place = ("templates", number)
            each = read_form(TemplateForm, raw, place, document)
            goals = [each.goal] if each and each.goal else [*each.goals] if each else []
            for index, goal in enumerate(goals, 1):
                assert each
                at = (*place, "goal") if each.goal else (*place, "goals", index - 1)
                name = f"{each.name}-{index}" if each.goals else each.name
                if name in taken:
                    what = f"`{name}` is the name of {taken[name]} already."
                    document.fault((*place, "name"), what)
                line = document.lines.get(place, 1)
                taken.setdefault(name, f"the template in line {line} of {document.path}")
                made = _Compiler(name, each, str(goal), at, place, document, form, of, apis)
                found.extend(filter(None, [made.template()]))
                used |= made.used
        for pool in form.pools if not document.faults else ():
            if pool not in used:
                document.fault(("pools", pool), "no template uses it.")

    _read_all(paths, compile_file)
    return found


def check_files(paths: Iterable[str | Path]) -> None:
    """Raises TemplateFileError for files that no APIs could make templates of."""

    def check(document: WrittenDocument) -> None:
        form = read_form(FileForm, document.value, (), document)
        for number, raw in enumerate(form.templates if form else ()):
            read_form(TemplateForm, raw, ("templates", number), document)

    _read_all(paths, check)


def _read_all(paths: Iterable[str | Path], understand: Callable[[WrittenDocument], object]) -> None:
    """Read every file, and raise TemplateFileError with all mistakes of all of them."""
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
                continue
            understand(document)
            mistakes += document.mistakes()
    if mistakes:
        raise TemplateFileError("\n".join(mistakes))


def _apis(form: FileForm, document: WrittenDocument) -> list[Api]:
    """The APIs of the source that a file names."""
    if not form.apis:
        document.fault((), "missing: the file names no `apis`, and no dataset was given.", "apis")
        return []
    path = document.path.parent / form.apis
    if not path.exists():
        document.fault(("apis",), f"there is no {path}.")
        return []
    try:
        found, _ = imported(ApiSource(path=str(path)))
    except (ImportFailed, OSError) as error:
        document.fault(("apis",), str(error).removeprefix("apis.sources: "))
        return []
    apis = [item for item in found if isinstance(item, Api)]
    if not apis:
        document.fault(("apis",), f"there are no APIs in {path}.")
    return apis


class PoolMistake(ValueError):
    """A pool that gives no values, in words for the person who wrote it."""


@dataclass
class _Pool:
    """Variables that are filled together, row by row, and where they were written."""

    names: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    place: Place
    about: str = ""

    def column(self, name: str) -> list[Any]:
        return [row[self.names.index(name)] for row in self.rows]


@dataclass(frozen=True)
class _Leaf:
    """A text of an argument or response, with its schema and place."""

    source: str
    name: str
    schema: Any
    about: str
    place: Place

    @property
    def variable(self) -> str:
        """The variable that it is, and nothing else."""
        one = _ONE_NAME.fullmatch(self.source)
        return one[1] if one else ""


def _leaves(value: Any, name: str, schema: Any, about: str, place: Place) -> Iterator[_Leaf]:
    if isinstance(value, str) and is_text(value):
        yield _Leaf(value, name, schema, about, place)
    elif isinstance(value, dict):
        inside = as_dict(as_dict(schema).get("properties"))
        for key, part in value.items():
            yield from _leaves(part, key, inside.get(key, True), about, (*place, key))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            items = as_dict(schema).get("items", True)
            yield from _leaves(part, name, items, about, (*place, number))


def _fields(api: Api) -> JsonObject:
    """The fields of a response, or of each item where it is a list, with their schemas."""
    returns = as_dict(api.returns)
    return as_dict(returns.get("properties") or as_dict(returns.get("items")).get("properties"))


def _item(response: Any) -> JsonObject:
    """The object of a response, or the first one where it is a list."""
    return as_dict(response[0] if isinstance(response, list) and response else response)


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
    used: set[str] = field(default_factory=set)  # pools of the file
    pools: list[_Pool] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    fields: dict[str, int] = field(default_factory=dict)  # of responses, and whose they are

    def __post_init__(self) -> None:
        rng = rng_for(self.given.seed, "written", self.name)
        self.now = self.form.now or self.file.now or moment(rng)
        self.language = self.form.language or self.file.language or self.given.language
        self.rng, self._found = rng, self.document.found

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
        leaves = [leaf for n, api in enumerate(self.apis) for leaf in self._leaves(n, api)]
        texts = [(self.said_at, self.goal), ((*self.place, "answer"), self.form.answer or "")]
        texts += [(leaf.place, leaf.source) for leaf in leaves]
        needed = {name for place, source in texts for name in self._names(source, place)}
        if not self.sound:
            return None
        self._add_pools(needed | {n for api in self.apis for n in _fields(api)}, said, leaves)
        responses = [self._response(n, api) for n, api in enumerate(self.apis)]
        values = {*self.texts, *(name for pool in self.pools for name in pool.names)}
        for place, source in texts:
            for name in sorted(self._names(source, place) - values):
                hint = nearest(name, values, "variables with values are")
                what = f"nothing gives `{name}` a value: write a pool for it; {hint}"
                self.document.fault(place, what)
        if self.sound:
            self._check_values(leaves)
        intent = self._intent(said) if self.sound else ()
        return self._made(intent, responses) if self.sound else None

    def _names(self, source: str, place: Place) -> set[str]:
        try:
            return set(names_in(source)) if is_text(source) else set()
        except TextMistake as error:
            self.document.fault(place, f"{error}.")
            return set()

    def _leaves(self, number: int, api: Api) -> Iterator[_Leaf]:
        """The texts of a call; faults for arguments that its API does not have, or lacks."""
        call, at = self.form.calls[number], ("calls", number, "arguments")
        for name, value in call.arguments.items():
            if name not in api.properties:
                hint = nearest(name, api.properties, "it has")
                self.fault((*at, name), f"{call.api} has no argument `{name}`; {hint}")
                continue
            about = f"argument {name} of {api.id}"
            yield from _leaves(value, name, api.properties[name], about, (*self.place, *at, name))
        if missing := [f"`{name}`" for name in api.required if name not in call.arguments]:
            self.fault(at, f"{call.api} also needs {', '.join(missing)}.")
        place, about = (*self.place, "calls", number, "response"), f"the response of {api.id}"
        yield from _leaves(call.response, "response", api.returns or True, about, place)

    def _pool_of(self, name: str) -> _Pool | None:
        return next((pool for pool in self.pools if name in pool.names), None)

    def _add_pools(self, wanted: set[str], said: set[str], leaves: Sequence[_Leaf]) -> None:
        """The template's own pools, then those of its file for what has no values yet, then values
        of the schema of what the goal or a response tells."""
        fills = {leaf.variable: leaf for leaf in leaves if leaf.variable}
        for slot, raw in self.form.pools.items():
            place, names = (*self.place, "pools", slot), _names_of(slot, raw)
            if again := [name for name in names if self._pool_of(name)]:
                self.document.fault(place, f"`{again[0]}` has its values already.")
            elif not wanted & {*names}:
                self.document.fault(place, f"no text has the variable `{slot}`.")
            else:
                self._add_pool(slot, raw, place, fills.get(slot))
        for slot, raw in self.file.pools.items():
            names = _names_of(slot, raw)
            if wanted & {*names} and not any(map(self._pool_of, names)):
                self.used.add(slot)
                self._add_pool(slot, raw, ("pools", slot), fills.get(slot))
        for leaf in leaves:
            told = leaf.variable in said or "response" in leaf.place
            if leaf.variable and told and not self._pool_of(leaf.variable):
                self._add_pool(leaf.variable, "schema", leaf.place, leaf)

    def _add_pool(self, slot: str, raw: Any, place: Place, leaf: _Leaf | None) -> None:
        rng = rng_for(self.given.seed, "written", self.name, slot)
        try:
            self.pools.append(_pool(slot, raw, place, leaf, rng, self.now, self.language))
        except PoolMistake as error:
            self.document.fault(place, f"`{slot}`: {error}.")

    def _first(self) -> JsonObject:
        """The first value of each variable."""
        first = {name: pool.rows[0][n] for pool in self.pools for n, name in enumerate(pool.names)}
        for name, source in self.texts.items():
            with suppress(TextMistake):
                first[name] = rendered(source, first)
        return first

    def _marked(self, value: Any) -> Any:
        """A value with slots in place of its texts."""
        if isinstance(value, dict):
            return {key: self._marked(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self._marked(part) for part in value]
        if not isinstance(value, str) or not is_text(value):
            return value
        if one := _ONE_NAME.fullmatch(value):
            return marker(one[1])
        slot = next((s for s, source in self.texts.items() if source == value), "")
        slot = slot or f"text {len(self.texts) + 1}"
        self.texts[slot] = value
        return marker(slot)

    def _fill(self, value: Any) -> Any:
        """A value as it is in the first row."""
        marked = self._marked(value)
        return filled(marked, self._first())

    def _response(self, number: int, api: Api) -> Any:
        """The response of a call as it stands in the skeleton; its fields are variables of what
        comes after."""
        call = self.form.calls[number]
        given = "response" in call.model_fields_set
        made = call.response if given else self._drawn(number, api, call.arguments)
        for name, value in _item(made).items():
            self.fields.setdefault(name, number)
            known = self._pool_of(name) or name in self.texts
            if not known and NAME.fullmatch(name) and _is_scalar(value):
                self.texts[name] = value if isinstance(value, str) else f"{{{{ {value!r} }}}}"
        return self._marked(made)

    def _drawn(self, number: int, api: Api, arguments: JsonObject) -> Any:
        """A response that fits what the API promises: an argument comes back in the field of its
        name, and each other field is a variable of its name."""
        rng = rng_for(self.given.seed, "written", self.name, f"call {number}")
        first, schemas = self._first(), _fields(api)
        own = {n: first[n] for n in schemas if n in first and fits(schemas[n], first[n])}
        try:
            known = self._fill(arguments)
            made = respond(api, {**own, **known}, rng, self.now, self.language)
        except (NoValue, KeyError) as error:
            what = f"nothing says what `{error}` in the response of {api.id} looks like"
            self.fault(("calls", number), f"{what}; write a `response`.")
            return None
        item = _item(made) if api.returns else {}
        for name, value in item.items():
            if name in arguments:
                item[name] = arguments[name]
                continue
            if name not in own and name not in first and NAME.fullmatch(name) and _is_scalar(value):
                about = f"field {name} of the response of {api.id}"
                leaf = _Leaf("", name, schemas.get(name, True), about, self.place)
                values = [value]
                with suppress(PoolMistake):
                    others = _of_schema(leaf, FIELD_VALUES, rng, self.now, self.language)
                    values = _distinct([value, *others], FIELD_VALUES)
                rows = [(each,) for each in values]
                self.pools.append(_Pool((name,), rows, self.place, about))
                own[name] = value
            if name in own:
                item[name] = f"{{{{ {name} }}}}"
        return made

    def _check_values(self, leaves: Sequence[_Leaf]) -> None:
        """Each value of a pool fits where it alone stands; elsewhere the first ones do."""
        first = self._first()
        for leaf in leaves:
            names = sorted(names_in(leaf.source))
            pool = self._pool_of(names[0]) if len(names) == 1 else None
            cases = [{**first, names[0]: value} for value in pool.column(names[0])] if pool else []
            for index, values in enumerate(cases or [first]):
                try:
                    made = rendered(leaf.source, values)
                except TextMistake as error:
                    self.document.fault(leaf.place, f"{error}.")
                    break
                if why := _why(leaf.schema, made):
                    place = (*pool.place, index) if pool else leaf.place
                    self.document.fault(place, f"{shown(made)} is not a valid {leaf.about}: {why}.")
                    break
        for number, api in enumerate(self.apis if self.sound else ()):
            call = self.form.calls[number]
            for name, value in call.arguments.items():
                full = self._fill(value)
                if why := _why(api.properties[name], full):
                    what = f"{shown(full)} is not a valid argument {name} of {api.id}: {why}."
                    self.fault(("calls", number, "arguments", name), what)
            given = "response" in call.model_fields_set and api.returns is not None
            if given and (why := _why(api.returns, self._fill(call.response))):
                what = f"{api.id} returns no such thing: {why}."
                self.fault(("calls", number, "response"), what)

    def _intent(self, said: set[str]) -> tuple[Intention, ...]:
        """What the user knows, and what earlier calls find out; faults for what nobody says."""
        told = {name for pool in self.pools if said & {*pool.names} for name in pool.names}
        found = []
        for number, api in enumerate(self.apis):
            known: JsonObject = {}
            references: dict[str, Reference] = {}
            for name, value in self.form.calls[number].arguments.items():
                leaves = [*_leaves(value, name, True, "", ())]
                unsaid = {each for leaf in leaves for each in names_in(leaf.source)} - told
                only = leaves[0].variable if len(leaves) == 1 and isinstance(value, str) else ""
                if only in unsaid and self.fields.get(only, number) < number:
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
        need = Need(
            id=f"written-{self.name}",
            ability=Ability.CALL,
            scenario=scenario_of(intent),
            level=level_of(self.apis),
            language=self.language,
            now=self.now,
            pool=_offered(self.every, self.apis, self.given, self.rng),
            intent=intent,
        )
        if self.form.answer is None and self.language != "English":
            self.fault(("answer",), f"missing: none can be made up in {self.language}.")
            return None
        goal, answer = self._marked(self.goal), self._marked(self.form.answer)
        if answer is None:
            answer = tell(need, responses, filled([*responses], self._first()))
        sample = build(need, goal, responses, answer)
        standing = {n for source in self.texts.values() for n in self._names(source, self.place)}
        standing |= {n for pool in self.pools for n in pool.names if marker(n) in canonical(sample)}
        choices = (
            Choice(
                slots=pool.names,
                rows=tuple(pool.rows),
                about=pool.about or f"values of {', '.join(pool.names)}",
            )
            for pool in self.pools
            if standing & {*pool.names}
        )
        return Template(
            id=need.id,
            kind="written",
            goal=self.goal,
            apis=tuple(api.id for api in self.apis),
            sample=sample,
            choices=tuple(choices),
            texts=self.texts,
            provenance=(Provenance(stage="templates", agent="", model="", seed=self.given.seed),),
        )


_ZONES = (Split.TRAIN, Split.TEST_TOOL, Split.TEST_CATEGORY)  # each is shown with those before it


def _offered(
    every: Sequence[Api], needed: Sequence[Api], given: Given, rng: random.Random
) -> tuple[Api, ...]:
    """The APIs that a sample is shown with: none that its split must not see."""

    def rank(api: Api) -> int:
        return _ZONES.index(zone(given.splits, api.category, api.tool)) if given.splits else 0

    most = max(map(rank, needed))
    offers = Group(api.bare() for api in every if rank(api) <= most)
    return offers.offer(needed, given.distractors, rng)


def _is_scalar(value: Any) -> bool:
    """A value of a response that may vary: a text that is not long, or a number."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number or (isinstance(value, str) and len(value) <= 200)


def _why(schema: Any, value: Any) -> str:
    """What is wrong with a value; nothing if it fits."""
    if fits(schema, value):
        return ""
    try:
        return str(next(iter(violations(schema, value)), "it does not fit"))[:200].rstrip(".")
    except UncheckableSchema as error:
        return f"its schema cannot be checked ({error})"[:200]


KINDS = ("range", "days", "faker", "schema", "table")


def _names_of(slot: str, raw: Any) -> tuple[str, ...]:
    """The variables that a pool fills."""
    table = raw.get("table") if isinstance(raw, dict) else None
    return tuple(map(str, table)) if isinstance(table, list) and table else (slot,)


def _pool(
    slot: str,
    raw: Any,
    place: Place,
    leaf: _Leaf | None,
    rng: random.Random,
    now: dt.datetime,
    language: str,
) -> _Pool:
    """The values of a pool as it is written. Raises PoolMistake."""
    names = _names_of(slot, raw)
    if odd := next((name for name in names if not NAME.fullmatch(name)), None):
        raise PoolMistake(f"`{odd}` is not a name: lower-case letters, digits and `_`")
    raw = {"schema": DRAWN} if raw == "schema" else raw
    kind = next((kind for kind in KINDS if isinstance(raw, dict) and kind in raw), None)
    more = {"faker": {"n"}, "table": {"rows"}}.get(kind or "", set[str]())
    try:
        if isinstance(raw, list):
            rows = [(value,) for value in raw]
            keys = list(map(canonical, raw))
            if twice := next((key for key in keys if keys.count(key) > 1), ""):
                raise PoolMistake(f"the value {twice[:80]} stands twice")
        elif kind is None or set(raw) - {kind} - more:
            known = ", ".join(KINDS)
            raise PoolMistake(f"a pool is a list, `schema`, or a mapping with one of {known}")
        elif kind == "table":
            rows, place = [tuple(row) for row in raw["rows"]], (*place, "rows")
            if any(len(row) != len(names) for row in rows) or len(set(names)) < len(names):
                raise PoolMistake("each row of a table needs a value for each of its names")
        elif kind == "schema":
            if leaf is None:
                what = "the variable is neither an argument nor a field of a response"
                raise PoolMistake(f"`schema`: {what}")
            count = min(int(raw["schema"]), POOL_VALUES)
            rows = [(value,) for value in _of_schema(leaf, count, rng, now, language)]
        elif kind == "faker":
            values = _made_up(raw["faker"], int(raw.get("n", DRAWN)), rng, language)
            rows = [(value,) for value in values]
        else:
            rows = [(value,) for value in _counted(kind, raw[kind], now)]
    except (KeyError, TypeError, ArithmeticError) as error:
        raise PoolMistake(f"`{kind}` cannot be read: {str(error)[:80]}") from error
    if not 0 < len(rows) <= POOL_VALUES:
        raise PoolMistake(f"has {len(rows):,} values; a pool has 1 to {POOL_VALUES:,}")
    return _Pool(names, rows, place, leaf.about if leaf else "")


def _made_up(provider: str, count: int, rng: random.Random, language: str) -> list[Any]:
    """Values of one of Faker's providers. Raises PoolMistake."""
    if provider not in FAKERS:
        hint = nearest(str(provider), FAKERS, "some that may are")
        raise PoolMistake(f"no provider `{provider}` may be used; {hint}")
    faker, count = faker_for(language, rng), min(count, POOL_VALUES)

    def draw() -> Any:
        if provider == "name":  # without titles
            return f"{faker.first_name()} {faker.last_name()}"
        more = {"separator": ""} if provider == "isbn13" else {}
        return getattr(faker, provider)(**more)

    try:
        return _distinct((draw() for _ in range(count * TRIES)), count)
    except AttributeError as error:
        raise PoolMistake(f"Faker has no `{provider}` for {language}; write the values") from error


def _counted(kind: str, told: Any, now: dt.datetime) -> list[Any]:
    """Numbers from the first to the last, or days so many after the present. Raises PoolMistake."""
    # Decimals, as 0.1 + 0.2 is not what anybody means.
    low, high, *rest = (Decimal(str(number)) for number in told)
    step = rest[0] if rest else Decimal(1)
    if step <= 0 or not low <= high or (high - low) / step >= POOL_VALUES or len(rest) > 1:
        raise PoolMistake(f"`{kind}` is [first, last], upwards, of at most {POOL_VALUES:,} values")
    numbers = [low + step * i for i in range(int((high - low) / step) + 1)]
    if kind == "range":
        return [int(n) if n == int(n) else float(n) for n in numbers]
    if rest or abs(low) > FAR or abs(high) > FAR:
        raise PoolMistake(f"`days` is [first, last], at most {FAR:,} days away")
    return [(now.date() + dt.timedelta(int(n))).isoformat() for n in numbers]


def _of_schema(
    leaf: _Leaf, count: int, rng: random.Random, now: dt.datetime, language: str
) -> list[Any]:
    """Values of the enum, else the examples, else drawn. Raises PoolMistake."""
    schema = as_dict(leaf.schema)
    for key in ("enum", "examples"):
        listed = schema.get(key)
        usable = [v for v in listed if fits(schema, v)] if isinstance(listed, list) else []
        if usable := [v for v in usable if v is not None and v != ""]:
            return _distinct(usable, count)
    tries = 1 if first_type(schema) == "boolean" else count * TRIES
    try:
        drawn = (draw_value(leaf.name, leaf.schema, rng, now, language) for _ in range(tries))
        return _distinct(drawn, count)
    except NoValue as error:
        what = f"the schema of {leaf.about} gives no values; write some under `pools`"
        raise PoolMistake(what) from error


def _distinct(values: Iterable[Any], count: int) -> list[Any]:
    """The first values that differ, no more than are wanted."""
    found: dict[str, Any] = {}
    for value in values:
        found.setdefault(canonical(value), value)
        if len(found) == count:
            break
    return list(found.values())
