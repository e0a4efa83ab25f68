"""What a person sees of a dataset's versions, and of what differs between two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from toolloom.pipeline.dataset.diff import Diff, Example, Pair, summed
from toolloom.pipeline.dataset.report import dollars
from toolloom.pipeline.render.terminal import grid, sample_view, text
from toolloom.pipeline.store.version import Version
from toolloom.schemas import JsonObject, Sample, Split

TITLES = {
    "abilities": "ability",
    "scenarios": "scenario",
    "categories": "category",
    "calls": "calls",
    "reasons": "rejected because",
}


def versions_view(versions: Sequence[Version], latest: str) -> RenderableType:
    """A line for each version."""
    splits = [s for s in Split if any(_rows(version, s) for version in versions)]
    also = ["instructions"] if any(map(_instructions, versions)) else []
    rows = [
        (
            version.number + (" (latest)" if version.number == latest else ""),
            (version.told("parent") or {}).get("version", ""),
            _made(version),
            *(_rows(version, split) for split in splits),
            *(_instructions(version) for _ in also),
            sum(told["rejected"] for told in version.told("splits").values()),
            _cost(version),
        )
        for version in versions
    ]
    return grid(("version", "from", "made by", *splits, *also, "rejected", "cost"), rows)


def _rows(version: Version, split: str) -> int:
    count: int = version.told("splits").get(split, {}).get("rows", 0)
    return count


def _instructions(version: Version) -> int:
    made = version.manifest["configs"].get("instructions", {})
    return sum(sheet.get("rows", 0) for sheet in made.values())


def _run(version: Version) -> tuple[str, JsonObject]:
    """The run that made what is new in a version."""
    split, runs = version.told("regenerated"), version.told("runs")
    extended = version.manifest.get("extended")
    name = version.told("splits")[split]["runs"][-1] if split else next(iter(runs))
    name = extended["run"] if extended else name
    return name, runs[name]


def _made(version: Version) -> str:
    split, (name, run) = version.told("regenerated"), _run(version)
    wanted = run["recipe"].get("regenerate") or {}
    if extended := version.manifest.get("extended"):
        grown = f"{wanted['split']} grown: " if wanted.get("keep") else ""
        return f"{grown}{_added(extended['rows'])}, {name}"
    rejected = "what was rejected of " if wanted.get("only_rejected") else ""
    return f"{rejected}{split} anew, {name}" if split else name


def _added(rows: JsonObject) -> str:
    """What was added to the version before, such as `100 rows, 20 instructions more`."""
    counts = ((sum(rows.get(config, {}).values()), what) for config, what in _ADDED)
    return ", ".join(f"{count:,} {what}" for count, what in counts if count) + " more"


_ADDED = (("samples", "rows"), ("instructions", "instructions"))


def _cost(version: Version) -> str:
    """What was paid for what is new in a version, where there are prices."""
    counts = _run(version)[1]["counts"]
    return dollars(counts["use"]["cost"]) if counts["priced"] else ""


def diff_view(diff: Diff) -> Iterator[RenderableType]:
    """Tables of rows and figures, then examples."""
    yield f"From {diff.before} to {diff.after}"
    yield ""
    kinds = ("before", "after", "same", "renamed", "changed", "removed", "added")
    yield grid(
        ("split", *kinds), [(r.split, *(getattr(r, kind) for kind in kinds)) for r in diff.rows]
    )
    if diff.instructions:
        yield ""
        head = ("instructions", *(kind for kind in kinds if kind != "renamed"))
        yield grid(head, [(r.split, *(getattr(r, k) for k in head[1:])) for r in diff.instructions])
    for name, title in TITLES.items():
        if moved := summed(diff.figures, name):
            yield ""
            yield grid((title, "before", "after", "change"), map(_line, moved.items()))
    for example in diff.examples:
        yield ""
        yield _example(example)


def _line(item: tuple[str, Pair]) -> tuple[str, int, int, str]:
    value, (before, after) = item
    return value, before, after, f"{after - before:+,}" if after != before else "="


def _example(example: Example) -> RenderableType:
    parts: list[RenderableType] = [text(f"{example.kind} in {example.split}: {example.id}", "bold")]
    for when, sample in (("before", example.before), ("after", example.after)):
        if sample is not None:
            head = [Text(when, "dim")] if example.kind == "changed" else []
            parts += [*head, sample_view(Sample.model_validate(sample))]
    return Group(*parts)
