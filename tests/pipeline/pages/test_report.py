"""The report of a version: what is counted and drawn, where it is written, what damage is told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import finished_runs, toys

from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.pages.report import (
    MARK,
    Draw,
    ReadRows,
    page,
    path_of,
    read,
)
from toolloom.pipeline.store.version import Version
from toolloom.schemas import Reason, StoreError


def version(folder: Path, count: int = 4, **kinds: Any) -> Version:
    made = [toys.sample(toys.query(number)) for number in range(count)]
    return publish(finished_runs.run(folder, toys.recipe(), made, **kinds), folder)


def whole(folder: Path) -> Version:
    fallen = [toys.rejected(toys.sample(), "rewritten", Reason.OFF_PATH)]
    kinds: Any = {"rows": finished_runs.expanded(), "instructions": finished_runs.levels()}
    return version(folder, rejected=fallen, **kinds)


def test_it_stands_alone(tmp_path: Path) -> None:
    """Nothing in it names another file or address, but for the icon, which is empty; it is the same
    wherever the version lies and whenever it is made."""
    text, again = (page(v, read(v)) for v in (version(tmp_path / n, 30) for n in ("one", "other")))
    assert text == again and str(tmp_path) not in text
    assert text.encode().startswith(MARK)
    assert re.findall(r'(?:href|src|action|srcset)="([^#"][^"]*)"', text) == ["data:,"]
    assert not re.search(r"url\(|@import|https?://", text)
    assert "default-src &#39;none&#39;" in text


def test_it_tells_how_turns_begin_and_what_form_replies_have() -> None:
    """A question is one wherever it begins; a user of no script has no voice."""
    seen = ReadRows()
    for role, text in [
        ("user", "Could you look?"),
        ("user", "Could you?"),
        ("assistant", "It's done. Shall I go on?"),
        ("assistant", "I've sent it."),
        ("tool", "{}"),
    ]:
        seen._add_words(role, text, "")
    assert seen.openings["user"] == {"could you": 2} and set(seen.openings) == {"user", "assistant"}
    assert seen.shapes == {"asks back": 1, "what was done": 1}
    assert seen.spoken["–"] == {2: 1, 3: 1}


@pytest.mark.parametrize(
    ("config", "column", "text", "message"),
    [
        ("samples", "dialogue", "{}", "row q0 is damaged .*toolloom verify toy/1.0.0"),
        ("rejected", "record", None, "is damaged"),
    ],
)
def test_a_damaged_row_is_named(
    tmp_path: Path, config: str, column: str, text: str | None, message: str
) -> None:
    """And the command that tells more."""
    made = whole(tmp_path)
    [path] = made.files(config, "train")
    table = pq.read_table(path)
    texts = pa.array([text, *table.column(column).to_pylist()[1:]], pa.string())
    number = table.schema.get_field_index(column)
    pq.write_table(table.set_column(number, column, texts), path)
    with pytest.raises(StoreError, match=message):
        page(made, read(made))


@pytest.mark.parametrize(
    ("key", "odd"),
    [
        ("splits", 3),
        ("splits", {"train": [1]}),
        ("runs", {"x": {"recipe": [1]}}),
        ("runs", {"x": {"counts": {"stages": 3}}}),
        ("apis", 3.5),
    ],
)
def test_a_damaged_manifest_is_told(tmp_path: Path, key: str, odd: object) -> None:
    """Of whatever shape it is, there is a message with its name."""
    made = whole(tmp_path)
    made.manifest[key] = odd
    with pytest.raises(StoreError, match=r"manifest.json: .*damaged"):
        page(made, read(made))


def test_a_report_has_a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, under the version's name; in a folder that is named; or in the file that is. An older
    report is replaced; any other file is not."""
    made, path = version(tmp_path / "outputs"), tmp_path / "page.html"
    monkeypatch.chdir(tmp_path)
    assert path_of(made, None) == Path("toy-1.0.0.html")
    assert path_of(made, tmp_path) == tmp_path / "toy-1.0.0.html"
    assert path_of(made, Path("new.html")) == Path("new.html")
    path.write_text(page(made, read(made)), encoding="utf-8")
    assert path_of(made, path) == path
    path.write_text("<html>my own page</html>")
    with pytest.raises(StoreError, match="is not a report of toolloom's"):
        path_of(made, path)


def drawn(names: list[str], size: int) -> list[Any]:
    draw = Draw(size)
    for name in names:
        draw.offer(name, {"name": name})
    return [one["name"] for one in draw]


@given(st.permutations([f"row {n}" for n in range(40)]))
def test_the_order_of_rows_decides_nothing(names: list[str]) -> None:
    """The same rows are drawn, in the same order, whoever came first; no more than were wanted."""
    assert drawn(names, 7) == drawn(sorted(names), 7)
    assert len({*drawn(names, 7)}) == 7
    assert sorted(drawn(names[:4], 7)) == sorted(names[:4])
    assert drawn(["same"] * 3, 2) == ["same", "same"]
