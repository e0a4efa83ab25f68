"""Waits for what other processes do. Nothing here passes or fails by how fast a machine is: the
patience is many times what a busy one takes."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

PATIENCE = 300.0  # seconds


async def until(met: Callable[[], Any]) -> None:
    """Wait on the event loop."""
    async with asyncio.timeout(PATIENCE):
        while not met():  # noqa: ASYNC110 - what is looked at sets no events
            await asyncio.sleep(0.01)


def wait_for(
    met: Callable[[], Any], what: str, patience: float = PATIENCE, every: float = 0.02
) -> Any:
    """What `met` gives once it is true."""
    end = time.monotonic() + patience
    while not (found := met()):
        assert time.monotonic() < end, f"not within {patience:g} s: {what}"
        time.sleep(every)
    return found


def come_to_rest(base_url: str) -> None:
    """Wait until a scripted endpoint has nothing under way: what a killed process asked has come
    to its end there, and is in the endpoint's log."""
    counters = base_url.removesuffix("/v1") + "/counters"

    def rests() -> bool:
        with urllib.request.urlopen(counters, timeout=PATIENCE) as response:
            return int(json.load(response)["busy"]) == 0

    # Twice: a request may lie in the socket that nobody has looked at yet.
    wait_for(lambda: rests() and (time.sleep(0.1) or rests()), "the endpoint comes to rest")
