"""Pushes that are refused, by the Hub or before it is asked, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.hub_pushes import contents, make_version, push, refused
from support.hub_server import TOKEN, Blob, Hub

from toolloom.pipeline.dataset import push as pushing
from toolloom.pipeline.store.version import find_version
from toolloom.schemas import PushError, StoreError


@pytest.mark.parametrize("what", ["byte", "lost", "more", "link", "manifest"])
def test_a_damaged_version_is_not_pushed(tmp_path: Path, what: str) -> None:
    """The folder is read and compared before the Hub is thought of."""
    folder = make_version(tmp_path, "1.0.0")
    table = folder / "sft" / "train-00000-of-00001.parquet"
    match what:
        case "byte":
            content = table.read_bytes()
            table.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
        case "lost":
            table.unlink()
        case "more":
            (folder / "sft" / "notes.txt").write_text("mine")
        case "link":
            (folder / "plots" / "1.svg").symlink_to("/etc/hostname")
        case "manifest":
            manifest = json.loads((folder / "manifest.json").read_text())
            (folder / "manifest.json").write_text(json.dumps(manifest | {"content": "x"}))
    with pytest.raises(StoreError, match="nothing was pushed"):
        pushing.push(find_version(tmp_path, "toy"), "me/toy", TOKEN)


FOREIGN = [
    {"train.csv": b"a,b"},
    {"manifest.json": b'{"name": "other"}'},
    {"manifest.json": b"<html>"},
]


@pytest.mark.slow
@pytest.mark.parametrize("files", FOREIGN, ids=str)
def test_what_is_no_version_of_the_dataset_is_not_deleted(
    hub: Hub, tmp_path: Path, files: dict[str, bytes]
) -> None:
    """A push to the wrong repository would delete it from the head."""
    make_version(tmp_path, "1.0.0")
    repo = hub.make("me/toy")
    repo.commit("mine", {name: Blob(content) for name, content in files.items()})
    assert "a repository of its own" in refused(hub, tmp_path)
    hub.fail("resolve", status=500)
    refused(hub, tmp_path)
    assert repo.titles[-1] == "mine"


@pytest.mark.slow
def test_only_a_commit_that_is_the_version_is_tagged(hub: Hub, tmp_path: Path) -> None:
    """A .gitignore that somebody put into the repository keeps files out of a commit."""
    make_version(tmp_path, "1.0.0")
    push(hub, tmp_path)
    repo = hub.repos["me/toy"]
    ignored = {".gitignore": Blob(b"plots/1.svg\n"), **(repo.files() or {})}
    repo.commit("mine", ignored)
    folder = make_version(tmp_path, "1.1.0", plots=2)
    assert "it was not tagged" in refused(hub, tmp_path)
    assert set(repo.tags) == {"1.0.0"}
    assert push(hub, tmp_path)[0] == 0
    assert repo.contents("1.1.0") == contents(folder)


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "info", "status": 401, "body": f'{{"error": "bad {TOKEN}"}}'}, "(bad [key]). Log in"),
    ({"kind": "info", "status": 403}, "may not write to me/toy"),
    ({"kind": "refs", "status": 404}, "The Hub has no me/toy that this token may see"),
    ({"kind": "commit", "status": 409}, "me/toy was changed at the same time"),
    ({"kind": "commit", "status": 412}, "me/toy was changed at the same time"),
    ({"kind": "info", "status": 429, "headers": {"Retry-After": "30"}}, "again in 30 seconds"),
    ({"kind": "info", "status": 503, "body": "<html>no</html>"}, "The Hub answered 503"),
    ({"kind": "info", "reset": True}, "The connection to the Hub broke"),
    ({"kind": "info", "status": 200, "body": "<html>hello</html>"}, "What answers is no Hub"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "said"), REFUSALS, ids=lambda value: str(value)[:40])
def test_what_the_hub_refuses_is_said_in_a_line(
    hub: Hub, tmp_path: Path, fault: dict[str, Any], said: str
) -> None:
    """What happened and what to do, without a traceback or the token."""
    make_version(tmp_path, "1.0.0")
    hub.fail(**{"times": 1, **fault})
    assert said in refused(hub, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"HF_TOKEN": "hf_wrong000000000000000000"}, "does not accept the token"),
        ({"HF_TOKEN": ""}, "There is no token for the Hub. Set HF_TOKEN"),
        ({"HF_TOKEN": "hf_wröng000000000000000"}, "characters that no token has"),
        ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set"),
        ({"HF_ENDPOINT": "localhost"}, "HF_ENDPOINT is no address"),
        ({"HF_ENDPOINT": "http://hub.invalid"}, "The Hub cannot be reached"),
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, "The Hub cannot be reached"),
    ],
    ids=str,
)
def test_a_set_up_that_cannot_push_is_explained(
    hub: Hub, tmp_path: Path, more: dict[str, str], said: str
) -> None:
    """Token, network and endpoint are the user's to mend."""
    make_version(tmp_path, "1.0.0")
    printed = refused(hub, tmp_path, **more)
    assert said in printed
    assert "hf_wr" not in printed
    assert hub.repos == {}


def test_a_repository_that_cannot_be_is_refused(tmp_path: Path) -> None:
    """By the library's own rule, before anything is read."""
    make_version(tmp_path, "1.0.0")
    version = find_version(tmp_path, "toy")
    for repo in ("toy", "a/b/c", "me/..", "me/to--y", "me/{{toy}}", "me/tö", "/toy", "me/", ""):
        with pytest.raises(PushError, match="Write owner/name"):
            pushing.push(version, repo, TOKEN)


@pytest.mark.slow
def test_somebody_elses_place_is_refused(hub: Hub, tmp_path: Path) -> None:
    """The Hub says which rights the token lacks."""
    make_version(tmp_path, "1.0.0")
    assert "The token may not write to you/toy" in refused(hub, tmp_path, "you/toy")
    assert hub.repos == {}
