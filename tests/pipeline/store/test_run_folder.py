import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import toys
from support.json_values import SCALARS, json_values

from toolloom.pipeline.stage import planned_stage
from toolloom.pipeline.store.files import (
    hold_folder,
    read_objects,
    read_records,
    record_line,
    to_line,
    write_lines,
)
from toolloom.pipeline.store.run_folder import Mark, RunFolder, StageFolder, find_run
from toolloom.schemas import Domain, NothingFound, Outcome, Reason, StoreError, Usage

JSON = json_values(SCALARS | st.floats(allow_nan=False) | st.text(), st.text())


def domain(name: str) -> Domain:
    return Domain(category="toys", name=name)


def test_a_run_keeps_no_passwords(tmp_path: Path) -> None:
    """A run's recipe can be read back, with addresses as anybody may see them."""
    place = {"base_url": "https://me:pass@host/v1", "model": "m"}
    recipe = toys.recipe(model=place, agents={"tester": place}, search={"embeddings": place})
    folder = RunFolder(tmp_path / recipe.run_id)
    folder.open(recipe, [])
    assert "pass" not in (folder.path / "recipe.yaml").read_text()
    assert folder.recipe.endpoint("tester").base_url == "https://host/v1"
    assert folder.recipe.queries == recipe.queries


@given(st.dictionaries(st.text(), JSON))
def test_a_line_reads_back_as_what_was_written(value: dict[str, object]) -> None:
    """Any JSON object is one line and the same object again, line separators included."""
    line = to_line(value)
    assert line.count(b"\n") == 1
    assert json.loads(line) == value


def test_text_is_written_as_it_is(tmp_path: Path) -> None:
    """Letters beyond ASCII are not escaped, so that people can search a file, but what is no UTF-8;
    all is read back the same."""
    assert "Zürich" in to_line({"city": "Zürich"}).decode()
    write_lines(tmp_path / "a.jsonl", [to_line({"text": "\ud800 ü"})])
    assert list(read_objects(tmp_path / "a.jsonl")) == [{"text": "\ud800 ü"}]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            b'{"category": "a", "name": "b"}\n{"category": \n',
            r"line 2: is damaged .* Remove the folder",
        ),
        (b'{"category": "a", "nome": "b"}\n', r"line 1: .*name"),
        (b"[1]\n", "line 1: .*not a JSON object"),
        (None, "cannot be read"),
    ],
    ids=["half a line", "another field", "an array", "no file"],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, lines: bytes | None, message: str) -> None:
    """The error says the file, the line, the field, and what to do."""
    if lines is not None:
        (tmp_path / "a.jsonl").write_bytes(lines)
    with pytest.raises(StoreError, match=rf"a\.jsonl.*{message}"):
        list(read_records(tmp_path / "a.jsonl", Domain))


def test_a_file_in_place_of_a_folder_is_a_store_error(tmp_path: Path) -> None:
    """A path that cannot be written or locked says why and what to do."""
    (tmp_path / "runs").write_text("a file where a folder should be")
    with pytest.raises(StoreError, match="cannot be written .* --outputs"):
        write_lines(tmp_path / "runs" / "a.jsonl", [])
    with pytest.raises(StoreError, match="cannot be written"), hold_folder(tmp_path / "runs" / "r"):
        pass


def test_a_shard_without_its_marker_is_not_there(tmp_path: Path) -> None:
    """The marker is what makes a shard finished."""
    stage = StageFolder(tmp_path / "stage")
    stage.write_shard(0, map(record_line, [domain("a")]), [], Usage(requests=1))
    stage.write_shard(1, map(record_line, [domain("b")]), [], Usage())
    (stage.path / "shards" / "00001.done").unlink()
    assert stage.shard_mark(0) == Mark(accepted=1, rejected=0, use=Usage(requests=1))
    assert stage.shard_mark(1) is None
    assert [row["name"] for row in stage.objects("accepted")] == ["a"]


def test_finishing_joins_the_shards_in_order(tmp_path: Path) -> None:
    """A finished stage has one file of each kind, its counts and no shards; what settling rejects
    is in the rejected file alone."""
    stage = StageFolder(tmp_path / "stage")
    for index in (1, 0):
        bad = toys.rejected(domain(f"x{index}"), "stage", Reason.NEAR_DUPLICATE)
        stage.write_shard(
            index,
            map(record_line, [domain(f"a{index}")]),
            map(record_line, [bad]),
            Usage(requests=1),
        )

    def settle(records: list[Domain]) -> Outcome:
        fallen = toys.rejected(records[0], "stage", Reason.NEAR_DUPLICATE)
        return Outcome(tuple(records[1:]), (fallen,))

    mark = stage.finish(2, Domain, settle)
    assert [d.name for d in stage.records(Domain)] == ["a1"]
    assert [row["record"]["name"] for row in stage.objects("rejected")] == ["x0", "x1", "a0"]
    assert (mark.accepted, mark.rejected, mark.use.requests) == (1, 3, 2)
    assert not (stage.path / "shards").exists()


def test_groups_are_the_shards_as_they_came(tmp_path: Path) -> None:
    """A later stage sees the same shards, also empty ones, after the files were joined."""
    stage = StageFolder(tmp_path / "stage")
    for index, names in enumerate((["a"], [], ["b", "c"])):
        stage.write_shard(index, map(record_line, map(domain, names)), [], Usage())
    stage.finish(3, Domain, None)
    groups = [[d.name for d in group] for group in stage.groups(Domain, 64)]
    assert groups == [["a"], [], ["b", "c"]]


def test_ids_are_never_paths(tmp_path: Path) -> None:
    """A record with a hostile id is written like any other."""
    stage = StageFolder(tmp_path / "run" / "stage")
    evil = Domain(category="../../..", name="/etc/passwd\x00\n")
    stage.write_shard(0, map(record_line, [evil]), [], Usage())
    assert stage.shard_records(0, Domain) == [evil]
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        *((name, True) for name in ("toy-12", "toy-1", "other", "latest", "{outputs}/runs/toy-12")),
        *((name, False) for name in ("none", "", "toy", "../runs", "a\x00b", "*")),
    ],
)
def test_a_run_is_found_by_what_people_type(tmp_path: Path, name: str, known: bool) -> None:
    """By id, start of the id, path or `latest`. What is not found, or not one only, is an error that
    lists what there is."""
    for run in ("other-1", "toy-34", "toy-12"):
        folder = RunFolder(tmp_path / "runs" / run)
        folder.open(toys.recipe(), [planned_stage(stage) for stage in toys.STAGES])
    if known:
        wanted = "other-1" if name == "other" else "toy-12"
        assert find_run(tmp_path, name.format(outputs=tmp_path)).id == wanted
    else:
        with pytest.raises(NothingFound, match="toy-34"):
            find_run(tmp_path, name)
