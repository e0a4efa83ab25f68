from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from expanding import FIND, FOUND, skeleton, template

from toolloom.pipeline.dataset.rows import CONFIGS, SAMPLES, SFT, samples_row, sft_row
from toolloom.pipeline.dataset.unfold import TemplateRenderer, write_expansion
from toolloom.pipeline.store.tables import VersionWriter
from toolloom.schemas import Expansion, Split

TOUCHING = skeleton(
    ("A room in <city>.", [(FIND, {"city": "<city>"}, FOUND)], "<price><guests> is it.<day>")
)


@pytest.mark.parametrize(
    "pools",
    [
        {"city": ["Bern", "Oslo"], "price": [81.5, 120]},
        {"city": ["Bern", "Na"], "price": [1e-7, 0.1 + 0.2, 2**70, 12345678.5]},
        {"city": ["NaN", "\\ud83d", "1e+5"], "price": [1234567890, "1e", "1234.5"]},
    ],
)
def test_expansions_are_written_as_their_samples_are(
    pools: dict[str, list[Any]], tmp_path: Path
) -> None:
    """With the same rows left out of `sft`, in the same bytes."""
    more = {"guests": [2, "+5", 99999999], "day": ["N", ""], "host": ["Casa"], "offer": ["AB77"]}
    of = template(TOUCHING, **pools, **more)
    rows = tuple(product(*(range(len(choice.rows)) for choice in of.choices)))
    made = Expansion(id="e", template=of, split=Split.TRAIN, first=7, rows=rows, inspected=0)
    mould = TemplateRenderer(of)
    with (
        VersionWriter(tmp_path / "one", CONFIGS) as one,
        VersionWriter(tmp_path / "many", CONFIGS) as many,
    ):
        write_expansion(made, many, 3)
        for place, row in enumerate(rows):
            sample = mould.sample(row, made.sample_id(place), 3).model_dump(mode="json")
            one.add_made(SFT, "train", sft_row(sample))
            one.add_made(SAMPLES, "train", samples_row(sample))
        assert one.finish() == many.finish()
    for path in (tmp_path / "one").rglob("*.parquet"):
        name = path.relative_to(tmp_path / "one")
        assert pq.read_table(path).equals(pq.read_table(tmp_path / "many" / name))
        assert path.read_bytes() == (tmp_path / "many" / name).read_bytes()
