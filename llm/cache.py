"""The response cache: what an endpoint has answered is never asked again.

A SQLite file, or a PostgreSQL database by its URL. What is asked and written within one turn of
the event loop is one statement and one transaction, and nobody goes on before it is committed.
SQLite runs on the event loop: a commit to its write-ahead log takes tens of microseconds, less
than a hop to a thread, and a response that waits for a thread could be lost to a kill. Other
databases work in a thread, one transaction after the other.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from toolloom.llm.database import (
    AGAIN_SECONDS,
    LOST,
    POSTGRESQL,
    RESPONSES,
    SQLITE,
    TRAITS,
    address_of,
    connect,
    explained,
    passes,
)
from toolloom.schemas import StoreError, Usage

T = TypeVar("T")
Work: TypeAlias = Callable[[sa.Connection, list[Any]], Any]

PATIENCE_SECONDS = 60
LONGEST_WAIT = 1.0
VARIABLE = "TOOLLOOM_CACHE"
KEYS_AT_ONCE = 500  # keys in a statement: SQLite takes 32,766 parameters, other databases fewer
KINDS: dict[str, Any] = {SQLITE: sqlite.insert, POSTGRESQL: postgresql.insert}


def inserts(table: sa.Table) -> dict[str, Any]:
    """For each kind of database an insert that leaves a row with the same key as it is."""
    return {
        # SQLAlchemy drops the number of inserted rows unless asked to keep it.
        name: kind(table)
        .on_conflict_do_nothing()
        .inline()
        .execution_options(preserve_rowcount=True)
        for name, kind in KINDS.items()
    }


WRITES = inserts(RESPONSES)
LEARNS = inserts(TRAITS)
READ_ONE = sa.select(RESPONSES.c.body).where(RESPONSES.c.key == sa.bindparam("wanted"))
READ = sa.select(RESPONSES.c.key, RESPONSES.c.body).where(
    RESPONSES.c.key.in_(sa.bindparam("wanted", expanding=True))
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A response, and what it took to get it. `requests` counts tries; `cost` is US dollars."""

    key: str
    body: str
    kind: str = "chat"  # or embedding, or execution
    endpoint: str = ""
    model: str = ""
    run: str = ""
    stage: str = ""
    agent: str = ""
    requests: int = 1
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


FIELDS = tuple(Entry.__dataclass_fields__)
VALUES = attrgetter(*FIELDS)


def storable(entry: Entry) -> Entry:
    """With what no database takes, NUL and lone surrogates, as escapes: in JSON the same text."""
    body = entry.body
    if "\0" in body:
        body = body.replace("\0", "\\u0000")
    if not body.isascii():
        body = body.encode("utf-8", "backslashreplace").decode()
    return entry if body == entry.body else replace(entry, body=body)


def read(connection: sa.Connection, keys: Sequence[str]) -> dict[str, str]:
    """The bodies of those keys that have one."""
    if len(keys) == 1:  # a third cheaper
        body = connection.execute(READ_ONE, {"wanted": keys[0]}).scalar()
        return {} if body is None else {keys[0]: body}
    bodies: dict[str, str] = {}
    for start in range(0, len(keys), KEYS_AT_ONCE):
        rows = connection.execute(READ, {"wanted": keys[start : start + KEYS_AT_ONCE]})
        bodies.update((row[0], row[1]) for row in rows)
    return bodies


def write(connection: sa.Connection, entries: Sequence[Entry]) -> dict[str, str]:
    """Insert responses. If any was there, the bodies that stand, by key; else nothing."""
    if not entries:
        return {}
    now = time.time()
    # In one order everywhere: so two processes never wait for each other.
    ordered = sorted(entries, key=attrgetter("key"))
    rows = [dict(zip(FIELDS, VALUES(e), strict=True), at=now) for e in ordered]
    inserted = connection.execute(WRITES[connection.dialect.name], rows).rowcount
    return {} if inserted == len(rows) else read(connection, [row["key"] for row in rows])


