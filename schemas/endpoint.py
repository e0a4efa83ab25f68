"""An OpenAI-compatible endpoint: where it is, how it is used, what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from toolloom.schemas.base import Record

# Fields that decide how a run is done, not what it makes: changing them goes on with the run.
EXECUTION = frozenset(
    {"concurrency", "key_env", "requests_per_minute", "retry", "timeout", "tokens_per_minute"}
)


NO_MODEL, LOCAL, SCRIPTED = "none", "local", "scripted"
"""In place of an address: nobody is asked; the embedded model; the endpoint that plays a script."""


class Retry(Record):
    """How often and for how long a request that fails is tried again."""

    tries: int = Field(default=10, ge=1, le=100, description="Tries of a request that fails.")
    patience: float = Field(
        default=900, gt=0, description="Seconds for one request, all tries and waits included."
    )


def address(value: str) -> str:
    """An address without its last slash. Raises ValueError if it is none."""
    if value in (NO_MODEL, LOCAL, SCRIPTED):
        return value
    if not value.startswith(("http://", "https://")):
        raise ValueError("must be `local`, `scripted`, or begin with http:// or https://")
    try:
        parts = urlsplit(value)
        whole = parts.hostname and parts.port is not False
    except ValueError as error:  # such as a port that is no number, or half an IPv6 address
        raise ValueError(f"is not an address: {error}") from error
    if not whole:
        raise ValueError("names no host")
    return value.rstrip("/")


def public(base_url: str) -> str:
    """The address without user, password and query, which may hold secrets."""
    parts = urlsplit(base_url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


BaseUrl: TypeAlias = Annotated[str, AfterValidator(address)]


class Endpoint(Record):
    """An OpenAI-compatible endpoint and how to use it."""

    base_url: BaseUrl = Field(
        default="local",
        description="Address up to and with /v1; `local` for the embedded model, `scripted` for an "
        "endpoint that plays the agents without a model.",
    )
    model: str = Field(default="smollm2-135m-instruct", description="Name of the model there.")
    key_env: str = Field(
        default="OPENAI_API_KEY", description="Environment variable that holds the key."
    )
    small: bool = Field(
        default=False,
        description="A model too small to write rows by itself, as `validate` and `run` say; "
        "dialogues in worlds then have the words of scripts. True for `local`, with 6 "
        "candidates and concurrency 4, unless the recipe says otherwise.",
    )
    candidates: int = Field(
        default=1, ge=1, le=32, description="Answers tried, with new seeds, until one is usable."
    )
    temperature: float = Field(default=0.7, ge=0, le=2, description="Sampling temperature.")
    mode: Literal["direct", "batch"] = Field(
        default="direct",
        description="`batch` sends requests through the Batch API: cheaper, within a day.",
    )
    concurrency: int = Field(
        default=32,
        ge=1,
        le=50_000,
        description="Requests under way at once, at most: fewer while the endpoint says that "
        "there are too many. With `mode: batch`, requests in one batch.",
    )
    requests_per_minute: int | None = Field(
        default=None, ge=1, description="Requests sent within any minute, at most."
    )
    tokens_per_minute: int | None = Field(
        default=None, ge=1, description="Tokens sent and received within any minute, at most."
    )
    timeout: float = Field(default=120, gt=0, description="Seconds to wait for one response.")
    retry: Retry = Field(default_factory=Retry, description="What is tried again, and how often.")

    @model_validator(mode="before")
    @classmethod
    def _suits_the_embedded_model(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("base_url", "local") == "local":
            return {"small": True, "candidates": 6, "concurrency": 4, **data}
        return data

    @model_validator(mode="after")
    def _can_be_reached(self) -> Endpoint:
        if self.named and self.mode == "batch":
            raise ValueError(f"`{self.base_url}` has no `mode: batch`")
        return self

    @property
    def batched(self) -> bool:
        return self.mode == "batch"

    @property
    def local(self) -> bool:
        return self.base_url == LOCAL

    @property
    def named(self) -> bool:
        """Whether a server of our own is asked, which is started in this process."""
        return self.base_url in (LOCAL, SCRIPTED)

    @property
    def absent(self) -> bool:
        """No model: written words alone, and choices by seed."""
        return self.base_url == NO_MODEL


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
        sent, received = self.prompt, self.completion
        again = sent if self.cached is None else self.cached
        if batch:
            sent = sent if self.batch_prompt is None else self.batch_prompt
            received = received if self.batch_completion is None else self.batch_completion
            again = min(again, sent) if self.batch_cached is None else self.batch_cached
        known = min(cached, prompt)
        return ((prompt - known) * sent + known * again + completion * received) / MILLION


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
