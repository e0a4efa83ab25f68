"""One goal of a written template, made a Template: slots found, values drawn, a sample built."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolloom.pipeline.dataset.unfold import filled
from toolloom.pipeline.sampling.chance import rng_for
from toolloom.pipeline.sampling.needs import moment
from toolloom.pipeline.sampling.offers import Distractors
from toolloom.pipeline.sampling.values import NoValue
from toolloom.pipeline.templates.written.build import build, level_of, scenario_of, tell
from toolloom.pipeline.templates.written.checking import Filling, GoalDraft
from toolloom.pipeline.templates.written.columns import Columns
from toolloom.pipeline.templates.written.fields import Fields, field_names
from toolloom.pipeline.templates.written.forms import CallForm, FileForm, nearest, read_pools
from toolloom.pipeline.templates.written.pools import Written, WrittenSetting
from toolloom.pipeline.templates.written.slots import slots_in, whole_slot, with_markers
from toolloom.schemas import (
    Ability,
    Api,
    Intention,
    Need,
    Provenance,
    Reference,
    Split,
    SplitPlan,
    Template,
    marker,
)
from toolloom.schemas.splits import zone

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


class Compiler:
    """Compiles one goal. Faults go to the document; `used` are the slots that it has."""

    def __init__(self, name: str, draft: GoalDraft, scope: Scope) -> None:
        self.name, self.draft, self.scope = name, draft, scope
        self.used: set[str] = set()
        rng, form = rng_for(scope.seed, "written", name), draft.form
        now: dt.datetime = form.now or scope.file.now or moment(rng)
        self._setting = WrittenSetting(rng, now, form.language or scope.language)
        self._found = draft.document.found

    @property
    def _sound(self) -> bool:
        return self.draft.document.found == self._found

    def template(self) -> Template | None:
        """The template; None if anything is wrong with it."""
        draft = self.draft
        named = [self._api(number, call) for number, call in enumerate(draft.form.calls)]
        needed = draft.slots()
        pools = read_pools(draft.form.pools, (*draft.place, "pools"), draft.document)
        apis = [api for api in named if api is not None]
        if not self._sound or len(apis) != len(named):
            return None
        draft.check_names(apis)
        columns = self._columns(apis, needed, pools)
        fields = Fields(columns, draft.said())
        responses = [self._response(*one, columns, fields) for one in draft.calls(apis)]
        standing = needed | fields.used
        self.used = columns.used(standing)
        # Where a response could not be drawn, nobody knows which of its fields are slots.
        drawn = set[str]() if self._sound else {n for api in apis for n in field_names(api)}
        draft.check_used(self.used | drawn)
        draft.check_filled(columns, apis)
        if self._sound:
            bound = (Filling(a, slot, (*draft.place, "calls")) for a, slot in fields.bound)
            fillings = [*draft.arguments(apis), *draft.responses(apis), *bound]
            draft.check_values(fillings, columns)
        if self._sound:
            draft.check_whole(apis, columns.first())
        intent = self._intent(apis, responses, columns) if self._sound else ()
        return self._made(apis, intent, responses, columns, standing) if self._sound else None

    def _api(self, number: int, call: CallForm) -> Api | None:
        api = self.scope.by_name.get(call.api)
        if api is None and self.scope.apis:
            hint = nearest(call.api, self.scope.by_name)
            what = f"there is no API `{call.api}`; {hint}"
            self.draft.fault(("calls", number, "api"), what)
        return api

    def _columns(
        self, apis: Sequence[Api], needed: set[str], pools: Mapping[str, Written]
    ) -> Columns:
        """The values of all slots but those that responses which are drawn will add."""
        draft, file = self.draft, self.scope.file
        columns = Columns(self._setting_for, draft.document)
        wanted = {*needed, *(name for api in apis for name in field_names(api))}
        columns.add_tables(draft.form.together, (*draft.place, "together"))
        columns.add_pools(pools, (*draft.place, "pools"))
        columns.add_tables(file.together, ("together",), wanted=wanted)
        columns.add_pools(self.scope.pools, ("pools",), wanted=wanted)
        given, answered = [*draft.arguments(apis)], [*draft.responses(apis)]
        for filling in (*given, *answered):
            columns.describe(filling.slot, filling.argument)
        columns.fill()
        # What the goal says or a response holds, and nothing tells values of, its schema does.
        said = set(slots_in(draft.goal))
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
            self.draft.fault(
                ("calls", number), f"nothing says what {what} looks like; write a `response`."
            )
            return None

    def _intent(
        self, apis: Sequence[Api], responses: Sequence[Any], columns: Columns
    ) -> tuple[Intention, ...]:
        """What the user knows, and what earlier calls find out; faults for what nobody says."""
        said = columns.family_of(slots_in(self.draft.goal))
        found = []
        for number, api, call in self.draft.calls(apis):
            known: dict[str, Any] = {}
            references: dict[str, Reference] = {}
            for name, value in call.arguments.items():
                unsaid = [slot for slot in slots_in(value) if slot not in said]
                source = _source(whole_slot(value), responses[:number])
                if unsaid and source is not None:
                    references[name] = source
                    continue
                for slot in unsaid:
                    self.draft.fault(
                        ("calls", number, "arguments", name),
                        f"nobody says `{{{slot}}}`: neither the goal, nor a field of an earlier "
                        "response, nor what it is derived from.",
                    )
                known[name] = with_markers(value)
            found.append(Intention(api=api.id, arguments=known, references=references))
        return tuple(found)

    def _made(
        self,
        apis: Sequence[Api],
        intent: tuple[Intention, ...],
        responses: Sequence[Any],
        columns: Columns,
        standing: set[str],
    ) -> Template | None:
        setting, form, goal = self._setting, self.draft.form, self.draft.goal
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
            self.draft.fault(("answer",), f"missing: none can be made up in {setting.language}.")
            return None
        answer = (
            with_markers(form.answer)
            if form.answer is not None
            else tell(need, responses, filled([*responses], columns.first()))
        )
        sample = build(need, with_markers(goal), responses, answer)
        made = Provenance(stage="templates", agent="", model="", seed=self.scope.seed)
        return Template(
            id=need.id,
            kind="written",
            goal=goal.replace("{{", "{").replace("}}", "}"),
            apis=tuple(api.id for api in apis),
            sample=sample,
            choices=columns.choices(standing),
            provenance=(made,),
        )


def _source(slot: str | None, responses: Sequence[Any]) -> Reference | None:
    """The field of an earlier response that is nothing but a slot."""
    for number, response in enumerate(responses):
        item = response[0] if isinstance(response, list) and response else response
        for name, value in item.items() if isinstance(item, dict) and slot else ():
            if value == marker(str(slot)):
                return Reference(call=number, field=name)
    return None
