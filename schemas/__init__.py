"""The vocabulary: frozen, closed records, the errors and the recipe."""

from toolloom.schemas.api import API_SEARCH, Api, Source
from toolloom.schemas.base import JsonObject, Record, canonical, digest, seed_for
from toolloom.schemas.dialogue import Dialogue, FunctionCall, Message, Observation, ToolCall
from toolloom.schemas.domain import Brief, Domain
from toolloom.schemas.errors import (
    EndpointDenied,
    EndpointDown,
    EndpointError,
    ModelMissing,
    NothingFound,
    PublishError,
    RecipeError,
    RequestRefused,
    StoreError,
    TemplateError,
    ToolloomError,
)
from toolloom.schemas.provenance import Provenance
from toolloom.schemas.query import Ability, Fault, Intention, Need, Query, Reference, Scenario
from toolloom.schemas.recipe import AgentName, Endpoint, Recipe, load_recipe, parse_recipe
from toolloom.schemas.verdict import Finding, Reason, Rejected, Sample, Verdict, Vote

__all__ = [
    "API_SEARCH",
    "Ability",
    "AgentName",
    "Api",
    "Brief",
    "Dialogue",
    "Domain",
    "Endpoint",
    "EndpointDenied",
    "EndpointDown",
    "EndpointError",
    "Fault",
    "Finding",
    "FunctionCall",
    "Intention",
    "JsonObject",
    "Message",
    "ModelMissing",
    "Need",
    "NothingFound",
    "Observation",
    "Provenance",
    "PublishError",
    "Query",
    "Reason",
    "Recipe",
    "RecipeError",
    "Record",
    "Reference",
    "Rejected",
    "RequestRefused",
    "Sample",
    "Scenario",
    "Source",
    "StoreError",
    "TemplateError",
    "ToolCall",
    "ToolloomError",
    "Verdict",
    "Vote",
    "canonical",
    "digest",
    "load_recipe",
    "parse_recipe",
    "seed_for",
]
