"""Dialogues in OpenAI's chat form, samples, and why a record is accepted or rejected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from pydantic import Field

from toolloom.schemas.base import JsonObject, Provenance, Record
from toolloom.schemas.query import Query


class FunctionCall(Record):
    """Name and arguments of a call."""

    name: str = Field(description="Function name as the model wrote it.")
    arguments: JsonObject | str = Field(
        description="An object; text only where the model's text could not be read as one."
    )


class ToolCall(Record):
    """One call in an assistant message."""

    id: str = Field(description="Unique in its dialogue.")
    type: Literal["function"] = "function"
    function: FunctionCall


class Observation(Record):
    """The envelope every execution's result comes in; `error` is None on success."""

    response: Any = None
    error: str | None = None


class Failure(StrEnum):
    """How an execution failed. An MCP server's call fails in three ways that look different."""

    TOOL_ERROR = "tool_error"  # the tool says that it failed (MCP: isError), or a function raised
    PROTOCOL_ERROR = "protocol_error"  # the server refuses the call, such as an unknown tool
    ERROR_TEXT = "error_text"  # a result that claims success and says in words that it failed
    TIME_LIMIT = "time_limit"
    CRASH = "crash"  # the process ended, or never began


class Execution(Record):
    """How an observation came about."""

    kind: Literal["executed", "simulated", "planned", "search"] = Field(
        description="Really executed, played by a model, a planned fault, or API Search."
    )
    by: str = Field(default="", description="What executed it, such as `mcp:time`.")
    failure: Failure | None = Field(default=None, description="How it failed, if it did.")
    digest: str = Field(default="", description="SHA-256 of the whole observation, if executed.")
    whole_tokens: int | None = Field(
        default=None, description="If it was compressed: how long it was, in tokens (estimated)."
    )


