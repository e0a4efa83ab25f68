"""The Batch API of the scripted endpoint: files, batches, and answers by the server's script.

As OpenAI documents it: https://platform.openai.com/docs/api-reference/batch
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiohttp import BodyPartReader, web

from toolloom.llm.fake.script import ScriptedFailure, refusal, respond
from toolloom.schemas import JsonObject

CHAT_URL = "/v1/chat/completions"
MOST_LINES = 50_000
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
EXPIRED = "This request could not be executed before the completion window expired."
FULL = (
    "Enqueued token limit reached for fake. Limit: {room} requests. Please try again once some "
    "in_progress batches have been completed."
)
DAY = 86_400

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
Answer: TypeAlias = Callable[[JsonObject, ScriptedFailure | None], Awaitable[tuple[int, Any]]]


@dataclass(frozen=True)
class Batching:
    """How the server's batches go."""

    seconds: float = 0.0  # from creation to the answers
    failure_rate: float = 0.0  # share of items answered with a 500
    expiring: int = 0  # so many first batches expire half-way
    room: int | None = None  # items in open batches at once; a batch beyond them fails
    largest: int = 200_000_000  # bytes of a file
    purpose: str = "batch"  # of files; others are refused
    uploading: float = 0.0  # seconds until a file is there
    making: float = 0.0  # and until a batch is
    lost: int = 0  # so many first batches are made, and the client gets a 500
    metadata: bool = True  # whether metadata is kept; some servers forget it
    per_page: int = 20  # batches in one page of the list, at most


class Batches:
    """All files and batches of one server; they outlive the clients."""

    def __init__(
        self,
        plan: Batching,
        models: Sequence[str] | None,
        denied: Callable[[web.Request], ScriptedFailure | None],
        answer: Answer,
    ) -> None:
        """`answer` gives the status and body of a line's answer, which is a failure if one is
        given."""
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, JsonObject] = {}
        self._models = models
        self._denied = denied
        self._answer = answer
        self._plan = plan
        self._dice = random.Random(0)
        self._work: set[asyncio.Task[None]] = set()

    def add_routes(self, app: web.Application) -> None:
        for method, path, handler in (
            ("POST", "files", self._upload),
            ("GET", "files/{id}/content", self._content),
            ("POST", "batches", self._create),
            ("GET", "batches", self._list),
            ("GET", "batches/{id}", self._retrieve),
            ("POST", "batches/{id}/cancel", self._cancel),
        ):
            app.router.add_route(method, f"/v1/{path}", self._asking_for_a_key(handler))
        app.on_cleanup.append(self._stop)

    def _asking_for_a_key(self, handler: Handler) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            denied = self._denied(request)
            return await handler(request) if denied is None else respond(denied)

        return handle

    async def _stop(self, _app: web.Application) -> None:
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    async def _upload(self, request: web.Request) -> web.Response:
        fields: dict[str, bytes] = {}
        async for part in await request.multipart():  # without the limit that post() has
            if isinstance(part, BodyPartReader):
                read = bytearray()
                while chunk := await part.read_chunk(2**18):
                    read += chunk
                fields[part.name or ""] = bytes(read)
        content = fields.get("file", b"")
        if len(content) > self._plan.largest:
            return respond(refusal(413, "The file is too large."))
        if fields.get("purpose") != self._plan.purpose.encode():
            return respond(refusal(400, "Invalid value for 'purpose'."))
        await asyncio.sleep(self._plan.uploading)
        name = self._keep(content)
        return web.json_response(
            {
                "id": name,
                "object": "file",
                "bytes": len(content),
                "created_at": int(time.time()),
                "filename": f"{name}.jsonl",
                "purpose": "batch",
                "status": "processed",
            }
        )

    def _keep(self, content: bytes) -> str:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = content
        return name

    async def _content(self, request: web.Request) -> web.Response:
        content = self.files.get(request.match_info["id"])
        if content is None:
            return respond(refusal(404, "No such File object."))
        return web.Response(body=content, content_type="application/octet-stream")

    async def _create(self, request: web.Request) -> web.Response:
        asked: JsonObject = await request.json()
        if asked.get("input_file_id") not in self.files:
            return respond(refusal(400, f"Cannot find file {asked.get('input_file_id')}."))
        if asked.get("endpoint") != CHAT_URL or asked.get("completion_window") != "24h":
            return respond(refusal(400, "Invalid 'endpoint' or 'completion_window'."))
        await asyncio.sleep(self._plan.making)
        now = int(time.time())
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
            "created_at": now,
            "expires_at": now + DAY,
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
            "metadata": asked.get("metadata") if self._plan.metadata else None,
        }
        self.batches[batch["id"]] = batch
        task = asyncio.create_task(self._carry_out(batch))
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        lost = len(self.batches) <= self._plan.lost
        return respond(ScriptedFailure()) if lost else web.json_response(batch)

    async def _list(self, request: web.Request) -> web.Response:
        newest = list(self.batches.values())[::-1]
        after = request.query.get("after")
        start = next((n + 1 for n, batch in enumerate(newest) if batch["id"] == after), 0)
        many = min(int(request.query.get("limit", 20)), self._plan.per_page)
        page = newest[start : start + many]
        more = start + many < len(newest)
        return web.json_response({"object": "list", "data": page, "has_more": more})

    async def _retrieve(self, request: web.Request) -> web.Response:
        batch = self.batches.get(request.match_info["id"])
        return (
            respond(refusal(404, "No such batch.")) if batch is None else web.json_response(batch)
        )

    async def _cancel(self, request: web.Request) -> web.Response:
        batch = self.batches.get(request.match_info["id"])
        if batch and batch["status"] not in ENDED:
            batch["status"] = "cancelling"
        return await self._retrieve(request)

    async def _carry_out(self, batch: JsonObject) -> None:
        """A batch's life: validated, waited for, answered, finished."""
        await asyncio.sleep(0)
        lines, wrong = _lines(self.files[batch["input_file_id"]])
        model = str(lines[0]["body"].get("model")) if lines else ""
        if lines and self._models is not None and model not in self._models:
            wrong = _wrong("model_not_found", f"The model `{model}` does not exist.", 1)
        wrong = wrong or self._overfull(len(lines))
        if wrong:
            batch["errors"] = {"object": "list", "data": [wrong]}
            batch["status"] = "failed"
            return
        batch["request_counts"]["total"] = len(lines)
        if batch["status"] == "validating":
            batch["status"] = "in_progress"
        await asyncio.sleep(self._plan.seconds)
        expires = int(batch["id"].removeprefix("batch_")) <= self._plan.expiring
        reached = len(lines) // 2 if expires else len(lines)
        answered = [await self._answered(line, batch) for line in lines[:reached]]
        answered += [_outcome(line, None, "batch_expired", EXPIRED) for line in lines[reached:]]
        # Files first, then the status that sends clients to them.
        status = "expired" if expires else "completed"
        files: dict[bool, list[str]] = {True: [], False: []}
        for line in answered:
            response = line["response"]
            good = response is not None and response["status_code"] == 200
            files[good].append(json.dumps(line) + "\n")
        batch["request_counts"].update(completed=len(files[True]), failed=len(files[False]))
        for good, name in ((True, "output_file_id"), (False, "error_file_id")):
            if told := files[good]:
                batch[name] = self._keep("".join(told).encode())
        batch["status"] = "cancelled" if batch["status"] == "cancelling" else status

    def _overfull(self, more: int) -> JsonObject | None:
        open_ = [batch for batch in self.batches.values() if batch["status"] == "in_progress"]
        total = more + sum(batch["request_counts"]["total"] for batch in open_)
        if self._plan.room is None or total <= self._plan.room:
            return None
        return _wrong("token_limit_exceeded", FULL.format(room=self._plan.room), None)

    async def _answered(self, line: JsonObject, batch: JsonObject) -> JsonObject:
        """One line of a result file. Of a cancelled batch nothing more is answered."""
        if batch["status"] == "cancelling":
            return _outcome(line, None, "batch_cancelled", "This batch was cancelled.")
        fails = self._dice.random() < self._plan.failure_rate
        return _outcome(
            line, await self._answer(line["body"], ScriptedFailure() if fails else None)
        )


