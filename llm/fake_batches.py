"""The Batch API of the scripted endpoint: files, batches, and answers by the server's script.

As OpenAI documents it: https://platform.openai.com/docs/api-reference/batch
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from aiohttp import BodyPartReader, web

from toolloom.llm.fake_answers import ScriptedFailure
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


class Answering(Protocol):
    """The server whose script answers the lines of a batch."""

    @property
    def models(self) -> tuple[str, ...] | None: ...

    def denied(self, request: web.Request) -> ScriptedFailure | None: ...

    async def reply(self, body: JsonObject, chat: bool = True) -> JsonObject | ScriptedFailure: ...

    def count_line(self, body: JsonObject, said: JsonObject | ScriptedFailure) -> None: ...


class Batches:
    """All files and batches of one server; they outlive the clients."""

    def __init__(self, server: Answering, plan: Batching) -> None:
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, JsonObject] = {}
        self.polls = 0
        self._server = server
        self._plan = plan
        self._dice = random.Random(0)
        self._work: set[asyncio.Task[None]] = set()

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post("/v1/files", self._asking_for_a_key(self._upload))
        app.router.add_get("/v1/files/{id}/content", self._asking_for_a_key(self._content))
        app.router.add_post("/v1/batches", self._asking_for_a_key(self._create))
        app.router.add_get("/v1/batches", self._asking_for_a_key(self._list))
        app.router.add_get("/v1/batches/{id}", self._asking_for_a_key(self._retrieve))
        app.router.add_post("/v1/batches/{id}/cancel", self._asking_for_a_key(self._cancel))
        app.on_cleanup.append(self._stop)

    async def _stop(self, _app: web.Application) -> None:
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    def _asking_for_a_key(self, handler: Handler) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            denied = self._server.denied(request)
            return await handler(request) if denied is None else _failed(denied)

        return handle

    async def _upload(self, request: web.Request) -> web.Response:
        fields: dict[str, bytes] = {}
        async for part in await request.multipart():  # without the limit that post() has
            if isinstance(part, BodyPartReader):
                chunks = [bytes(chunk) async for chunk in _read(part)]
                fields[part.name or ""] = b"".join(chunks)
        if len(fields.get("file", b"")) > self._plan.largest:
            return _refused(413, "The file is too large.")
        if fields.get("purpose") != self._plan.purpose.encode():
            return _refused(400, "Invalid value for 'purpose'.")
        await asyncio.sleep(self._plan.uploading)
        name = self._keep(fields.get("file", b""))
        return web.json_response(_file(name, self.files[name], "batch"))

    def _keep(self, content: bytes) -> str:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = content
        return name

    async def _content(self, request: web.Request) -> web.Response:
        content = self.files.get(request.match_info["id"])
        if content is None:
            return _refused(404, "No such File object.")
        return web.Response(body=content, content_type="application/octet-stream")

    async def _create(self, request: web.Request) -> web.Response:
        asked: JsonObject = await request.json()
        if asked.get("input_file_id") not in self.files:
            return _refused(400, f"Cannot find file {asked.get('input_file_id')}.")
        if asked.get("endpoint") != CHAT_URL or asked.get("completion_window") != "24h":
            return _refused(400, "Invalid 'endpoint' or 'completion_window'.")
        await asyncio.sleep(self._plan.making)
        batch = _batch(f"batch_{len(self.batches) + 1}", asked, self._plan.metadata)
        self.batches[batch["id"]] = batch
        task = asyncio.create_task(self._carry_out(batch))
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        lost = len(self.batches) <= self._plan.lost
        return _refused(500, "scripted failure") if lost else web.json_response(batch)

    async def _list(self, request: web.Request) -> web.Response:
        newest = list(self.batches.values())[::-1]
        after = request.query.get("after")
        start = next((n + 1 for n, batch in enumerate(newest) if batch["id"] == after), 0)
        many = min(int(request.query.get("limit", 20)), self._plan.per_page)
        page = newest[start : start + many]
        more = start + many < len(newest)
        return web.json_response({"object": "list", "data": page, "has_more": more})

    async def _retrieve(self, request: web.Request) -> web.Response:
        self.polls += 1
        batch = self.batches.get(request.match_info["id"])
        return _refused(404, "No such batch.") if batch is None else web.json_response(batch)

    async def _cancel(self, request: web.Request) -> web.Response:
        batch = self.batches.get(request.match_info["id"])
        if batch is None:
            return _refused(404, "No such batch.")
        if batch["status"] not in ENDED:
            batch["status"] = "cancelling"
        return web.json_response(batch)

    async def _carry_out(self, batch: JsonObject) -> None:
        """A batch's life: validated, waited for, answered, finished."""
        await asyncio.sleep(0)
        lines, wrong = _lines(self.files[batch["input_file_id"]])
        wrong = wrong or self._unknown_model(lines) or self._overfull(len(lines))
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
        answered = [await self._answer(line, batch) for line in lines[:reached]]
        answered += [_outcome(line, None, "batch_expired", EXPIRED) for line in lines[reached:]]
        self._finish(batch, answered, "expired" if expires else "completed")

    def _unknown_model(self, lines: list[JsonObject]) -> JsonObject | None:
        known = self._server.models
        asked = str(lines[0]["body"].get("model")) if lines else ""
        if known is None or asked in known:
            return None
        return _wrong("model_not_found", f"The model `{asked}` does not exist.", 1)

    def _overfull(self, more: int) -> JsonObject | None:
        open_ = [batch for batch in self.batches.values() if batch["status"] == "in_progress"]
        total = more + sum(batch["request_counts"]["total"] for batch in open_)
        if self._plan.room is None or total <= self._plan.room:
            return None
        return _wrong("token_limit_exceeded", FULL.format(room=self._plan.room), None)

    async def _answer(self, line: JsonObject, batch: JsonObject) -> JsonObject:
        """One line of a result file. Of a cancelled batch nothing more is answered."""
        if batch["status"] == "cancelling":
            return _outcome(line, None, "batch_cancelled", "This batch was cancelled.")
        said: JsonObject | ScriptedFailure = ScriptedFailure()
        if self._dice.random() >= self._plan.failure_rate:
            said = await self._server.reply(line["body"])
        self._server.count_line(line["body"], said)
        if isinstance(said, ScriptedFailure):
            return _outcome(line, (said.status, _body(said)))
        return _outcome(line, (200, said))

    def _finish(self, batch: JsonObject, answered: list[JsonObject], status: str) -> None:
        """Files first, then the status that sends clients to them."""
        good = [line for line in answered if _good(line)]
        bad = [line for line in answered if not _good(line)]
        batch["request_counts"].update(completed=len(good), failed=len(bad))
        batch["output_file_id"] = self._keep(_jsonl(good)) if good else None
        batch["error_file_id"] = self._keep(_jsonl(bad)) if bad else None
        batch["status"] = "cancelled" if batch["status"] == "cancelling" else status


