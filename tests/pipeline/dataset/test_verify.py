from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.tampered import fix, found, only, read_manifest
from typer.testing import CliRunner, Result

from toolloom.cli import app
from toolloom.pipeline.checks.findings import Findings
from toolloom.pipeline.dataset.verify import place_of, verify
from toolloom.pipeline.dataset.verify_files import FaultKind, VerifyReport, VersionFiles
from toolloom.schemas import NothingFound, StoreError

# -- What is as it was published -----------------------------------------------------------------


def test_a_published_version_holds(version: Path) -> None:
    """Nothing is found in what was published, wherever it is copied, and every row was read."""
    report = verify(version)
    assert report.faults == () and report.good
    manifest = read_manifest(version)
    total = sum(sheet["rows"] for sheet in manifest["configs"]["samples"].values())
    assert report.inspected == report.rows["samples"] == total > 30
    assert report.files == sum(1 for p in version.rglob("*") if p.is_file())


def test_a_regenerated_version_holds(outputs: Path) -> None:
    """A version with a split made anew follows its parent, which lies beside it."""
    path = place_of(outputs, "toy")
    assert path.name == "1.1.0"
    report = verify(path)
    assert report.good and report.notes == ()


# -- Bytes ---------------------------------------------------------------------------------------


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_edited_byte_is_found_in_its_file(version: Path, data: st.DataObject) -> None:
    """One changed bit, anywhere in any file, is found, and the file is named."""
    names = sorted(p.relative_to(version).as_posix() for p in version.rglob("*") if p.is_file())
    name = data.draw(st.sampled_from(names))
    raw = (version / name).read_bytes()
    place = data.draw(st.integers(0, len(raw) - 1))
    edited = bytearray(raw)
    edited[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        (version / name).write_bytes(edited)
        faults = found(verify(version), FaultKind.FILE)
    finally:
        (version / name).write_bytes(raw)
    assert any(name == f.file or name in f.detail for f in faults)


def test_a_truncated_table_is_a_finding(version: Path) -> None:
    """A table that was cut off is named, as a file and as a table, and the others are verified."""
    path = version / "samples" / "train-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    report = verify(version)
    name = "samples/train-00000-of-00001.parquet"
    assert [f.file for f in found(report, FaultKind.FILE)] == [name]
    assert [f.file for f in found(report, FaultKind.TABLE)] == [name]
    assert only(report) == {FaultKind.FILE, FaultKind.TABLE}
    assert report.inspected > 0 and report.notes


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7])
def test_damaged_pages_are_a_finding(version: Path, share: float) -> None:
    """Bytes overwritten inside a table, hashes made right: named, whatever they break."""
    path = version / "samples" / "train-00000-of-00001.parquet"
    raw = bytearray(path.read_bytes())
    at = int(len(raw) * share)
    raw[at : at + 40] = bytes(40)
    path.write_bytes(raw)
    try:
        fix(version, remade=False)
    except (OSError, pa.ArrowException):
        return  # not even the forger can read its footer
    report = verify(version)
    assert not report.good
    assert any(f.file == "samples/train-00000-of-00001.parquet" for f in report.faults)


def test_files_too_many_and_missing_are_named(version: Path) -> None:
    """A version holds its files and no others; a link is not followed."""
    (version / "plots" / "extra.svg").write_text("<svg/>")
    (version / "sft" / "hidden.parquet").symlink_to("/etc/passwd")
    (version / "README.md").unlink()
    report = verify(version)
    assert {f.file for f in found(report, FaultKind.FILE)} == {
        "plots/extra.svg",
        "sft/hidden.parquet",
        "README.md",
    }


@pytest.mark.parametrize("name", ["manifest.json", "SHA256SUMS"])
def test_a_version_without_manifest_or_sums_is_judged(version: Path, name: str) -> None:
    """What is left of a version is still held against what is left of its hashes."""
    (version / name).unlink()
    report = verify(version)
    assert [f.file for f in found(report, FaultKind.FILE)] == [name]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"layout": 2}', "\0", "[" * 100_000])
def test_a_manifest_that_is_none_is_a_finding(version: Path, text: str) -> None:
    """Whatever stands in its place, there is a finding and no traceback."""
    (version / "manifest.json").write_text(text)
    assert "manifest.json" in {f.file for f in found(verify(version), FaultKind.FILE)}


def test_a_manifest_leads_nowhere_outside(version: Path, tmp_path: Path) -> None:
    """Names that a forged manifest makes up are never opened."""
    manifest = read_manifest(version)
    shutil.copy(version / "samples" / "train-00000-of-00001.parquet", tmp_path / "out.parquet")
    files = manifest["configs"]["samples"]["train"]["files"]
    files["../out.parquet"] = files.pop("samples/train-00000-of-00001.parquet")
    fix(version, manifest)
    report = verify(version)
    assert "../out.parquet" in {f.file for f in found(report, FaultKind.FILE)}
    assert report.rows["samples"] < report.rows["sft"]


# -- Figures, parents ----------------------------------------------------------------------------


