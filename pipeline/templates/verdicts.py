"""Verdicts of the tester's certain checks on rows of a template, most of them composed.

Inspecting a row takes about a millisecond, twenty times as long as making it. So a row's verdict
is composed of verdicts on other rows of its template, wherever that is certain.

Why that is sound. The checks are lexical: they ask whether something that stands in one place of a
dialogue (a value of a call, a number or name in a reply, a status) is said in another. Each place
is constant or filled with a value, so each question is between two constants, a constant and a
value, or two values. Between

- two constants it has the same answer in every row, unless a value bears the constant out (a
  number in the reply that nobody said, but for a room of that number). So constants count as
  settled only once rows have passed that have no value in common which a constant of the dialogue
  could be matched with;
- a constant and a value, or two values that are chosen together, it has the same answer in every
  row with this value: one row that passed proves the value, if no other value interferes with it;
- values of two choices the answer is no, as long as they do not interfere: they share no word,
  stem, number in any reading, day, time, initials, alias or misspelling, neither is within the
  other, and they do not stand side by side in a way that may be read as one (`marks`). Those that
  do interfere pass only together: a row in which just these do was inspected and passed.

One check asks for any one thing that a reply tells and the user did not say. What bears it out in
one row may interfere, or be a mere state or code, in another; so a row also needs one that passed
whose values are of the same kinds, choice by choice (`composition`).

A row passes by composition if all of this holds for it; any other is inspected whole. What the
argument leaves out is what several values decide only together, by a sum or a share: how alike a
whole reply and a request are, or how far apart two words stand. Values that change how others are
read (full stops, quotes, negations), and two long texts, count as interfering for that reason;
and the first composed rows and one in five hundred of the others are inspected all the same. If one
of them falls, nothing of the template is composed any more, and its earlier rows are inspected.

Rows of a script of a world are inspected one by one: each is played again in its own state.

A value that falls in every row with it, where the other values passed without it, is rejected:
none of its rows is made. A row that falls though each of its values passed is rejected alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.dataset.unfold import TemplateRenderer
from toolloom.pipeline.templates.composition import Composition, Mask, Pairs, Row, Table
from toolloom.schemas import Finding, Rejected

FIRST = 12  # rows of a template that are inspected before any verdict is composed
LOOKED_AT = 5  # composed verdicts that are tried at once
ONE_IN = 500  # of the others
KEPT = 20  # rejected rows of a template that are kept
BASES = 3  # rows that passed in which a value is tried
# Where there are many more rows than are wanted, one in so many, or so many in all, is inspected
# for values that interfere. The others are passed over.
_SHARE, _SPARE = 500, 20
_PATIENCE = 10  # rows that are passed over for one that is composed
_WORTH_PROVING = 10  # rows for each value from which all values are proven at once


@dataclass
class Checker:
    """Tells for rows of a template whether they are accepted. Rejects wait in `rejected`."""

    mould: TemplateRenderer
    stage: str
    seed: int
    wanted: int  # rows: few of them are inspected one by one
    spare: int = 0  # rows that may be passed over
    first: int = 0  # number of the first row, for the names of rejected ones
    world: Machine | None = None  # in which rows are played again
    inspected: int = 0
    rejected: list[Rejected] = field(default_factory=list)
    looked: bool = False  # the last row was inspected
    whole: bool = False  # nothing is composed any more
    dropped: set[tuple[int, int]] = field(default_factory=set)  # values, by choice and place
    _bases: list[Row] = field(default_factory=list)
    _good: set[tuple[int, int]] = field(default_factory=set)  # values of rows that passed
    _passed: list[Row] = field(default_factory=list)  # until there is a composition
    _known: Composition | None = None
    _composed: int = 0
    _told: int = 0
    _kept: int = 0
    _one_by_one: int = 0
    _passed_over: int = 0

    def __post_init__(self) -> None:
        # What came of calls in a world is no comparison of words.
        self.whole = self.whole or self.world is not None
        original = (0,) * len(self.mould.template.choices)
        if not self._inspect(original):
            self._pass(original)

    @property
    def hopeless(self) -> bool:
        """No row passes, however many were tried."""
        return not self._bases and self._told >= KEPT

    def accepted(self, rows: Sequence[Row]) -> Iterator[bool]:
        """For each row whether it is accepted, in order."""
        known = None if self.whole or not rows else self._compose()
        table = np.array(rows, np.int64)
        met = known.met(table) if known else [None] * len(rows)
        quick = known.proves(table) if known else [False] * len(rows)
        for row, pairs, proven in zip(rows, met, quick, strict=True):
            self.looked = False
            settled = self._known is not None and self._known.settled and not self.whole
            if proven and not pairs and settled:
                yield self._composes(row)
            elif pairs and not self.whole and self._can_pass_over:
                self._passed_over += 1
                yield False
            else:
                yield self.accepts(row, pairs)

    def passes_over(self, table: Table) -> Mask:
        """Which rows are not looked at: their values interfere, and others will do."""
        over = np.zeros(len(table), np.bool_)
        if self._known is None or self.whole or not self._can_pass_over:
            return over
        likely = _PATIENCE * self._composed + _SPARE
        most = max(0, min(self.spare, likely + 1) - self._passed_over)
        places = np.flatnonzero([bool(pairs) for pairs in self._known.met(table)])[:most]
        self._passed_over += len(places)
        over[places] = True
        return over

    def accepts(self, row: Row, met: Pairs | None = None) -> bool:
        """Whether a row is accepted: composed, or inspected. `met`: its values that interfere."""
        if not self.dropped.isdisjoint(enumerate(row)):
            return False
        known = None if self.whole else self._compose()
        if known is None:
            return self._inspects(row)
        ties = known.ties(row, known.met(np.array([row]))[0] if met is None else met)
        verdict = known.verdict(row, ties)
        if verdict is not None:
            return verdict and self._composes(row)
        self._one_by_one += bool(ties)
        certain = known.settled and not ties and all(known.proves(np.array([row])))
        passed = self._inspects(row)
        if not passed:
            self.whole = self.whole or certain
            known.unlearn(row, ties)
        return passed

    @property
    def _can_pass_over(self) -> bool:
        """Whether a row of values that interfere is not needed: others are composed."""
        spent = self._one_by_one >= max(_SPARE, self.wanted // _SHARE)
        likely = self._passed_over <= _PATIENCE * self._composed + _SPARE
        return spent and likely and self._passed_over < self.spare

    def _composes(self, row: Row) -> bool:
        self._composed += 1
        self.looked = self._composed <= LOOKED_AT or not self._composed % ONE_IN
        if not self.looked:
            return True
        if not (findings := self._inspect(row)):
            return True
        self.whole = True  # the template is no such case
        self.reject(row, findings)
        return False

    def _inspects(self, row: Row) -> bool:
        findings, self.looked = self._inspect(row), True
        if not findings:
            self._pass(row)
        elif not self._blame(row):
            self.reject(row, findings)
        return not findings

    def _compose(self) -> Composition | None:
        """What is known of the values, once enough rows were inspected."""
        if self._known is None and self.inspected > FIRST and self.wanted > FIRST and self._bases:
            self._known = Composition(self.mould)
            for row in self._passed:
                self._known.learn(row)
            self._passed = []
            # If many rows are to follow, few are inspected first that hold all values.
            values = max(map(len, self._known.proven))
            for row in self._known.unproven() if self.wanted >= _WORTH_PROVING * values else ():
                if not self._inspect(row):
                    self._pass(row)
        return self._known

    def _inspect(self, row: Row) -> tuple[Finding, ...]:
        self.inspected += 1
        return inspect(self.mould.dialogue_of(row), world=self.world)

    def _pass(self, row: Row) -> None:
        self._good.update(enumerate(row))
        if len(self._bases) < BASES:
            self._bases.append(row)
        if self._known:
            self._known.learn(row)
        elif self.wanted > FIRST:
            self._passed.append(row)

    def _blame(self, row: Row) -> bool:
        """Reject the values by which a row fell; whether there are any.

        Each value that no row passed with is tried in rows that passed, alone.
        """
        if len(self._bases) < 2:
            return False
        before = len(self.dropped)
        for choice, place in enumerate(row):
            if (choice, place) in self._good:
                continue
            tried = [(*b[:choice], place, *b[choice + 1 :]) for b in self._bases]
            for one in dict.fromkeys(tried):
                findings = self._inspect(one)
                if not findings:
                    self._pass(one)
                    break
            else:
                self.dropped.add((choice, place))
                self.reject(one, findings, always=True)
        return len(self.dropped) > before

    def reject(self, row: Row, findings: Sequence[Finding], always: bool = False) -> None:
        """Keep a rejected row with what was found of it; of rows without a bad value only some."""
        if not always:
            self._told += 1
            if self._told > KEPT:
                return
        template = self.mould.template
        name = f"{template.id}-r{self.first:06d}-{self._kept}"
        self._kept += 1
        record = json.loads(self.mould.sample_text(row, name, self.seed))
        self.rejected.append(
            Rejected.of(
                record, self.stage, tuple(findings), id=name, provenance=record["provenance"]
            )
        )
