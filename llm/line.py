"""The line to one endpoint: the OpenAI client, and the only place that retries."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import random
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import tenacity

from toolloom.llm.faults import CHAT, Caller, Garbled, Trouble, fault
from toolloom.llm.lane import Lane
from toolloom.schemas import (
    Endpoint,
    EndpointDenied,
    EndpointDown,
    JsonObject,
    ModelMissing,
    RequestRefused,
)

if TYPE_CHECKING:
    import httpx2
    import openai

FIRST_WAIT = 0.25
LONGEST_WAIT = 30.0
CONNECT_SECONDS = 10.0
MODELS_SECONDS = 3.0
CONNECTIONS = 2048


class Line:
    """Sends bodies to one path of an endpoint and takes what it answers, or says why it fails."""

    def __init__(
        self,
        endpoint: Endpoint,
        base_url: str,
        lane: Lane,
        on_retry: Callable[[], None],
        path: str = CHAT,
    ) -> None:
        """Raises EndpointDenied if there is no key; sends nothing yet."""
        self._endpoint = endpoint
        self._lane = lane
        self._on_retry = on_retry
        self._caller = Caller(
            address=public(base_url),
            model=endpoint.model,
            key_env=endpoint.key_env,
            key=_key(endpoint, base_url),
            path=path,
        )
        self._client = _client(base_url, self._caller.key, endpoint.timeout)

    async def close(self) -> None:
        await self._client.close()

    async def send(self, body: JsonObject, accept: Callable[[str], None]) -> None:
        """Send until `accept` takes the answer's body.

        `accept` is called as soon as a body is read, and raises Garbled if it is no answer.
        Raises EndpointDown, EndpointDenied, ModelMissing, EndpointError, RequestRefused.
        """
        content = json.dumps(body).encode()
        formatted = "response_format" in body
        try:
            await self._retrying()(self._try, content, formatted, accept)
        except Garbled as error:
            raise RequestRefused(
                f"{self._caller.address} does not answer as an OpenAI-compatible endpoint: {error}",
                error.raw,
            ) from error
        except Trouble as error:
            raise EndpointDown(self._down(error)) from error
        except ModelMissing as error:
            raise ModelMissing(f"{error} {await self._offer()}") from error

    def _retrying(self) -> tenacity.AsyncRetrying:
        return tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(Trouble),
            stop=tenacity.stop_after_attempt(self._endpoint.tries),
            wait=_wait,
            before_sleep=self._before_sleep,
            reraise=True,
        )

    def _before_sleep(self, state: tenacity.RetryCallState) -> None:
        self._on_retry()

    async def _try(self, content: bytes, formatted: bool, accept: Callable[[str], None]) -> None:
        async with self._lane:
            raw = self._caller.clean(await self._post(content, formatted))
            accept(raw)
            self._lane.answered()

    async def _post(self, content: bytes, formatted: bool) -> str:
        """One HTTP request: the body of a success. Raises what anything else amounts to."""
        import httpx2
        import openai

        try:
            async with asyncio.timeout(self._endpoint.timeout):
                response = await self._client.post(
                    self._caller.path,
                    content=content,
                    cast_to=httpx2.Response,
                    options={"headers": JSON},
                )
        except openai.APIStatusError as error:
            raise self._refusal(error.response, formatted) from error
        except (openai.APIError, httpx2.HTTPError, TimeoutError) as error:
            raise self._no_answer(error) from error
        return bytes(response.content).decode("utf-8", "replace")

    def _no_answer(self, error: BaseException) -> Trouble:
        # The transport calls every failure to connect a timeout; its first cause knows better.
        while error.__cause__ is not None and not isinstance(error, TimeoutError):
            error = error.__cause__
        if isinstance(error, TimeoutError):
            return Trouble(f"no answer within {self._endpoint.timeout:g} s")
        return Trouble(self._caller.scrub(f"no connection ({error or type(error).__name__})"))

    def _refusal(self, response: httpx2.Response, formatted: bool) -> Exception:
        body = response.content.decode("utf-8", "replace")
        found = fault(response.status_code, response.headers, body, self._caller, formatted)
        if isinstance(found, Trouble) and found.crowded:
            self._lane.pause(found.pause or 0.0)
        return found

    def _down(self, error: Trouble) -> str:
        times = "once" if self._endpoint.tries == 1 else f"{self._endpoint.tries} times"
        return (
            f"{self._caller.address} does not serve {self._caller.model!r}: {error} "
            f"(tried {times}). Check that the server runs; what it answered so far is kept: "
            "run the same command again to go on."
        )

    async def _offer(self) -> str:
        """What GET /models lists, as a hint; nothing if that fails, for it is only a hint."""
        import httpx2
        import openai

        try:
            async with asyncio.timeout(MODELS_SECONDS):
                response = await self._client.get("/models", cast_to=httpx2.Response)
            names = sorted(str(entry["id"]) for entry in response.json()["data"])
        except (
            openai.APIError,
            httpx2.HTTPError,
            TimeoutError,
            ValueError,
            LookupError,
            TypeError,
        ):
            return "Set `model` to one it serves."
        more = f" and {len(names) - 20} more" if len(names) > 20 else ""
        return self._caller.scrub(f"It offers: {', '.join(names[:20]) or 'none'}{more}.")


# The SDK sends `content` with the media type of a stream unless told otherwise.
JSON = {"Content-Type": "application/json"}


def _wait(state: tenacity.RetryCallState) -> float:
    """The endpoint's own wish, or exponential backoff; jittered, so that not all come at once."""
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, Trouble) and error.pause is not None:
        return error.pause + random.uniform(0, 0.1)
    backoff = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (state.attempt_number - 1))
    return backoff * random.uniform(0.75, 1.25)


def _client(base_url: str, key: str, timeout: float) -> openai.AsyncOpenAI:
    import httpx2  # 0.9 s together with openai: only once there is something to ask
    import openai

    patience = httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS))
    http = openai.DefaultAioHttpClient(
        timeout=patience,
        limits=httpx2.Limits(max_connections=CONNECTIONS, keepalive_expiry=30),
        trust_env=not is_loopback(base_url),  # a proxy would look for 127.0.0.1 at home
    )
    return openai.AsyncOpenAI(
        api_key=key, base_url=base_url, max_retries=0, timeout=patience, http_client=http
    )


def _key(endpoint: Endpoint, base_url: str) -> str:
    """The key from the environment; a server on this machine needs none."""
    key = os.environ.get(endpoint.key_env, "").strip()
    if endpoint.local:
        return "none"
    if not key.isascii():
        raise EndpointDenied(
            f"The key in the environment variable {endpoint.key_env} holds characters that no "
            "key has. Copy it again from where it was issued."
        )
    if key or is_loopback(base_url):
        return key or "none"
    raise EndpointDenied(
        f"{public(base_url)} needs a key, and the environment variable {endpoint.key_env} is "
        f"not set. Set it (export {endpoint.key_env}=…; any word if the endpoint needs no key), "
        "or name another variable in `key_env`."
    )


def is_loopback(base_url: str) -> bool:
    """Whether the address is this machine's own."""
    host = urlsplit(base_url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def public(base_url: str) -> str:
    """The address without user, password and query, which may hold secrets."""
    parts = urlsplit(base_url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
