"""Python functions, executed in a process of their own: `worker.py`.

Not a sandbox: the process has its own folder, group and limits and sees no variables, but it may
do what its user may do. So nothing runs that the recipe does not name.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from toolloom.pipeline.apis.execution import process
from toolloom.pipeline.apis.execution.process import GRACE, Child
from toolloom.pipeline.apis.execution.results import Result, failed, portable, too_late
from toolloom.schemas import Failure, JsonObject, Observation, ToolloomError

WORKER = Path(__file__).with_name("worker.py")
START = 30.0  # seconds for a file to be loaded, at least


@dataclass(frozen=True)
class Functions:
    """Functions of a file, or of a module, that may be called."""

    name: str
    file: Path
    allowed: frozenset[str]
    module: str = ""
    environment: tuple[str, ...] = ()
    prepare: str = ""
    time_limit: float = 10

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Workbench]:
        """A fresh process in a fresh folder. Raises ToolloomError if it cannot be used."""
        async with AsyncExitStack() as stack:
            folder = stack.enter_context(process.working_folder())
            environment = process.handed_on(self.environment, self.name)
            if self.prepare:
                limit = 3 * self.time_limit
                await process.prepare(
                    self.prepare, environment, folder, name=self.name, seconds=limit
                )
            made = Workbench(self, await self._start(environment, folder), folder)
            stack.push_async_callback(made.stop)
            await made.load()
            yield made

    async def _start(self, environment: dict[str, str], folder: Path) -> Child:
        # `-I` would also do away with the seed of hashes; there is nothing to be isolated from
        # in an environment that is empty but for what the recipe names.
        argv = (sys.executable, "-s", "-P", str(WORKER))
        seeded = {"PYTHONHASHSEED": "0", **environment}
        return await process.started(argv, seeded, folder, name=self.name)

    def order(self) -> JsonObject:
        """What the worker loads."""
        if not self.module:
            parent = str(self.file.parent.absolute())
            where: JsonObject = {"file": str(self.file.absolute()), "first": [], "last": [parent]}
        else:
            where = {"module": self.module, "first": [str(self._root())], "last": []}
        return {**where, "allowed": sorted(self.allowed)}

    def _root(self) -> Path:
        """The folder that holds the module's topmost package."""
        up = self.module.count(".") + (self.file.name == "__init__.py")
        return self.file.absolute().parents[up]


class Workbench:
    """A running worker. Not for several calls at once."""

    def __init__(self, functions: Functions, child: Child, folder: Path) -> None:
        self.functions = functions
        self._child = child
        self._folder = folder
        self._hangs = False

    async def load(self) -> None:
        """Raises ToolloomError if the file or module cannot be loaded."""
        limit = max(START, self.functions.time_limit)
        try:
            answer = await self._ask({**self.functions.order(), "seconds": limit}, limit)
        except TimeoutError:
            self._hangs = True
            answer = {"failed": f"it takes longer than {limit:g} seconds"}
        if answer is None:
            answer = {"failed": f"its process {await self._child.ended()}"}
        if "failed" in answer:
            words = self._child.last_words()
            said = f" It says: {words}" if words else ""
            raise ToolloomError(
                f"{self.functions.name} cannot be loaded for execution: {answer['failed']}.{said} "
                "Check that it can be imported where toolloom is installed."
            )

    async def call(self, name: str, arguments: JsonObject) -> Result:
        """What came of a call, whatever the function does."""
        seconds = self.functions.time_limit
        if name not in self.functions.allowed:
            return failed(Failure.PROTOCOL_ERROR, f"The function {name} may not be called.")
        try:
            answer = await self._ask(
                {"call": name, "arguments": arguments, "seconds": seconds}, seconds
            )
        except TimeoutError:
            self._hangs = True
            return too_late(seconds)
        if answer is None:
            return failed(Failure.CRASH, f"The process {await self._child.ended()}.")
        return portable(_read(answer), self._folder, self._child.secrets)

    async def _ask(self, order: JsonObject, seconds: float) -> JsonObject | None:
        """The worker's answer; None if it ends without one. Raises TimeoutError."""
        try:
            async with asyncio.timeout(seconds):
                await self._child.send(json.dumps(order))
                line = await self._child.receive()
                answer = json.loads(line or "null")
        except (OSError, ValueError, RecursionError) as error:
            if isinstance(error, TimeoutError):
                raise
            return None
        return answer if isinstance(answer, dict) else None

    async def stop(self) -> None:
        """End the process. One that hangs is given no time."""
        await self._child.stop(0 if self._hangs else GRACE)


def _read(answer: JsonObject) -> Result:
    if "refused" in answer:
        return failed(Failure.PROTOCOL_ERROR, str(answer["refused"]))
    if "raised" in answer:
        return failed(Failure.TOOL_ERROR, str(answer["raised"]))
    return Result(Observation(response=answer.get("value")))
