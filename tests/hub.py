"""A Hugging Face Hub on the loopback: the parts of its HTTP API that a push and a load use.

Repositories are in memory. Files of `.parquet` go through LFS, whose store checks their SHA-256;
what a request must not do (a foreign token, a blob that is not there, an old parent) is refused
with the Hub's statuses. `fail` makes it misbehave.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any

from hub_handler import Handler
from hub_repo import ATTRIBUTES, Blob, Repo


@dataclass
class Fault:
    """What goes wrong with the next requests of a kind."""

    kind: str
    times: int
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    reset: bool = False  # the connection, before the request was read
    lost: bool = False  # the answer, after the work was done
    held: threading.Event | None = None  # until this is set


class Hub:
    """The state, and what the tests say to it and read of it."""

    def __init__(self, part_size: int = 5_000_000) -> None:
        self.repos: dict[str, Repo] = {}
        self.part_size = part_size  # larger files are uploaded in parts
        self.asked: list[str] = []  # the kinds of requests, in order
        self.leaked: list[str] = []  # requests to the store that carried the token
        self.faults: list[Fault] = []
        self.reached = threading.Event()  # a fault with `held` is in effect
        self.url = ""
        self.lock = threading.RLock()

    def fail(self, kind: str, times: int = 1, **how: Any) -> None:
        self.faults.append(Fault(kind, times, **how))

    def take_fault(self, kind: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.kind == kind and fault.times:
                    fault.times -= 1
                    return fault
        return None

    def make(self, name: str, private: bool = True) -> Repo:
        repo = self.repos[name] = Repo(private)
        repo.commit("initial commit", {".gitattributes": Blob(ATTRIBUTES)})
        return repo

    def counts(self) -> Counter[str]:
        """How many requests of each kind came since the last time."""
        asked, self.asked = self.asked, []
        return Counter(asked)

    @contextmanager
    def serve(self) -> Iterator[Hub]:
        handler = type("Bound", (Handler,), {"hub": self})
        server = Quiet(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            for fault in self.faults:
                if fault.held:
                    fault.held.set()
            server.shutdown()
            thread.join()
            server.server_close()


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients may be killed."""