async def _read(part: BodyPartReader) -> AsyncIterator[bytes]:
    while chunk := await part.read_chunk(2**18):
        yield chunk


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


def _good(line: JsonObject) -> bool:
    response = line["response"]
    return response is not None and response["status_code"] == 200


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


def _jsonl(lines: list[JsonObject]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def _wrong(code: str, message: str, line: int | None) -> JsonObject:
    return {"code": code, "message": message, "param": None, "line": line}


def _file(name: str, content: bytes, purpose: str) -> JsonObject:
    return {
        "id": name,
        "object": "file",
        "bytes": len(content),
        "created_at": int(time.time()),
        "filename": f"{name}.jsonl",
        "purpose": purpose,
        "status": "processed",
    }


def _batch(name: str, asked: JsonObject, metadata: bool) -> JsonObject:
    now = int(time.time())
    return {
        "id": name,
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
        "metadata": asked.get("metadata") if metadata else None,
    }


def _refused(status: int, message: str) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return web.json_response({"error": error}, status=status)


def _failed(failure: ScriptedFailure) -> web.Response:
    return web.json_response(_body(failure), status=failure.status)


def _body(failure: ScriptedFailure) -> Any:
    """The error's body, as JSON if it is any."""
    try:
        return json.loads(failure.body or '{"error": {"message": "scripted failure"}}')
    except ValueError:
        return failure.body
