"""Orders that workers of a cluster have begun, kept beside the response cache.

Only in PostgreSQL, and only once a run was on a cluster. What a run's driver holds there is told by
`advisory.py`.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from toolloom.llm.advisory import is_held
from toolloom.llm.cache import Cache

TABLES = 7_003_701  # names an advisory lock: two that make the same table at once may fail

METADATA = sa.MetaData()
ORDERS = sa.Table(
    "run_orders",
    METADATA,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("run", sa.String(128), nullable=False, index=True),
)


def driver_name(driver: str) -> str:
    """What a driver holds, so that its workers see that it lives."""
    return f"driver {driver}"


async def end_orders(cache: Cache, run: str) -> bool:
    """Workers that are at work on orders of a run stop. Whether there were such orders."""

    def end(connection: sa.Connection) -> bool:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(TABLES)))
        METADATA.create_all(connection)
        return bool(connection.execute(sa.delete(ORDERS).where(ORDERS.c.run == run)).rowcount)

    return await cache.within(end)


async def begin_order(cache: Cache, order: str, run: str, driver: str) -> bool:
    """Begin an order. False if it was begun before, or nobody waits for it."""
    held = is_held(driver_name(driver))
    row = sa.select(sa.literal(order), sa.literal(run)).where(held)
    mine = insert(ORDERS).from_select(["id", "run"], row).on_conflict_do_nothing()
    return bool(await cache.within(lambda connection: connection.execute(mine).rowcount))


async def is_wanted(cache: Cache, order: str, driver: str) -> bool | None:
    """Whether the driver waits for an order that was begun; None if the driver is not there."""
    asked = sa.select(
        sa.exists().where(ORDERS.c.id == order), is_held(driver_name(driver)).label("driven")
    )

    def look(connection: sa.Connection) -> bool | None:
        begun, driven = connection.execute(asked).one()
        return driven or None if begun else False

    return await cache.within(look)
