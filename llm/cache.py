"""The response cache: what an endpoint has answered is never asked again.

A SQLite file. What is asked of it within one turn of the event loop is one transaction, and nobody
goes on before that is committed. It runs on the event loop: a commit to the write-ahead log takes
tens of microseconds, less than a hop to a thread, and a response that waits for a thread could be
lost to a kill.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from rich.filesize import decimal

from toolloom.pipeline.render.section import Section, dollars
from toolloom.schemas import NothingFound, StoreError, Usage

T = TypeVar("T")
Work: TypeAlias = Callable[[sqlite3.Connection], T]

PATIENCE_SECONDS = 60
HELD_SECONDS = 0.1  # how long SQLite may hold up the event loop for a file that is held
AGAIN_SECONDS, LONGEST_WAIT = 0.05, 1.0  # between looks whether it still is
KEYS_AT_ONCE = 500  # keys in a statement: SQLite takes 32,766 parameters
# The log is moved into the file when it has so many pages (64 MB). That waits for the disk: at the
# usual 1,000 pages it costs as much as all else that a write does.
LOG_PAGES = 16_000
LAYOUT = """
CREATE TABLE IF NOT EXISTS responses (
    id INTEGER PRIMARY KEY,  -- the order of arrival
    key TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    model TEXT NOT NULL,
    run TEXT NOT NULL,
    stage TEXT NOT NULL,
    agent TEXT NOT NULL,
    requests INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost REAL NOT NULL,
    at REAL NOT NULL,  -- Unix time
    body TEXT NOT NULL  -- last, so that what is counted is read without it
);
CREATE INDEX IF NOT EXISTS responses_by_run ON responses (run);
-- What was found out about an endpoint's model, so that no later run probes again.
CREATE TABLE IF NOT EXISTS traits (
    endpoint TEXT, model TEXT, name TEXT, value TEXT NOT NULL, PRIMARY KEY (endpoint, model, name)
);
-- What tries without an answer used, added up for each run: they count against its budget.
CREATE TABLE IF NOT EXISTS lost (
    run TEXT PRIMARY KEY, requests INTEGER NOT NULL, tokens INTEGER NOT NULL, cost REAL NOT NULL
);
-- Batches that were sent to an endpoint, and the requests in them.
CREATE TABLE IF NOT EXISTS batches (
    id TEXT PRIMARY KEY, endpoint TEXT NOT NULL, model TEXT NOT NULL, remote TEXT,
    state TEXT NOT NULL, at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS batch_requests (
    key TEXT PRIMARY KEY, batch TEXT NOT NULL, run TEXT NOT NULL, tries INTEGER NOT NULL,
    sent INTEGER NOT NULL, received INTEGER NOT NULL, cost REAL NOT NULL  -- at most
);
CREATE INDEX IF NOT EXISTS batch_requests_by_batch ON batch_requests (batch);
"""


class Entry(NamedTuple):
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


COLUMNS = ", ".join(Entry._fields)
MARKS = ", ".join("?" * len(Entry._fields))
WRITE = f"INSERT INTO responses ({COLUMNS}, at) VALUES ({MARKS}, ?) ON CONFLICT DO NOTHING"


def storable(body: str) -> str:
    """With what no database takes, NUL and lone surrogates, as escapes: in JSON the same text."""
    body = body.replace("\0", "\\u0000")
    return body if body.isascii() else body.encode("utf-8", "backslashreplace").decode()


def read(connection: sqlite3.Connection, keys: Sequence[str]) -> dict[str, str]:
    """The bodies of those keys that have one."""
    bodies: dict[str, str] = {}
    for start in range(0, len(keys), KEYS_AT_ONCE):
        some = keys[start : start + KEYS_AT_ONCE]
        marks = ", ".join("?" * len(some))
        bodies |= connection.execute(
            f"SELECT key, body FROM responses WHERE key IN ({marks})", some
        )
    return bodies


def lose(connection: sqlite3.Connection, run: str, lost: Usage) -> None:
    """Add to what the run's tries without an answer used."""
    connection.execute(
        "INSERT INTO lost VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET requests = requests"
        " + excluded.requests, tokens = tokens + excluded.tokens, cost = cost + excluded.cost",
        (run, lost.requests, lost.tokens, lost.cost),
    )


class Cache:
    """Responses by their key, each committed before anyone uses it."""

    def __init__(
        self, where: str | Path, patience: float = PATIENCE_SECONDS, *, new: bool = True
    ) -> None:
        """`where` is a file's path; a file that another process holds is waited for up to
        `patience` seconds. `new`: make one where there is none. Raises StoreError, NothingFound."""
        self.where = str(where)
        self.patience = patience
        if "://" in self.where:
            scheme = self.where.partition("://")[0]  # the rest may hold a password
            raise StoreError(
                f"The response cache cannot be at an address ({scheme}://…): name a file's path."
            )
        if not new and not Path(where).is_file():
            raise NothingFound(
                f"There is no response cache {where}: a run makes one. Name another folder with "
                "--outputs, or a cache with --cache."
            )
        self._jobs: list[tuple[Work[Any], asyncio.Future[Any]]] = []  # since the last turn
        self._turning: asyncio.AbstractEventLoop | None = None  # with a turn to come
        self._held_since = self._wait = 0.0
        with self._explained():
            Path(where).parent.mkdir(parents=True, exist_ok=True)
            self._connection = self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.where, HELD_SECONDS, isolation_level=None, check_same_thread=False
        )
        until = time.monotonic() + self.patience
        while True:
            try:
                # A write-ahead log: readers never wait, and a killed process loses nothing that
                # it committed.
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
                connection.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
                connection.executescript(f"BEGIN IMMEDIATE; {LAYOUT} COMMIT;")
                connection.execute(f"SELECT {COLUMNS} FROM responses LIMIT 0")
                return connection
            except sqlite3.Error as error:
                if not _is_held(error) or time.monotonic() > until:
                    connection.close()
                    raise
            time.sleep(AGAIN_SECONDS)

    async def close(self) -> None:
        """Commit what is under way, and let go of the file."""
        try:
            if self._turning:
                await self.within(lambda _: None)  # after all that was asked
        finally:
            self._connection.close()

    async def read(self, key: str) -> str | None:
        return (await self.read_all((key,))).get(key)

    async def read_all(self, keys: Sequence[str]) -> dict[str, str]:
        """The bodies of those keys that have one."""
        return await self.within(lambda connection: read(connection, keys))

    async def write(self, entry: Entry) -> str:
        """Commit a response. Another process may have been faster: its response stands."""
        return (await self.write_all((entry,)))[0]

    async def write_all(self, entries: Sequence[Entry]) -> list[str]:
        """Commit responses in one transaction; the bodies that stand."""
        kept = [entry._replace(body=storable(entry.body)) for entry in entries]

        def write(connection: sqlite3.Connection) -> dict[str, str]:
            now = time.time()
            written = connection.executemany(WRITE, [(*entry, now) for entry in kept]).rowcount
            return {} if written == len(kept) else read(connection, [entry.key for entry in kept])

        stands = await self.within(write) if kept else {}
        return [stands.get(entry.key, entry.body) for entry in kept]

    async def entries(self, kind: str = "") -> list[Entry]:
        """All responses, or those of a kind, in order of arrival: what other machines are told."""
        asked = f"SELECT {COLUMNS} FROM responses WHERE ? IN ('', kind) ORDER BY id"
        return await self.within(
            lambda connection: [Entry(*row) for row in connection.execute(asked, (kind,))]
        )

    async def spent(self, run: str) -> Usage:
        """What a run used, in all processes that worked on it: its responses, its failed tries, and
        the most that its batches under way can use. Of tries the sum of tokens is the prompts'."""
        sums = (
            "SELECT coalesce(sum(requests > 0), 0), coalesce(sum(prompt_tokens), 0),"
            " coalesce(sum(completion_tokens), 0), coalesce(sum(cost), 0.0)"
            " FROM responses WHERE run = :run AND kind != 'execution'"
            " UNION ALL SELECT requests, tokens, 0, cost FROM lost WHERE run = :run"
            " UNION ALL SELECT 1, sent, received, cost FROM batch_requests AS b"
            " WHERE run = :run AND NOT EXISTS (SELECT 1 FROM responses WHERE responses.key = b.key)"
        )

        def total(connection: sqlite3.Connection) -> Usage:
            used = Usage()
            for requests, sent, received, cost in connection.execute(sums, {"run": run}):
                numbers = {"prompt_tokens": sent, "completion_tokens": received, "cost": cost}
                used += Usage(requests=requests, **numbers)
            return used

        return await self.within(total)

    async def lose(self, run: str, lost: Usage) -> None:
        """Book what a try without an answer used, or may have."""
        await self.within(lambda connection: lose(connection, run, lost))

    async def traits(self, endpoint: str, model: str) -> dict[str, str]:
        """All that is known of an endpoint's model."""
        asked = "SELECT name, value FROM traits WHERE endpoint = ? AND model = ?"
        return await self.within(lambda c: dict(c.execute(asked, (endpoint, model)).fetchall()))

    async def learn(self, endpoint: str, model: str, name: str, value: str) -> None:
        """Remember one trait; what another process learnt first stays."""
        row = "INSERT INTO traits VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        await self.within(lambda c: c.execute(row, (endpoint, model, name, value)))

    async def within(self, work: Work[T]) -> T:
        """What a function gives within this turn's transaction, once that is committed.

        Raises StoreError. The function is called again if another process held the file.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._jobs.append((work, done))
        if self._turning is not loop:
            self._turning = loop
            loop.call_soon(self._turn)
        return await done

    def _turn(self) -> None:
        """One transaction of all that was asked for; later, while another process holds the file.

        Of work that fails for a reason of its own nothing is kept, nor of what came with it.
        """
        jobs, loop, results = self._jobs, self._turning, []
        failure: Exception | None = None
        assert loop is not None
        try:
            with self._explained():
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    results = [work(self._connection) for work, _ in jobs]
                    self._connection.execute("COMMIT")
                except BaseException:
                    self._connection.rollback()
                    raise
        except StoreError as error:
            now = time.monotonic()
            self._held_since = self._held_since or now
            if _is_held(error.__cause__) and now - self._held_since < self.patience:
                self._wait = min(2 * self._wait or AGAIN_SECONDS, LONGEST_WAIT)
                loop.call_later(self._wait, self._turn)
                return
            failure = error
        except Exception as error:  # noqa: BLE001 - of the caller's function: the caller's
            failure = error
        self._jobs, self._turning, self._held_since, self._wait = [], None, 0.0, 0.0
        for number, (_, done) in enumerate(jobs):
            if not done.done():  # else cancelled
                done.set_exception(failure) if failure else done.set_result(results[number])

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of the database are told as ones that say what to do."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            advice = "Check that it can be reached and written and is a toolloom cache, and"
            code, number = getattr(error, "sqlite_errorcode", 0), getattr(error, "errno", 0)
            if _is_held(error):
                advice = "Another process holds it: wait, or end that process, and"
            elif code == sqlite3.SQLITE_FULL or number in (errno.ENOSPC, errno.EDQUOT):
                advice = "Make room and"
            why = " ".join(str(error).split()).rstrip(".")
            raise StoreError(
                f"The response cache {self.where} cannot be used: {why}. {advice} run the same "
                "command again: what is in the cache is not asked again."
            ) from error

    def sections(self) -> list[Section]:
        """What is in it: a line with the sums, and tables by model and by run."""
        with self._explained():
            count, room, oldest, newest = self._connection.execute(
                "SELECT count(*), coalesce(sum(length(CAST(body AS BLOB))), 0), min(at), max(at)"
                " FROM responses"
            ).fetchone()
            head = f"{self.where}: {count:,} responses, {decimal(room)}"
            if oldest is None:
                return [Section(note=f"{head}.")]
            days = [f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}" for at in (oldest, newest)]
            tables = [self._by("model", "endpoint", "kind"), self._by("run")]
        return [Section(note=f"{head}, from {' to '.join(days)}."), *tables]

    def _by(self, *names: str) -> Section:
        """What the responses of each group took, the groups with the most first."""
        sums = ("requests", "prompt_tokens", "cached_tokens", "completion_tokens", "cost")
        rows = self._connection.execute(
            f"SELECT {', '.join(names)}, count(*), sum(length(CAST(body AS BLOB))),"
            f" {', '.join(f'sum({name})' for name in sums)} FROM responses"
            f" GROUP BY {', '.join(names)} ORDER BY count(*) DESC, {', '.join(names)}"
        ).fetchall()
        priced = any(row[-1] > 0 for row in rows)
        head = [*names, "responses", "size", "requests", "tokens sent", "cached", "received"]
        shown = []
        for row in rows:
            count, room, *numbers, cost = row[len(names) :]
            labels = (name or "–" for name in row[: len(names)])
            shown.append((*labels, count, decimal(room), *numbers, *([dollars(cost)] * priced)))
        return Section(head=[*head, *(["cost"] * priced)], rows=shown)

    def prune(self, conditions: dict[str, Any], dry: bool = False) -> str:
        """Remove the responses that meet all conditions, such as {"model = ?": "m"}; a sentence on
        what was removed, or would be."""
        where = "FROM responses WHERE " + " AND ".join(conditions or ("1",))
        values = list(conditions.values())
        count, room, cost = self._connection.execute(
            f"SELECT count(*), coalesce(sum(length(CAST(body AS BLOB))), 0), total(cost) {where}",
            values,
        ).fetchone()
        if not count:
            return f"{self.where}: no response is like that; nothing was removed."
        paid = f", which cost {dollars(cost)}" if cost else ""
        what = f"{self.where}: {count:,} responses ({decimal(room)}){paid}"
        if dry:
            return f"{what}, would be removed; nothing was."
        with self._explained():
            self._connection.execute(f"DELETE {where}", values)
        try:
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError:
            room = "their room is used for later responses, as another process has the cache open"
            return f"{what}, removed; {room}."
        return f"{what}, removed; the disk has the room back."


def _is_held(error: BaseException | None) -> bool:
    """Whether another process holds the file."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def address(outputs: Path, given: str | None = None) -> str | Path:
    """Where the cache is: as given, else in the environment's TOOLLOOM_CACHE, else in outputs."""
    return given or os.environ.get("TOOLLOOM_CACHE") or outputs / "cache.sqlite"
