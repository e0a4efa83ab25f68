"""The database of the response cache: its tables, how it is opened, and what is held in it.

Only PostgreSQL holds names, for processes that share no disk. There, once a run was on a cluster,
are also the orders that its workers have begun, beside the name that shows that its driver lives.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from toolloom.llm.log import note
from toolloom.schemas import Busy, StoreError

SQLITE, POSTGRESQL = "sqlite", "postgresql"
HELD_SECONDS = 0.1  # how long SQLite may hold up the event loop for a locked database
CONNECT_SECONDS = "10"
# SQLite's log is moved into its file when it has so many pages (64 MB). That waits for the disk:
# at the usual 1,000 pages it costs as much as all else that a write does.
LOG_PAGES = 16_000
AGAIN_SECONDS = 0.05
OPENINGS = 5  # tries, where several processes make the same tables at once
TRANSIENT = {"40001", "40P01", "55P03", "57P01", "57P02", "57P03"}  # SQLSTATE of PostgreSQL
DISK_FULL = "53100"
DRIVERS = {SQLITE: SQLITE, POSTGRESQL: "postgresql+psycopg", "postgres": "postgresql+psycopg"}
WRITE_IT = (
    "Give the path of a file, or postgresql://user:password@host:5432/database, with %-escapes "
    "in the password."
)

METADATA = sa.MetaData()


def _count(name: str, default: int = 0) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False, server_default=str(default))


def _label(name: str, default: str = "") -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default=default)


RESPONSES = sa.Table(
    "responses",
    METADATA,
    # Order of arrival. A 64-bit number everywhere; SQLite needs the plain name for that.
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, SQLITE), primary_key=True),
    sa.Column("key", sa.String(64), nullable=False, unique=True),
    _label("kind", "chat"),
    _label("endpoint"),
    _label("model"),
    _label("run"),
    _label("stage"),
    _label("agent"),
    _count("requests", 1),
    _count("prompt_tokens"),
    _count("cached_tokens"),
    _count("completion_tokens"),
    sa.Column("cost", sa.Double, nullable=False, server_default="0"),
    sa.Column("at", sa.Double, nullable=False, server_default="0"),  # Unix time
    # Last, so that what is counted is read without it.
    sa.Column("body", sa.Text, nullable=False),
)
BY_RUN = sa.Index("responses_by_run", RESPONSES.c.run)
# What was found out about an endpoint's model, so that no later run probes again.
TRAITS = sa.Table(
    "traits",
    METADATA,
    sa.Column("endpoint", sa.String(512), primary_key=True),
    sa.Column("model", sa.String(256), primary_key=True),
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.String(64), nullable=False),
)
# What tries without an answer used, added up for each run: they count against its budget.
LOST = sa.Table(
    "lost",
    METADATA,
    sa.Column("run", sa.String(128), primary_key=True),
    sa.Column("requests", sa.BigInteger, nullable=False),
    sa.Column("tokens", sa.BigInteger, nullable=False),
    sa.Column("cost", sa.Double, nullable=False),
)
# Batches that were sent to an endpoint, and the requests in them.
BATCHES = sa.Table(
    "batches",
    METADATA,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("endpoint", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("remote", sa.Text),
    sa.Column("state", sa.String(32), nullable=False),
    sa.Column("at", sa.Double, nullable=False),
)
BATCHED = sa.Table(
    "batched",
    METADATA,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("batch", sa.String(64), nullable=False, index=True),
    sa.Column("tries", sa.Integer, nullable=False),
    _label("run"),
    _count("sent"),  # tokens, at most
    _count("received"),
)


def address_of(where: str | Path) -> sa.URL:
    """The URL of a SQLite file's path, or of a URL. Raises StoreError."""
    if "://" not in str(where):
        return sa.URL.create(SQLITE, database=str(where))
    try:
        url = sa.make_url(str(where))
    except (SQLAlchemyError, ValueError):
        # The text may hold a password, and SQLAlchemy's message the text.
        raise StoreError(f"The response cache's URL cannot be read. {WRITE_IT}") from None
    kind = url.drivername.partition("+")[0]
    if kind not in DRIVERS:
        raise StoreError(f"The response cache cannot be in {kind!r}. {WRITE_IT}")
    return url.set(drivername=DRIVERS[kind])


def shown(url: sa.URL) -> str:
    """An address to print: without its password, and without options, which may hold one."""
    if url.get_backend_name() == SQLITE:
        return url.database or "in memory"
    return url.set(query={}).render_as_string(hide_password=True)


def connect(url: sa.URL, patience: float) -> sa.Engine:
    """An engine on a database whose tables are there and complete. Raises SQLAlchemyError."""
    if url.get_backend_name() == SQLITE:
        if url.database and url.database != ":memory:":
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        engine = sa.create_engine(url, connect_args={"timeout": HELD_SECONDS})
        sa.event.listen(engine, "connect", _tune)
    else:
        engine = _postgresql(url)
    try:
        _prepare(engine, patience)
    except BaseException:
        engine.dispose()
        raise
    return engine


