import io

import pytest
from matplotlib.image import imread

from toolloom.pipeline.pages.rejections.precision import Precision
from toolloom.pipeline.render.pictures import MOST_BARS, Picture, bars, intervals, stacked

ODD = {"$x_{": 3, "_hidden": 2, "日本語": 1, "<b>": 1, "x" * 300: 1}


def ink(picture: Picture) -> float:
    """How dark it is: 0 for a white page."""
    return float(1 - imread(io.BytesIO(picture.png))[:, :, :3].mean())


@pytest.mark.parametrize(
    "picture",
    [
        bars("By category", ODD),
        stacked("By version", {"1.0.0": ODD, "1.1.0": {}}),
        intervals(
            "Right", [Precision(group=k, rejected=9, judged=v, agreed=1) for k, v in ODD.items()]
        ),
        bars("Nothing", {}),
        stacked("Nothing", {}),
        intervals("Nothing", []),
    ],
    ids=lambda picture: picture.told[:20],
)
def test_any_labels_can_be_drawn(picture: Picture) -> None:
    """Formulas, underscores, foreign letters and nothing at all make a picture."""
    png, size = picture._repr_png_()
    height, width = imread(io.BytesIO(png)).shape[:2]
    assert (width, height) == pytest.approx((2 * size["width"], 2 * size["height"]), abs=2)
    assert ink(picture) > 0.001


def test_what_has_no_bar_of_its_own_is_added_up() -> None:
    """The bars of a plot add up to all records, however many values there are."""
    told = bars("Many", {f"v{n:03}": 1 for n in range(100)}).told
    assert f"others ({100 - MOST_BARS + 1}) {100 - MOST_BARS + 1}" in told
