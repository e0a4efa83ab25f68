"""Who is at work on a run when several machines are, kept beside the response cache.

A run has one driver, which gives out orders. An order is for one worker, once: engines run an
order again when they think that its first worker died, and what that one used is known to nobody
but the database. Workers end what they do as soon as the run has another driver or none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from toolloom.llm.cache import Cache

SILENT = 60.0  # seconds after which a driver that does not tell that it lives is taken for dead
TABLES = 7_003_701  # names an advisory lock: two that make the same table at once may fail

METADATA = sa.MetaData()
DRIVERS = sa.Table(
    "run_drivers",
    METADATA,
    sa.Column("run", sa.String(128), primary_key=True),
    sa.Column("driver", sa.String(64), nullable=False),
    sa.Column("at", sa.Double, nullable=False),  # Unix time of the database
)
ORDERS = sa.Table(
    "run_orders",
    METADATA,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("run", sa.String(128), nullable=False, index=True),
)
NOW = sa.cast(sa.extract("epoch", sa.func.clock_timestamp()), sa.Double)


@dataclass(frozen=True)
class Lease:
    """A driver's hold of a run. The cache must be a PostgreSQL database."""

    cache: Cache
    run: str
    driver: str

    async def other(self) -> tuple[str, float] | None:
        """Another driver of the run, and when it told last that it lives, if not long ago."""
        asked = self._drivers(sa.select(DRIVERS.c.driver, DRIVERS.c.at)).where(
            DRIVERS.c.driver != self.driver, DRIVERS.c.at > NOW - SILENT
        )

        def look(connection: sa.Connection) -> tuple[str, float] | None:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(TABLES)))
            METADATA.create_all(connection)
            row = connection.execute(asked).first()
            return (row[0], row[1]) if row else None

        return await self.cache.within(look)

    async def take(self) -> bool:
        """Begin as the run's driver, after `other`. Whether another one was not seen to end: its
        workers may still be about to."""

        def take(connection: sa.Connection) -> bool:
            mine = {"run": self.run, "driver": self.driver, "at": NOW}
            before = connection.execute(self._drivers(sa.select(DRIVERS.c.driver))).scalar()
            taken = insert(DRIVERS).values(mine)
            connection.execute(taken.on_conflict_do_update(index_elements=["run"], set_=mine))
            connection.execute(sa.delete(ORDERS).where(ORDERS.c.run == self.run))
            return before not in (None, self.driver)

        return await self.cache.within(take)

    async def beat(self) -> bool:
        """Tell that the driver lives. False if the run has another one by now, or none."""
        mine = sa.update(DRIVERS).where(DRIVERS.c.driver == self.driver).values(at=NOW)
        return bool(await self.cache.within(lambda connection: connection.execute(mine).rowcount))

    async def drop(self) -> None:
        """End: workers that are still at work on the run stop."""

        def drop(connection: sa.Connection) -> None:
            gone = sa.delete(DRIVERS).where(
                DRIVERS.c.run == self.run, DRIVERS.c.driver == self.driver
            )
            if connection.execute(gone).rowcount:
                connection.execute(sa.delete(ORDERS).where(ORDERS.c.run == self.run))

        await self.cache.within(drop)

    async def held(self) -> bool:
        """Whether the driver is still the run's."""
        mine = self._drivers(sa.select(sa.func.count()).select_from(DRIVERS)).where(
            DRIVERS.c.driver == self.driver, DRIVERS.c.at > NOW - SILENT
        )
        return bool(await self.cache.within(lambda connection: connection.execute(mine).scalar()))

    async def claim(self, order: str) -> bool:
        """Take an order. False if it was begun before."""
        mine = insert(ORDERS).values(id=order, run=self.run).on_conflict_do_nothing()
        return bool(await self.cache.within(lambda connection: connection.execute(mine).rowcount))

    def _drivers(self, statement: sa.Select[Any]) -> sa.Select[Any]:
        return statement.where(DRIVERS.c.run == self.run)
