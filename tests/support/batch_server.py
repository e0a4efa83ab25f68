"""The Batch API of the scripted endpoint: files, batches, and answers by the server's script; and
requests asked in batches, with what a cache keeps of them.

As OpenAI documents it: https://platform.openai.com/docs/api-reference/batch
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import BodyPartReader, web

from toolloom.llm import Gateway, Model, Request
from toolloom.llm.batch import Pace
from toolloom.llm.scripted import FakeServer, Script, ScriptedFailure, improvise
from toolloom.schemas import Endpoint, JsonObject

FULL = "Enqueued token limit reached for fake. Please try again once some batches have completed."


@dataclass(frozen=True)
class Batching:
    """How the server's batches go."""

    seconds: float = 0.0  # from creation to the answers
    uploading: float = 0.0  # seconds until a file is there
    making: float = 0.0  # and until a batch is
    expiring: int = 0  # so many first batches expire half-way
    lost: int = 0  # so many first batches are made, and the client gets a 500
    room: int | None = None  # requests in open batches at once; a batch beyond them fails
    purpose: str = "batch"  # of files; others are refused


class BatchServer(FakeServer):
    """A scripted endpoint with a Batch API."""

    def __init__(self, script: Script = improvise, plan: Batching = Batching(), **options: Any):
        super().__init__(script, **options)
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, JsonObject] = {}
        self._plan = plan
        self._work: set[asyncio.Task[None]] = set()

    def routes(self, app: web.Application) -> None:
        super().routes(app)
        app.router.add_post("/v1/files", self._upload)
        app.router.add_get("/v1/files/{id}/content", self._content)
        app.router.add_post("/v1/batches", self._create)
        app.router.add_get("/v1/batches", self._batches)
        app.router.add_get("/v1/batches/{id}", self._retrieve)
        app.on_cleanup.append(self._stop)

    async def _stop(self, _app: web.Application) -> None:
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    async def _upload(self, request: web.Request) -> web.Response:
        fields: dict[str, bytes] = {}
        async for part in await request.multipart():  # without the limit that post() has
            if isinstance(part, BodyPartReader):
                fields[part.name or ""] = bytes(await part.read())
        if fields.get("purpose") != self._plan.purpose.encode():
            return _refused(400, "Invalid value for 'purpose'.")
        await asyncio.sleep(self._plan.uploading)
        told = {"id": self._keep(fields["file"]), "object": "file", "bytes": len(fields["file"])}
        more = {"created_at": 0, "filename": "f.jsonl", "purpose": "batch", "status": "processed"}
        return web.json_response(told | more)

    def _keep(self, content: bytes) -> str:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = content
        return name

    async def _content(self, request: web.Request) -> web.Response:
        content = self.files.get(request.match_info["id"])
        return _refused(404, "No such File.") if content is None else web.Response(body=content)

    async def _create(self, request: web.Request) -> web.Response:
        asked: JsonObject = await request.json()
        await asyncio.sleep(self._plan.making)
        batch: JsonObject = {
            "id": f"batch_{len(self.batches) + 1}",
            "object": "batch",
            "endpoint": asked["endpoint"],
            "errors": None,
            "input_file_id": asked["input_file_id"],
            "completion_window": asked["completion_window"],
            "status": "validating",
            "output_file_id": None,
            "error_file_id": None,
            "created_at": 0,
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
            "metadata": asked.get("metadata"),
        }
        self.batches[batch["id"]] = batch
        task = asyncio.create_task(self._carry_out(batch))
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        if len(self.batches) <= self._plan.lost:
            return _refused(500, "The server had an error.")
        return web.json_response(batch)

    async def _batches(self, request: web.Request) -> web.Response:
        newest = list(self.batches.values())[::-1]
        return web.json_response({"object": "list", "data": newest, "has_more": False})

    async def _retrieve(self, request: web.Request) -> web.Response:
        batch = self.batches.get(request.match_info["id"])
        return _refused(404, "No such batch.") if batch is None else web.json_response(batch)

    async def _carry_out(self, batch: JsonObject) -> None:
        """A batch's life: validated, waited for, answered, finished."""
        await asyncio.sleep(0)
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        open_ = [b for b in self.batches.values() if b["status"] == "in_progress"]
        busy = sum(b["request_counts"]["total"] for b in open_)
        if self._plan.room is not None and busy + len(lines) > self._plan.room:
            wrong = {"code": "token_limit_exceeded", "message": FULL, "param": None, "line": None}
            batch.update(status="failed", errors={"object": "list", "data": [wrong]})
            return
        batch["request_counts"]["total"] = len(lines)
        if batch["status"] == "validating":
            batch["status"] = "in_progress"
        await asyncio.sleep(self._plan.seconds)
        expires = int(batch["id"].removeprefix("batch_")) <= self._plan.expiring
        files: dict[str, list[str]] = {"output_file_id": [], "error_file_id": []}
        for number, line in enumerate(lines):
            told: JsonObject = {"id": f"request-{number}", "custom_id": line["custom_id"]}
            if batch["status"] == "cancelling" or (expires and number >= len(lines) // 2):
                code = "batch_expired" if expires else "batch_cancelled"
                told |= {"response": None, "error": {"code": code, "message": "It was too late."}}
                status = 0
            else:
                status, body = await self._line(line["body"])
                told |= {"response": {"status_code": status, "body": body}, "error": None}
            files["output_file_id" if status == 200 else "error_file_id"].append(json.dumps(told))
        good, bad = (len(some) for some in files.values())
        batch["request_counts"].update(completed=good, failed=bad)
        for name, some in files.items():  # files first, then the status that sends clients there
            batch[name] = self._keep("\n".join(some).encode()) if some else None
        ended = "expired" if expires else "completed"
        batch["status"] = "cancelled" if batch["status"] == "cancelling" else ended

    async def _line(self, body: JsonObject) -> tuple[int, Any]:
        """Status and body of the answer to a line, which counts as a request."""
        self.received += 1
        self.bodies.append(body)
        said = self.chance() or await self.say(body)
        if not isinstance(said, ScriptedFailure):
            self.count(body)
            return 200, said
        self.failed[said.name or str(said.status)] += 1
        text = said.body
        return said.status, json.loads(text) if text.startswith("{") else text


def _refused(status: int, message: str) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return web.json_response({"error": error}, status=status)


QUICK = Pace(gather=0.05, first_poll=0.02, longest_poll=0.05, settle=0.3)


def echo(body: JsonObject) -> str:
    """The script of a server that says which request it answers."""
    return f"answer to {body['messages'][-1]['content']}"


@contextlib.asynccontextmanager
async def opened(cache: Path | str, endpoint: Endpoint, **options: Any) -> AsyncIterator[Model]:
    """A model behind a gateway that does not wait long."""
    async with Gateway(cache, **{"pace": QUICK, **options}) as gateway:
        yield gateway.model(endpoint)


async def ask_all(
    model: Model, plain: Callable[..., Request], count: int, **gathering: bool
) -> list[Any]:
    asked = (model.complete(plain(f"question {n}")) for n in range(count))
    return await asyncio.gather(*asked, **gathering)


def rows(cache: Path | str, table: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(cache)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(f"SELECT * FROM {table}").fetchall()
