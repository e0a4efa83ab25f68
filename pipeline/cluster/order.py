"""What goes to a worker of a cluster and what comes back."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol, TypeAlias

from toolloom.llm.gateway import Pasts
from toolloom.llm.shared import Stats
from toolloom.pipeline.shard import Part
from toolloom.pipeline.stage import Stage
from toolloom.schemas import Budget, Recipe, Record, Usage

NOTHING = Usage()


class WorkerLost(Exception):
    """The worker that had an order is no more, and so is what it made."""


@dataclass(frozen=True, eq=False)
class Order:
    """A shard of a stage, for one worker. What may hold a secret, or is long, is not shown."""

    id: str
    driver: str
    run: str
    shard: int
    stage: Stage = field(repr=False)
    records: Sequence[Any] = field(repr=False)
    reads: type[Record] | None = field(repr=False)  # what the records are, if they are lines
    recipe: Recipe = field(repr=False)  # with the limits of this worker's share
    cache: str = field(repr=False)
    budget: Budget = field(repr=False)
    pasts: Pasts = field(repr=False)
    code: str = field(repr=False)

    def entering(self) -> list[Record]:
        """The records, as if off the disk where they are lines."""
        if self.reads is None:
            return list(self.records)
        return [self.reads.model_validate(json.loads(line)) for line in self.records]

    def __dask_tokenize__(self) -> str:
        """Its name, so that Dask does not read all of it for one."""
        return self.id


@dataclass(frozen=True)
class Done:
    """What became of an order. No `part`: its worker died, it was begun before, or
    `short` found no room."""

    part: Part | None = None
    stats: Stats = field(default_factory=Stats)
    used: Usage = NOTHING
    pasts: Pasts = field(default_factory=dict)
    short: Usage | None = None  # a request that did not fit into what was allotted
    lost: str = ""  # how the worker died, in the engine's words


class Cluster(Protocol):
    """Machines that work on orders, one in each slot at a time."""

    def slots(self) -> int:
        """How many orders can be worked on at once."""

    async def work(self, order: Order) -> Done:
        """Have it done. Raises what the worker raised, WorkerLost, and ClusterError."""


Engine: TypeAlias = Callable[[], AbstractAsyncContextManager[Cluster]]
"""Starts a cluster, or finds one."""


@cache
def code() -> str:
    """What decides a dataset's bytes: the code, as its manifest names it, and the Python."""
    from toolloom.pipeline.dataset.publish import code_hash

    return f"{code_hash()} on Python {sys.version_info.major}.{sys.version_info.minor}"
