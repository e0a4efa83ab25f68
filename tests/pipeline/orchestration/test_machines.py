from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolloom.pipeline.orchestration.machines import Ray, has_token
from toolloom.schemas import ClusterError


def test_a_token_of_ray_is_found_where_ray_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the home folder, and in two variables: then it is shown to the cluster at an address."""
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not has_token()
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        with monkeypatch.context() as told:
            told.setenv(name, "something")
            assert has_token()
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("a token")
    assert has_token()


def test_what_is_no_ray_is_told_in_seconds(fake_port: int) -> None:
    """Ray itself would ask a stranger's port for minutes."""
    with pytest.raises(ClusterError, match=r"is no Ray cluster\. Correct --address"):
        Ray(f"127.0.0.1:{fake_port}").start()


@pytest.fixture
def fake_port() -> Iterator[int]:
    """A port on which something listens that is no cluster."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]