def spent(connection: sa.Connection, run: str) -> Usage:
    """What a run used, in all processes that worked on it: its responses and its failed tries.

    Of those only the sum of their tokens is kept: it is among the prompts'.
    """
    columns = RESPONSES.c
    answered = sa.select(
        sa.func.coalesce(sa.func.sum(sa.case((columns.requests > 0, 1), else_=0)), 0),
        sa.func.coalesce(sa.func.sum(columns.prompt_tokens), 0),
        sa.func.coalesce(sa.func.sum(columns.cost), 0.0),
        sa.func.coalesce(sa.func.sum(columns.completion_tokens), 0),
    ).where(columns.run == run, columns.kind != "execution")
    lost = sa.select(LOST.c.requests, LOST.c.tokens, LOST.c.cost).where(LOST.c.run == run)
    requests, sent, cost, received = connection.execute(answered).one()
    total = Usage(
        requests=int(requests),
        prompt_tokens=int(sent),
        completion_tokens=int(received),
        cost=float(cost),
    )
    for row in connection.execute(lost):
        total += Usage(requests=row.requests, prompt_tokens=row.tokens, cost=row.cost)
    return total


def lose(connection: sa.Connection, run: str, lost: Usage) -> None:
    """Add to what the run's tries without an answer used."""
    row = {"run": run, "requests": lost.requests, "tokens": lost.tokens, "cost": lost.cost}
    new = KINDS[connection.dialect.name](LOST).values(row)
    sums = {name: LOST.c[name] + new.excluded[name] for name in ("requests", "tokens", "cost")}
    connection.execute(new.on_conflict_do_update(index_elements=["run"], set_=sums))


@dataclass(slots=True)
class Transaction:
    """One transaction on all that was asked of it in one turn, and who waits for what comes."""

    work: Work
    asked: list[Any] = field(default_factory=list)
    waiting: list[asyncio.Future[Any]] = field(default_factory=list)
    done: bool = False
    result: Any = None
    error: Exception | None = None

    def settle(self) -> None:
        for waiter in self.waiting:
            if waiter.done():  # cancelled
                continue
            if self.error is None:
                waiter.set_result(self.result)
            else:
                waiter.set_exception(self.error)