def held(error: BaseException) -> bool:
    """Whether another process holds a SQLite file."""
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def passes(error: BaseException) -> bool:
    """Whether the same may well succeed in a moment: the database is held, or starts again."""
    if not isinstance(error, DBAPIError) or hasattr(error.orig, "sqlite_errorcode"):
        return held(error)
    state = getattr(error.orig, "sqlstate", None)
    unreachable = isinstance(error, OperationalError) and state is None
    return error.connection_invalidated or unreachable or state in TRANSIENT


def full(error: BaseException) -> bool:
    """Whether the disk has no room."""
    if isinstance(error, OSError):
        return error.errno in {errno.ENOSPC, errno.EDQUOT}
    original = getattr(error, "orig", None)
    code = getattr(original, "sqlite_errorcode", 0)
    return code == sqlite3.SQLITE_FULL or getattr(original, "sqlstate", None) == DISK_FULL


@contextmanager
def explained(url: sa.URL) -> Iterator[None]:
    """Errors of a database are told as ones that say what to do."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        raise explain(url, error) from error


def explain(url: sa.URL, error: Exception) -> StoreError:
    """An error of a database as one that says what to do."""
    if held(error):
        advice = "Another process holds it: wait, or end that process, and"
    elif full(error):
        advice = "Make room and"
    else:
        advice = "Check that it can be reached and written and is a toolloom cache, and"
    why = " ".join(str(getattr(error, "orig", None) or error).split()).rstrip(".")
    return StoreError(
        f"The response cache {shown(url)} cannot be used: {why}. {advice} run the same command "
        "again: what is in the cache is not asked again."
    )


def _tune(connection: Any, _record: Any) -> None:
    """A write-ahead log: readers never wait, and a killed process loses nothing it committed."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
    cursor.close()


def _prepare(engine: sa.Engine, patience: float) -> None:
    """Make what is missing. Another process may be doing the same."""
    until, tries = time.monotonic() + patience, OPENINGS
    while True:
        try:
            with engine.begin() as connection:
                for table in METADATA.sorted_tables:
                    connection.execute(CreateTable(table, if_not_exists=True))
                _add_columns(connection, BATCHED)
                # Responses of an earlier version are as old as the day they were taken over.
                if "at" in _add_columns(connection, RESPONSES):
                    connection.execute(sa.update(RESPONSES).values(at=time.time()))
                for table in METADATA.sorted_tables:
                    for index in sorted(table.indexes, key=lambda one: str(one.name)):
                        connection.execute(CreateIndex(index, if_not_exists=True))
            return
        except DBAPIError as error:
            tries -= 0 if held(error) else 1
            if not (time.monotonic() < until if held(error) else tries and _raced(error)):
                raise
        time.sleep(AGAIN_SECONDS)


def _raced(error: DBAPIError) -> bool:
    """Whether it may be that another process made the same table or column just before."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    state = getattr(error.orig, "sqlstate", None)  # none: there is no connection
    return state is not None if code is None else code == sqlite3.SQLITE_ERROR


def _add_columns(connection: sa.Connection, table: sa.Table) -> list[str]:
    """Give a table the columns it lacks; their names."""
    present = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
    missing = [column for column in table.columns if column.name not in present]
    for column in missing:
        added = CreateColumn(column).compile(dialect=connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {added}")
    return [column.name for column in missing]


NAMESPACE = "toolloom/"
# The server lets go of what a machine held that is gone when it takes the connection for dead:
# after 45 s, not after the two hours that systems usually wait.
ALIVE = {"tcp_keepalives_idle": 20, "tcp_keepalives_interval": 5, "tcp_keepalives_count": 5}


def key_of(name: str) -> int:
    """A name as PostgreSQL's locks have it: a signed 64-bit number."""
    hashed = hashlib.blake2b(f"{NAMESPACE}{name}".encode(), digest_size=8).digest()
    return int.from_bytes(hashed, "big", signed=True)


def is_held(name: str) -> sa.ColumnElement[bool]:
    """Whether some connection holds a name, told without holding it for a moment."""
    high, low = divmod(key_of(name) % 2**64, 2**32)
    # objsubid is 1 for locks with one 64-bit key.
    return sa.literal_column(
        "EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
        f" AND CAST(classid AS bigint) = {high} AND CAST(objid AS bigint) = {low}"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))",
        sa.Boolean(),
    )


