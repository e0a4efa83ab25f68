"""A dataset is made by one process at a time, also by one thread."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from toolloom.pipeline.store.files import hold_dataset
from toolloom.schemas import Busy

HOLD = """
import sys
from pathlib import Path
from toolloom.pipeline.store.files import hold_dataset

with hold_dataset(Path(sys.argv[1]), "weather"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(outputs: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the dataset `weather`."""
    command = [sys.executable, "-c", HOLD, str(outputs)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def is_free(outputs: Path, seconds: float = 30) -> bool:
    """Whether the dataset can be held within some time."""
    until = time.monotonic() + seconds
    while True:
        try:
            with hold_dataset(outputs, "weather"):
                return True
        except Busy:
            if time.monotonic() > until:
                return False
        time.sleep(0.02)


def test_a_second_process_cannot_hold_a_dataset(tmp_path: Path) -> None:
    """It is told at once; another dataset is free, and this one once it was killed."""
    with holder(tmp_path):
        with pytest.raises(Busy, match="dataset weather: another process"):
            hold_dataset(tmp_path, "weather").__enter__()
        with hold_dataset(tmp_path, "traffic"):
            pass
    assert is_free(tmp_path)


def test_one_process_cannot_hold_a_dataset_twice(tmp_path: Path) -> None:
    """Two flows in one process keep from each other too, and errors let go. Who holds it may ask for
    it again, as a command that starts a flow does: it is held until the outer one lets go."""
    with ThreadPoolExecutor() as other:
        with hold_dataset(tmp_path, "weather"):
            with hold_dataset(tmp_path, "weather"):
                pass
            assert not other.submit(is_free, tmp_path, 0).result()
        with pytest.raises(KeyError), hold_dataset(tmp_path, "weather"):
            raise KeyError
        assert other.submit(is_free, tmp_path, 0).result()
