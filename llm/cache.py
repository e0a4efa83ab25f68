"""The response cache: what an endpoint has answered is never asked again.

SQLite by default, any database SQLAlchemy knows by its URL. Statements run where they are
called, on the event loop: a commit to SQLite's write-ahead log takes tens of microseconds, less
than a hop to a thread, and a response that waits for a thread could be lost to a kill.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.schema import CreateTable

from toolloom.schemas import StoreError

BUSY_SECONDS = 60

METADATA = sa.MetaData()
RESPONSES = sa.Table(
    "responses",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),  # order of arrival
    sa.Column("key", sa.String(64), nullable=False, unique=True),
    sa.Column("body", sa.Text, nullable=False),
)
# What was found out about an endpoint's model, so that no later run probes again.
TRAITS = sa.Table(
    "traits",
    METADATA,
    sa.Column("endpoint", sa.String(512), primary_key=True),
    sa.Column("model", sa.String(256), primary_key=True),
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.String(64), nullable=False),
)
READ = sa.select(RESPONSES.c.body).where(RESPONSES.c.key == sa.bindparam("wanted"))
READ_ALL = sa.select(RESPONSES.c.key, RESPONSES.c.body).where(
    RESPONSES.c.key.in_(sa.bindparam("wanted", expanding=True))
)
READ_AT_ONCE = 500  # SQLite takes 32,766 parameters, other databases fewer
WRITE = sa.insert(RESPONSES)


class Cache:
    """Responses by their key, each committed before anyone uses it."""

    def __init__(self, where: str | Path) -> None:
        """`where` is a file's path or a SQLAlchemy URL. Raises StoreError."""
        self.where = str(where)
        with self._storing():
            self._engine = _engine(self.where)
            self._connection = self._engine.connect()
            for table in METADATA.sorted_tables:
                self._connection.execute(CreateTable(table, if_not_exists=True))

    def close(self) -> None:
        self._connection.close()
        self._engine.dispose()

    def read(self, key: str) -> str | None:
        with self._storing():
            body: str | None = self._connection.execute(READ, {"wanted": key}).scalar()
        return body

    def read_all(self, keys: Sequence[str]) -> dict[str, str]:
        """The bodies of those keys that have one."""
        found: dict[str, str] = {}
        for start in range(0, len(keys), READ_AT_ONCE):
            wanted = list(keys[start : start + READ_AT_ONCE])
            with self._storing():
                rows = self._connection.execute(READ_ALL, {"wanted": wanted})
                found.update((row[0], row[1]) for row in rows)
        return found

    def write(self, key: str, body: str) -> str:
        """Commit a response. Another process may have been faster: its response stands."""
        try:
            with self._storing():
                self._connection.execute(WRITE, {"key": key, "body": body})
        except IntegrityError:
            return self.read(key) or body
        return body

    def traits(self, endpoint: str, model: str) -> dict[str, str]:
        """All that is known of an endpoint's model."""
        asked = sa.select(TRAITS.c.name, TRAITS.c.value).where(
            TRAITS.c.endpoint == endpoint, TRAITS.c.model == model
        )
        with self._storing():
            return {row[0]: row[1] for row in self._connection.execute(asked)}

    def learn(self, endpoint: str, model: str, name: str, value: str) -> None:
        """Remember one trait; what another process learnt first stays."""
        row = {"endpoint": endpoint, "model": model, "name": name, "value": value}
        try:
            with self._storing():
                self._connection.execute(sa.insert(TRAITS), row)
        except IntegrityError:
            pass

    @contextmanager
    def _storing(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise
        except (SQLAlchemyError, OSError) as error:
            shown = sa.make_url(self.where) if "://" in self.where else self.where
            raise StoreError(
                f"The response cache {shown} cannot be used: {getattr(error, 'orig', error)}. "
                "Check that the disk has room and that the file is a toolloom cache."
            ) from error


def _engine(where: str) -> sa.Engine:
    """An engine whose every statement commits by itself."""
    if "://" in where:
        url = sa.make_url(where)
    else:
        Path(where).parent.mkdir(parents=True, exist_ok=True)
        url = sa.URL.create("sqlite", database=where)
    waits = {"timeout": BUSY_SECONDS} if url.get_backend_name() == "sqlite" else {}
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", connect_args=waits)
    if waits:
        sa.event.listen(engine, "connect", _tune)
    return engine


def _tune(connection: Any, _record: Any) -> None:
    """A write-ahead log: readers never wait, and a killed process loses nothing it committed."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()
