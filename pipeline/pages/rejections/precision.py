"""How often a rejection is right, as curators see it: the precision of checks and of the tester.

Of what it rejects, how much ought to be rejected. API-Bank (section 5, «Quality»): «upon examining
the data that was automatically filtered by the tester agent, we discover that 78% of it does not
adhere to our design principles as intended.» That is the precision of its tester.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

from pydantic import Field

from toolloom.pipeline.pages.rejections.judgements import Marks
from toolloom.pipeline.pages.rejections.table import Row
from toolloom.schemas import Record

API_BANK = 0.78
Z = 1.959963984540054  # of the normal distribution, for 95 %


class Precision(Record):
    """The precision of one group of rejections, with its 95 % interval."""

    group: str
    rejected: int = Field(description="Records in the group.")
    judged: int = Field(description="Different ones that curators have judged.")
    agreed: int = Field(description="Of those, rightly rejected.")
    tied: int = Field(default=0, description="As many agree as disagree: not counted as judged.")

    @property
    def share(self) -> float | None:
        """The precision; None as long as nothing is judged."""
        return self.agreed / self.judged if self.judged else None

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.agreed, self.judged)


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The 95 % score interval of a share: honest for few marks and for shares of 0 and 1.

    E. B. Wilson, «Probable Inference, the Law of Succession, and Statistical Inference», Journal
    of the American Statistical Association 22 (1927), 209-212. Recommended for small samples by
    Brown, Cai and DasGupta, «Interval Estimation for a Binomial Proportion», Statistical Science
    16 (2001), 101-133.
    """
    if not of:
        return 0.0, 1.0
    share, spread = hits / of, Z * Z / of
    centre = share + spread / 2
    half = Z * sqrt(share * (1 - share) / of + spread / (4 * of))
    low, high = ((centre + sign * half) / (1 + spread) for sign in (-1, 1))
    return (0.0 if hits == 0 else low), (1.0 if hits == of else high)


def precision(rows: Iterable[Row], marks: Marks, column: str | None = None) -> list[Precision]:
    """The precision by what is in a column, most rejected first; without one, over all."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        for value in row.values(column) if column else ("all",):
            groups.setdefault(value, []).append(row)
    made = [_of(group, members, marks) for group, members in groups.items()]
    return sorted(made, key=lambda one: (-one.rejected, one.group))


def _of(group: str, rows: list[Row], marks: Marks) -> Precision:
    """Equal records are one judgement: they count once."""
    marked = {row.key: marks.verdict(row) for row in rows if marks.of(row)}
    judged = [agrees for agrees in marked.values() if agrees is not None]
    return Precision(
        group=group,
        rejected=len(rows),
        judged=len(judged),
        agreed=sum(judged),
        tied=len(marked) - len(judged),
    )
