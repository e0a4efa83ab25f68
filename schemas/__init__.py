"""The vocabulary: frozen, closed records, the errors and the recipe.

Every record that passes between stages, into files or to a model is here, and each field that
leaves the process has a description. Records refuse unknown fields. A recipe is one record too:
its fields are the only dials there are. Errors that a user can act on are one tree, and say what
happened, where, and what to do.

May touch: nothing; no other room.
Begin with `base.py`, then `api.py`, `query.py` and `dialogue.py`, which are what a sample is made
of, and `errors.py`.
"""

from toolloom.schemas.api import API_SEARCH as API_SEARCH
from toolloom.schemas.api import Api as Api
from toolloom.schemas.api import ApiSource as ApiSource
from toolloom.schemas.api import Format as Format
from toolloom.schemas.api import ImportReport as ImportReport
from toolloom.schemas.api import Source as Source
from toolloom.schemas.base import JsonObject as JsonObject
from toolloom.schemas.base import Provenance as Provenance
from toolloom.schemas.base import Record as Record
from toolloom.schemas.base import Usage as Usage
from toolloom.schemas.base import canonical as canonical
from toolloom.schemas.base import digest as digest
from toolloom.schemas.base import first_error as first_error
from toolloom.schemas.base import seed_for as seed_for
from toolloom.schemas.dialogue import Dialogue as Dialogue
from toolloom.schemas.dialogue import Execution as Execution
from toolloom.schemas.dialogue import Failure as Failure
from toolloom.schemas.dialogue import FunctionCall as FunctionCall
from toolloom.schemas.dialogue import Message as Message
from toolloom.schemas.dialogue import Observation as Observation
from toolloom.schemas.dialogue import ToolCall as ToolCall
from toolloom.schemas.endpoint import Budget as Budget
from toolloom.schemas.endpoint import Endpoint as Endpoint
from toolloom.schemas.endpoint import Price as Price
from toolloom.schemas.endpoint import Prices as Prices
from toolloom.schemas.endpoint import Retry as Retry
from toolloom.schemas.errors import BudgetReached as BudgetReached
from toolloom.schemas.errors import Busy as Busy
from toolloom.schemas.errors import ClusterError as ClusterError
from toolloom.schemas.errors import EndpointDenied as EndpointDenied
from toolloom.schemas.errors import EndpointDown as EndpointDown
from toolloom.schemas.errors import EndpointError as EndpointError
from toolloom.schemas.errors import ExportError as ExportError
from toolloom.schemas.errors import ImportFailed as ImportFailed
from toolloom.schemas.errors import ModelMissing as ModelMissing
from toolloom.schemas.errors import NothingFound as NothingFound
from toolloom.schemas.errors import PublishError as PublishError
from toolloom.schemas.errors import PushError as PushError
from toolloom.schemas.errors import RecipeError as RecipeError
from toolloom.schemas.errors import RequestRefused as RequestRefused
from toolloom.schemas.errors import StoreError as StoreError
from toolloom.schemas.errors import TemplateError as TemplateError
from toolloom.schemas.errors import TemplateFileError as TemplateFileError
from toolloom.schemas.errors import ToolloomError as ToolloomError
from toolloom.schemas.errors import WorldError as WorldError
from toolloom.schemas.instruction import FINISH as FINISH
from toolloom.schemas.instruction import Granularity as Granularity
from toolloom.schemas.instruction import Instruction as Instruction
from toolloom.schemas.instruction import Metric as Metric
from toolloom.schemas.instruction import Rating as Rating
from toolloom.schemas.instruction import RewritePlan as RewritePlan
from toolloom.schemas.instruction import Seed as Seed
from toolloom.schemas.instruction import Step as Step
from toolloom.schemas.instruction import Tags as Tags
from toolloom.schemas.plans import CurationPlan as CurationPlan
from toolloom.schemas.plans import Dimension as Dimension
from toolloom.schemas.plans import SearchPlan as SearchPlan
from toolloom.schemas.plans import WorldPlan as WorldPlan
from toolloom.schemas.query import Ability as Ability
from toolloom.schemas.query import Brief as Brief
from toolloom.schemas.query import Domain as Domain
from toolloom.schemas.query import Intention as Intention
from toolloom.schemas.query import Level as Level
from toolloom.schemas.query import Need as Need
from toolloom.schemas.query import PlannedFault as PlannedFault
from toolloom.schemas.query import Query as Query
from toolloom.schemas.query import Reference as Reference
from toolloom.schemas.query import Scenario as Scenario
from toolloom.schemas.recipe import AgentName as AgentName
from toolloom.schemas.recipe import Recipe as Recipe
from toolloom.schemas.recipe import load_recipe as load_recipe
from toolloom.schemas.recipe import overridden as overridden
from toolloom.schemas.recipe import parse_recipe as parse_recipe
from toolloom.schemas.sample import Finding as Finding
from toolloom.schemas.sample import Outcome as Outcome
from toolloom.schemas.sample import Reason as Reason
from toolloom.schemas.sample import Rejected as Rejected
from toolloom.schemas.sample import Sample as Sample
from toolloom.schemas.sample import Verdict as Verdict
from toolloom.schemas.sample import Vote as Vote
from toolloom.schemas.splits import Extension as Extension
from toolloom.schemas.splits import Regeneration as Regeneration
from toolloom.schemas.splits import Split as Split
from toolloom.schemas.splits import SplitPlan as SplitPlan
from toolloom.schemas.template import CLOSE as CLOSE
from toolloom.schemas.template import OPEN as OPEN
from toolloom.schemas.template import Choice as Choice
from toolloom.schemas.template import ExpansionPlan as ExpansionPlan
from toolloom.schemas.template import Template as Template
from toolloom.schemas.template import marker as marker
from toolloom.schemas.world import Part as Part
from toolloom.schemas.world import Setting as Setting
from toolloom.schemas.world import Told as Told
from toolloom.schemas.world import World as World
from toolloom.schemas.world import WorldGoal as WorldGoal
