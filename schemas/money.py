"""What models cost, and what a run may use."""

from __future__ import annotations

from typing import TypeAlias

from pydantic import Field

from toolloom.schemas.base import Record

MILLION = 1_000_000


class Price(Record):
    """One model's prices, in US dollars per million tokens."""

    prompt: float = Field(ge=0, description="Tokens sent.")
    completion: float = Field(default=0.0, ge=0, description="Tokens received.")
    cached: float | None = Field(
        default=None, ge=0, description="Tokens sent that the endpoint had cached; else `prompt`."
    )
    batch_prompt: float | None = Field(
        default=None, ge=0, description="Tokens sent in a batch; else `prompt`."
    )
    batch_completion: float | None = Field(
        default=None, ge=0, description="Tokens received in a batch; else `completion`."
    )
    batch_cached: float | None = Field(
        default=None, ge=0, description="Cached tokens in a batch; else the lower of the others."
    )

    def cost(self, prompt: int, completion: int, cached: int = 0, *, batch: bool = False) -> float:
        """US dollars. `prompt`: tokens sent, the `cached` ones among them."""
        sent, received, again = self._rates(batch)
        known = min(cached, prompt)
        return ((prompt - known) * sent + known * again + completion * received) / MILLION

    def _rates(self, batch: bool) -> tuple[float, float, float]:
        """Sent, received, sent and cached."""
        again = self.prompt if self.cached is None else self.cached
        if not batch:
            return self.prompt, self.completion, again
        sent = self.prompt if self.batch_prompt is None else self.batch_prompt
        received = self.completion if self.batch_completion is None else self.batch_completion
        known = min(again, sent) if self.batch_cached is None else self.batch_cached
        return sent, received, known


Prices: TypeAlias = dict[str, Price]


class Budget(Record):
    """What one run may use, all its starts together. It stops before it would pass a limit."""

    max_cost: float | None = Field(
        default=None, gt=0, description="US dollars, at the recipe's `prices`."
    )
    max_tokens: int | None = Field(default=None, ge=1, description="Tokens sent and received.")
    max_requests: int | None = Field(
        default=None, ge=1, description="Requests sent, each try counted."
    )
