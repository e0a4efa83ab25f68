"""Samples, and why a record is accepted or rejected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field

from toolloom.schemas.base import JsonObject, Provenance, Record
from toolloom.schemas.dialogue import Dialogue


class Reason(StrEnum):
    """Reason codes. The first six are API-Bank's error types (appendix A.1)."""

    NO_API_CALL = "no_api_call"
    API_HALLUCINATION = "api_hallucination"
    INVALID_INPUT_PARAMETERS = "invalid_input_parameters"
    MISSING_INPUT_PARAMETERS = "missing_input_parameters"
    FALSE_API_CALL_FORMAT = "false_api_call_format"
    HAS_EXCEPTION = "has_exception"
    # Certain checks of a dialogue.
    MALFORMED_DIALOGUE = "malformed_dialogue"
    UNNEEDED_API_CALL = "unneeded_api_call"
    UNGROUNDED_ARGUMENT = "ungrounded_argument"
    SEARCH_SKIPPED = "search_skipped"
    WRONG_ORDER = "wrong_order"
    OBSERVATION_OFF_SCHEMA = "observation_off_schema"
    UNGROUNDED_ANSWER = "ungrounded_answer"
    INTENT_MISMATCH = "intent_mismatch"
    NOT_REPEATABLE = "not_repeatable"
    # The tester's judgement of API-Bank's design principles (section 2).
    DOMAIN_MISMATCH = "domain_mismatch"
    UNAUTHENTIC_API = "unauthentic_api"
    UNNATURAL_QUERY = "unnatural_query"
    UNSOLVABLE_QUERY = "unsolvable_query"
    UNHELPFUL_ANSWER = "unhelpful_answer"
    # What can go wrong while a record is made.
    UNUSABLE_RESPONSE = "unusable_response"
    REQUEST_REFUSED = "request_refused"
    VALUE_NOT_MENTIONED = "value_not_mentioned"
    VALUE_GIVEN_AWAY = "value_given_away"
    NEAR_DUPLICATE = "near_duplicate"
    ILLEGAL_SCHEMA = "illegal_schema"
    NOT_IMPORTED = "not_imported"
    NOTHING_TO_DRAW = "nothing_to_draw"
    # What curation sorts out.
    EXACT_DUPLICATE = "exact_duplicate"
    CONTAMINATED = "contaminated"
    OVERREPRESENTED = "overrepresented"
    # Why a sample, or a value of it, is no template.
    AMBIGUOUS_VALUE = "ambiguous_value"
    NOTHING_TO_VARY = "nothing_to_vary"
    EXECUTED_RESULT = "executed_result"
    COMBINATION_HELD_OUT = "combination_held_out"
    # What is wrong with an instruction at one granularity.
    NO_STATEMENT = "no_statement"
    STATEMENT_NOT_CONTAINED = "statement_not_contained"
    SAYS_TOO_MUCH = "says_too_much"
    TAG_NOT_NAMED = "tag_not_named"
    FINER_LEVEL_NAMED = "finer_level_named"
    LEVELS_ALIKE = "levels_alike"
    OFF_PATH = "off_path"
    INVENTED_VALUE = "invented_value"
    POORLY_RATED = "poorly_rated"


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


@dataclass(frozen=True)
class Outcome:
    """What became of one record, or of all records of a stage: each ends in one of the two."""

    accepted: tuple[Record, ...] = ()
    rejected: tuple[Rejected, ...] = ()