class Hold:
    """Names that a connection of its own holds: the server lets go when the process ends."""

    def __init__(self, where: str | Path, names: tuple[str, ...]) -> None:
        self.names = names
        self._url = address_of(where)
        self._connection: sa.Connection | None = None

    def take(self) -> bool:
        """Whether all names are held now: false if another connection holds one of them.

        Raises StoreError if the database cannot be used.
        """
        self.close()
        try:
            engine = _postgresql(
                self._url,
                poolclass=sa.NullPool,
                isolation_level="AUTOCOMMIT",  # a transaction open for hours would keep dead rows
            )
            self._connection = connection = engine.connect()
            for setting, value in ALIVE.items():
                connection.exec_driver_sql(f"SET {setting} = {value}")
            for name in self.names:
                key = sa.literal(key_of(name), sa.BigInteger)
                if not connection.scalar(sa.select(sa.func.pg_try_advisory_lock(key))):
                    self.close()
                    return False
        except SQLAlchemyError as error:
            self.close()
            raise explain(self._url, error) from error
        return True

    def lives(self) -> bool:
        """Whether the connection is still there, and the names are held with it."""
        try:
            return bool(self._connection and self._connection.scalar(sa.select(1)))
        except SQLAlchemyError:
            self.close()
            return False

    def close(self) -> None:
        """Let go, also where the connection is broken."""
        if connection := self._connection:
            self._connection = None
            with suppress(SQLAlchemyError):
                connection.invalidate()
            with suppress(SQLAlchemyError):
                connection.close()


@contextmanager
def hold_in_database(where: str | Path, name: str) -> Iterator[None]:
    """Hold a name in a PostgreSQL database; others have no such locks, and nothing is held.

    Raises Busy if another connection holds it, and StoreError if the database cannot be used. At
    the end, a hold that was lost meanwhile is told in the log, or raises StoreError if somebody
    else has it by then.
    """
    url = address_of(where)
    if url.get_backend_name() != POSTGRESQL:
        yield
        return
    hold = Hold(where, (name,))
    if not hold.take():
        raise Busy(
            f"{name}: another process is at work on its next version, as the response cache "
            f"{shown(url)} tells. Wait for it to end."
        )
    try:
        yield
        if not hold.lives():
            _tell_lost(hold, name)
    finally:
        hold.close()


def _postgresql(url: sa.URL, **options: Any) -> sa.Engine:
    try:
        return sa.create_engine(
            url.update_query_dict({"connect_timeout": CONNECT_SECONDS}), **options
        )
    except ImportError as error:
        raise StoreError(
            f"A response cache in PostgreSQL needs psycopg ({error}). "
            "Install it with `pip install 'toolloom[postgres]'`."
        ) from error


def _tell_lost(hold: Hold, name: str) -> None:
    lost = f"{name}: the connection to the response cache that held it broke off meanwhile"
    now = "nobody holds it now, but another process may have been at work on it too."
    try:
        free = hold.take()
    except StoreError as error:
        free, now = True, f"whether another process was at work on it cannot be told. {error}"
    if not free:
        raise StoreError(
            f"{lost}, and another process holds it now: both may have made a version. "
            "`toolloom versions` lists them with what each began with."
        )
    note(logging.WARNING, "lock", f"{lost}; {now}", name=name)


MAKING_TABLES = 7_003_701  # names an advisory lock: two that make the same table at once may fail

ORDER_TABLES = sa.MetaData()
ORDERS = sa.Table(
    "run_orders",
    ORDER_TABLES,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("run", sa.String(128), nullable=False, index=True),
)


def driver_name(driver: str) -> str:
    """What a driver holds, so that its workers see that it lives."""
    return f"driver {driver}"


# Each is work for `Cache.within`.
def end_orders(run: str) -> Callable[[sa.Connection], bool]:
    """Workers that are at work on orders of a run stop. Whether there were such orders."""

    def end(connection: sa.Connection) -> bool:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MAKING_TABLES)))
        ORDER_TABLES.create_all(connection)
        return bool(connection.execute(sa.delete(ORDERS).where(ORDERS.c.run == run)).rowcount)

    return end


def begin_order(order: str, run: str, driver: str) -> Callable[[sa.Connection], bool]:
    """Begin an order. False if it was begun before, or nobody waits for it."""
    row = sa.select(sa.literal(order), sa.literal(run)).where(is_held(driver_name(driver)))
    insert = postgresql.insert(ORDERS).from_select(["id", "run"], row).on_conflict_do_nothing()
    return lambda connection: bool(connection.execute(insert).rowcount)


def is_wanted(order: str, driver: str) -> Callable[[sa.Connection], bool | None]:
    """Whether the driver waits for an order that was begun; None if the driver is not there."""
    asked = sa.select(
        sa.exists().where(ORDERS.c.id == order), is_held(driver_name(driver)).label("driven")
    )

    def look(connection: sa.Connection) -> bool | None:
        begun, driven = connection.execute(asked).one()
        return driven or None if begun else False

    return look
