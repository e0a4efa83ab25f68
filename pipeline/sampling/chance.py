"""Where every draw has its chance from."""

from __future__ import annotations

import random
from typing import Any

from toolloom.schemas import digest


def rng_for(*parts: Any) -> random.Random:
    """The generator of (recipe seed, stage, record id): never shared, never in arrival order."""
    return random.Random(digest(list(parts), 32))
