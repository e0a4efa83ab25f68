from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest
from support.waiting import come_to_rest, wait_for

from toolloom.llm import FakeServer

REQUESTS = 200
RUN = """
import asyncio, sys
from toolloom.agents.ask import ask
from toolloom.llm import Gateway
from toolloom.prompts import Prompt
from toolloom.schemas import Endpoint

async def main():
    prompt = Prompt("t", "h", ({"role": "user", "content": "Hello"},))
    async with Gateway(sys.argv[1]) as gateway:
        model = gateway.model(Endpoint(base_url=sys.argv[2], model="fake", concurrency=8))
        asked = (ask(model, prompt, str, seed=n) for n in range(int(sys.argv[3])))
        await asyncio.gather(*asked)

asyncio.run(main())
"""


def start(server: FakeServer, cache) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", RUN, str(cache), server.base_url, str(REQUESTS)]
    return subprocess.Popen(command)


@pytest.mark.slow
def test_a_killed_run_asks_nothing_again(cache):
    """After kill -9 every response that was committed is used, and no other is missing."""
    with FakeServer(latency=0.05).serve_in_thread() as server:
        with start(server, cache) as process:
            wait_for(lambda: server.answered >= REQUESTS // 2, "half of it is answered")
            process.kill()
        come_to_rest(server.base_url)
        answered = server.answered
        with sqlite3.connect(cache) as opened:
            (kept,) = opened.execute("SELECT count(*) FROM responses").fetchone()
        with start(server, cache) as process:
            assert process.wait() == 0
    assert kept >= REQUESTS // 4
    assert server.answered - answered == REQUESTS - kept
    assert server.repeats <= answered - kept
