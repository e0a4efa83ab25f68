"""The plots of a dataset card: which there are, and their files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from toolloom.pipeline.dataset.figures import LEVELS, added, instructions_of
from toolloom.pipeline.render.plots import BAD, Plot, svg
from toolloom.pipeline.store.files import write_lines
from toolloom.schemas import JsonObject


def plots(manifest: JsonObject) -> Iterator[Plot]:
    """The plots of a version; none of what it has nothing of."""
    splits = manifest["splits"]
    told = [one for one in splits.values() if one["rows"]]
    names = [name for name, one in splits.items() if one["rows"]]
    if told:
        yield Plot(
            "splits",
            "Dialogues by split",
            names,
            [one["rows"] for one in told],
            [one["rejected"] for one in told],
            ("accepted", "rejected"),
        )
    for name, title in (("scenarios", "Scenario"), ("calls", "Number of calls")) if told else ():
        counts = added(told, name)
        yield Plot(name, f"Dialogues by {title.lower()}", [*counts], [*counts.values()])
    if counted := instructions_of(manifest):
        levels = [level for level in LEVELS if level in counted.levels or level in counted.rejected]
        fallen = [counted.rejected[x].total() if x in counted.rejected else 0 for x in levels]
        yield Plot(
            "levels",
            "Instructions by level",
            levels,
            [counted.levels[level] for level in levels],
            fallen,
            ("accepted", "rejected"),
        )
    if reasons := added(splits.values(), "reasons"):
        yield Plot("reasons", "Rejected because", [*reasons], [*reasons.values()], color=BAD)


def draw(manifest: JsonObject, folder: Path) -> None:
    """Write the plots to `<folder>/<name>.svg`."""
    for plot in plots(manifest):
        write_lines(folder / f"{plot.name}.svg", [svg(plot)])