class Message(Record):
    """One chat message."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = Field(default=None, description="Text; of a tool: an Observation.")
    tool_calls: tuple[ToolCall, ...] = Field(default=(), description="Calls of an assistant.")
    tool_call_id: str | None = Field(default=None, description="The call a tool answers.")
    name: str | None = Field(default=None, description="Function a tool message comes from.")
    execution: Execution | None = Field(
        default=None, description="Of a tool: how its observation came about."
    )

    def observation(self) -> Observation:
        """The observation a tool message holds. Raises pydantic.ValidationError if it does not."""
        return Observation.model_validate_json(self.content or "")


class Dialogue(Record):
    """A query with the conversation that serves it, before any verdict."""

    query: Query
    messages: tuple[Message, ...]
    provenance: tuple[Provenance, ...] = Field(default=(), description="How it was made.")

    @property
    def id(self) -> str:
        return self.query.id

    def calls(self) -> Iterator[tuple[int, ToolCall]]:
        """Every call with the index of its message, in order."""
        for index, message in enumerate(self.messages):
            for call in message.tool_calls:
                yield index, call

    def results(self) -> dict[str, tuple[int, Message]]:
        """Tool messages by the id of the call they answer, with their index."""
        return {
            m.tool_call_id: (i, m)
            for i, m in enumerate(self.messages)
            if m.role == "tool" and m.tool_call_id
        }


class Reason(StrEnum):
    """Reason codes, each with what it means: docs/reasons.md is made of these strings.

    The first six are API-Bank's error types (appendix A.1).
    """

    NO_API_CALL = "no_api_call"
    """A call that the request needs is missing, or the assistant says a call worked that was never
    made."""
    API_HALLUCINATION = "api_hallucination"
    """The name that is called is not on offer."""
    INVALID_INPUT_PARAMETERS = "invalid_input_parameters"
    """An argument is unknown, of the wrong type, or outside its enum, format or bounds."""
    MISSING_INPUT_PARAMETERS = "missing_input_parameters"
    """A required argument is missing."""
    FALSE_API_CALL_FORMAT = "false_api_call_format"
    """A call that cannot be read, or one written into the words of a reply."""
    HAS_EXCEPTION = "has_exception"
    """An execution failed, and no failure was planned."""
    # Certain checks of a dialogue.
    MALFORMED_DIALOGUE = "malformed_dialogue"
    """Messages out of order, calls and results that do not pair up, a dialogue without an end."""
    UNNEEDED_API_CALL = "unneeded_api_call"
    """A call that the request does not ask for, or any call where none can help."""
    UNGROUNDED_ARGUMENT = "ungrounded_argument"
    """A value that neither the user said nor a result returned."""
    SEARCH_SKIPPED = "search_skipped"
    """An API is called before API Search has found it, or the search does not find what is
    needed."""
    WRONG_ORDER = "wrong_order"
    """A call comes before the result its argument is taken from."""
    OBSERVATION_OFF_SCHEMA = "observation_off_schema"
    """A result does not fit the schema its API promises."""
    UNGROUNDED_ANSWER = "ungrounded_answer"
    """A reply states what no result holds, contradicts one, leaves the result out, or claims a
    success that failed."""
    INTENT_MISMATCH = "intent_mismatch"
    """Calls differ from what was drawn: another value, another turn, a question that was not asked,
    a fault that did not happen."""
    NOT_REPEATABLE = "not_repeatable"
    """A call that was really executed gives another result from the same state."""
    # What came of a dialogue in a world.
    GOAL_NOT_REACHED = "goal_not_reached"
    """In a world: run again from its start state, the calls do not make a change they should."""
    COLLATERAL_CHANGE = "collateral_change"
    """In a world: the calls change something that was not asked for."""
    FACT_NOT_TOLD = "fact_not_told"
    """In a world: the assistant does not tell what the user has to learn."""
    POLICY_BROKEN = "policy_broken"
    """In a world: a call that one of its policies forbids, or that wanted consent or a look
    first."""
    # The tester's judgement of API-Bank's design principles (section 2).
    DOMAIN_MISMATCH = "domain_mismatch"
    """Judged by votes: the APIs do not belong to the domain."""
    UNAUTHENTIC_API = "unauthentic_api"
    """Judged by votes: no one would offer such an API."""
    UNNATURAL_QUERY = "unnatural_query"
    """No user would say it: technical names, remnants of prompts, loops; or so judged by votes."""
    UNSOLVABLE_QUERY = "unsolvable_query"
    """Judged by votes: the request cannot be served with what is on offer."""
    UNHELPFUL_ANSWER = "unhelpful_answer"
    """The reply repeats the request, only asks, holds remnants of prompts; or so judged by
    votes."""
    # What can go wrong while a record is made.
    UNUSABLE_RESPONSE = "unusable_response"
    """No answer of the model could be read, after all candidates and one chance to mend the
    last."""
    REQUEST_REFUSED = "request_refused"
    """The endpoint refused this one request."""
    VALUE_NOT_MENTIONED = "value_not_mentioned"
    """The user does not say a value that the request is drawn with."""
    VALUE_GIVEN_AWAY = "value_given_away"
    """The user says a value that is meant to be asked for."""
    NEAR_DUPLICATE = "near_duplicate"
    """A domain or API says what another one says already; a row says nearly the same as another, or
    makes nearly the same calls as several."""
    ILLEGAL_SCHEMA = "illegal_schema"
    """An API's names or schemas are not legal, or cannot be checked in bounded time."""
    WORLD_UNSOUND = "world_unsound"
    """A world that the API agent wrote, or an operation of it, cannot be read, cannot be drawn, or
    breaks its own rules."""
    WORLD_UNREACHABLE = "world_unreachable"
    """An operation of such a world that never succeeds, never fails as it says, or needs or changes
    what nothing shows."""
    PROMISE_BROKEN = "promise_broken"
    """An operation of such a world does what its documentation does not say, or not what it
    says."""
    NOT_IMPORTED = "not_imported"
    """Something in a source of APIs that is no API of the run; the detail says why."""
    NOTHING_TO_DRAW = "nothing_to_draw"
    """No values can be drawn for a need."""
    # What curation sorts out.
    EXACT_DUPLICATE = "exact_duplicate"
    """A row in which the user says the same as in another, or that makes the same calls as
    several."""
    CONTAMINATED = "contaminated"
    """A row has words or calls in common with a benchmark of `curation.against`."""
    OVERREPRESENTED = "overrepresented"
    """Its split has too many rows of its ability, scenario, category or number of calls, by
    `curation.balance`."""
    # Why a sample, or a value of it, is no template.
    AMBIGUOUS_VALUE = "ambiguous_value"
    """A value of a template's sample stays as it is: it is not certain what it stands for
    everywhere."""
    NOTHING_TO_VARY = "nothing_to_vary"
    """A sample is no template, as none of its values may vary; or a value has no other to stand in
    for it."""
    EXECUTED_RESULT = "executed_result"
    """A sample is no template, as its results were really executed, and not in a world: what other
    calls would return is not known."""
    # What is wrong with an instruction at one granularity.
    NO_STATEMENT = "no_statement"
    """The request tells nothing of the user's situation that could stand alone."""
    STATEMENT_NOT_CONTAINED = "statement_not_contained"
    """A statement is not in the full request word by word, or a level does not keep the statement's
    words."""
    SAYS_TOO_MUCH = "says_too_much"
    """A statement asks for something, or names an API, a tool or a value of the calls."""
    TAG_NOT_NAMED = "tag_not_named"
    """An instruction does not name each category, tool or API of its level."""
    FINER_LEVEL_NAMED = "finer_level_named"
    """An instruction names what only a finer level does, or a value of the calls."""
    LEVELS_ALIKE = "levels_alike"
    """Two levels of a request say the same."""
    OFF_PATH = "off_path"
    """An instruction names an API, tool or category that its path does not use."""
    INVENTED_VALUE = "invented_value"
    """An instruction has a number, quoted words or a proper name that the full request has not."""
    POORLY_RATED = "poorly_rated"
    """Judged by votes: implausible, long-winded, irrelevant or unreal, by the median of the
    votes."""


