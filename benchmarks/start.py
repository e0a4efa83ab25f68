"""How soon a command begins: seconds to the first request of a run, and to a help page.

    python benchmarks/start.py            # --engine local
    python benchmarks/start.py prefect    # also through Prefect

A server on loopback notes when the first request of a run comes in, against the moment at which
the process was started; then the run is killed. Medians of RUNS; CPU seconds, which other work on
the machine changes less, are those of the process and what it has started until then.
"""

from __future__ import annotations

import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 5
TOOLLOOM = [sys.executable, "-c", "from toolloom.cli import main; main()"]
RECIPE = """
name: start
model: {base_url: "http://127.0.0.1:%d/v1", model: none}
queries: {count: 4}
"""


def cpu(pid: int) -> float:
    """CPU seconds of a process and all it has started."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = " ".join(
            one.read_text() for one in Path(f"/proc/{pid}/task").glob("*/children")
        ).split()
    except OSError:
        return 0.0
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(cpu(int(child)) for child in children)


def first_request(engine: str, home: Path) -> tuple[float, float]:
    """Seconds, and CPU seconds, until the first request of a run came in."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        recipe = home / "start.yaml"
        recipe.write_text(RECIPE % server.getsockname()[1])
        shutil.rmtree(home / "outputs", ignore_errors=True)
        command = [*TOOLLOOM, "run", str(recipe), "-o", str(home / "outputs"), "--engine", engine]
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        server.settimeout(120)
        connection, _ = server.accept()
        connection.recv(1)
        took = time.monotonic() - began, cpu(process.pid)
        process.terminate()
        process.wait()
        connection.close()
    return took


def help_page() -> tuple[float, float]:
    """Seconds, and CPU seconds, of `toolloom --help`."""
    before, began = os.times(), time.monotonic()
    subprocess.run([*TOOLLOOM, "--help"], stdout=subprocess.DEVNULL, check=True)
    took, after = time.monotonic() - began, os.times()
    used = after.children_user + after.children_system
    return took, used - before.children_user - before.children_system


def main() -> None:
    engines = ["local", *sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        for engine in engines:
            first_request(engine, Path(folder))  # what only the first start ever does
            figures = [first_request(engine, Path(folder)) for _ in range(RUNS)]
            show(f"first request, --engine {engine}", figures)
    show("--help", [help_page() for _ in range(RUNS)])


def show(what: str, figures: list[tuple[float, float]]) -> None:
    wall, used = (statistics.median(column) for column in zip(*figures, strict=True))
    print(f"{what:35} {wall:6.2f} s, {used:5.2f} s of CPU")


if __name__ == "__main__":
    main()
