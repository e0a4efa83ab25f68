"""What is in a response cache: counted, removed, copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from toolloom.llm.cache import inserts
from toolloom.llm.database import (
    RESPONSES,
    SQLITE,
    TRAITS,
    address_of,
    connect,
    explained,
    held,
    shown,
)
from toolloom.pipeline.render.section import Section, dollars, size
from toolloom.schemas import JsonObject, NothingFound

COPIED_AT_ONCE = 500
REMOVED_AT_ONCE = 5_000
PATIENCE_SECONDS = 60
IS = RESPONSES.c
BYTES: dict[bool, Any] = {
    True: sa.func.length(sa.cast(IS.body, sa.LargeBinary)),  # whether in SQLite
    False: sa.func.octet_length(IS.body),
}


class Stock:
    """A cache that exists, for who counts, removes or copies what is in it."""

    def __init__(self, where: str | Path, *, new: bool = False) -> None:
        """Raises StoreError; NothingFound if there is none and none is to be made."""
        self.url = address_of(where)
        self.where = shown(self.url)
        self._lite = self.url.get_backend_name() == SQLITE
        if self._lite and not new and not Path(self.url.database or "").is_file():
            raise NothingFound(
                f"There is no response cache {self.where}: a run makes one. "
                "Name another folder with --outputs, or a cache with --cache."
            )
        with explained(self.url):
            self._engine = connect(self.url, PATIENCE_SECONDS)

    def __enter__(self) -> Stock:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.dispose()

    def sections(self) -> list[Section]:
        """A line with the sums, and tables by model and by run."""
        with explained(self.url), self._engine.begin() as connection:
            first_and_last = sa.select(sa.func.min(IS.at), sa.func.max(IS.at))
            oldest, newest = connection.execute(first_and_last).one()
            total = self._usages(connection, [])[0]
            groups = {
                names: self._usages(connection, [IS[name] for name in names])
                for names in (("model", "endpoint", "kind"), ("run",))
            }
        head = f"{self.where}: {total.responses:,} responses, {size(total.bytes)}"
        if oldest is None or newest is None:
            return [Section(note=f"{head}.")]
        days = [datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M") for at in (oldest, newest)]
        columns = ["responses", "size", "requests", "tokens sent", "cached", "received"]
        priced = total.cost > 0
        tables = [
            Section(
                head=[*names, *columns, *(["cost"] if priced else [])],
                rows=[
                    (
                        *(name or "–" for name in row[: len(names)]),
                        row.responses,
                        size(row.bytes),
                        row.requests,
                        row.prompt_tokens,
                        row.cached_tokens,
                        row.completion_tokens,
                        *([dollars(row.cost)] if priced else []),
                    )
                    for row in rows
                ],
            )
            for names, rows in groups.items()
        ]
        return [Section(note=f"{head}, from {' to '.join(days)}."), *tables]

    def prune(
        self, *, before: float | None, model: str | None, run: str | None, dry: bool = False
    ) -> str:
        """Remove the responses that are older (Unix time), and of that model, and of that run; a
        sentence on what was removed, or would be."""
        chosen: list[sa.ColumnElement[bool]] = [] if before is None else [IS.at < before]
        for column, value in ((IS.model, model), (IS.run, run)):
            if value is not None:
                chosen.append(column == value)
        with explained(self.url):
            with self._engine.begin() as connection:
                total = self._usages(connection, [], *chosen)[0]
            if not total.responses:
                return f"{self.where}: no response is like that; nothing was removed."
            cost = f", which cost {dollars(total.cost)}" if total.cost else ""
            what = f"{self.where}: {total.responses:,} responses ({size(total.bytes)}){cost}"
            if dry:
                return f"{what}, would be removed; nothing was."
            while self._remove(chosen):
                pass
            room = "their room is used for later responses, as another process has the cache open"
            if self._give_back():
                room = "the disk has the room back"
            return f"{what}, removed; {room}."

    def pages(self) -> Iterator[list[JsonObject]]:
        """All responses in order of arrival, some at a time, with all that is known of each."""
        last = 0
        while True:
            asked = sa.select(RESPONSES).where(IS.id > last).order_by(IS.id).limit(COPIED_AT_ONCE)
            with explained(self.url), self._engine.begin() as connection:
                rows = [dict(row) for row in connection.execute(asked).mappings()]
            if not rows:
                return
            last = rows[-1]["id"]
            for row in rows:
                del row["id"]
            yield rows

    def rows(self) -> Iterator[JsonObject]:
        return chain.from_iterable(self.pages())

    def copy(self, target: Stock) -> tuple[int, int]:
        """Copy responses and what is known of models: how many there are, how many were new."""
        count = new = 0
        for rows in self.pages():
            count += len(rows)
            new += target.add(RESPONSES, rows)
        with explained(self.url), self._engine.begin() as connection:
            traits = [dict(row) for row in connection.execute(sa.select(TRAITS)).mappings()]
        if traits:
            target.add(TRAITS, traits)
        return count, new

    def add(self, table: sa.Table, rows: Sequence[JsonObject]) -> int:
        """Insert rows whose key is not there yet; their number."""
        with explained(self.url), self._engine.begin() as connection:
            statement = inserts(table)[connection.dialect.name]
            return connection.execute(statement, list(rows)).rowcount

    def same(self, other: Stock) -> bool:
        """Whether both are the same place."""
        if self._lite and other._lite:
            return Path(self.where).resolve() == Path(other.where).resolve()
        places = [(u.host, u.port, u.database, u.drivername) for u in (self.url, other.url)]
        return places[0] == places[1]

    def _usages(
        self, connection: sa.Connection, by: list[sa.Column[Any]], *chosen: sa.ColumnElement[bool]
    ) -> list[sa.Row[Any]]:
        """What the responses of each group took, the groups with the most first."""
        columns = {"bytes": BYTES[self._lite]}
        for name in ("requests", "prompt_tokens", "cached_tokens", "completion_tokens", "cost"):
            columns[name] = IS[name]
        sums: list[sa.Label[Any]] = []
        for name, column in columns.items():
            total = sa.func.coalesce(sa.func.sum(column), 0)  # a decimal in PostgreSQL
            number: Any = sa.Double() if name == "cost" else sa.BigInteger()
            sums.append(sa.cast(total, number).label(name))
        asked = sa.select(*by, sa.func.count().label("responses"), *sums).where(*chosen)
        rows = connection.execute(asked.group_by(*by) if by else asked).all()
        return sorted(rows, key=lambda row: (-row.responses, tuple(row[: len(by)])))

    def _remove(self, chosen: Sequence[sa.ColumnElement[bool]]) -> int:
        """Some at a time: runs that use the cache go on in between."""
        some = sa.select(IS.id).where(*chosen).limit(REMOVED_AT_ONCE)
        with self._engine.begin() as connection:
            return connection.execute(sa.delete(RESPONSES).where(IS.id.in_(some))).rowcount

    def _give_back(self) -> bool:
        """Return room to the disk; a SQLite file that is in use keeps it for later responses."""
        with self._engine.connect() as plain:
            connection = plain.execution_options(isolation_level="AUTOCOMMIT")
            try:
                connection.exec_driver_sql("VACUUM")
                if self._lite:
                    connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").close()
            except SQLAlchemyError as error:
                if not held(error):
                    raise
                return False
        return True
