"""A deployment of the flow `grow`: registered on a server, and served by this process.

Whatever flow run of it a killed process left behind is scheduled again before anything else starts,
and once a minute. Prefect's runner gives up when its server is away; so it is one of many here.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import available_timezones

from prefect.client.orchestration import get_client
from prefect.client.schemas.schedules import CronSchedule
from prefect.runner import Runner
from prefect.schedules import Cron
from prefect.settings import PREFECT_API_URL, PREFECT_UI_URL
from prefect.types.entrypoint import EntrypointType

from toolloom.pipeline.orchestration.growth import STARTING, revive
from toolloom.schemas import RecipeError, ToolloomError

if TYPE_CHECKING:
    from prefect import Flow

NO_SERVER = """\
Prefect's server is not named. Start one, and say where it is:

  prefect server start
  export PREFECT_API_URL=http://127.0.0.1:4200/api"""
LOST = "Prefect's server does not answer. It is waited for; what was at work goes on then."
FIELDS = 5  # of a cron expression; a sixth would be seconds
POLLS_MISSED = 5  # until the runner counts as dead: it gives up after three
GRACE = 5.0  # seconds for flow runs that are cancelled


@dataclass(frozen=True)
class Deployment:
    """What is registered: `grow/<name>`, with what its runs are given."""

    name: str
    parameters: dict[str, Any]
    cron: str | None = None
    timezone: str = "UTC"

    @property
    def label(self) -> str:
        return f"grow/{self.name}"

    def check(self) -> None:
        """Raises RecipeError for a name, a zone or a schedule that is none."""
        if not self.name or set(self.name) & set("/%"):
            raise RecipeError(f"--name {self.name!r}: a deployment's name has no `/` and no `%`.")
        if self.timezone not in available_timezones():
            raise RecipeError(
                f"--timezone {self.timezone}: there is no such zone. One is `UTC`, another "
                "`Europe/Vienna`."
            )
        if self.cron is None:
            return
        try:
            CronSchedule(cron=self.cron, timezone=self.timezone)
            if (fields := len(self.cron.split())) > FIELDS:
                raise ValueError(f"it has {fields} fields")
        except ValueError as error:
            raise RecipeError(
                f"--cron {self.cron!r}: is no schedule "
                f"({_first_line(error)}). Five fields are minute, hour, day, month and weekday: "
                '"0 2 * * *" is every night at two.'
            ) from error

    async def serve(self, flow: Flow[..., Any], told: Callable[[str], None]) -> None:
        """Register it, and start its runs until a signal ends this process.

        `told` is given what people should know. Raises ToolloomError if no server answers at the
        start; one that is away later is waited for.
        """
        await check_server()
        stop, found = asyncio.Event(), None
        while not stop.is_set():
            runner = Runner(name=self.name, pause_on_shutdown=False)
            try:
                found = await self._register(runner, flow)
                where = f"{PREFECT_UI_URL.value()}/deployments/deployment/{found}"
                told(f"Deployed {self.label}: {where}")
                await _revive(found, told)
            except Exception:  # of any library on the way to the server
                if found is None:
                    raise
                told(LOST)  # again: it had just come back
                await _until_back(stop)
                continue
            told(self._when())
            await _until_stopped(runner, stop, found, told)
            if not stop.is_set():
                told(LOST)
                await _until_back(stop)
        if found is not None:
            await _pause(found, told)

    async def _register(self, runner: Runner, flow: Flow[..., Any]) -> UUID:
        deployed = await flow.ato_deployment(
            name=self.name,
            parameters=self.parameters,
            schedule=Cron(self.cron, timezone=self.timezone) if self.cron else None,
            description=flow.description,
            tags=["toolloom"],
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        found: UUID = await runner.aadd_deployment(deployed)
        return found

    def _when(self) -> str:
        start = f"prefect deployment run {self.label}"
        if self.cron is None:
            return f"It has no schedule; start it on its page or with `{start}`. Ctrl-C ends this."
        return f'It runs at "{self.cron}" ({self.timezone}). Ctrl-C ends this.'


async def check_server() -> None:
    """Raises ToolloomError if no server is named, or the one that is does not answer."""
    url = PREFECT_API_URL.value()
    if not url:
        raise ToolloomError(NO_SERVER)
    if not url.startswith(("http://", "https://")):
        raise ToolloomError(
            f"PREFECT_API_URL is {url}, which is no address of a server: it begins with http:// "
            "and ends with /api, as http://127.0.0.1:4200/api does."
        )
    async with get_client() as client:
        failure = await client.api_healthcheck()
    if failure:
        raise ToolloomError(
            f"Prefect's server at {url} does not answer ({_first_line(failure)}). Start it with "
            "`prefect server start`, or set PREFECT_API_URL to one that runs."
        )


async def _revive(deployment: UUID, told: Callable[[str], None], older: float = 0.0) -> None:
    async with get_client() as client:
        for name in await revive(client, deployment, older):
            told(f"“{name}” was killed, and goes on.")


async def _revive_again_and_again(deployment: UUID, told: Callable[[str], None]) -> None:
    while True:
        await asyncio.sleep(STARTING)
        with suppress(Exception):  # the server is away: `_lost` tells
            await _revive(deployment, told, older=STARTING)


async def _until_stopped(
    runner: Runner, stop: asyncio.Event, deployment: UUID, told: Callable[[str], None]
) -> None:
    """Start runs that are due until Ctrl-C or SIGTERM, or until the runner has lost its server.

    Those at work are cancelled then, or are killed and go on when the server is back.
    """
    loop = asyncio.get_running_loop()
    at_work = asyncio.create_task(runner.start())
    while not (runner.started or at_work.done()):  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.05)
    for number in (signal.SIGINT, signal.SIGTERM):  # the runner has set a handler of its own
        loop.add_signal_handler(number, stop.set)
    beside = [
        asyncio.create_task(work)
        for work in (stop.wait(), _lost(runner), _revive_again_and_again(deployment, told))
    ]
    await asyncio.wait({at_work, *beside}, return_when=asyncio.FIRST_COMPLETED)
    for task in beside:
        task.cancel()
    if stop.is_set() and runner.started:
        await runner.astop()
        await asyncio.wait({at_work}, timeout=GRACE)
    at_work.cancel()
    await asyncio.gather(at_work, *beside, return_exceptions=True)


async def _lost(runner: Runner) -> None:
    """Returns when the runner does not get through to its server any more."""
    since = datetime.now(UTC)
    patience = timedelta(seconds=GRACE + POLLS_MISSED * runner.query_seconds)
    while datetime.now(UTC) - (runner.last_polled or since) < patience:  # noqa: ASYNC110 - no event
        await asyncio.sleep(1)


async def _until_back(stop: asyncio.Event) -> None:
    failure: Exception | None = ConnectionError()
    while failure and not stop.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), GRACE)
        async with get_client() as client:
            failure = await client.api_healthcheck()


async def _pause(deployment: UUID, told: Callable[[str], None]) -> None:
    """Runs that nobody would start are not to pile up."""
    try:
        async with get_client() as client:
            await client.pause_deployment(deployment)
        told("Stopped. The schedule is paused until it is served again.")
    except Exception:  # noqa: BLE001 - of any library on the way to it
        told("Stopped. The schedule is not paused: Prefect's server does not answer.")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def parameters(recipe: Path, outputs: str) -> dict[str, Any]:
    """What its runs are given: the same wherever this process was started."""
    return {"recipe": str(recipe.resolve()), "outputs": outputs}