def _lines(content: bytes) -> tuple[list[JsonObject], JsonObject | None]:
    """The requests of a file, or what is wrong with it."""
    lines: list[JsonObject] = []
    seen: set[str] = set()
    for number, text in enumerate(content.splitlines(), 1):
        try:
            line = json.loads(text)
            name, fits = line["custom_id"], (line["method"], line["url"]) == ("POST", CHAT_URL)
            line["body"]["messages"]
        except (ValueError, LookupError, TypeError):
            return [], _wrong("invalid_json_line", "This line is no request.", number)
        if name in seen or not fits:
            return [], _wrong("invalid_request", f"Bad url or repeated id {name}.", number)
        seen.add(name)
        lines.append(line)
    if not lines or len(lines) > MOST_LINES:
        return [], _wrong("invalid_file", f"A file has 1 to {MOST_LINES} lines.", None)
    return lines, None


def _outcome(
    line: JsonObject, answer: tuple[int, Any] | None, code: str = "", message: str = ""
) -> JsonObject:
    """A line of a result file; `answer` is the status and the body, if there is one."""
    name = line["custom_id"]
    done: JsonObject = {"id": f"batch_req_{name[:12]}", "custom_id": name, "response": None}
    if answer is None:
        return {**done, "error": {"code": code, "message": message}}
    response = {"status_code": answer[0], "request_id": f"req_{name[:12]}", "body": answer[1]}
    return {**done, "response": response, "error": None}


def _wrong(code: str, message: str, line: int | None) -> JsonObject:
    return {"code": code, "message": message, "param": None, "line": line}
