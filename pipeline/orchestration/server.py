"""Prefect's API for a run: of the server that is set, of one on this machine, or of this process.

Prefect would start a server as a process of its own, which imports all of Prefect once more and
stays behind where this process is killed. Here it is a thread: it ends with the process. It has no
page, and of the services only the one that records task runs; its database is Prefect's usual one,
so that `prefect server start` shows the run later.
"""

from __future__ import annotations

import atexit
import functools
import json
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import prefect
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_SERVER_API_HOST,
    PREFECT_SERVER_API_PORT,
    temporary_settings,
)

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback needs no proxy
LOOK_SECONDS = 1.0
START_SECONDS = 120  # the first time the database is made
END_SECONDS = 5.0  # for what has not been recorded yet


@contextmanager
def api() -> Iterator[None]:
    """Lets Prefect's clients in the block find an API. Raises RuntimeError if none starts."""
    if PREFECT_API_URL.value():
        yield
        return
    with temporary_settings({PREFECT_API_URL: _beside() or _within()}):
        yield


def _beside() -> str | None:
    """The API of a server on this machine, if one of this version runs where Prefect's does."""
    host = PREFECT_SERVER_API_HOST.value()
    if host not in ("127.0.0.1", "localhost"):
        return None
    url = f"http://{host}:{PREFECT_SERVER_API_PORT.value()}/api"
    try:
        with DIRECT.open(f"{url}/admin/version", timeout=LOOK_SECONDS) as answer:
            return url if json.load(answer) == prefect.__version__ else None
    except (OSError, ValueError):
        return None


@functools.cache
def _within() -> str:
    """The API of a server in a thread of this process, which is started once."""
    import uvicorn
    from prefect.server.api.server import create_app

    app = create_app(ephemeral=True, final=True)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    ends = time.monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > ends:
            raise RuntimeError("its server does not start")
        time.sleep(0.01)

    def end() -> None:
        server.should_exit = True
        thread.join(END_SECONDS)

    atexit.register(end)
    return f"http://127.0.0.1:{listener.getsockname()[1]}/api"
