"""The vocabulary: frozen, closed records, the errors and the recipe.

Every record that passes between stages, into files or to a model is here, and each field that
leaves the process has a description. Records refuse unknown fields. A recipe is one record too:
its fields are the only dials there are. Errors that a user can act on are one tree, and say what
happened, where, and what to do.

May touch: nothing; no other room.
Begin with `base.py`, then `api.py`, `query.py` and `dialogue.py`, which are what a sample is made
of, and `errors.py`.
"""

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
    Busy,
    ClusterError,
    EndpointDenied,
    EndpointDown,
    EndpointError,
    ExportError,
    ImportFailed,
    ModelMissing,
    NothingFound,
    PublishError,
    PushError,
    RecipeError,
    RequestRefused,
    StoreError,
    TemplateError,
    TemplateFileError,
    ToolloomError,
)
from toolloom.schemas.importing import ImportReport
from toolloom.schemas.instruction import (
    FINISH,
    Granularity,
    Instruction,
    Metric,
    Rating,
    RewritePlan,
    Seed,
    Step,
    Tags,
)
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
)
from toolloom.schemas.recipe_file import load_recipe, overridden, parse_recipe
from toolloom.schemas.splits import Extension, Regeneration, Split, SplitPlan
from toolloom.schemas.template import (
    CLOSE,
    OPEN,
    Choice,
    Expansion,
    ExpansionPlan,
    Template,
    marker,
)
from toolloom.schemas.verdict import Finding, Reason, Rejected, Sample, Verdict, Vote

__all__ = [
    "API_SEARCH",
    "CLOSE",
    "FINISH",
    "OPEN",
    "Ability",
    "AgentName",
    "Api",
    "ApiSource",
    "Brief",
    "Budget",
    "BudgetReached",
    "Busy",
    "Choice",
    "ClusterError",
    "CurationPlan",
    "Dialogue",
    "Dimension",
    "Domain",
    "Endpoint",
    "EndpointDenied",
    "EndpointDown",
    "EndpointError",
    "Execution",
    "Expansion",
    "ExpansionPlan",
    "ExportError",
    "Extension",
    "Failure",
    "Fault",
    "Finding",
    "Format",
    "FunctionCall",
    "Granularity",
    "ImportFailed",
    "ImportReport",
    "Instruction",
    "Intention",
    "JsonObject",
    "Level",
    "Message",
    "Metric",
    "ModelMissing",
    "Need",
    "NothingFound",
    "Observation",
    "Price",
    "Prices",
    "Provenance",
    "PublishError",
    "PushError",
    "Query",
    "Rating",
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
    "RewritePlan",
    "Sample",
    "Scenario",
    "SearchPlan",
    "Seed",
    "Source",
    "Split",
    "SplitPlan",
    "Step",
    "StoreError",
    "Tags",
    "Template",
    "TemplateError",
    "TemplateFileError",
    "ToolCall",
    "ToolloomError",
    "Verdict",
    "Vote",
    "canonical",
    "digest",
    "load_recipe",
    "marker",
    "overridden",
    "parse_recipe",
    "seed_for",
]
