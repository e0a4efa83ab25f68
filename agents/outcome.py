"""What an agent gives back: accepted records, and rejected ones with their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolloom.llm import Misfit, Model, Unusable, Usage
from toolloom.schemas import AgentName, Finding, Provenance, Record, Rejected


@dataclass(frozen=True)
class Outcome:
    """What became of one record: every record ends in one of the two."""

    accepted: tuple[Record, ...] = ()
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True)
class Job:
    """One agent's work on one record: who works for which stage, from which seed."""

    stage: str
    agent: AgentName
    record: str
    seed: int
    model: Model

    def provenance(self, usage: Usage, parents: Sequence[str] = ()) -> tuple[Provenance, ...]:
        """The provenance of a record this job made, as a tuple of one."""
        return (
            Provenance(
                stage=self.stage,
                agent=self.agent,
                model=self.model.endpoint.model if usage.requests else "",
                prompts=usage.prompts,
                seed=self.seed,
                requests=usage.requests,
                prompt_tokens=usage.prompt_tokens,
                cached_tokens=usage.cached_tokens,
                completion_tokens=usage.completion_tokens,
                cost=usage.cost,
                repairs=usage.repairs,
                parents=tuple(parents),
            ),
        )

    def reject(
        self,
        record: Record,
        why: Misfit | Unusable | Finding,
        *,
        usage: Usage | None = None,
        raw: Sequence[str] = (),
        findings: Sequence[Finding] = (),
    ) -> Rejected:
        """`record` with the reason it goes no further and every raw response."""
        usage = usage or getattr(why, "usage", None) or Usage()
        return Rejected(
            id=self.record,
            stage=self.stage,
            agent=self.agent,
            reason=why.reason,
            detail=why.detail,
            findings=tuple(findings),
            record=record.model_dump(mode="json"),
            raw=tuple(raw) or tuple(getattr(why, "raw", ())),
            provenance=self.provenance(usage),
        )