class Finding(Record):
    """One fault, precise enough to act on."""

    check: str = Field(description="The check that found it.")
    reason: Reason
    turn: int | None = Field(default=None, description="Index of the message, where there is one.")
    detail: str = Field(description="What is wrong: names, values, what was expected.")


class Vote(Record):
    """One independent judgement of the tester's model."""

    accept: bool
    reason: Reason | None = Field(default=None, description="The principle it says is broken.")
    explanation: str = Field(default="", description="The model's own words.")
    upheld: bool | None = Field(
        default=None, description="A rejecting vote's self-validation: does it stand?"
    )

    @property
    def rejects(self) -> bool:
        return not self.accept and self.upheld is not False


class Verdict(Record):
    """All findings and votes on one dialogue. No finding: accepted."""

    findings: tuple[Finding, ...] = ()
    votes: tuple[Vote, ...] = ()

    @property
    def accepted(self) -> bool:
        return not self.findings


class Sample(Record):
    """A dialogue with its verdict: what a dataset is made of."""

    dialogue: Dialogue
    verdict: Verdict
    flags: tuple[Finding, ...] = Field(
        default=(), description="What curation found and was told to keep."
    )
    provenance: tuple[Provenance, ...] = Field(default=(), description="How it was made.")

    @property
    def id(self) -> str:
        return self.dialogue.id


class Rejected(Record):
    """A record that did not pass a stage, kept with all that is needed to see why."""

    id: str = Field(description="Id of the record.")
    stage: str = Field(description="The stage that rejected it.")
    agent: str = Field(description="The agent whose work was rejected.")
    reason: Reason = Field(description="The first reason.")
    detail: str = Field(description="What is wrong, in a sentence.")
    findings: tuple[Finding, ...] = Field(default=(), description="All findings, where several.")
    record: JsonObject = Field(description="The record as far as it came.")
    raw: tuple[str, ...] = Field(default=(), description="The model's raw responses, in order.")
    provenance: tuple[Provenance, ...] = Field(default=(), description="How it was made.")

    @classmethod
    def of(
        cls,
        record: Record | JsonObject,
        stage: str,
        why: Reason | Sequence[Finding],
        detail: str = "",
        *,
        id: str,
        agent: str = "",
        raw: Sequence[str] = (),
        provenance: Sequence[Provenance] = (),
    ) -> Rejected:
        """`record` with why it goes no further: a reason with its `detail`, or all findings, of
        which the first tells both."""
        if isinstance(why, Reason):
            reason, findings = why, tuple[Finding, ...]()
        else:
            reason, detail, findings = why[0].reason, why[0].detail, tuple(why)
        return cls(
            id=id,
            stage=stage,
            agent=agent,
            reason=reason,
            detail=detail,
            findings=findings,
            record=record.model_dump(mode="json") if isinstance(record, Record) else record,
            raw=tuple(raw),
            provenance=tuple(provenance),
        )


class Outcome(NamedTuple):
    """What became of one record, or of all records of a stage: each ends in one of the two."""

    accepted: tuple[Record, ...] = ()
    rejected: tuple[Rejected, ...] = ()
