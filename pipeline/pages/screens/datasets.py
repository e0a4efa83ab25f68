"""What a person sees of versions of a dataset."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from toolloom.pipeline.dataset.figures import added
from toolloom.pipeline.dataset.report import Counts
from toolloom.pipeline.render.terminal import grid, text, use_grid
from toolloom.pipeline.store.version import Version


def version_view(version: Version) -> RenderableType:
    """The tables of a version: its splits, what is in them, what was rejected, what it took."""
    manifest = version.manifest
    splits = {name: told for name, told in manifest["splits"].items() if told["rows"]}
    rows = [
        (name, told["rows"], told["rejected"], told["apis"], " ".join(told["runs"]))
        for name, told in manifest["splits"].items()
    ]
    parts: list[RenderableType] = [grid(("split", "dialogues", "rejected", "APIs", "run"), rows)]
    for title, name in (("ability", "abilities"), ("scenario", "scenarios"), ("calls", "calls")):
        counts = added(splits.values(), name)
        cells = [
            (value, count, *(told[name].get(value, 0) for told in splits.values()))
            for value, count in counts.items()
        ]
        parts.append(grid((title, "all", *splits), cells))
    if reasons := added(manifest["splits"].values(), "reasons"):
        parts.append(grid(("rejected because", "records"), list(reasons.items())))
    for name, run in manifest["runs"].items():
        made = Counts.model_validate(run["counts"])
        asked = [(s.name, s.agent, s.use) for s in made.stages if not s.sifts]
        parts.append(text(f"Run {name}", "bold"))
        parts.append(use_grid([*asked, ("in all", "", made.use)], made.priced))
    accepted, several = (
        sum(told[n] for told in splits.values()) for n in ("rows", "several_turns")
    )
    parts.append(Text(f"{accepted:,} dialogues accepted, {several:,} with several user turns."))
    return Group(*(line for part in parts for line in (part, Text(""))))
