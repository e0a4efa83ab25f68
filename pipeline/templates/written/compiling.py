"""One goal of a written template, made a Template: slots found, values drawn, a sample built.

What is wrong with its texts, its names and its values is told, each at its line.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolloom.pipeline.checks.schema import UncheckableSchema, fits, violations
from toolloom.pipeline.checks.transcript import shown
from toolloom.pipeline.sampling.needs import Distractors, moment
from toolloom.pipeline.sampling.values import NoValue, rng_for
from toolloom.pipeline.store.documents import Place, WrittenDocument, nearest
from toolloom.pipeline.templates.filling import filled
from toolloom.pipeline.templates.written.columns import Columns, Fields, fields_of, places
from toolloom.pipeline.templates.written.forms import (
    CallForm,
    FileForm,
    TemplateForm,
    declared,
    near_to,
    read_pools,
)
from toolloom.pipeline.templates.written.pools import (
    Argument,
    SlotMistake,
    Written,
    WrittenSetting,
    slots_in,
    texts_in,
    whole_slot,
    with_markers,
    with_values,
)
from toolloom.pipeline.templates.written.sample import build, level_of, scenario_of, tell
from toolloom.schemas import (
    Ability,
    Api,
    Intention,
    JsonObject,
    Need,
    Provenance,
    Reference,
    Split,
    SplitPlan,
    Template,
    marker,
)
from toolloom.schemas.splits import zone


@dataclass(frozen=True)
class Filling:
    """A slot that is a whole argument or field, or a whole part of one, and where it stands."""

    argument: Argument
    slot: str
    place: Place


def _why(schema: Any, value: Any) -> str:
    """What is wrong with a value."""
    try:
        return str(next(iter(violations(schema, value)), "it does not fit"))[:200].rstrip(".")
    except UncheckableSchema as error:
        return f"its schema cannot be checked ({error})"[:200]


PREFIX = "written-"
# Of the splits of unseen APIs, what they must not show; seen ones show none of these.
_KEPT_OUT: Mapping[Split, Collection[Split]] = {
    Split.TEST_CATEGORY: (),
    Split.TEST_TOOL: (Split.TEST_CATEGORY,),
}


@dataclass
class Scope:
    """What all templates of a file share."""

    file: FileForm
    pools: dict[str, Written]
    apis: Sequence[Api]
    seed: int
    language: str
    distractors: int
    splits: SplitPlan | None = None
    by_name: dict[str, Api] = field(init=False)
    _offers: dict[Split, Distractors] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.apis = [api.bare() for api in self.apis]
        self.by_name = {name: api for api in self.apis for name in (api.function, api.id)}

    def offered(self, needed: Sequence[Api], rng: random.Random) -> tuple[Api, ...]:
        """The APIs that a sample is shown with: none that its split must not see."""
        zones = {self._zone(api) for api in needed}
        place = next((split for split in _KEPT_OUT if split in zones), Split.TRAIN)
        if place not in self._offers:
            kept_out = _KEPT_OUT.get(place, _KEPT_OUT)
            self._offers[place] = Distractors(a for a in self.apis if self._zone(a) not in kept_out)
        return self._offers[place].offer(needed, self.distractors, rng)

    def _zone(self, api: Api) -> Split:
        return zone(self.splits, api.category, api.tool) if self.splits else Split.TRAIN


@dataclass
class Compiler:
    """Makes one goal of a template, as it is written, a Template. Faults go to the document."""

    name: str
    form: TemplateForm
    goal: str
    said_at: Place
    place: Place
    document: WrittenDocument
    scope: Scope
    apis: Sequence[Api] = ()  # of the calls, once all are known
    used: set[str] = field(default_factory=set)  # the slots that it has

    def __post_init__(self) -> None:
        rng = rng_for(self.scope.seed, "written", self.name)
        now: dt.datetime = self.form.now or self.scope.file.now or moment(rng)
        self._setting = WrittenSetting(rng, now, self.form.language or self.scope.language)
        self._found = self.document.found

    def fault(self, place: Place, what: str) -> None:
        self.document.fault((*self.place, *place), what)

    def texts(self) -> Iterator[tuple[Place, Any]]:
        """All that may hold slots, with its place in the document."""
        yield self.said_at, self.goal
        for number, call in enumerate(self.form.calls):
            at = (*self.place, "calls", number)
            yield from (((*at, "arguments", n), value) for n, value in call.arguments.items())
            yield (*at, "response"), call.response
        yield (*self.place, "answer"), self.form.answer

    def said(self) -> set[str]:
        """The slots of the goal and the arguments."""
        return {*slots_in(self.goal), *(s for c in self.form.calls for s in slots_in(c.arguments))}

    def slots(self) -> set[str]:
        """All slots; faults for braces that are none, and for a goal without any."""
        found: set[str] = set()
        for place, value in self.texts():
            for text in texts_in(value):
                try:
                    slots = set(slots_in(text))
                except SlotMistake as error:
                    self.document.fault(place, f"{error}.")
                    continue
                found |= slots
                if place == self.said_at and not slots:
                    self.document.fault(place, "has no `{slot}`: all rows would be the same.")
        return found

    def calls(self) -> Iterator[tuple[int, Api, CallForm]]:
        """Each call with its number and API."""
        yield from zip(range(len(self.apis)), self.apis, self.form.calls, strict=True)

    def arguments(self) -> Iterator[Filling]:
        """The slots of the arguments, with what they fill."""
        for number, api, call in self.calls():
            for name in [n for n in call.arguments if n in api.properties]:
                whole = Argument(name, api.properties[name], f"argument {name} of {api.id}")
                place = (*self.place, "calls", number, "arguments", name)
                for argument, slot in places(whole, call.arguments[name]):
                    yield Filling(argument, slot, place)

    def responses(self) -> Iterator[Filling]:
        """The slots of the responses that are written out, with what they fill."""
        for number, api, call in self.calls():
            whole = Argument("response", api.returns or True, f"the response of {api.id}")
            for argument, slot in places(whole, call.response):
                yield Filling(argument, slot, (*self.place, "calls", number, "response"))

    def check_names(self) -> None:
        """Each API knows its arguments, and has what it requires."""
        for number, api, call in self.calls():
            at = ("calls", number, "arguments")
            for name in [n for n in call.arguments if n not in api.properties]:
                hint = nearest(name, api.properties, "it has")
                self.fault((*at, name), f"{call.api} has no argument `{name}`; {hint}")
            missing = [f"`{name}`" for name in api.required if name not in call.arguments]
            if missing:
                self.fault(at, f"{call.api} also needs {', '.join(missing)}.")

    def check_used(self, used: set[str]) -> None:
        """Each pool of the template fills a slot."""
        for place, slot in declared(self.form, self.place):
            if slot not in used:
                self.document.fault(
                    place, f"no text has the slot `{{{slot}}}`{near_to(slot, used)}"
                )

    def check_filled(self, columns: Columns) -> None:
        """Each slot of the texts has values, or a pool or argument whose fault is told."""
        told = {
            slot
            for _, api, call in self.calls()
            for name, value in call.arguments.items()
            if name not in api.properties
            for slot in slots_in(value)
        }
        for place, value in self.texts():
            for slot in slots_in(value):
                if slot not in {*columns.known, *columns.declared, *told}:
                    hint = nearest(slot, columns.known, "slots with values are")
                    what = f"nothing gives `{{{slot}}}` a value: write a pool for it; {hint}"
                    self.document.fault(place, what)

    def check_values(self, fillings: Iterable[Filling], columns: Columns) -> None:
        """Each value of a pool fits what its slots fill: of each slot the first that does not."""
        for filling in fillings:
            argument = filling.argument
            for index, value in enumerate(columns.values(filling.slot)):
                if not fits(argument.schema, value):
                    place = columns.place(filling.slot, index) or filling.place
                    why = _why(argument.schema, value)
                    self.document.fault(place, f"{shown(value)} is no {argument.about}: {why}.")
                    break

    def check_whole(self, first: JsonObject) -> None:
        """Arguments and responses fit as a whole, with the first values in their slots."""
        for number, api, call in self.calls():
            for name, value in call.arguments.items():
                schema, full = api.properties[name], with_values(value, first)
                if not fits(schema, full):
                    self.fault(
                        ("calls", number, "arguments", name),
                        f"{shown(full)} is no argument {name} of {api.id}: {_why(schema, full)}.",
                    )
            if "response" not in call.model_fields_set or api.returns is None:
                continue
            full = with_values(call.response, first)
            if not fits(api.returns, full):
                why = _why(api.returns, full)
                self.fault(("calls", number, "response"), f"{api.id} returns no such thing: {why}.")

    @property
    def _sound(self) -> bool:
        return self.document.found == self._found

    def template(self) -> Template | None:
        """The template; None if anything is wrong with it."""
        by_name = self.scope.by_name
        apis = [by_name[call.api] for call in self.form.calls if call.api in by_name]
        for number, call in enumerate(self.form.calls):
            if call.api not in by_name and self.scope.apis:
                hint = nearest(call.api, by_name)
                self.fault(("calls", number, "api"), f"there is no API `{call.api}`; {hint}")
        needed = self.slots()
        pools = read_pools(self.form.pools, (*self.place, "pools"), self.document)
        if not self._sound or len(apis) != len(self.form.calls):
            return None
        self.apis = apis
        self.check_names()
        columns = self._columns(needed, pools)
        fields = Fields(columns, self.said())
        responses = [self._response(*one, columns, fields) for one in self.calls()]
        standing = needed | fields.used
        self.used = columns.used(standing)
        # Where a response could not be drawn, nobody knows which of its fields are slots.
        drawn = set[str]() if self._sound else {n for api in apis for n in fields_of(api)}
        self.check_used(self.used | drawn)
        self.check_filled(columns)
        if self._sound:
            bound = (Filling(a, slot, (*self.place, "calls")) for a, slot in fields.bound)
            fillings = [*self.arguments(), *self.responses(), *bound]
            self.check_values(fillings, columns)
        if self._sound:
            self.check_whole(columns.first())
        intent = self._intent(responses, columns) if self._sound else ()
        return self._made(intent, responses, columns, standing) if self._sound else None

    def _columns(self, needed: set[str], pools: Mapping[str, Written]) -> Columns:
        """The values of all slots but those that responses which are drawn will add."""
        file = self.scope.file
        columns = Columns(self._setting_for, self.document)
        wanted = {*needed, *(name for api in self.apis for name in fields_of(api))}
        columns.add_tables(self.form.together, (*self.place, "together"))
        columns.add_pools(pools, (*self.place, "pools"))
        columns.add_tables(file.together, ("together",), wanted=wanted)
        columns.add_pools(self.scope.pools, ("pools",), wanted=wanted)
        given, answered = [*self.arguments()], [*self.responses()]
        for filling in (*given, *answered):
            columns.describe(filling.slot, filling.argument)
        columns.fill()
        # What the goal says or a response holds, and nothing tells values of, its schema does.
        said = set(slots_in(self.goal))
        for filling in (*(one for one in given if one.slot in said), *answered):
            if filling.slot not in columns.declared and filling.slot not in columns.known:
                columns.add_schema(filling.slot, filling.argument, filling.place)
        return columns

    def _setting_for(self, slot: str) -> WrittenSetting:
        """Each slot has a chance of its own: a change to one leaves the others' values."""
        rng = rng_for(self.scope.seed, "written", self.name, slot)
        return WrittenSetting(rng, self._setting.now, self._setting.language)

    def _response(
        self, number: int, api: Api, call: CallForm, columns: Columns, fields: Fields
    ) -> Any:
        """The response of a call as it stands in the skeleton."""
        if "response" in call.model_fields_set:
            return with_markers(call.response)
        if not self._sound or not all(s in columns.known for s in slots_in(call.arguments)):
            return None
        try:
            return fields.drawn(api, call.arguments, self._setting_for(f"call {number}"))
        except NoValue as error:
            what = f"`{error}` in the response of {api.id}"
            self.fault(
                ("calls", number), f"nothing says what {what} looks like; write a `response`."
            )
            return None

    def _intent(self, responses: Sequence[Any], columns: Columns) -> tuple[Intention, ...]:
        """What the user knows, and what earlier calls find out; faults for what nobody says."""
        said = columns.family_of(slots_in(self.goal))
        found = []
        for number, api, call in self.calls():
            known: dict[str, Any] = {}
            references: dict[str, Reference] = {}
            for name, value in call.arguments.items():
                unsaid = [slot for slot in slots_in(value) if slot not in said]
                source = _source(whole_slot(value), responses[:number])
                if unsaid and source is not None:
                    references[name] = source
                    continue
                for slot in unsaid:
                    self.fault(
                        ("calls", number, "arguments", name),
                        f"nobody says `{{{slot}}}`: neither the goal, nor a field of an earlier "
                        "response, nor what it is derived from.",
                    )
                known[name] = with_markers(value)
            found.append(Intention(api=api.id, arguments=known, references=references))
        return tuple(found)

    def _made(
        self,
        intent: tuple[Intention, ...],
        responses: Sequence[Any],
        columns: Columns,
        standing: set[str],
    ) -> Template | None:
        setting, form, goal, apis = self._setting, self.form, self.goal, self.apis
        need = Need(
            id=PREFIX + self.name,
            ability=Ability.CALL,
            scenario=scenario_of(intent),
            level=level_of(apis),
            language=setting.language,
            now=setting.now,
            pool=self.scope.offered(apis, setting.rng),
            intent=intent,
        )
        if form.answer is None and setting.language != "English":
            self.fault(("answer",), f"missing: none can be made up in {setting.language}.")
            return None
        answer = with_markers(form.answer)
        if answer is None:
            answer = tell(need, responses, filled([*responses], columns.first()))
        return Template(
            id=need.id,
            kind="written",
            goal=goal.replace("{{", "{").replace("}}", "}"),
            apis=tuple(api.id for api in apis),
            sample=build(need, with_markers(goal), responses, answer),
            choices=columns.choices(standing),
            provenance=(Provenance(stage="templates", agent="", model="", seed=self.scope.seed),),
        )


def _source(slot: str | None, responses: Sequence[Any]) -> Reference | None:
    """The field of an earlier response that is nothing but a slot."""
    for number, response in enumerate(responses):
        item = response[0] if isinstance(response, list) and response else response
        for name, value in item.items() if isinstance(item, dict) and slot else ():
            if value == marker(str(slot)):
                return Reference(call=number, field=name)
    return None
