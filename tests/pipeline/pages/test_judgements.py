import json
import os
import subprocess
import sys
from fractions import Fraction
from math import sqrt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import toys

from toolloom.pipeline.pages.judgements import (
    API_BANK,
    Judgements,
    Marks,
    Z,
    precision,
    wilson,
)
from toolloom.pipeline.pages.rejections import RejectedSample
from toolloom.pipeline.run import make_dataset
from toolloom.pipeline.store.version import find_version, numbers
from toolloom.schemas import StoreError

WRITER = """
import sys
from pathlib import Path
from toolloom.pipeline.pages.judgements import Judgements
from toolloom.pipeline.pages.rejections import RejectedSample
fields = dict.fromkeys(("version", "id", "stage", "agent", "model", "reason", "check"), "x")
book, name = Judgements(Path(sys.argv[1])), sys.argv[2]
for number in range(int(sys.argv[3])):
    row = RejectedSample(key=f"{name}{number}", split="train", index=0, **fields)
    book.add(row, True, name, "word " * 500)
    print(number, flush=True)
"""


def row(key: str = "k", reason: str = "r") -> RejectedSample:
    fields = dict.fromkeys(("version", "id", "stage", "model", "check"), "x")
    return RejectedSample(key=key, reason=reason, agent="tester", split="train", index=0, **fields)


def writer(folder: Path, name: str, marks: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", WRITER, str(folder), name, str(marks)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def test_the_last_mark_of_a_curator_counts(tmp_path: Path) -> None:
    """A curator may change his mind or take a mark back; another's mark stays."""
    book = Judgements(tmp_path)
    assert book.read().by_record == {}
    book.add(row(), True, "anna", "first")
    book.add(row(), False, "ben")
    book.add(row(), False, "anna", "«ü» \ud800 <b>")
    marks = book.read().of(row())
    assert {name: (m.agrees, m.note) for name, m in marks.items()} == {
        "anna": (False, "«ü» ? <b>"),
        "ben": (False, ""),
    }
    book.add(row(), None, "anna")
    assert [*book.read().of(row())] == ["ben"]
    assert len(book.path.read_bytes().splitlines()) == 4  # nothing is ever removed


def test_most_curators_decide(tmp_path: Path) -> None:
    """The majority's word counts; a tie is undecided, and so is what nobody judged."""
    book = Judgements(tmp_path)
    assert book.read().verdict(row()) is None
    for curator, agrees in (("anna", True), ("ben", False)):
        book.add(row(), agrees, curator)
    assert book.read().verdict(row()) is None
    book.add(row(), False, "cem")
    assert book.read().verdict(row()) is False


def test_a_damaged_line_costs_no_other(tmp_path: Path) -> None:
    """Half a line at the end is passed over and told; the next mark has a line of its own."""
    book = Judgements(tmp_path)
    book.add(row("a"), True, "anna")
    book.add(row("b"), True, "anna")
    whole = book.path.read_bytes()
    for cut in range(1, 60):
        book.path.write_bytes(whole[:-cut])
        found = book.read()
        assert "a" in found.by_record
        assert found.damaged == (0 if cut == 1 else 1)
        book.add(row("c"), False, "anna")
        assert set(book.read().by_record) == {"a", "c"} | ({"b"} if cut == 1 else set())


def test_marks_outlive_kill_9(tmp_path: Path) -> None:
    """Each mark that was confirmed is on the disk, whenever the process is killed."""
    with writer(tmp_path, "anna", 100_000) as process:
        assert process.stdout
        confirmed = [process.stdout.readline() for _ in range(40)]
        process.kill()
        confirmed += process.stdout.readlines()
    marks = Judgements(tmp_path).read()
    assert len(marks.by_record) >= sum(line.endswith("\n") for line in confirmed) >= 40
    assert marks.damaged <= 1


def test_curators_may_mark_at_the_same_time(tmp_path: Path) -> None:
    """Lines of two processes do not mix, and none is lost."""
    with writer(tmp_path, "anna", 60) as one, writer(tmp_path, "ben", 60) as two:
        assert [one.communicate()[0].count("\n"), two.communicate()[0].count("\n")] == [60, 60]
    marks = Judgements(tmp_path).read()
    assert (len(marks.by_record), marks.damaged) == (120, 0)


async def test_the_file_disturbs_no_version(tmp_path: Path) -> None:
    """Versions are found, numbered and published as if it were not there, and stay as they are."""
    await make_dataset(toys.recipe(), outputs=tmp_path, stages=toys.STAGES)
    version = find_version(tmp_path, "toy")
    before = {p: p.read_bytes() for p in version.path.rglob("*") if p.is_file()}
    Judgements(version.path.parent).add(row(), True, "anna")
    await make_dataset(toys.recipe(seed=1), outputs=tmp_path, stages=toys.STAGES)
    assert len(numbers(version.path.parent)) == 2
    assert {p: p.read_bytes() for p in version.path.rglob("*") if p.is_file()} == before
    (line,) = Judgements(version.path.parent).path.read_bytes().splitlines()
    assert json.loads(line)["curator"] == "anna"


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A folder in its place is an error that names it."""
    os.mkdir(tmp_path / "judgements.jsonl")
    with pytest.raises(StoreError, match=r"judgements\.jsonl"):
        Judgements(tmp_path).add(row(), True, "anna")


@given(st.integers(1, 2_000), st.data())
def test_an_end_is_where_the_score_test_turns(of: int, data: st.DataObject) -> None:
    """Each end is a share from which what was seen is Z standard errors away, and between them
    is the share."""
    hits = data.draw(st.integers(0, of))
    low, high = wilson(hits, of)
    share = float(Fraction(hits, of))
    assert 0 <= low <= share <= high <= 1
    assert (low > 0, high < 1) == (hits > 0, hits < of)
    for end in (low, high):
        if 0 < end < 1:
            assert abs(share - end) == pytest.approx(Z * sqrt(end * (1 - end) / of), rel=1e-6)


def marked(folder: Path, **agrees: bool) -> Marks:
    """By record, one curator's mark."""
    for key, told in agrees.items():
        Judgements(folder).add(row(key), told, "anna")
    return Judgements(folder).read()


def test_precision_is_told_by_reason(tmp_path: Path) -> None:
    """Of each reason's judged records the share that is right; others are only counted."""
    rows = [row("a"), row("b"), row("c"), row("d", "s"), row("e", "s")]
    found = precision(rows, marked(tmp_path, a=True, b=True, c=False), "reason")
    assert [(p.group, p.rejected, p.judged, p.agreed) for p in found] == [
        ("r", 3, 3, 2),
        ("s", 2, 0, 0),
    ]
    assert (found[1].share, found[1].interval) == (None, (0, 1))
    assert found[0].interval[0] < API_BANK < found[0].interval[1]


def test_equal_records_are_judged_once(tmp_path: Path) -> None:
    """Two rows of one content are one judgement, though both are counted as rejected."""
    (found,) = precision([row("a"), row("a")], marked(tmp_path, a=True))
    assert (found.rejected, found.judged, found.agreed) == (2, 1, 1)
    assert precision([], Marks(), "reason") == precision([], Marks()) == []  # no rows, no group
