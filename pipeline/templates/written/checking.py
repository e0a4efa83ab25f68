"""What is wrong with a written template: its texts, its names and its values, each at its line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolloom.pipeline.checks.keywords import fits
from toolloom.pipeline.checks.schema import UncheckableSchema, violations
from toolloom.pipeline.checks.transcript import shown
from toolloom.pipeline.templates.written.columns import Columns
from toolloom.pipeline.templates.written.fields import places
from toolloom.pipeline.templates.written.forms import CallForm, TemplateForm, near_to, nearest
from toolloom.pipeline.templates.written.pools import Argument
from toolloom.pipeline.templates.written.positions import Place, WrittenDocument
from toolloom.pipeline.templates.written.slots import SlotMistake, filled, slots_in, texts_in
from toolloom.schemas import Api, JsonObject


@dataclass(frozen=True)
class Filling:
    """A slot that is a whole argument or field, or a whole part of one, and where it stands."""

    argument: Argument
    slot: str
    place: Place


@dataclass(frozen=True)
class GoalDraft:
    """One goal of a template as it is written. Faults go to the document."""

    form: TemplateForm
    goal: str
    said_at: Place
    place: Place
    document: WrittenDocument

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

    def calls(self, apis: Sequence[Api]) -> Iterator[tuple[int, Api, CallForm]]:
        """Each call with its number and API."""
        yield from zip(range(len(apis)), apis, self.form.calls, strict=True)

    def arguments(self, apis: Sequence[Api]) -> Iterator[Filling]:
        """The slots of the arguments, with what they fill."""
        for number, api, call in self.calls(apis):
            for name in [n for n in call.arguments if n in api.properties]:
                whole = Argument(name, api.properties[name], f"argument {name} of {api.id}")
                place = (*self.place, "calls", number, "arguments", name)
                for argument, slot in places(whole, call.arguments[name]):
                    yield Filling(argument, slot, place)

    def responses(self, apis: Sequence[Api]) -> Iterator[Filling]:
        """The slots of the responses that are written out, with what they fill."""
        for number, api, call in self.calls(apis):
            whole = Argument("response", api.returns or True, f"the response of {api.id}")
            for argument, slot in places(whole, call.response):
                yield Filling(argument, slot, (*self.place, "calls", number, "response"))

    def check_names(self, apis: Sequence[Api]) -> None:
        """Each API knows its arguments, and has what it requires."""
        for number, api, call in self.calls(apis):
            at = ("calls", number, "arguments")
            for name in [n for n in call.arguments if n not in api.properties]:
                hint = nearest(name, api.properties, "it has")
                self.fault((*at, name), f"{call.api} has no argument `{name}`; {hint}")
            missing = [f"`{name}`" for name in api.required if name not in call.arguments]
            if missing:
                self.fault(at, f"{call.api} also needs {', '.join(missing)}.")

    def check_used(self, used: set[str]) -> None:
        """Each pool of the template fills a slot."""
        written: list[tuple[Place, str]] = [(("pools", slot), slot) for slot in self.form.pools]
        for number, table in enumerate(self.form.together):
            written += [(("together", number, "slots"), slot) for slot in table.slots]
        for place, slot in written:
            if slot not in used:
                self.fault(place, f"no text has the slot `{{{slot}}}`{near_to(slot, used)}")

    def check_filled(self, columns: Columns, apis: Sequence[Api]) -> None:
        """Each slot of the texts has values, or a pool or argument whose fault is told."""
        told = {
            slot
            for _, api, call in self.calls(apis)
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

    def check_whole(self, apis: Sequence[Api], first: JsonObject) -> None:
        """Arguments and responses fit as a whole, with the first values in their slots."""
        for number, api, call in self.calls(apis):
            for name, value in call.arguments.items():
                schema, full = api.properties[name], filled(value, first)
                if not fits(schema, full):
                    self.fault(
                        ("calls", number, "arguments", name),
                        f"{shown(full)} is no argument {name} of {api.id}: {_why(schema, full)}.",
                    )
            if "response" not in call.model_fields_set or api.returns is None:
                continue
            full = filled(call.response, first)
            if not fits(api.returns, full):
                why = _why(api.returns, full)
                self.fault(("calls", number, "response"), f"{api.id} returns no such thing: {why}.")


def _why(schema: Any, value: Any) -> str:
    """What is wrong with a value."""
    try:
        return str(next(iter(violations(schema, value)), "it does not fit"))[:200].rstrip(".")
    except UncheckableSchema as error:
        return f"its schema cannot be checked ({error})"[:200]
