"""Work on many records in processes beside this one: results in order, a few tasks ahead."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from itertools import islice
from multiprocessing import get_context, parent_process
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 3  # tasks that wait or are done, for each process


def in_processes(
    work: Callable[[T], R], tasks: Iterable[T], processes: int | None = None
) -> Iterator[R]:
    """`work` of each task, in order; in this process for `processes` below 2.

    `work` is a function of a module. What it raises is raised here. If a process is killed, the
    tasks that are left are done in this one.
    """
    count = (os.cpu_count() or 1) if processes is None else processes
    if count < 2:
        yield from map(work, tasks)
        return
    # Not forked: threads of this process may hold locks.
    pool = ProcessPoolExecutor(count, get_context("spawn"), _begin)
    try:
        left = iter(tasks)
        waiting = deque[tuple[T, Future[R] | None]]()
        while True:
            for task in islice(left, AHEAD * count - len(waiting)):
                future: Future[R] | None = None
                with suppress(RuntimeError):  # of a pool that is broken
                    future = pool.submit(work, task)
                waiting.append((task, future))
            if not waiting:
                return
            task, future = waiting.popleft()
            try:
                result = future.result() if future else work(task)
            except BrokenProcessPool:
                result = work(task)
            yield result
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _begin() -> None:
    """A process's start: it ends with the one that began it, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := parent_process():
        parent.join()
    os._exit(1)
