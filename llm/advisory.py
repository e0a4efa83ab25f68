"""Names that are held in a PostgreSQL database, for processes that share no disk."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from toolloom.llm.database import CONNECT_SECONDS, POSTGRESQL, address_of, explain, shown
from toolloom.llm.log import note
from toolloom.schemas import Busy, StoreError

NAMESPACE = "toolloom/"
# The server lets go of what a machine held that is gone when it takes the connection for dead:
# after 45 s, not after the two hours that systems usually wait.
ALIVE = {"tcp_keepalives_idle": 20, "tcp_keepalives_interval": 5, "tcp_keepalives_count": 5}


def key_of(name: str) -> sa.BindParameter[int]:
    """A name as PostgreSQL's locks have it: a signed 64-bit number."""
    hashed = hashlib.blake2b(f"{NAMESPACE}{name}".encode(), digest_size=8).digest()
    return sa.literal(int.from_bytes(hashed, "big", signed=True), sa.BigInteger)


class Held:
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
            self._connection = connection = _engine(self._url).connect()
            for setting, value in ALIVE.items():
                connection.exec_driver_sql(f"SET {setting} = {value}")
            for name in self.names:
                if not connection.scalar(sa.select(sa.func.pg_try_advisory_lock(key_of(name)))):
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
    held = Held(where, (name,))
    if not held.take():
        raise Busy(
            f"{name}: another process is at work on its next version, as the response cache "
            f"{shown(url)} tells. Wait for it to end."
        )
    try:
        yield
        if not held.lives():
            _tell_lost(held, name)
    finally:
        held.close()


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


def _tell_lost(held: Held, name: str) -> None:
    lost = f"{name}: the connection to the response cache that held it broke off meanwhile"
    now = "nobody holds it now, but another process may have been at work on it too."
    try:
        free = held.take()
    except StoreError as error:
        free, now = True, f"whether another process was at work on it cannot be told. {error}"
    if not free:
        raise StoreError(
            f"{lost}, and another process holds it now: both may have made a version. "
            "`toolloom versions` lists them with what each began with."
        )
    note(logging.WARNING, "lock", f"{lost}; {now}", name=name)
