"""How the scripted endpoint puts what it says, and what it does not say, on the wire."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import struct
from collections.abc import Mapping

from aiohttp import web

from toolloom.llm.fake_answers import ScriptedFailure
from toolloom.schemas import JsonObject

JSON = "application/json"
TYPES = {"{": JSON, "<": "text/html"}  # by a body's first character
LOOK = 0.05  # seconds between looks whether a client has left
GOODBYE = struct.pack("ii", 1, 0)  # linger for no time: TCP sends a reset


def key_of(body: JsonObject) -> str:
    """Equal bodies have equal keys; an answer's id begins with its request's."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:32]


def refusal(status: int, message: str, code: str | None) -> ScriptedFailure:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return ScriptedFailure(status, body=json.dumps({"error": error}))


def respond(failure: ScriptedFailure, limits: Mapping[str, str]) -> web.Response:
    """A failure as an HTTP response; without a body of its own it gets OpenAI's error."""
    wait = {} if failure.retry_after is None else {"Retry-After": str(failure.retry_after)}
    body = error_body(failure)
    headers = {**limits, **wait, "Content-Type": TYPES.get(body[:1], "text/plain")}
    return web.Response(status=failure.status, body=body.encode(), headers=headers)


def error_body(failure: ScriptedFailure) -> str:
    if failure.body is not None:
        return failure.body
    code = "rate_limit_exceeded" if failure.status == 429 else None
    return refusal(failure.status, "scripted failure", code).body or ""


def drop(transport: asyncio.BaseTransport | None, reset: bool) -> None:
    """Close a connection without an answer."""
    if transport is None:
        return
    if reset:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, GOODBYE)
    transport.close()


async def left(request: web.Request) -> None:
    """Wait until the client closes its connection."""
    while request.transport and not request.transport.is_closing():  # noqa: ASYNC110 - no event
        await asyncio.sleep(LOOK)
