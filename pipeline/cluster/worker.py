"""A worker's side: a shard's records through a stage, with answers from the shared cache."""

from __future__ import annotations

import asyncio
import os
import socket
import traceback
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from toolloom.llm import Gateway
from toolloom.llm.budget import Purse
from toolloom.llm.lease import Lease
from toolloom.pipeline.cluster.order import NOTHING, Done, Order, code
from toolloom.pipeline.shard import Part, work_on
from toolloom.pipeline.stage import Context, ready
from toolloom.schemas import BudgetReached, ClusterError, Outcome, ToolloomError

T = TypeVar("T")

POLL = 0.5  # seconds between two looks whether the work is still wanted


async def work_shard(order: Order) -> Done:
    """Do an order. Raises ToolloomError, which names this worker."""
    try:
        return await _work_shard(order)
    except Exception as error:  # noqa: BLE001 - it is raised below
        failed = _told(error)
    raise failed  # here, so that nothing hangs on it that cannot travel


def _told(error: Exception) -> Exception:
    if not isinstance(error, ToolloomError):
        return RuntimeError("".join(traceback.format_exception(error)))
    where = f"{socket.gethostname()}, process {os.getpid()}"
    return type(error)(f"On the worker {where}: {error}")


async def _work_shard(order: Order) -> Done:
    if code() != order.code:
        raise ClusterError(
            "its toolloom or its Python is not that of the run, and would make other bytes. "
            "Install the same version on every machine."
        )
    purse = Purse(order.budget, NOTHING)
    gateway = Gateway(
        order.cache, prices=order.recipe.prices, run=order.run, purse=purse, pasts=order.pasts
    )
    lease = Lease(gateway.cache, order.run, order.driver)
    part: Part | None = None
    async with gateway:
        await _check(lease)
        if not await lease.claim(order.id):
            return Done()
        with suppress(BudgetReached):  # the driver knows whether there is room elsewhere
            part = await _while_wanted(_worked(order, gateway), lease)
    short = purse.refused if part is None else None
    return Done(part, gateway.stats, purse.spent, gateway.pasts, short)


async def _worked(order: Order, gateway: Gateway) -> Part:
    ready([order.stage], order.recipe)
    for endpoint in order.recipe.endpoints:  # some share an address, and so its limits
        gateway.limit(endpoint)
    context = Context.of(order.recipe, gateway)
    return await work_on(order.stage, order.entering(), context, order.run, _untold)


def _untold(stage: str, outcome: Outcome) -> None: ...


async def _while_wanted(work: Coroutine[Any, Any, T], lease: Lease) -> T:
    """The result of work, which ends once the driver is gone."""
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait([task], timeout=POLL))[0]:
            await _check(lease)
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _check(lease: Lease) -> None:
    if not await lease.held():
        raise ClusterError("the run was ended, or goes on elsewhere.")
