"""The stage `expanded`: chooses rows of templates, and checks every one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.curation.contamination import (
    BenchmarkIndex,
    contamination_of,
    read_benchmarks,
)
from toolloom.pipeline.dataset.unfold import TemplateMisfit, TemplateRenderer
from toolloom.pipeline.render.section import counted
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.stage import Sifted, StageInput
from toolloom.pipeline.store.files import record_line
from toolloom.pipeline.templates.composition import Row
from toolloom.pipeline.templates.drawing import DrawnRow, HeldApart, RowDraw, RowSplits, even
from toolloom.pipeline.templates.redraws import AT_ONCE, WorldRows
from toolloom.pipeline.templates.verdicts import Checker
from toolloom.pipeline.worlds.needs import Chance
from toolloom.schemas import (
    Expansion,
    ExpansionPlan,
    Finding,
    Reason,
    Rejected,
    Split,
    Template,
    World,
)

ROWS = 10_000  # of a template in one record
_PASSES = 20  # over the templates, as some have fewer rows than they seem to
_SPARED = 2  # of so many rows that are not wanted, one may be passed over
_AT_ONCE = 2_000
_AT_FIRST = 100
_PATIENCE = 20_000  # draws without enough rows, after which a template has no more
_VAIN = 500  # rows that benchmarks hold, after which a template with fewer others has no more
_DRAWS = 200  # and draws for a wanted row
_ENDLESS = 2**40  # rows of a script, until it runs dry


def expand(given: StageInput) -> Iterator[Sifted]:
    """Rows of the templates, as many as the recipe wants and as evenly as can be, and what was
    rejected: values and rows that a check objects to, templates that are held apart."""
    plan = given.recipe.expand
    if plan is None:
        return
    run = _Run(given, plan)
    try:
        yield from run.prepare()
        for _ in range(_PASSES):
            if not run.wanted or not any(entry.left for entry in run.entries):
                break
            yield from run.make()
    finally:
        run.close()


@dataclass
class _Entry:
    """A template that makes rows: in which splits, how many it has left, how far it is drawn."""

    splits: tuple[Split, ...] = ()
    most: int = 0  # places in the order in which rows are drawn
    distinct: int = 0  # rows that say or call something of their own, at most
    at: int = 0
    first: int = 0
    made: int = 0
    done: bool = True

    @property
    def left(self) -> int:
        return 0 if self.done else max(0, min(self.most - self.at, self.distinct - self.made))


@dataclass
class _Made:
    """Accepted rows of one split, and which of them were inspected."""

    rows: list[Row] = field(default_factory=list)
    inspected: bytearray = field(default_factory=bytearray)


class _Run:
    def __init__(self, given: StageInput, plan: ExpansionPlan) -> None:
        self._given, self._plan = given, plan
        self.entries: list[_Entry] = []
        self._held = HeldApart(given, plan.apart)
        self.wanted = plan.rows
        worlds = (World.model_validate(row) for _, row in given.earlier("worlds").objects())
        self._worlds = WorldRows(given.recipe, worlds)
        against = given.recipe.curation.against
        self._index = read_benchmarks(given) if against else None

    def close(self) -> None:
        if self._index:
            self._index.discard()

    def _read(self) -> Iterator[Template]:
        rows = self._given.earlier("templates")
        return (Template.model_validate(row) for _, row in rows.objects())

    def prepare(self) -> Iterator[Rejected]:
        """Find out which templates make rows. Some are rejected."""
        if self._plan.apart:
            for template in self._read():
                self._held.exercise(template)
        for template in self._read():
            entry = _Entry(first=self._held.first(template.id))
            self.entries.append(entry)
            try:
                mould = TemplateRenderer(template)
            except TemplateMisfit as error:
                # With its sample as it is: slots and all.
                why = Finding(
                    check="mould", reason=Reason.NOTHING_TO_VARY, detail=f"No row fits: {error}."
                )
                yield Rejected.of(
                    template.sample,
                    self._given.stage,
                    [why],
                    id=template.id,
                    provenance=template.provenance,
                )
                continue
            wanted = self._plan.splits
            if template.split:
                wanted = (template.split,) if template.split in wanted else ()
            places = RowSplits(mould, self._given.recipe.splits)
            entry.splits = tuple(places.among(wanted, mould.query))
            if entry.splits and self._plan.apart:
                single = self._held.apart(template, entry.splits)
                if not single:
                    yield self._held_out(mould, entry.splits)
                entry.splits = single
            entry.most = entry.distinct = _ENDLESS
            if template.kind != "world":
                entry.most = _draw(self._given, mould, entry).count
                entry.distinct = mould.distinct - template.of_sample
            entry.done = not entry.splits

    def _held_out(self, mould: TemplateRenderer, splits: Sequence[Split]) -> Rejected:
        template = mould.template
        others = ", ".join(self._held.elsewhere(template, splits))
        detail = f"{' + '.join(template.combination)} are called together in {others} already."
        finding = Finding(check="apart", reason=Reason.COMBINATION_HELD_OUT, detail=detail)
        sample = mould.sample((0,) * len(template.choices), template.id, self._given.recipe.seed)
        return Rejected.of(
            sample, self._given.stage, [finding], id=template.id, provenance=sample.provenance
        )

    def make(self) -> Iterator[Sifted]:
        """One pass over the templates, each of which makes its share."""
        shares = even(self.wanted, [entry.left for entry in self.entries])
        plays = any(entry.most == _ENDLESS for entry in self.entries)
        states = (
            self._worlds.settle(
                (template, share)
                for template, share in zip(self._read(), shares, strict=True)
                if share and template.kind == "world"
            )
            if plays
            else {}
        )
        for template, entry, share in zip(self._read(), self.entries, shares, strict=True):
            if not share:
                continue
            before = entry.made
            if template.kind == "world":
                yield from self._play(template, entry, share, states.get(template.id, []))
            else:
                maker = _Maker(self._given, TemplateRenderer(template), entry, share)
                yield from maker.work(self._held, self._index)
            self.wanted -= entry.made - before

    def _play(
        self, template: Template, entry: _Entry, share: int, states: Sequence[Chance]
    ) -> Iterator[Sifted]:
        """Rows of a script in these states. Told where it has run dry: no more states fit it, or
        in none of them it says anything new."""
        rows, before = self._worlds.of(template), entry.made
        for start in range(0, len(states), AT_ONCE):
            self._given.rows.check()
            mould = TemplateRenderer(rows.drawn(states[start : start + AT_ONCE]))
            count, first = len(mould.template.choices[0].rows), entry.first + entry.made
            part = _Entry(entry.splits, count, count - 1, first=first, done=False)
            maker = _Maker(self._given, mould, part, count - 1, rows.machine)
            yield from maker.work(self._held, self._index)
            entry.made += part.made
        entry.done = len(states) < share or entry.made == before
        if entry.done:
            detail = (
                f"{counted(entry.made, 'row')} of the script {rows.name} in {rows.tried:,} "
                "states: no other fits it and says anything new."
            )
            why = Finding(check="states", reason=Reason.NOTHING_TO_DRAW, detail=detail)
            own = template.provenance
            yield Rejected.of(rows.sample, self._given.stage, [why], id=template.id, provenance=own)


def _draw(given: StageInput, mould: TemplateRenderer, entry: _Entry) -> RowDraw:
    """The same rows in the same order in every pass."""
    rng = rng_for(given.recipe.seed, given.stage, mould.template.id, entry.first)
    return RowDraw(mould, RowSplits(mould, given.recipe.splits), entry.splits, rng)


class _Maker:
    """Makes rows of one template."""

    def __init__(
        self,
        given: StageInput,
        mould: TemplateRenderer,
        entry: _Entry,
        share: int,
        world: Machine | None = None,
    ) -> None:
        seed = given.recipe.seed
        self._given, self._mould, self._entry, self._share = given, mould, entry, share
        number, spare = entry.first + entry.made, (entry.left - share) // _SPARED
        self._checker = Checker(mould, given.stage, seed, share, spare, number, world)
        self._draw = _draw(given, mould, entry)
        self._made: dict[Split, _Made] = {}
        self._contaminated = 0

    def work(self, held: HeldApart, index: BenchmarkIndex | None) -> Iterator[Sifted]:
        entry, draws, whole = self._entry, 0, False
        while (need := self._share - self._count) > 0 and not entry.done:
            self._given.rows.check()
            # A small draw first: what is learned of it makes the next ones quick.
            size = min(_AT_ONCE if draws else _AT_FIRST, max(64, 2 * need))
            drawn = self._draw.rows(entry.at, size, self._checker.passes_over)
            self._take(drawn, held, index, min(entry.at + size, entry.most))
            draws += size
            if self._checker.whole and not whole:
                whole = True
                for made in self._made.values():
                    made.rows = [
                        row
                        for row, looked in zip(made.rows, made.inspected, strict=True)
                        if looked or self._checker.accepts(row)
                    ]
                    made.inspected = bytearray([1] * len(made.rows))
            yield from self._checker.rejected
            self._checker.rejected.clear()
            tired = draws > _PATIENCE + _DRAWS * self._share
            most = entry.made + self._count >= entry.distinct
            vain = self._contaminated > _VAIN + self._count
            ended = entry.at >= entry.most or most
            entry.done = ended or tired or vain or self._checker.hopeless
        entry, template = self._entry, self._mould.template
        kept, moved = _without(template, self._checker.dropped)
        for split in Split:
            made = self._made.get(split, _Made())
            for start in range(0, len(made.rows), ROWS):
                rows = made.rows[start : start + ROWS]
                first = entry.first + entry.made
                yield record_line(
                    Expansion.model_construct(
                        id=f"{template.id}-e{first:06d}",
                        template=kept,
                        split=split,
                        first=first,
                        rows=tuple(
                            tuple(places[p] for places, p in zip(moved, row, strict=True))
                            for row in rows
                        )
                        if self._checker.dropped
                        else tuple(rows),
                        inspected=sum(made.inspected[start : start + ROWS]),
                    )
                )
                entry.made += len(rows)

    @property
    def _count(self) -> int:
        return sum(len(made.rows) for made in self._made.values())

    def _take(
        self, drawn: Iterable[DrawnRow], held: HeldApart, index: BenchmarkIndex | None, end: int
    ) -> None:
        """Take what is accepted, until there are enough; the next draw goes on after that."""
        fresh = []
        for each in drawn:
            if each.mark not in held.marks:
                held.marks.add(each.mark)
                fresh.append(each)
        need = self._share - self._count
        verdicts, checker = self._checker.accepted([each.row for each in fresh]), self._checker
        for place, each in enumerate(fresh):
            if not need:
                held.marks.difference_update(left.mark for left in fresh[place:])
                self._entry.at = each.place
                return
            if next(verdicts) and not self._is_contaminated(each.row, index):
                made = self._made.setdefault(each.split, _Made())
                made.rows.append(each.row)
                made.inspected.append(checker.looked)
                need -= 1
            else:
                held.marks.discard(each.mark)  # it may be said again, with other results
        self._entry.at = end

    def _is_contaminated(self, row: Row, index: BenchmarkIndex | None) -> bool:
        """Whether a benchmark holds a row too. Such a row falls, also where samples are flagged:
        there are others."""
        if index is None:
            return False
        sample = json.loads(self._mould.sample_text(row, "row", 0))
        findings = contamination_of(sample, index)
        if findings:
            self._contaminated += 1
            self._checker.reject(row, findings)
        return bool(findings)


def _without(
    template: Template, dropped: set[tuple[int, int]]
) -> tuple[Template, list[dict[int, int]]]:
    """A template without values that were rejected, and where the others stand now."""
    choices, moved = [], []
    for number, choice in enumerate(template.choices):
        places = [p for p in range(len(choice.rows)) if (number, p) not in dropped]
        moved.append({place: new for new, place in enumerate(places)})
        rows = tuple(choice.rows[place] for place in places) or choice.rows[:1]
        choices.append(choice.model_copy(update={"rows": rows}))
    return template.model_copy(update={"choices": tuple(choices)}), moved
