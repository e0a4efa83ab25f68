"""Sources are told apart by what they hold, and read with the importer that fits."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.formats import detect
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import ImportFailed
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
PUBLIC = {"count": 1, "entries": [{"API": "Nests", "Description": "Nests", "Category": "Birds"}]}
SCENE = "Scene: Library\n\nAPI Calls:\nBorrow(book='Ulysses')\n"
FILES: dict[str, tuple[str, str]] = {
    "shop.json": ("openapi", json.dumps(OPENAPI)),
    "shop.yaml": ("openapi", "swagger: 2.0\ninfo: {title: Old shop}\npaths: {}\n"),
    "tools.json": ("openai", json.dumps({"tools": TOOLS})),
    "queries.json": ("toolbench", json.dumps([{"api_list": [ENTRY]}])),
    "talk.jsonl": ("api-bank", json.dumps(CALL)),
    "apis.json": ("api-bank", json.dumps([DESCRIPTION])),
    "scene.txt": ("api-bank", SCENE),
    "entries.json": ("public-apis", json.dumps(PUBLIC)),
    "list.md": ("public-apis", "### Birds\n| API | Description |\n|---|---|\n| Eggs | Eggs |\n"),
    "shop.py": ("python", "def sell(item: str): ...\n"),
}


def write(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, (_, content) in FILES.items():
        (folder / name).write_text(content)


def gather(source: str, name: str = "auto") -> tuple[list[Any], ImportReport]:
    ledger = ImportLog(source)
    found = list(detect.read(source, name, ledger))
    report = ledger.report(imported=len(found))
    assert report.read == len(found) + len(report.skipped)
    return found, report


@pytest.mark.parametrize("name", FILES)
def test_each_file_is_told_and_read(tmp_path: Path, name: str) -> None:
    """The format is told from the content, and the same format may be asked for."""
    write(tmp_path)
    expected, _ = FILES[name]
    source = str(tmp_path / name)
    assert detect.detect(source).name == expected
    assert detect.asked(source, expected).name == expected
    _, report = gather(source)
    assert report.format == expected and report.bytes == (tmp_path / name).stat().st_size


def test_a_mixed_folder_is_read_file_by_file(tmp_path: Path) -> None:
    """Each file has its own importer; API-Bank's files tell of one API together."""
    write(tmp_path / "all")
    (tmp_path / "all" / "readme.md").write_text("Nothing here.\n")
    (tmp_path / "all" / ".hidden.py").write_text("def hidden(): ...\n")
    found, report = gather(str(tmp_path / "all"))
    assert report.format == "api-bank, openai, openapi, public-apis, python, toolbench"
    (borrow,) = [api for api in found if api.name == "Borrow"]
    assert borrow.source.reference == "all"
    assert {line.what for line in report.skipped} == {"readme.md"}
    assert len(found) == 7


def test_one_format_of_a_folder(tmp_path: Path) -> None:
    """A format that is asked for leaves the other files out, with a line each."""
    write(tmp_path / "all")
    found, report = gather(str(tmp_path / "all"), "python")
    assert [api.name for api in found] == ["shop.sell"] and report.format == "python"
    assert len(report.skipped) == len(FILES) - 1


def test_parts_of_a_description_are_no_sources(tmp_path: Path) -> None:
    """A file that another refers to is not skipped: it was read with that one."""
    item = {"$ref": "parts/Item.json"}
    answer = {"200": {"description": "", "content": {"application/json": {"schema": item}}}}
    whole = {**OPENAPI, "paths": {"/items": {"get": {"operationId": "items", "responses": answer}}}}
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "Item.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "index.json").write_text(json.dumps(whole))
    (api,), report = gather(str(tmp_path))
    assert api.fields == {"n": {"type": "integer"}} and report.skipped == ()


def test_modules_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """In a folder a module is named by its path; its `__init__.py` is called what the folder is."""
    for name in ("zoo/__init__.py", "zoo/a/tools.py", "zoo/b/tools.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("def run(): ...\n")
    found, _ = gather(str(tmp_path / "zoo"))
    assert [api.name for api in found] == ["zoo.run", "a.tools.run", "b.tools.run"]
    assert [api.function for api in found] == ["run", "run_2", "run_3"]


def test_repeats_across_files_count_once(tmp_path: Path) -> None:
    """A function that stands in two files of a folder is one API."""
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps([{"api_list": [ENTRY]}]))
    found, report = gather(str(tmp_path))
    assert len(found) == 1 and "b.json: descriptions that stand again" in report.notes[0]


