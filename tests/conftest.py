"""What all tests share: no network but loopback, no home but a temporary one.

`pytest -m "not slow"` is quick; `pytest -m slow` is the rest, and every property test once more with
eight times the examples.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import pytest_socket
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
LONG = {"test_golden.py", "test_flows.py", "cli/test_apis.py"}
sys.path.insert(0, str(TESTS))  # for `support`

# Set before `datasets` is first imported, which reads them once.
_HOME = tempfile.TemporaryDirectory(prefix="toolloom-hf-")  # removed when the tests end
os.environ["HF_HOME"] = _HOME.name
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"


# How long an example takes depends on the machine; what never ends meets pytest's time limit.
for _profile, _examples in (("quick", 25), ("slow", 200)):
    settings.register_profile(
        _profile,
        max_examples=_examples,
        derandomize=True,  # a run that fails fails again
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("slow" if config.option.markexpr == "slow" else "quick")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files first, so that workers end together; a file stays whole, for its fixtures."""
    if config.option.markexpr == "slow":
        for item in items:
            if hasattr(getattr(item, "obj", None), "hypothesis"):
                item.add_marker(pytest.mark.slow)
    files = list(dict.fromkeys(item.path for item in items))
    files.sort(key=lambda path: path.relative_to(TESTS).as_posix() not in LONG)
    # Workers begin with equal parts of the list: each part has its share of the long ones.
    dealt = {path: (number % 2, number) for number, path in enumerate(files)}
    items.sort(key=lambda item: dealt[item.path])


def pytest_runtest_setup() -> None:
    pytest_socket.socket_allow_hosts(["127.0.0.1", "::1", "localhost"], allow_unix_socket=True)


@pytest.fixture(scope="session")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Builds a folder when the first worker asks for it; what is in it is only read, or copied."""
    from filelock import FileLock

    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder

    def build(name: str, make: Callable[[Path], object]) -> Path:
        made = shared / f"built-{name}"
        with FileLock(f"{made}.lock"):
            if not made.exists():
                part = made.with_suffix(".part")
                make(part)
                part.rename(made)
        return made

    return build
