"""The vocabulary: frozen, closed records, the errors and the recipe."""

from toolloom.schemas.api import API_SEARCH, Api, Source
from toolloom.schemas.api_source import ApiSource, Format
from toolloom.schemas.base import JsonObject, Record, canonical, digest, seed_for
from toolloom.schemas.curation import CurationPlan, Dimension
from toolloom.schemas.dialogue import (
    Dialogue,
    Execution,
    Failure,
    FunctionCall,
    Message,
    Observation,
    ToolCall,
)
from toolloom.schemas.domain import Brief, Domain
from toolloom.schemas.endpoint import Endpoint, Replica, Retry
from toolloom.schemas.errors import (
    BudgetReached,
    EndpointDenied,
    EndpointDown,
    EndpointError,
    ImportFailed,
    ModelMissing,
    NothingFound,
    PublishError,
    RecipeError,
    RequestRefused,
    StoreError,
    TemplateError,
    ToolloomError,
)
from toolloom.schemas.importing import ImportReport
from toolloom.schemas.money import Budget, Price, Prices
from toolloom.schemas.provenance import Provenance
from toolloom.schemas.query import (
    Ability,
    Fault,
    Intention,
    Level,
    Need,
    Query,
    Reference,
    Scenario,
)
from toolloom.schemas.recipe import (
    AgentName,
    Recipe,
    SearchPlan,
    load_recipe,
    parse_recipe,
)
from toolloom.schemas.splits import Regeneration, Split, SplitPlan
from toolloom.schemas.verdict import Finding, Reason, Rejected, Sample, Verdict, Vote

__all__ = [
    "API_SEARCH",
    "Ability",
    "AgentName",
    "Api",
    "ApiSource",
    "Brief",
    "Budget",
    "BudgetReached",
    "CurationPlan",
    "Dialogue",
    "Dimension",
    "Domain",
    "Endpoint",
    "EndpointDenied",
    "EndpointDown",
    "EndpointError",
    "Execution",
    "Failure",
    "Fault",
    "Finding",
    "Format",
    "FunctionCall",
    "ImportFailed",
    "ImportReport",
    "Intention",
    "JsonObject",
    "Level",
    "Message",
    "ModelMissing",
    "Need",
    "NothingFound",
    "Observation",
    "Price",
    "Prices",
    "Provenance",
    "PublishError",
    "Query",
    "Reason",
    "Recipe",
    "RecipeError",
    "Record",
    "Reference",
    "Regeneration",
    "Rejected",
    "Replica",
    "RequestRefused",
    "Retry",
    "Sample",
    "Scenario",
    "SearchPlan",
    "Source",
    "Split",
    "SplitPlan",
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
