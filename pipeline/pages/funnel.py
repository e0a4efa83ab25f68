"""What a version's runs made of what, stage by stage, and what it took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from toolloom.pipeline.dataset.figures import REWRITTEN as REWRITTEN
from toolloom.pipeline.dataset.report import Counts, StageCount
from toolloom.pipeline.dataset.unfold import STAGE
from toolloom.pipeline.store.run import begun_with
from toolloom.pipeline.store.version import Version
from toolloom.schemas import JsonObject, StoreError, Usage


@dataclass
class FunnelStep:
    """A stage of all runs together."""

    name: str
    agent: str
    beside: bool
    accepted: int = 0
    rejected: int = 0
    use: Usage = field(default_factory=Usage)

    @property
    def share(self) -> float:
        """The share that it rejected."""
        return self.rejected / (self.accepted + self.rejected) if self.rejected else 0.0

    def add(self, stage: StageCount) -> None:
        self.accepted += stage.accepted
        self.rejected += stage.rejected
        self.use += stage.use


@dataclass(frozen=True)
class Funnel:
    """The stages in order."""

    runs: int
    steps: tuple[FunnelStep, ...]
    priced: bool
    unpriced: tuple[str, ...]

    @property
    def use(self) -> Usage:
        return sum((step.use for step in self.steps), Usage())

    @property
    def most(self) -> int:
        """What the longest bar stands for."""
        return max((step.accepted + step.rejected for step in self.steps), default=0)

    def beyond(self, dialogues: int, instructions: int, rejected: int) -> dict[str, int]:
        """What the runs made more than a version holds: later ones put others in its place."""
        made = {step.name: step.accepted for step in self.steps}
        last = next((step.name for step in self.steps[::-1] if not step.beside), "")
        return {
            "dialogue": made.get(last, 0) + made.get(STAGE, 0) - dialogues,
            "instruction": made.get(REWRITTEN, 0) - instructions,
            "rejected record": sum(step.rejected for step in self.steps) - rejected,
        }


def funnel(version: Version) -> Funnel:
    """Raises StoreError if the manifest's counts cannot be read."""
    try:
        # The manifest tells of the last run first.
        runs = [_counts(run) for run in [*version.told("runs").values()][::-1]]
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        where = version.path / "manifest.json"
        raise StoreError(f"{where}: is damaged (the counts of its runs).") from error
    return Funnel(
        runs=len(runs),
        steps=tuple(_steps(runs)),
        priced=any(run.priced for run in runs),
        unpriced=tuple(sorted({model for run in runs if run.priced for model in run.unpriced})),
    )


def _counts(run: JsonObject) -> Counts:
    """What a run did itself. Manifests of earlier toolloom do not say which stages were given."""
    counts = Counts.model_validate(run["counts"])
    regenerates = bool((run.get("recipe") or {}).get("regenerate"))
    given = begun_with(regenerates, [stage.name for stage in counts.stages])
    stages = (s.model_copy(update={"given": s.name in given or s.given}) for s in counts.stages)
    return counts.model_copy(update={"stages": tuple(stages)})


def _steps(runs: Iterable[Counts]) -> Iterable[FunnelStep]:
    """Each stage once, in the order of the runs; what a run was given it did not do."""
    steps: dict[str, FunnelStep] = {}
    order: list[str] = []
    for run in runs:
        after = len(order)
        for stage in reversed(run.stages):  # a new one stands before those that follow it
            if stage.name not in order:
                order.insert(after, stage.name)
            after = order.index(stage.name)
            if not stage.given:
                step = FunnelStep(stage.name, stage.agent, stage.beside)
                steps.setdefault(stage.name, step).add(stage)
    return [steps[name] for name in order if name in steps]
