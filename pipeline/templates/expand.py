"""The stages `templates` and `expanded`: what is mined and written, then rows of these, and of
scripts of worlds in more states.

Each row is a sample like any other, and is held to the certain checks before it is written. That
takes a millisecond, so where many are wanted several processes share the work.

Rows are spread evenly over templates and scripts. What some of them lack, as they have fewer rows
than they seemed to, the others make in another pass.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count
from operator import methodcaller
from random import Random
from typing import NamedTuple

from toolloom.agents.simulator import environment_of, system_turn
from toolloom.pipeline.apis.search import Finder
from toolloom.pipeline.checks import inspect
from toolloom.pipeline.curation.contamination import contamination_of, read_benchmarks
from toolloom.pipeline.curation.duplicates import compared, hashed
from toolloom.pipeline.environments.environment import (
    Script,
    Unplayable,
    WorldSession,
    moment_of,
    play,
)
from toolloom.pipeline.processes import in_processes
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.stage import Sifted, StageInput
from toolloom.pipeline.store.files import record_line, to_line
from toolloom.pipeline.store.run_folder import batches
from toolloom.pipeline.templates.filling import NUMBER, STAGE, TemplateRenderer
from toolloom.pipeline.templates.mine import SeenValues, mine
from toolloom.pipeline.templates.written import Given, load_templates
from toolloom.pipeline.worlds.library import Worlds
from toolloom.pipeline.worlds.sampler import Sampler
from toolloom.pipeline.worlds.scripts import moves
from toolloom.schemas import (
    Api,
    Dialogue,
    ExpansionPlan,
    Finding,
    JsonObject,
    Need,
    Provenance,
    Query,
    Recipe,
    Rejected,
    Sample,
    Split,
    Template,
    Verdict,
    World,
)
from toolloom.schemas.splits import signature, split_of, split_of_script, stray

ROWS = 500  # of a template that one task makes
NEEDS = 50  # of a world that one task plays
SHARED = 2_000  # rows from which processes share the work
KEPT = 20  # rejected rows of a template that are kept
VAIN = 100  # rows that fall one after the other, after which a template is given up
_PASSES = 20
_LISTED = 2_000  # rows of a template that one task makes again, to find others beside them
_DRAWS = 20  # for each row that is wanted: others fall into other splits
_SLOTTED = f'"{NUMBER}"'.encode()
_NUMBERED = re.compile(r"(.+)-x(\d+)")


def draw_templates(given: StageInput) -> Iterator[Sifted]:
    """Templates of the samples of the wanted splits, but for those in worlds, whose scripts are
    played again; then written ones.

    Reads the samples twice: other samples of a split tell what its values may be. Raises
    TemplateFileError for written templates that do not fit the APIs of the run.
    """
    plan = given.recipe.expand or ExpansionPlan()
    if plan.mine:
        known: dict[Split, SeenValues] = {split: SeenValues() for split in plan.splits}
        for split, sample in _samples(given, plan):
            known[split].add(sample)
        for split, sample in _samples(given, plan):
            made = mine(sample, known[split], split)
            yield made if isinstance(made, Rejected) else record_line(made)
    recipe = given.recipe
    apis = [Api.model_validate(row) for _, row in given.earlier("apis").objects()]
    of = Given(apis, recipe.seed, recipe.languages[0], recipe.queries.distractors, recipe.splits)
    # Read once what is mined was taken.
    yield from map(record_line, load_templates(plan.templates, of))


def _samples(given: StageInput, plan: ExpansionPlan) -> Iterator[tuple[Split, JsonObject]]:
    for _, sample in given.rows.objects():
        query = sample["dialogue"]["query"]
        split = split_of(given.recipe.splits, query)
        if split in plan.splits and not query.get("setting"):
            yield split, sample


def expand(given: StageInput) -> Iterator[Sifted]:
    """Rows of templates and of scripts, as many as the recipe wants, and what was rejected."""
    run = _Run(given)
    rng = rng_for(given.recipe.seed, given.stage, "order")
    order = in_turns([source.group for source in run.sources], rng)
    wanted = run.plan.rows
    for _ in range(_PASSES):
        left = [0 if source.done else source.distinct - source.made for source in run.sources]
        for source, share in zip(run.sources, even(wanted, left, order), strict=True):
            source.share, source.before = share, source.made
        yield from run.rows()
        for source in run.sources:
            source.done |= source.share > 0 and source.made == source.before
            wanted -= source.made - source.before
        if not wanted or not any(source.share for source in run.sources):
            break


def in_turns(groups: Sequence[str], rng: Random) -> list[int]:
    """Places in an order of chance in which the groups take turns."""
    places = list(range(len(groups)))
    rng.shuffle(places)
    turns = defaultdict[str, Iterator[int]](count)
    turn = {place: next(turns[groups[place]]) for place in places}
    return sorted(places, key=turn.__getitem__)  # stable


def even(wanted: int, most: Sequence[int], order: Iterable[int]) -> list[int]:
    """How many of the wanted rows each place gives, which has at most so many: all the same, as
    far as they can, and those that come first in the order one more."""
    found = [0] * len(most)
    lacking = [place for place in order if most[place] > 0]
    while wanted and lacking:
        each, more = divmod(wanted, len(lacking))
        for rank, place in enumerate(lacking):
            share = min(each + (rank < more), most[place] - found[place])
            found[place] += share
            wanted -= share
        lacking = [place for place in lacking if found[place] < most[place]]
    return found


ENDLESS = 2**40  # rows of a script, until it runs dry


@dataclass
class _Source:
    """What rows come of: a template, or a script of a world."""

    id: str
    group: str  # whose sources take turns: what is called, or the world
    distinct: int = ENDLESS
    number: int = 0  # of its next row
    share: int = 0  # of this pass
    before: int = 0  # rows that were made before it
    made: int = 0
    fell: int = 0
    done: bool = False


class _Row(NamedTuple):
    """A row as it was made: of which source, what it calls and says in eight bytes, its line, and
    what the certain checks object to."""

    source: str
    mark: int
    line: bytes
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, source: str, sample: JsonObject, findings: tuple[Finding, ...]) -> _Row:
        mark = _mark(sample["dialogue"]["query"]["intent"], compared(sample))
        return cls(source, mark, to_line(sample), findings)


def _mark(intent: list[JsonObject], words: str) -> int:
    return hashed(f"{signature(intent)}\0{words}")


class _Run:
    """Rows so far: few bytes of each are kept, so that none is said and called twice."""

    def __init__(self, given: StageInput) -> None:
        assert given.recipe.expand
        self._given, self.plan = given, given.recipe.expand
        self._marks: set[int] = set()
        numbers: dict[str, int] = defaultdict(int)
        for _, row in given.rows.objects():
            self._marks.add(_mark(row["dialogue"]["query"]["intent"], compared(row)))
        for _, row in given.known.objects():
            self._marks.add(_mark(row["intent"], row["text"]))
            if found := _NUMBERED.fullmatch(row["id"]):
                numbers[found[1]] = max(numbers[found[1]], int(found[2]) + 1)
        self._templates: list[_Source] = []
        for _, row in given.earlier("templates").objects():
            made = Template.model_validate(row)
            rows = TemplateRenderer(made).distinct - (made.kind == "mined")
            self._templates.append(_Source(made.id, " ".join(made.combination), rows))
        recipe = given.recipe
        apis = [Api.model_validate(row) for _, row in given.earlier("apis").objects()]
        # Each version that is added to draws states of its own.
        drawn = f"{STAGE} {recipe.extend.version if recipe.extend else ''}"
        self._worlds: list[tuple[Sampler, dict[int, _Source]]] = []
        for _, row in given.earlier("worlds").objects():
            world = World.model_validate(row)
            sampler = Sampler(recipe, world, apis, drawn)
            scripts = {
                place: _Source(f"{world.name}-{recipe.seed}-{place:03d}", world.name)
                for place, script in enumerate(sampler.scripts)
                if split_of_script(recipe.splits, world, script.name) in self.plan.splits
            }
            self._worlds.append((sampler, scripts))
        played = chain.from_iterable(scripts.values() for _, scripts in self._worlds)
        self.sources = [*self._templates, *played]
        self._by_id = {source.id: source for source in self.sources}
        for source in self.sources:
            source.number = numbers[source.id]
        self._index = read_benchmarks(given) if recipe.curation.against else None

    def rows(self) -> Iterator[Sifted]:
        """The rows of this pass, those of templates first."""
        tasks = chain(self._fillings(), self._plays())
        processes = None if self.plan.rows >= SHARED else 1
        for rows in in_processes(methodcaller("rows"), tasks, processes):
            # What falls comes last, so that its ids do not depend on where it stood.
            for row in sorted(rows, key=lambda row: bool(row.findings)):
                yield from self._take(row)

    def _fillings(self) -> Iterator[_Filling]:
        for line, source in zip(self._given.earlier("templates"), self._templates, strict=True):
            # One that has few rows lists them again, so that the next ones are among them.
            again = source.before if source.before + source.share <= _LISTED else 0
            parts = -(-source.share // ROWS)
            for part in range(parts):
                self._given.rows.check()
                size = -(-(source.share + again) // parts)
                yield _Filling(self._given.recipe, line, source.before - again, size, part, parts)

    def _plays(self) -> Iterator[Playing]:
        for sampler, sources in self._worlds:
            wanted = {place: source.share for place, source in sources.items() if source.share}
            begin = {place: (source.id, source.number) for place, source in sources.items()}
            for source in sources.values():
                source.number += source.share

            def named(script: int, use: int, begin: dict[int, tuple[str, int]] = begin) -> str:
                source, number = begin[script]
                return f"{source}-x{number + use:06d}"

            needs = sampler.rows(wanted, named) if wanted else ()
            world = sampler.world.model_dump_json()
            for batch in batches(needs, NEEDS):
                self._given.rows.check()
                yield Playing(self._given.recipe, world, batch)

    def _take(self, row: _Row) -> Iterator[Sifted]:
        """A row that is wanted and new, with its number; of those that fall the first few."""
        source, findings = self._by_id[row.source], row.findings
        if not findings:
            if source.made - source.before >= source.share or row.mark in self._marks:
                return
            if self._index:  # such a row falls, also where samples are flagged: there are others
                findings = tuple(contamination_of(json.loads(row.line), self._index))
        if findings:
            if source.fell < KEPT:
                sample = json.loads(row.line)
                name = f"{row.source}-r{source.number:06d}-{source.fell}"
                source.fell += 1
                sample["dialogue"]["query"]["id"] = name
                yield Rejected.of(sample, STAGE, findings, id=name, provenance=sample["provenance"])
            return
        self._marks.add(row.mark)
        source.made += 1
        line = row.line
        if _SLOTTED in line:  # scripts have their numbers
            name = json.dumps(f"{source.id}-x{source.number:06d}", ensure_ascii=False)
            source.number += 1
            line = line.replace(_SLOTTED, name.encode(), 1)
        yield line


class _Filling(NamedTuple):
    """A task: rows of a template, part of those that are drawn after so many others."""

    recipe: Recipe
    line: bytes
    at: int
    size: int
    part: int
    parts: int

    def rows(self) -> list[_Row]:
        template, plan = Template.model_validate_json(self.line), self.recipe.splits
        renderer = TemplateRenderer(template, self.recipe.seed)
        assert self.recipe.expand
        wanted = {*self.recipe.expand.splits} & ({template.split} if template.split else set(Split))
        rng = rng_for(self.recipe.seed, STAGE, template.id, self.at)
        rows, good, vain = list[_Row](), 0, 0
        for row in renderer.drawn(rng, _DRAWS * (self.size + ROWS), self.part, self.parts):
            if good == self.size or vain == VAIN:
                break
            sample = renderer.sample(row)
            query = sample["dialogue"]["query"]
            split = split_of(plan, query)
            if split not in wanted or stray(plan, query, split):
                continue
            findings = inspect(Dialogue.model_validate(sample["dialogue"]))
            if findings:
                vain += 1
            else:
                good, vain = good + 1, 0
            if not findings or len(rows) - good < KEPT:
                rows.append(_Row.of(template.id, sample, findings))
        return rows


class Playing(NamedTuple):
    """A task: needs of scripts of one world, which is given as JSON."""

    recipe: Recipe
    world: str
    needs: list[Need]

    def rows(self) -> list[_Row]:
        return asyncio.run(self.played(_worlds(self.world)))

    async def played(self, worlds: Worlds) -> list[_Row]:
        """The scripts in their states, played as in any run: no model is asked."""
        rows, recipe = list[_Row](), self.recipe
        finder = Finder(recipe.search.model_copy(update={"embeddings": None}))
        for need in self.needs:
            assert need.setting
            asked, machine = Query(**dict(need)), worlds.machine(need.setting)
            messages = [system_turn(asked)]
            session = WorldSession(machine, need.setting, moment_of(asked))
            environment = environment_of(asked, [session], finder.search, recipe.observation_tokens)
            script = Script(moves(worlds.play(asked), machine, asked))
            findings: tuple[Finding, ...] = ()
            try:
                await play(messages, script, script, environment)
            except Unplayable as why:  # no search finds what is to be called
                findings = (Finding(check="play", reason=why.reason, turn=None, detail=why.detail),)
            dialogue = Dialogue(query=asked, messages=tuple(messages))
            source = need.id.rpartition("-x")[0]
            share = Provenance(stage=STAGE, agent="", model="", seed=recipe.seed, parents=(source,))
            sample = Sample(dialogue=dialogue, verdict=Verdict(), provenance=(share,))
            findings = findings or inspect(dialogue, world=machine)
            rows.append(_Row.of(source, sample.model_dump(mode="json"), findings))
        return rows


@lru_cache(maxsize=64)
def _worlds(world: str) -> Worlds:
    return Worlds(known=lambda: [json.loads(world)])
