"""What a run begins with that makes a split of a version anew, or draws more queries for it.

The version's APIs are put into the run's folder as finished stages, so that only the queries of
the split are drawn and paid for. Beside them are

    <run>/known.jsonl    the rows that stay, which no new row may repeat
    <run>/needs.jsonl    with `only_rejected`: the needs that are tried again
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolloom.pipeline.curation.rows import instruction
from toolloom.pipeline.dataset.build import TRIED_AGAIN
from toolloom.pipeline.stage import Stage
from toolloom.pipeline.store.files import read_records, record_line, to_line, write_lines
from toolloom.pipeline.store.run import QUERIES, RunFolder, begun_with
from toolloom.pipeline.store.stage_files import Use
from toolloom.pipeline.store.version import Version, find_version
from toolloom.schemas import (
    Api,
    JsonObject,
    Need,
    PublishError,
    Recipe,
    Regeneration,
    StoreError,
)
from toolloom.schemas.split_plan import need_of


@dataclass(frozen=True)
class Basis:
    """The version that a run builds on."""

    version: Version
    wanted: Regeneration
    seed: int

    @classmethod
    def of(cls, recipe: Recipe, outputs: Path) -> Basis | None:
        """None for a recipe that is for no split. Raises NothingFound and PublishError."""
        wanted = recipe.regenerate
        if wanted is None:
            return None
        version = find_version(outputs, wanted.version)
        if version.manifest["content"] != wanted.content:
            raise PublishError(
                f"{version.path}: is not the version that the recipe was made for: its content "
                "is another. Regenerate the split from the version that is there."
            )
        return cls(version, wanted, recipe.seed)

    def stages(self, folder: RunFolder, stages: Sequence[Stage]) -> tuple[Stage, ...]:
        """The stages, of which `queries` takes the needs that are tried again, if any are."""
        if not self.wanted.only_rejected:
            return tuple(stages)
        path = folder.path / "needs.jsonl"
        count = sum(1 for _ in fallen(self.version, self.wanted.split))

        def again(stage: Stage) -> Stage:
            return dataclasses.replace(
                stage, draw=lambda *_: read_records(path, Need), expects=lambda *_: count
            )

        return tuple(again(stage) if stage.name == QUERIES else stage for stage in stages)

    def gives(self, stage: Stage) -> bool:
        """Whether all rows of a stage are published already: no stage that runs has such rows."""
        return False

    def prepare(self, folder: RunFolder, stages: Sequence[Stage]) -> None:
        """Write what the run begins with, as far as it is not there; the run is locked.

        A version never changes, so whoever goes on after a kill writes the same.
        """
        given = begun_with(True, [stage.name for stage in stages])
        for stage in stages[: len(given)]:
            files = folder.stage(stage.name)
            if files.mark is None:
                lines = self._apis() if stage.writes is Api else ()
                files.write_shard(0, lines, (), Use())
                files.finish(1, stage.writes, None)
        for name, lines in (("known.jsonl", self._known()), ("needs.jsonl", self._needs())):
            if not (folder.path / name).exists():
                write_lines(folder.path / name, lines)

    def _apis(self) -> Iterator[bytes]:
        for split in self.version.splits("apis"):
            for row in self.version.rows("apis", split):
                yield to_line(self.version.parsed(row, "record"))

    def _known(self) -> Iterator[bytes]:
        """The rows that stay: of the other splits, and of this one if it keeps its own."""
        stays = self.wanted.only_rejected or self.wanted.keep
        for split in self.version.splits("samples"):
            if split == self.wanted.split and not stays:
                continue
            for row in self.version.rows("samples", split):
                yield known_line(self.version, row)

    def _needs(self) -> Iterator[bytes]:
        """The needs that are tried again, under new ids: other ids have other answers."""
        split = self.wanted.split
        if not self.wanted.only_rejected:
            return
        begin = f"{split}-{self.seed}-"
        rows = (row for c in ("samples", "rejected") for row in self.version.rows(c, split))
        taken = [row["id"].removeprefix(begin) for row in rows if row["id"].startswith(begin)]
        first = 1 + max((int(number) for number in taken if number.isdigit()), default=-1)
        for number, need in enumerate(fallen(self.version, split), first):
            yield record_line(_again(need, f"{begin}{number:06d}", self.version))


def known_line(version: Version, row: JsonObject) -> bytes:
    """A row of `samples` as the stages that compare rows know it."""
    dialogue = version.parsed(row, "dialogue")
    query = dialogue["query"]
    names = ("api", "arguments", "references")
    intent = [{name: one[name] for name in names} for one in query["intent"]]
    told = {name: query[name] for name in ("id", "ability", "scenario")}
    return to_line({**told, "text": instruction({"dialogue": dialogue}), "intent": intent})


def fallen(version: Version, split: str) -> Iterator[JsonObject]:
    """The needs of a split that fell on their way to a sample; not those sorted out after."""
    for row in version.rows("rejected", split):
        if row["stage"] in TRIED_AGAIN:
            yield need_of(version.parsed(row, "record"))


def _again(need: JsonObject, name: str, version: Version) -> Need:
    fields = {key: need[key] for key in Need.model_fields if key in need}
    try:
        return Need.model_validate({**fields, "id": name})
    except ValueError as error:
        raise StoreError(
            f"{version.path}: a rejected record, {need.get('id')}, holds no query that this "
            f"version of toolloom reads ({str(error).splitlines()[0]})."
        ) from error
