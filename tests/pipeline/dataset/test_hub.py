"""A version on the Hub is the version in the folder, however often a push had to begin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from support import toys
from support.hub_server import TOKEN, Blob, Hub
from support.tampered import fix
from typer.testing import CliRunner

from toolloom.cli import app
from toolloom.pipeline.dataset import hub as pushing
from toolloom.pipeline.dataset.configs import SAMPLES, SFT
from toolloom.pipeline.store.version import VersionWriter, find_version
from toolloom.schemas import PushError, StoreError

CARD = """---
configs:
- config_name: sft
  data_files:
  - {split: train, path: "sft/train-*.parquet"}
  - {split: test_tool, path: "sft/test_tool-*.parquet"}
- config_name: samples
  data_files:
  - {split: train, path: "samples/train-*.parquet"}
---
# toy
"""
LOAD = """
import json, sys
from datasets import load_dataset
for config in ("sft", "samples"):
    for where, revision in ((sys.argv[1], None), ("me/toy", "1.0.0"), ("me/toy", None)):
        rows = load_dataset(where, config, split="train", revision=revision)
        print("ROWS", json.dumps(rows.to_list()))
"""


def make_version(outputs: Path, number: str, rows: int = 5, plots: int = 1) -> Path:
    """A version of two splits in two configs, with some files beside them."""
    folder = outputs / "datasets" / "toy" / number
    configs: dict[str, Any] = {"sft": {}, "samples": {}}
    with VersionWriter(folder) as tables:
        for split, count in {"train": rows, "test_tool": 2}.items():
            for place in range(count):
                sample = toys.sample(toys.query(place)).model_dump(mode="json")
                for config in (SFT, SAMPLES):
                    tables.add(config, split, *map(config.columns.encode, config.row.of(sample)))
                    name = f"{config.name}/{split}-00000-of-00001.parquet"
                    configs[config.name][split] = {"files": {name: {}}}
        tables.finish()
    (folder / "README.md").write_text(CARD + f"Version {number}, {rows} rows.\n")
    (folder / "plots").mkdir()
    for plot in range(plots):
        (folder / "plots" / f"{plot}.svg").write_text(f"<svg>{plot}</svg>")
    others = ["README.md", *(f"plots/{plot}.svg" for plot in range(plots))]
    manifest = {"layout": 3, "name": "toy", "version": number}
    manifest |= {"content": number.replace(".", "").zfill(12)}
    manifest |= {"parent": None, "regenerated": None, "toolloom": "1", "code": "", "plan": {}}
    manifest |= {"runs": {}, "splits": {}, "apis": {}, "configs": configs}
    fix(folder, {**manifest, "files": dict.fromkeys(others)}, remade=False)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.*")} | {
        "SHA256SUMS": (folder / "SHA256SUMS").read_bytes()
    }


def push(hub: Hub, outputs: Path, *arguments: str, **settings: Any) -> tuple[int, str]:
    """The exit status of the command, and all that it printed."""
    version, token = settings.pop("version", "latest"), settings.pop("token", TOKEN)
    wanted = ["push", "toy", version, *(arguments or ("me/toy",)), "--outputs", str(outputs)]
    template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    known = {"ENDPOINT": hub.url, "HF_HUB_OFFLINE": False, "HUGGINGFACE_CO_URL_TEMPLATE": template}
    with pytest.MonkeyPatch.context() as patched:
        for name, value in {**known, **settings}.items():
            patched.setattr(constants, name, value)
        done = CliRunner().invoke(app, wanted, env={"HF_TOKEN": token})
    assert TOKEN not in done.output
    assert "s3cret" not in done.output  # of a signed address
    assert hub.leaked == []
    return done.exit_code, done.output


def refused(hub: Hub, outputs: Path, *arguments: str, **settings: Any) -> str:
    """What a push says that ends with a mistake."""
    status, printed = push(hub, outputs, *arguments, **settings)
    assert status == 2, printed
    assert "Traceback" not in printed
    return printed


def test_a_first_push_is_one_commit_with_all_files_and_a_tag(hub: Hub, tmp_path: Path) -> None:
    """The repository is private, its head and the tag hold the folder byte for byte. The second time
    only what the Hub has is asked."""
    folder = make_version(tmp_path, "1.0.0")
    status, printed = push(hub, tmp_path, version="1.0.0")
    assert status == 0, printed
    repo = hub.repos["me/toy"]
    assert repo.private
    assert repo.titles == ["initial commit", "toy/1.0.0"]
    assert repo.contents() == repo.contents("1.0.0") == contents(folder)
    counts = hub.counts()
    assert counts["upload"] == counts["verify"] == 4
    assert counts["commit"] == counts["tag"] == counts["create"] == 1
    assert "(private), tag 1.0.0" in printed
    assert 'load_dataset("me/toy", "sft", split="train", revision="1.0.0")' in printed
    status, printed = push(hub, tmp_path)
    assert status == 0, printed
    assert "The Hub already has it" in printed
    assert set(hub.counts()) == {"create", "info", "refs", "resolve", "tree"}
    assert repo.titles == ["initial commit", "toy/1.0.0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("commit", {"status": 500}),
        ("commit", {"reset": True}),
        ("commit", {"lost": True}),
        ("tag", {"status": 500}),
    ],
)
def test_what_fails_is_made_once(hub: Hub, tmp_path: Path, kind: str, how: dict[str, Any]) -> None:
    """Whether it was refused, or made and only its answer was lost; a missing tag is added."""
    make_version(tmp_path, "1.0.0")
    hub.fail(kind, **how)
    assert "Run the same command again" in refused(hub, tmp_path)
    assert hub.repos["me/toy"].tags == {}
    hub.counts()
    status, printed = push(hub, tmp_path)
    assert status == 0, printed
    repo = hub.repos["me/toy"]
    assert repo.titles == ["initial commit", "toy/1.0.0"]
    assert repo.tags == {"1.0.0": repo.head}
    assert hub.counts()["upload"] == 0


@pytest.mark.slow
def test_a_tag_with_other_content_is_an_error(hub: Hub, tmp_path: Path) -> None:
    """Versions never change, on the Hub as little as in the folder."""
    make_version(tmp_path / "a", "1.0.0")
    make_version(tmp_path / "b", "1.0.0", rows=6)
    push(hub, tmp_path / "a")
    before = hub.repos["me/toy"].head
    said = refused(hub, tmp_path / "b")
    assert "has a version 1.0.0 with other content" in said
    assert hub.repos["me/toy"].head == before


@pytest.mark.slow
def test_each_version_is_one_commit_that_replaces_the_head(hub: Hub, tmp_path: Path) -> None:
    """What only another version has is deleted; what did not change is not sent."""
    newer, older = make_version(tmp_path, "1.1.0", rows=9), make_version(tmp_path, "1.0.0", plots=3)
    for version, sent in (("1.1.0", 4), ("1.0.0", 2)):
        assert push(hub, tmp_path, version=version)[0] == 0
        assert hub.counts()["upload"] == sent  # the split test_tool is the same
    repo = hub.repos["me/toy"]
    assert repo.contents() == repo.contents("1.0.0") == contents(older)
    assert push(hub, tmp_path / "no", version=str(newer))[0] == 2
    make_version(tmp_path, "1.2.0", plots=0)
    assert push(hub, tmp_path)[0] == 0
    assert repo.contents("1.1.0") == contents(newer)
    assert repo.titles[1:] == ["toy/1.1.0", "toy/1.0.0", "toy/1.2.0"]


def test_a_stored_token_is_used_and_not_shown(hub: Hub, tmp_path: Path) -> None:
    """What `hf auth login` has stored does, and is struck out of errors as well."""
    make_version(tmp_path, "1.0.0")
    (tmp_path / "token").write_text(TOKEN)
    stored: Any = {"token": "", "HF_TOKEN_PATH": str(tmp_path / "token")}
    hub.fail("tag", status=400, body=f"the token {TOKEN} is fine")
    assert "the token [key] is fine" in refused(hub, tmp_path, **stored)
    assert push(hub, tmp_path, **stored)[0] == 0


@pytest.mark.slow
def test_a_repository_keeps_its_visibility(hub: Hub, tmp_path: Path) -> None:
    """`--public` is for one that is made; a private one stays private, a public one public."""
    make_version(tmp_path, "1.0.0")
    assert "(public)" in push(hub, tmp_path, "me/open", "--public")[1]
    hub.make("me/closed", private=True)
    assert "(private)" in push(hub, tmp_path, "me/closed", "--public")[1]
    assert not hub.repos["me/open"].private
    assert hub.repos["me/closed"].private
    assert "(public)" in push(hub, tmp_path, "me/open")[1]


def test_the_hub_and_the_folder_give_the_same_rows(hub: Hub, tmp_path: Path) -> None:
    """Of the head and of the tag, although another version has been pushed since."""
    folder = make_version(tmp_path, "1.0.0", rows=7)
    push(hub, tmp_path)
    make_version(tmp_path, "1.1.0", rows=3)
    push(hub, tmp_path)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    ran = subprocess.run(
        [sys.executable, "-c", LOAD, str(folder)],
        env={**kept, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "HF_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        check=True,
    )
    told = [json.loads(line[5:]) for line in ran.stdout.splitlines() if line.startswith("ROWS")]
    for local, tagged, head in (told[:3], told[3:]):
        assert len(local) == 7
        assert tagged == local and head == local[:3]


def test_a_damaged_version_is_not_pushed(tmp_path: Path) -> None:
    """What verification finds in its files is told before the Hub is thought of."""
    folder = make_version(tmp_path, "1.0.0")
    (folder / "plots" / "1.svg").symlink_to("/etc/hostname")
    with pytest.raises(StoreError, match=r"1\.svg: is a link.*is damaged, and nothing was pushed"):
        pushing.push(find_version(tmp_path, "toy"), "me/toy", TOKEN)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train.csv", b"a,b"),
        ("manifest.json", b'{"name": "other"}'),
        ("manifest.json", b"<html>"),
    ],
)
def test_what_is_no_version_of_the_dataset_is_not_deleted(
    hub: Hub, tmp_path: Path, name: str, content: bytes
) -> None:
    """A push to the wrong repository would delete it from the head."""
    make_version(tmp_path, "1.0.0")
    repo = hub.make("me/toy")
    repo.commit("mine", {name: Blob(content)})
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
    ({"kind": "commit", "status": 412}, "me/toy was changed at the same time"),
    (
        {"kind": "info", "status": 429, "headers": {"Retry-After": "30"}},
        "The Hub answered 429; it asks to wait 30 seconds",
    ),
    ({"kind": "info", "reset": True}, "The connection to the Hub broke"),
    ({"kind": "info", "status": 200, "body": "<html>hello</html>"}, "What answers is no Hub"),
]


@pytest.mark.parametrize(("fault", "said"), REFUSALS, ids=lambda value: str(value)[:40])
def test_what_the_hub_refuses_is_said_in_a_line(
    hub: Hub, tmp_path: Path, fault: dict[str, Any], said: str
) -> None:
    """What happened and what to do, without a traceback or the token."""
    make_version(tmp_path, "1.0.0")
    hub.fail(**{"times": 1, **fault})
    assert said in refused(hub, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "settings", "said"),
    [
        ((), {"token": "hf_wrong000000000000000000"}, "does not accept the token"),
        ((), {"token": "", "HF_TOKEN_PATH": "none"}, "There is no token for the Hub. Set HF_TOKEN"),
        ((), {"token": "hf_wröng000000000000000"}, "characters that no token has"),
        ((), {"HF_HUB_OFFLINE": True}, "HF_HUB_OFFLINE is set"),
        ((), {"ENDPOINT": "localhost"}, "HF_ENDPOINT is not an address"),
        ((), {"ENDPOINT": "http://127.0.0.1:9"}, "The Hub cannot be reached"),
        (("you/toy",), {}, "The token may not write to you/toy"),
    ],
)
def test_a_set_up_that_cannot_push_is_explained(
    hub: Hub, tmp_path: Path, arguments: tuple[str, ...], settings: dict[str, Any], said: str
) -> None:
    """Token, network, endpoint and rights are the user's to mend."""
    make_version(tmp_path, "1.0.0")
    printed = refused(hub, tmp_path, *arguments, **settings)
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
