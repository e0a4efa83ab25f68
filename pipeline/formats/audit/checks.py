"""Which certain checks a row can be held to: those that need nothing its format leaves out.

Left out for all formats, since nobody tells the intent of others' data: `opening_request`,
`mentioned_values`, `asked_first`, `intended_calls`, `dependent_calls`, `planned_faults`,
`admitted_limits`. Left out because people differ: `natural_requests`, `helpful_replies`,
`bearable_lengths`, and all that judges replies by what was observed, as people and models add
what they know. Three checks have a variant that finds only what is certain in others' data:
`turn_order`, `leaked_calls` and `kept_values`; each says how it differs.
"""

from __future__ import annotations

from toolloom.pipeline.checks import (
    Check,
    answered_calls,
    fitting_arguments,
    fitting_observations,
    kept_values,
    known_names,
    leaked_calls,
    plain_values,
    readable_calls,
    searched_first,
    turn_order,
)
from toolloom.pipeline.formats.audit.reading import Reading
from toolloom.schemas import Dialogue

# Groups as in `checks.CHECKS`: check → flags of a Reading that it needs.
TABLE: tuple[tuple[tuple[Check[Dialogue], tuple[str, ...]], ...], ...] = (
    ((plain_values, ()),),
    (
        (turn_order, ()),
        (answered_calls, ("has_results",)),
        (readable_calls, ()),
    ),
    (
        (leaked_calls, ("has_reply",)),
        (known_names, ()),
        (searched_first, ("has_results",)),
        (fitting_arguments, ()),
        (fitting_observations, ("has_results",)),
        (kept_values, ()),
    ),
)


def expected(reading: Reading) -> tuple[tuple[Check[Dialogue], ...], ...]:
    """The checks a row is held to, in the groups in which they run."""
    if reading.dialogue is None:
        return ()
    return tuple(
        tuple(check for check, needs in group if all(getattr(reading, need) for need in needs))
        for group in TABLE
    )
