from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import finished_runs, toys

from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.pages.dialogue import samples
from toolloom.pipeline.pages.reading import SHOWN, read
from toolloom.pipeline.pages.report import (
    BINS,
    MARK,
    binned,
    chapters_of,
    figures,
    page,
    path_of,
    quantile,
    share,
    write,
)
from toolloom.pipeline.store.version import Version, find_version
from toolloom.schemas import Reason, StoreError

NUMBERS = st.dictionaries(st.integers(0, 10**7), st.integers(1, 1000), min_size=1)
SORTS = {"accepted": "ability", "rejected": "reason"}  # each is a kind of its own


def version(folder: Path, count: int = 4, **kinds: Any) -> Version:
    made = [toys.sample(toys.query(number)) for number in range(count)]
    return publish(finished_runs.run(folder, toys.recipe(), made, **kinds), folder).version


def bar_of(row: Sequence[Any]) -> tuple[str, float]:
    """The label and the length of a bar."""
    label, bar, _ = row
    return label.text, bar.parts[0][1]


def test_equal_versions_make_equal_reports(tmp_path: Path) -> None:
    """Wherever they lie and whenever it is: no path, no time, no chance."""
    pages = [page(v, read(v)) for v in (version(tmp_path / n, 90) for n in ("one", "other"))]
    assert pages[0] == pages[1]
    assert str(tmp_path) not in pages[0]


def test_it_stands_alone(tmp_path: Path) -> None:
    """Nothing in it names another file or address, but for the icon, which is empty."""
    text = page(made := version(tmp_path), read(made))
    assert text.encode().startswith(MARK)
    assert re.findall(r'(?:href|src|action|srcset)="([^#"][^"]*)"', text) == ["data:,"]
    assert not re.search(r"url\(|@import|https?://", text)
    assert "default-src &#39;none&#39;" in text


def test_twenty_samples_of_each_kind(tmp_path: Path) -> None:
    """Of each ability, of each reason, of rows of templates and of requests with instructions."""
    fallen = [
        toys.rejected(toys.sample(toys.query(n)), "rewritten", reason)
        for n in range(25)
        for reason in (Reason.OFF_PATH, Reason.SAYS_TOO_MUCH)
    ]
    made = version(
        tmp_path,
        75,
        rejected=fallen,
        rows=finished_runs.expanded(rows=[*range(5)] * 6),
        instructions=[one for n in range(25) for one in finished_runs.levels(f"q{n}")],
    )
    shown = [
        (one.group, one.facets.get(SORTS.get(one.group, ""), ""))
        for one in samples(made, read(made))
    ]
    kinds = Counter(shown)
    assert {*kinds.values()} == {SHOWN}
    groups = {"accepted": 3, "instructions": 1, "rejected": 2, "templates": 1}
    assert Counter(group for group, _ in kinds) == groups


def test_figures_are_those_of_the_manifest(tmp_path: Path) -> None:
    """What the cards, the splits and the charts tell is what the version's files tell."""
    made = find_version(tmp_path, version(tmp_path, 9).label)
    seen = read(made)
    assert [(what, count) for what, count, _ in figures(made, seen)["cards"]] == [
        ("dialogues", 9),
        ("APIs", 2),
        ("rejected records", 0),
    ]
    chapters = {chapter.id: chapter for chapter in chapters_of(made, seen)}
    charts = {
        section.title: dict(map(bar_of, section.rows))
        for section in chapters["distributions"].blocks[0].sections
    }
    abilities = made.manifest["splits"]["train"]["abilities"]
    assert charts["Ability"] == {key.replace("_", " "): n for key, n in abilities.items()}
    assert charts["Turns of the user"] == {"1": 9}
    assert "call 1 of 2 APIs" in chapters["diversity"].blocks[-1].about


def test_a_report_has_a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, under the version's name; in a folder that is named; or in the file that is."""
    made = version(tmp_path / "outputs")
    monkeypatch.chdir(tmp_path)
    assert path_of(made, None) == Path("toy-1.0.0.html")
    assert path_of(made, tmp_path) == tmp_path / "toy-1.0.0.html"
    assert path_of(made, Path("new.html")) == Path("new.html")


