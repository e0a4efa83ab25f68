"""Real APIs that ground those which the API agent designs."""

from __future__ import annotations

from functools import cache

from toolloom.pipeline.apis.catalogue import public_apis
from toolloom.pipeline.apis.search import SearchIndex
from toolloom.schemas import Domain
from toolloom.schemas.api import PublicApi

SHOWN = 5  # real APIs in the API agent's prompt


@cache
def _examples() -> tuple[tuple[PublicApi, ...], SearchIndex]:
    known = tuple(a for a in public_apis() if a.operations)
    texts = [
        f"{a.name} {a.category} {a.does} " + " ".join(f"{o.name} {o.does}" for o in a.operations)
        for a in known
    ]
    return known, SearchIndex(texts)


def examples_for(subject: Domain) -> list[PublicApi]:
    """Real APIs that ground a domain's: those of its category, then the most alike."""
    known, index = _examples()
    alike = [known[i] for i in index.top(f"{subject.name} {subject.category}", len(known))]
    return sorted(alike, key=lambda a: a.category != subject.category)[:SHOWN]
