"""An OpenAI-compatible endpoint: where it is, how it is used, what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from toolloom.schemas.base import Record

Passing: TypeAlias = (
    Literal["5xx", "connection", "timeout", "garbled"] | Annotated[int, Field(ge=400, le=599)]
)
"""A failure that may pass: an HTTP status, all of 500 and above, or what is no HTTP error."""

# Fields that decide how a run is done, not what it makes: changing them goes on with the run.
EXECUTION = frozenset(
    {
        "concurrency",
        "key_env",
        "replicas",
        "requests_per_minute",
        "retry",
        "timeout",
        "tokens_per_minute",
    }
)


NO_MODEL = "none"
"""In place of an address: nobody is asked."""


class Retry(Record):
    """Which failures are tried again, how often and for how long."""

    tries: int = Field(default=10, ge=1, le=100, description="Tries of a request that fails.")
    first_wait: float = Field(
        default=0.25, gt=0, le=60, description="Seconds before the second try; then twice as long."
    )
    longest_wait: float = Field(
        default=30, gt=0, le=600, description="Seconds between two tries at most."
    )
    patience: float = Field(
        default=900, gt=0, description="Seconds for one request, all tries and waits included."
    )
    errors: tuple[Passing, ...] = Field(
        default=(408, 409, 425, 429, "5xx", "connection", "timeout", "garbled"),
        description="Failures worth another try: statuses, and `garbled` for what is no answer.",
    )

    def passes(self, status: int) -> bool:
        """Whether an HTTP status is worth another try."""
        return status in self.errors or (status >= 500 and "5xx" in self.errors)


def address(value: str) -> str:
    """An address without its last slash. Raises ValueError if it is none."""
    if value in ("local", NO_MODEL):
        return value
    if not value.startswith(("http://", "https://")):
        raise ValueError("must be `local` or begin with http:// or https://")
    try:
        parts = urlsplit(value)
        whole = parts.hostname and parts.port is not False
    except ValueError as error:  # such as a port that is no number, or half an IPv6 address
        raise ValueError(f"is no address: {error}") from error
    if not whole:
        raise ValueError("names no host")
    return value.rstrip("/")


def public(base_url: str) -> str:
    """The address without user, password and query, which may hold secrets."""
    parts = urlsplit(base_url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


BaseUrl: TypeAlias = Annotated[str, AfterValidator(address)]


class Replica(Record):
    """Another address or key that serves the same model."""

    base_url: BaseUrl | None = Field(default=None, description="Its address, if it is another.")
    key_env: str | None = Field(default=None, description="Variable of its key, if it is another.")


class Endpoint(Record):
    """An OpenAI-compatible endpoint and how to use it."""

    base_url: BaseUrl = Field(
        default="local",
        description="Address up to and with /v1, or `local` for the embedded model.",
    )
    model: str = Field(default="smollm2-135m-instruct", description="Name of the model there.")
    key_env: str = Field(
        default="OPENAI_API_KEY", description="Environment variable that holds the key."
    )
    replicas: tuple[Replica, ...] = Field(
        default=(),
        description="More addresses or keys (`base_url`, `key_env`) that serve the model and "
        "share the load, each under limits of its own.",
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
        if self.local and (self.replicas or self.mode == "batch"):
            raise ValueError("the embedded model has neither `replicas` nor `mode: batch`")
        return self

    @property
    def batched(self) -> bool:
        return self.mode == "batch"

    @property
    def local(self) -> bool:
        return self.base_url == "local"

    @property
    def absent(self) -> bool:
        """No model: written words alone, and choices by seed."""
        return self.base_url == NO_MODEL

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """Address and variable of the key: its own, then those of its replicas."""
        more = ((r.base_url or self.base_url, r.key_env or self.key_env) for r in self.replicas)
        return ((self.base_url, self.key_env), *more)


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