def test_only_a_report_is_written_over(tmp_path: Path) -> None:
    """An older report is replaced; any other file is not."""
    made, path = version(tmp_path), tmp_path / "page.html"
    write(path, page(made, read(made)))
    assert path_of(made, path) == path
    path.write_text("<html>my own page</html>")
    with pytest.raises(StoreError, match="is no report of toolloom's"):
        path_of(made, path)


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """One message that names --output; no half file."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Choose another file with --output"):
        write(tmp_path / "file" / "report.html", "text")
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_a_full_disk_is_told(tmp_path: Path) -> None:
    """And the report that was there stays."""
    path = tmp_path / "report.html"
    path.write_bytes(MARK)
    (tmp_path / ".report.html.tmp").symlink_to("/dev/full")
    with pytest.raises(StoreError, match="No space left"):
        write(path, "text")
    assert path.read_bytes() == MARK


def test_the_funnel_tells_what_was_replaced(tmp_path: Path) -> None:
    """Where the stages count more than the version holds, the page says so; else it does not."""
    made = version(tmp_path, 4)
    assert "any more" not in page(made, read(made))
    (run,) = made.manifest["runs"].values()
    *_, last = (s for s in run["counts"]["stages"] if not s["beside"])
    last["accepted"] += 2
    text = page(made, read(made))
    assert "Of what they made, 2 dialogues are not in this version any more" in text


def test_what_there_is_is_never_zero_percent() -> None:
    """One of two hundred is half a percent, which would be rounded to none."""
    assert share(1 / 200) == share(1 / 900) == "<1\u00a0%"
    assert (share(0), share(2 / 200)) == ("0\u00a0%", "1\u00a0%")


@pytest.mark.parametrize(
    ("key", "odd"), [("name", "../elsewhere"), ("name", "/tmp/x"), ("version", "1.0.0/../../x")]
)
def test_a_foreign_manifest_chooses_no_place(tmp_path: Path, key: str, odd: str) -> None:
    """A report is named after its version; the name of one from elsewhere may be a path."""
    made = version(tmp_path)
    manifest = json.dumps({**made.manifest, key: odd})
    (made.path / "manifest.json").write_text(manifest)
    with pytest.raises(StoreError, match="none that a dataset can have"):
        find_version(tmp_path, str(made.path))


@pytest.mark.parametrize(
    ("counts", "bins"),
    [
        pytest.param({1: 5, 4: 2}, {"1": 5, "2": 0, "3": 0, "4": 2}, id="few have one each"),
        pytest.param(
            dict.fromkeys(range(120), 1),
            {f"{n}–{n + 19}": 20 for n in range(0, 120, 20)},
            id="many share round ones, no more than ten or so",
        ),
        pytest.param(
            {**dict.fromkeys(range(10), 100), 90_000: 1},
            {**{str(n): 100 for n in range(10)}, "10 and more": 1},
            id="what lies far off is in the last",
        ),
    ],
)
def test_numbers_are_binned(counts: dict[int, int], bins: dict[str, int]) -> None:
    """One number among a thousand does not squeeze all others into one bin."""
    assert binned(counts) == bins


@pytest.mark.parametrize(("share", "number"), [(0.0, 1), (0.5, 2), (0.51, 3), (1.0, 9)])
def test_a_quantile_is_a_number_that_is_there(share: float, number: int) -> None:
    """Of 1, 2, 3 and 9 half have at most 2."""
    assert quantile({9: 1, 1: 1, 3: 1, 2: 1}, share) == number


@given(NUMBERS)
def test_nothing_is_lost_in_bins(counts: dict[int, int]) -> None:
    """All are in some bin, and a person can take in the bins."""
    bins = binned(counts)
    assert sum(bins.values()) == sum(counts.values())
    assert len(bins) <= BINS + 2
