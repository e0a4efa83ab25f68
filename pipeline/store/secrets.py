"""What nobody who reads a log, a state or an artifact may see: keys and passwords."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from toolloom.schemas import Recipe

HIDDEN = "[key]"
SHORTEST = 6  # characters of a key: shorter ones stand in too many texts by chance
_NAMES = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|COOKIE)S?\d*$"
    r"|(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASS|PAT|CREDENTIALS?|AUTH|DSN)(?:_|$)",
    re.IGNORECASE,
)
# Whoever wrote it, what follows these words is a key.
AUTHORISATION = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{6,}|\bsk-[\w-]{16,}", re.IGNORECASE)


class Secrets:
    """What no line may hold."""

    def __init__(self) -> None:
        self._known: list[str] | None = None

    def learn(self, values: Iterable[str]) -> None:
        """The environment's secrets are known without being told."""
        found = {v.strip() for v in (*(self._known or secrets_of(os.environ)), *values)}
        # Longer ones first: one may begin another.
        self._known = sorted((v for v in found if len(v) >= SHORTEST), key=len, reverse=True)

    def hide(self, line: str) -> str:
        if self._known is None:
            self.learn(())
        for secret in self._known or ():
            line = line.replace(secret, HIDDEN)
        return AUTHORISATION.sub(HIDDEN, line)


SECRETS = Secrets()


def secrets_of(environment: Mapping[str, str]) -> dict[str, str]:
    """What of the variables nobody may read, with what stands in its place; the longest first.

    Variables with names such as API_TOKEN are secret as a whole, of an address its password.
    """
    found = {v: f"${n}" for n, v in environment.items() if _NAMES.search(n)}
    for name, value in environment.items():
        with contextlib.suppress(ValueError):  # half an IPv6 address
            if password := urlsplit(value).password:
                found.setdefault(password, f"${name}")
    return {v: found[v] for v in sorted(found, key=len, reverse=True) if len(v) >= SHORTEST}


def keys_of(recipe: Recipe) -> list[str]:
    """The values of a recipe's keys, and what its addresses hide before the host or after `?`."""
    found: list[str] = []
    for endpoint in recipe.endpoints:
        parts = urlsplit(endpoint.base_url)
        found += [os.environ.get(endpoint.key_env, ""), parts.password or "", parts.query]
    return found