def test_a_changed_figure_on_the_card_is_found(version: Path) -> None:
    """The card says what the manifest says, though its hash was made right."""
    text = (version / "README.md").read_text()
    manifest = read_manifest(version)
    rows = manifest["splits"]["train"]["rows"]
    (version / "README.md").write_text(text.replace(f" {rows} |", f" {rows + 900} |", 1))
    fix(version, remade=False)
    report = verify(version)
    assert [(f.kind, f.file) for f in report.faults] == [(FaultKind.FIGURE, "README.md")]


def test_a_changed_figure_of_the_manifest_is_found(version: Path) -> None:
    """Figures are counted again over the rows; the card that was made of them is no proof."""
    manifest = read_manifest(version)
    counts = manifest["splits"]["train"]["abilities"]
    counts[next(iter(counts))] += 5
    fix(version, manifest)
    (fault,) = verify(version).faults
    assert fault.kind is FaultKind.FIGURE and "splits.train.abilities" in fault.detail


def test_a_parent_that_changed_is_found(outputs: Path, tmp_path: Path) -> None:
    """A version records the manifest it follows; without it here, that is told."""
    home = Path(shutil.copytree(outputs / "datasets" / "toy", tmp_path / "toy", symlinks=True))
    manifest = read_manifest(home / "1.0.0")
    manifest["content"] = "0" * 64
    fix(home / "1.0.0", manifest)
    assert only(verify(home / "1.1.0")) == {FaultKind.LINEAGE}
    shutil.rmtree(home / "1.0.0")
    report = verify(home / "1.1.0")
    assert report.good and "is not here" in report.notes[0]


def test_a_split_that_was_not_made_anew_is_the_parents(outputs: Path, tmp_path: Path) -> None:
    """Only the split that is told as regenerated may have other bytes."""
    home = Path(shutil.copytree(outputs / "datasets" / "toy", tmp_path / "toy", symlinks=True))
    path = home / "1.1.0" / "rejected" / "validation-00000-of-00001.parquet"
    pq.write_table(pq.read_table(path), path, compression="none")
    fix(home / "1.1.0")
    faults = found(verify(home / "1.1.0"), FaultKind.LINEAGE)
    assert [f.file for f in faults] == ["rejected/validation-00000-of-00001.parquet"]


@pytest.mark.parametrize("number", ["1.0.1", "2.0.0", "0.9.0"])
def test_a_number_of_another_kind_is_found(outputs: Path, tmp_path: Path, number: str) -> None:
    """A new train split makes a minor version."""
    home = Path(shutil.copytree(outputs / "datasets" / "toy", tmp_path / "toy", symlinks=True))
    manifest = {**read_manifest(home / "1.1.0"), "version": number}
    fix(home / "1.1.0", manifest)
    assert only(verify(home / "1.1.0")) == {FaultKind.LINEAGE}


# -- Layouts, memory, the command ----------------------------------------------------------------


def test_findings_are_kept_in_bounds() -> None:
    """All are counted; of each kind the first are kept, kind by kind in their order."""
    files = VersionFiles(Path("here"), findings=Findings(most=3))
    for number in range(50):
        files.fault(FaultKind.RECORD, "row", str(number))
    files.fault(FaultKind.FILE, "row", "gone")
    assert files.findings.counts == {FaultKind.RECORD: 50, FaultKind.FILE: 1}
    assert [fault.detail for fault in files.faults] == ["gone", "0", "1", "2"]


@pytest.mark.parametrize(("layout", "age"), [(3, "a newer"), (1, "an older")])
def test_another_layout_is_told(version: Path, layout: int, age: str) -> None:
    """A version of another toolloom is no finding: it says which toolloom reads it."""
    fix(version, {**read_manifest(version), "layout": layout})
    with pytest.raises(StoreError, match=f"{age} toolloom.*layout {layout}"):
        verify(version)


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["verify", *map(str, arguments)])


def test_the_command_tells_findings(version: Path, tmp_path: Path) -> None:
    """Exit code 1; a line for each with file and detail, and a report to compute with."""
    (version / "README.md").write_text("edited")
    done = command(version, "--json", tmp_path / "report.json")
    assert done.exit_code == 1 and "README.md" in done.output
    report = VerifyReport.model_validate_json((tmp_path / "report.json").read_bytes())
    assert report.counts[FaultKind.FILE] == 1
    assert VerifyReport.model_validate_json(command(version, "--json", "-").stdout).faults


def test_what_is_no_version_is_a_mistake(version: Path, tmp_path: Path) -> None:
    """A folder that is not there, an empty one, and another layout end with exit code 2."""
    (tmp_path / "empty").mkdir()
    fix(version, {**read_manifest(version), "layout": 3})
    for name in (tmp_path / "nowhere", tmp_path / "empty", version, "\0", "../x"):
        assert command(name, "--outputs", tmp_path).exit_code == 2
    with pytest.raises(NothingFound, match="holds no"):
        place_of(tmp_path, str(tmp_path / "empty"))
