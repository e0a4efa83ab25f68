"""The database of the response cache: its tables, and how it is opened."""

from __future__ import annotations

import errno
import sqlite3
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from toolloom.schemas import StoreError

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
        _make_folder(url)
        engine = sa.create_engine(url, connect_args={"timeout": HELD_SECONDS})
        sa.event.listen(engine, "connect", _tune)
    else:
        try:
            engine = sa.create_engine(url.update_query_dict({"connect_timeout": CONNECT_SECONDS}))
        except ImportError as error:
            raise StoreError(
                f"A response cache in PostgreSQL needs psycopg ({error}). "
                "Install it with `pip install 'toolloom[postgres]'`."
            ) from error
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


def _make_folder(url: sa.URL) -> None:
    if url.database and url.database != ":memory:":
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)


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
                _complete(connection)
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


def _complete(connection: sa.Connection) -> None:
    """Make the tables; give a table of an earlier version the columns it lacks."""
    for table in METADATA.sorted_tables:
        connection.execute(CreateTable(table, if_not_exists=True))
    _add_columns(connection, BATCHED)
    if "at" in _add_columns(connection, RESPONSES):  # as old as the day they were taken over
        connection.execute(sa.update(RESPONSES).values(at=time.time()))
    for table in METADATA.sorted_tables:
        for index in sorted(table.indexes, key=lambda one: str(one.name)):
            connection.execute(CreateIndex(index, if_not_exists=True))


def _add_columns(connection: sa.Connection, table: sa.Table) -> list[str]:
    """Give a table the columns it lacks; their names."""
    present = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
    missing = [column for column in table.columns if column.name not in present]
    for column in missing:
        added = CreateColumn(column).compile(dialect=connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {added}")
    return [column.name for column in missing]
