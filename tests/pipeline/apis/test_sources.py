"""Sources are told apart by what they hold, and read with the reader that fits."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.apis.sources import read_source
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import Api, ApiSource, ImportFailed
from toolloom.schemas.api import ImportReport

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
OPENAPI = {
    "info": {"title": "Shop", "version": "1"},
    "paths": {"/items": {"get": {"operationId": "items", "responses": {}}}},
    "openapi": "3.0.0",
}
TOOLS = [{"type": "function", "function": {"name": "count", "parameters": SCHEMA}}]
ENTRY = {"category_name": "C", "tool_name": "T", "api_name": "A", "required_parameters": []}
DESCRIPTION = {"name": "Borrow", "input_parameters": {}, "output_parameters": {}}
CALL = {"role": "API", "api_name": "Borrow", "param_dict": {"book": "Emma"}, "result": {}}
SCENE = "Scene: Library\n\nAPI Calls:\nBorrow(book='Ulysses')\n"
FILES: dict[str, tuple[str, str]] = {
    "shop.json": ("openapi", json.dumps(OPENAPI)),
    "shop.yaml": ("openapi", "swagger: 2.0\ninfo: {title: Old shop}\npaths: {}\n"),
    "tools.json": ("openai", json.dumps({"tools": TOOLS})),
    "lines.jsonl": ("openai", f"{json.dumps(TOOLS)}\n{json.dumps(TOOLS)}\n"),
    "queries.json": ("toolbench", json.dumps([{"api_list": [ENTRY]}])),
    "talk.jsonl": ("api-bank", json.dumps(CALL)),
    "apis.json": ("api-bank", json.dumps([DESCRIPTION])),
    "scene.txt": ("api-bank", SCENE),
}


def write(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, (_, content) in FILES.items():
        (folder / name).write_text(content)


def gather(source: Path, wanted: Any = "auto") -> tuple[list[Api], ImportReport]:
    ledger = ImportLog(str(source))
    found = list(read_source(ApiSource(path=str(source), format=wanted), ledger, Path("none")))
    report = ledger.report(imported=len(found))
    assert report.read == len(found) + len(report.skipped)
    return found, report


@pytest.mark.parametrize("name", FILES)
def test_each_file_is_told_and_read(tmp_path: Path, name: str) -> None:
    """The format is told from the content, and the same format may be asked for."""
    write(tmp_path)
    for wanted in ("auto", FILES[name][0]):
        _, report = gather(tmp_path / name, wanted)
        assert report.format == FILES[name][0]
        assert report.bytes == (tmp_path / name).stat().st_size


def test_a_folder_is_read_file_by_file(tmp_path: Path) -> None:
    """Each file has its own reader; API-Bank's files tell of one API together. What was no API is
    told; hidden files and links out of it are not followed, and no Python file is run."""
    write(tmp_path / "all")
    (tmp_path / "all" / "notes.txt").write_text("Nothing here.\n")
    (tmp_path / "all" / ".hidden.json").write_text(json.dumps(TOOLS))
    (tmp_path / "all" / "shop.py").write_text("raise SystemExit\n")
    (tmp_path / "outside.json").write_text(json.dumps(TOOLS))
    (tmp_path / "all" / "link.json").symlink_to(tmp_path / "outside.json")
    found, report = gather(tmp_path / "all")
    assert report.format == "api-bank, openai, openapi, toolbench"
    assert [a.id for a in found if a.name == "Borrow"] == ["API-Bank/API-Bank/Borrow"]
    assert {line.what for line in report.skipped} == {"notes.txt", "shop.py", "link.json"}
    assert len(found) == 5  # the functions of `lines.jsonl` count once
    only, report = gather(tmp_path / "all", "openapi")
    assert [api.name for api in only] == ["items"] and report.format == "openapi"


@pytest.mark.parametrize("content", ["5", "[]", "{}", '{"a": 1}', "[[1]]", '"text"', "null", ""])
def test_what_holds_no_apis_is_refused(tmp_path: Path, content: str) -> None:
    """The refusal names the formats there are, and what was seen; so does that of a folder."""
    (tmp_path / "odd.json").write_text(content)
    with pytest.raises(ImportFailed, match=r"odd\.json holds no APIs.*OpenAPI .* ToolBench"):
        gather(tmp_path / "odd.json")
    with pytest.raises(ImportFailed, match=r"No file in .* holds APIs\. odd\.json: "):
        gather(tmp_path)


def test_a_format_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """The refusal says what the file looks like instead."""
    write(tmp_path)
    with pytest.raises(ImportFailed, match="not of the format toolbench: it looks like openai"):
        gather(tmp_path / "tools.json", "toolbench")


@pytest.mark.parametrize("name", ["pipe.json", "pipe.txt", "pipe"])
def test_a_pipe_is_refused_at_once(tmp_path: Path, name: str) -> None:
    """Nothing is read from what may never end."""
    os.mkfifo(tmp_path / name)
    with pytest.raises(ImportFailed, match="neither a file nor a folder"):
        gather(tmp_path / name)


def test_a_version_in_a_value_makes_no_openapi(tmp_path: Path) -> None:
    """Tools whose examples are API descriptions are tools."""
    tool = {"name": "check", "parameters": SCHEMA, "examples": [{"openapi": "3.0.0"}]}
    (tmp_path / "tools.json").write_text(json.dumps([tool]))
    _, report = gather(tmp_path / "tools.json")
    assert (report.format, report.imported) == ("openai", 1)
