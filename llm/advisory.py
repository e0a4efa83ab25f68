"""A lock in the database of the response cache, for processes that share no disk."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from toolloom.llm.database import CONNECT_SECONDS, POSTGRESQL, address_of, explain, shown
from toolloom.llm.log import note
from toolloom.schemas import Busy, StoreError

NAMESPACE = "toolloom/"
# The server lets go of a lock whose machine is gone when its connection is: after two minutes, not
# after the two hours that systems usually wait.
ALIVE = {"tcp_keepalives_idle": 60, "tcp_keepalives_interval": 15, "tcp_keepalives_count": 4}


@contextmanager
def advisory_lock(where: str, name: str) -> Iterator[None]:
    """Hold a name in a PostgreSQL database; other databases have no such lock.

    The connection that holds it stays open, so that the server lets go when the process ends or
    dies. Raises Busy if another connection holds it, and StoreError if the database cannot be used.
    At the end, a lock that was lost meanwhile is told in the log, or raises StoreError if somebody
    else has it by then.
    """
    url = address_of(where)
    if url.get_backend_name() != POSTGRESQL:
        yield
        return
    key = _key(name)
    connection = _taken(url, key, name)
    try:
        yield
        if not _let_go(connection, key):
            _tell_lost(url, key, name)
    finally:
        _close(connection)


def _key(name: str) -> int:
    """A signed 64-bit number, as PostgreSQL takes it."""
    hashed = hashlib.blake2b(f"{NAMESPACE}{name}".encode(), digest_size=8).digest()
    return int.from_bytes(hashed, "big", signed=True)


def _taken(url: sa.URL, key: int, name: str) -> sa.Connection:
    """A connection that holds the lock."""
    try:
        connection = _engine(url).connect()
        try:
            for setting, value in ALIVE.items():
                connection.exec_driver_sql(f"SET {setting} = {value}")
            free = connection.scalar(sa.select(sa.func.pg_try_advisory_lock(_number(key))))
        except BaseException:
            _close(connection)
            raise
    except SQLAlchemyError as error:
        raise explain(url, error) from error
    if free:
        return connection
    _close(connection)
    raise Busy(
        f"{name}: another process is at work on its next version, as the response cache "
        f"{shown(url)} tells. Wait for it to end."
    )


def _engine(url: sa.URL) -> sa.Engine:
    try:
        return sa.create_engine(
            url.update_query_dict({"connect_timeout": CONNECT_SECONDS}),
            poolclass=sa.NullPool,
            isolation_level="AUTOCOMMIT",  # a transaction open for hours would keep dead rows
        )
    except ImportError as error:
        raise StoreError(
            f"A response cache in PostgreSQL needs psycopg ({error}). "
            "Install it with `pip install 'toolloom[postgres]'`."
        ) from error


def _number(key: int) -> sa.BindParameter[int]:
    return sa.literal(key, sa.BigInteger)


def _close(connection: sa.Connection) -> None:
    """Close it, also where it is broken: the lock goes with it."""
    with suppress(SQLAlchemyError):
        connection.invalidate()
    with suppress(SQLAlchemyError):
        connection.close()


def _let_go(connection: sa.Connection, key: int) -> bool:
    """Whether the lock was still held."""
    try:
        return bool(connection.scalar(sa.select(sa.func.pg_advisory_unlock(_number(key)))))
    except SQLAlchemyError:
        return False


def _tell_lost(url: sa.URL, key: int, name: str) -> None:
    lost = f"{name}: the connection to the response cache that held it broke off meanwhile"
    try:
        _close(_taken(url, key, name))
        now = "nobody holds it now, but another process may have been at work on it too."
    except Busy as error:
        raise StoreError(
            f"{lost}, and another process holds it now: both may have made a version. "
            "`toolloom versions` lists them with what each began with."
        ) from error
    except StoreError as error:
        now = f"whether another process was at work on it cannot be told. {error}"
    note(logging.WARNING, "lock", f"{lost}; {now}", name=name)
