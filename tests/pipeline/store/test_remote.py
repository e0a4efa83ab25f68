"""Stores that cannot serve: what is told, and how soon."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import fsspec
import pytest
from s3fs import S3FileSystem
from support import s3_server

from toolloom.pipeline.store import remote
from toolloom.pipeline.store.outputs import opened
from toolloom.pipeline.store.remote import Remote, is_url
from toolloom.schemas import StoreError

pytestmark = pytest.mark.usefixtures("reachable")


def test_a_url_is_told_from_a_folder() -> None:
    """By its scheme."""
    urls = ["s3://bucket", "simplecache::s3://bucket/a", "abfs://box@account/a"]
    assert [
        text for text in (*urls, "outputs", "/a/b", "a:b/c", "../s3:/a") if is_url(text)
    ] == urls


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("s4://bucket/a", "Protocol not known: s4"),
        ("gs://bucket/a", "gcsfs.* Install the package it names with pip"),
        ("s3://nobodys/a", "bucket does not exist.* Make the bucket"),
        ("s3://me:hunter2@bucket/a", "a URL with a password"),
        ("s3://me:hunter2/with+slash@bucket/a", "a URL with a password"),
        ("s3://bucket/a?sig=hunter2", "a URL with a password"),
        ("s3://", "is no folder"),
        ("memory://", "is no folder"),
        ("s3://bucket/a*/b", "is no folder"),
    ],
)
def test_a_store_that_is_none_is_told_at_once(url: str, told: str) -> None:
    """What is wrong and what to do, and no password."""
    began = time.monotonic()
    with pytest.raises(StoreError, match=told) as raised:
        opened(url)
    assert time.monotonic() - began < 30  # no tries that cannot help
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("url", ["S3://{}/a", "s3:/{}/a", "s3://{}/a//", "s3://{}/a/"])
def test_a_url_may_be_written_in_many_ways(
    url: str, store: s3_server.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In capitals, with slashes at its end, or with the slash that pathlib takes lacking."""
    bucket = store.bucket()
    monkeypatch.chdir(tmp_path)
    assert opened(url.format(bucket)) == opened(f"s3://{bucket}/a")
    assert not (tmp_path / "s3:").exists()


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    """Without s3fs the extra that brings it is told."""
    hidden = tmp_path / "s3fs.py"
    hidden.write_text("raise ImportError('No module named s3fs')\n")
    code = "from toolloom.pipeline.store.outputs import opened; opened('s3://bucket')"
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert "Install 'toolloom[s3]' with pip" in ran.stderr


def test_keys_that_are_not_accepted_are_told(
    store: s3_server.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong ones, none at all: the error says where keys come from, and shows none."""
    bucket = store.bucket()
    store.check_keys()
    try:
        with pytest.raises(StoreError, match="Check the keys of the store") as raised:
            opened(f"s3://{bucket}/a")
    finally:
        store.check_keys(-1)
    assert s3_server.KEYS["AWS_SECRET_ACCESS_KEY"] not in str(raised.value)
    for name in s3_server.KEYS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "/nowhere")
    S3FileSystem.clear_instance_cache()
    with pytest.raises(StoreError, match="credentials.* Check the keys of the store"):
        opened(f"s3://{bucket}/a")


def test_a_store_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that takes a connection and never answers."""
    monkeypatch.setattr(remote, "PATIENCE", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": address})
        with pytest.raises(StoreError, match="does not answer within 1 s.*Check the address"):
            opened("s3://bucket/a")


@pytest.mark.slow
def test_a_store_that_is_down_is_told_by_the_command(
    store: s3_server.Store, tmp_path: Path
) -> None:
    """Exit code 2 and one line, no traceback, in seconds."""
    env = {**os.environ, **store.environment, "FSSPEC_S3_ENDPOINT_URL": "http://127.0.0.1:9"}
    command = [sys.executable, "-c", "from toolloom.cli import main; main()", "show", "-o"]
    ran = subprocess.run(
        [*command, "s3://bucket/a"], env=env, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("s3://bucket/a: ")
    assert len(ran.stderr.splitlines()) == 1


def test_what_a_store_has_not_is_no_error(store: s3_server.Store) -> None:
    """It is neither listed nor seen, and may be removed."""
    place = Remote(f"s3://{store.bucket()}/some/where/")
    assert place.names("none") == place.files("none") == {}
    place.remove(["runs/r/none"])
    assert place.seen("runs/r/none") is None


def test_what_must_be_new_is_not_replaced(store: s3_server.Store, tmp_path: Path) -> None:
    """A manifest that another machine has written stays as it is."""
    bucket, file = store.bucket(), tmp_path / "file"
    place = Remote(f"s3://{bucket}")
    file.write_bytes(b"first")
    assert place.give(file, "manifest.json", new=True)
    file.write_bytes(b"second")
    assert not place.give(file, "manifest.json", new=True)
    assert store.read(bucket, "manifest.json") == b"first"