class Cache:
    """Responses by their key, each committed before anyone uses it."""

    def __init__(self, where: str | Path, patience: float = PATIENCE_SECONDS) -> None:
        """`where` is a file's path or a SQLAlchemy URL; a database that another process holds
        is waited for up to `patience` seconds. Raises StoreError.
        """
        self.url = address_of(where)
        self.patience = patience
        self._inline = self.url.get_backend_name() == SQLITE
        with explained(self.url):
            self._engine = connect(self.url, patience)
            self._connection = self._engine.connect()
        self._gathered: dict[Work, Transaction] = {}  # since the last turn
        self._at_work: asyncio.AbstractEventLoop | None = None  # with a turn to come
        self._late: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Commit what is under way, and let go of the database."""
        try:
            if self._at_work:
                await self._ask(lambda *_: None)  # after all that was gathered
        finally:
            self._connection.close()
            self._engine.dispose()

    async def read(self, key: str) -> str | None:
        return (await self.read_all((key,))).get(key)

    async def read_all(self, keys: Sequence[str]) -> dict[str, str]:
        """The bodies of those keys that have one."""
        bodies = await self._ask(read, keys)
        return {key: bodies[key] for key in keys if key in bodies}

    async def write(self, entry: Entry) -> str:
        """Commit a response. Another process may have been faster: its response stands."""
        return (await self.write_all((entry,)))[0]

    async def write_all(self, entries: Sequence[Entry]) -> list[str]:
        """Commit responses in one transaction; the bodies that stand."""
        entries = [storable(entry) for entry in entries]
        stands = await self._ask(write, entries)
        return [stands.get(entry.key, entry.body) for entry in entries]

    async def entries(self, kind: str = "") -> list[Entry]:
        """All responses, or those of a kind, in order of arrival: what other machines are told."""
        asked = sa.select(*(RESPONSES.c[name] for name in FIELDS)).order_by(RESPONSES.c.id)
        if kind:
            asked = asked.where(RESPONSES.c.kind == kind)
        return await self.within(
            lambda connection: [Entry(*row) for row in connection.execute(asked)]
        )

    async def within(self, work: Callable[[sa.Connection], T]) -> T:
        """What a function gives, called in one transaction; called again if it did not get in."""

        def alone(connection: sa.Connection, _: list[Any]) -> T:
            if self._inline:  # in SQLite who reads before he writes must begin as a writer
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            return work(connection)

        result: T = await self._ask(alone)
        return result

    async def spent(self, run: str) -> Usage:
        sums: Usage = await self._ask(lambda connection, _: spent(connection, run))
        return sums

    async def lose(self, run: str, lost: Usage) -> None:
        """Book what a try without an answer used, or may have."""
        await self.within(lambda connection: lose(connection, run, lost))

    def traits(self, endpoint: str, model: str) -> dict[str, str]:
        """All that is known of an endpoint's model."""
        asked = sa.select(TRAITS.c.name, TRAITS.c.value).where(
            TRAITS.c.endpoint == endpoint, TRAITS.c.model == model
        )
        with explained(self.url), self._engine.begin() as connection:
            return {row[0]: row[1] for row in connection.execute(asked)}

    def learn(self, endpoint: str, model: str, name: str, value: str) -> None:
        """Remember one trait; what another process learnt first stays.

        While another process holds the database nothing is remembered: a later run asks again.
        """
        row = {"endpoint": endpoint, "model": model, "name": name, "value": value}
        with explained(self.url), self._engine.connect() as connection:
            try:
                connection.execute(LEARNS[connection.dialect.name], row)
                connection.commit()
            except SQLAlchemyError as error:
                if not passes(error):
                    raise

    async def _ask(self, work: Work, asked: Sequence[Any] = ()) -> Any:
        """What the work comes to on all that is asked of it in this turn."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        transaction = self._gathered.setdefault(work, Transaction(work))
        transaction.asked += asked
        transaction.waiting.append(waiter)
        if self._at_work is not loop:
            self._at_work = loop
            loop.call_soon(self._turn)
        return await waiter

    def _turn(self) -> None:
        """Do all that was gathered: here if that goes at once, else in a task."""
        gathered, self._gathered = self._gathered, {}
        jobs = sorted(gathered.values(), key=lambda job: job.work is read)  # after what is written
        if self._inline:
            jobs = _settle(self._try(jobs))
        if jobs:
            self._late = asyncio.create_task(self._persist(jobs))
        else:
            self._at_work = None

    async def _persist(self, jobs: list[Transaction]) -> None:
        """Do jobs off the event loop, or as soon as another process lets go of the database."""
        until, wait = time.monotonic() + self.patience, AGAIN_SECONDS
        if self._inline:
            await asyncio.sleep(wait)
        while jobs:
            last = time.monotonic() > until
            if self._inline:
                jobs = _settle(self._try(jobs, last))
            else:
                jobs = _settle(await asyncio.to_thread(self._try, jobs, last))
            if jobs:
                await asyncio.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT)
        self._turn()

    def _try(self, jobs: list[Transaction], last: bool = False) -> list[Transaction]:
        """The jobs with what came of them; those that may succeed in a moment are not `done`."""
        for job in jobs:
            try:
                with explained(self.url), self._connection.begin():
                    job.result = job.work(self._connection, job.asked)
                job.done, job.error = True, None
            except StoreError as error:
                cause = error.__cause__
                job.done = last or cause is None or not passes(cause)
                job.error = error
            except Exception as error:  # noqa: BLE001 - of the caller's function: the caller's
                job.done, job.error = True, error
        return jobs


def _settle(jobs: list[Transaction]) -> list[Transaction]:
    """Wake who waits for a job that is done; the other jobs."""
    for job in jobs:
        if job.done:
            job.settle()
    return [job for job in jobs if not job.done]


def address(outputs: Path, given: str | None = None) -> str | Path:
    """Where the cache is: as given, else in the environment's TOOLLOOM_CACHE, else in outputs."""
    return given or os.environ.get(VARIABLE) or outputs / "cache.sqlite"
