"""How soon a command begins: seconds to the first request of a run, and to a help page.

    python benchmarks/start.py            # --engine local
    python benchmarks/start.py prefect    # also through Prefect

A server on loopback notes when the first request of a run comes in, against the moment at which
the process was started; then the run is killed. Medians of RUNS. A local run
is to ask within 1.5 seconds.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from measure import TOOLLOOM, Json, in_turns, show

RUNS = 5
RECIPE = """
name: start
model: {base_url: "http://127.0.0.1:%d/v1", model: none}
queries: {count: 4}
"""


def first_request(engine: str, home: Path) -> Json:
    """Until the first request of a run came in."""
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
        taken = {"wall": time.monotonic() - began}
        process.terminate()
        process.wait()
        connection.close()
    return taken


def help_page() -> Json:
    began = time.monotonic()
    subprocess.run([*TOOLLOOM, "--help"], stdout=subprocess.DEVNULL, check=True)
    return {"wall": time.monotonic() - began}


def main() -> None:
    engines = ["local", *sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for engine in engines:
            first_request(engine, home)  # what only the first start ever does
        runs = {
            f"run --engine {engine}": partial(first_request, engine, home) for engine in engines
        }
        taken = in_turns(RUNS, {**runs, "--help": help_page})
    rows = [{"command": command, **row} for command, row in taken.items()]
    show("Start", rows, {"command": "command", "wall": "seconds"})


if __name__ == "__main__":
    main()