def test_a_module_is_told_by_its_name() -> None:
    """A dotted name that is no path is a module."""
    assert detect.detect("urllib.parse").name == "python"


@pytest.mark.parametrize("content", ["5", "[]", "{}", '{"a": 1}', "[[1]]", '"text"', "null", ""])
def test_what_holds_no_apis_is_refused(tmp_path: Path, content: str) -> None:
    """The refusal names the formats there are, and what was seen."""
    path = tmp_path / "odd.json"
    path.write_text(content)
    with pytest.raises(ImportFailed, match=r"odd\.json holds no APIs.*openapi: .*toolbench: "):
        gather(str(path))


def test_a_format_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """The refusal says what the file looks like instead."""
    write(tmp_path)
    with pytest.raises(ImportFailed, match="looks like function tools .* `openai`"):
        gather(str(tmp_path / "tools.json"), "toolbench")
    with pytest.raises(ImportFailed, match="no format soap. Choose one of: openapi, openai"):
        gather(str(tmp_path / "tools.json"), "soap")


def test_sources_that_are_not_there(tmp_path: Path) -> None:
    """A missing file and a folder without APIs are told."""
    with pytest.raises(ImportFailed, match=r"There is no .*gone\.json"):
        gather(str(tmp_path / "gone.json"))
    (tmp_path / "odd.json").write_text("{}")
    with pytest.raises(
        ImportFailed, match=r"No file in .* holds APIs\. odd\.json: It is an object"
    ):
        gather(str(tmp_path))


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    """A link to a file outside is no part of the folder."""
    write(tmp_path / "outside")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "tools.json").symlink_to(tmp_path / "outside" / "tools.json")
    (tmp_path / "inside" / "own.py").write_text("def own(): ...\n")
    (tmp_path / "inside" / "gone.json").symlink_to("nowhere.json")
    (tmp_path / "inside" / "folder").symlink_to(tmp_path / "outside")
    (tmp_path / "inside" / "same.py").symlink_to("own.py")
    found, report = gather(str(tmp_path / "inside"))
    assert [api.name for api in found] == ["own.own", "same.own"]
    assert {one.what for one in report.skipped} == {"tools.json", "gone.json", "folder"}


def test_other_files_of_a_folder_are_noted(tmp_path: Path) -> None:
    """What has no ending that APIs come in is counted, not silently passed over."""
    write(tmp_path)
    for name in ("a.sh", "b.sh", "LICENSE"):
        (tmp_path / name).write_text("words")
    _, report = gather(str(tmp_path))
    assert "Files that were not looked at, by their endings: 2 .sh, 1 LICENSE." in report.notes


def test_a_folder_that_cannot_be_entered_is_booked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A locked folder within is skipped with a line; the source itself is refused."""
    write(tmp_path)
    locked = tmp_path / "locked"
    locked.mkdir()
    real = os.scandir

    def refuse(path: Any) -> Any:  # permissions do not hold for root
        if Path(path) == locked:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    _, report = gather(str(tmp_path))
    assert ("locked", "Permission denied.") in [(one.what, one.why) for one in report.skipped]
    with pytest.raises(ImportFailed, match="locked cannot be read: Permission denied"):
        gather(str(locked))


@pytest.mark.parametrize("name", ["pipe.json", "pipe.py", "pipe.md", "pipe"])
def test_a_pipe_is_refused_at_once(tmp_path: Path, name: str) -> None:
    """Nothing is read from what may never end."""
    os.mkfifo(tmp_path / name)
    with pytest.raises(ImportFailed, match="neither a file nor a folder"):
        gather(str(tmp_path / name))


def test_a_version_in_a_value_makes_no_openapi(tmp_path: Path) -> None:
    """Tools whose examples are API descriptions are tools."""
    tool = {"name": "check", "parameters": SCHEMA, "examples": [{"openapi": "3.0.0"}]}
    (tmp_path / "tools.json").write_text(json.dumps([tool]))
    _, report = gather(str(tmp_path / "tools.json"))
    assert (report.format, report.imported) == ("openai", 1)
