"""The splits of a dataset, and which of them an API or a row is in.

Pure functions of names, values and the recipe's weights: nothing depends on what else is in the
dataset, so a larger run keeps every row in its split, and what is published can be checked again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, TypeAlias

from pydantic import Field, model_validator

from toolloom.schemas.base import JsonObject, Record, canonical
from toolloom.schemas.query import Need, World


class Split(StrEnum):
    """A split. The tests are ToolLLM's three levels of generalisation (section 3.2)."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST_INSTRUCTION = "test_instruction"  # new instructions for APIs that are seen in training
    TEST_TOOL = "test_tool"  # unseen tools of categories that are seen
    TEST_CATEGORY = "test_category"  # unseen categories

    @property
    def unseen(self) -> bool:
        """Whether its APIs are kept out of every other split."""
        return self in (Split.TEST_TOOL, Split.TEST_CATEGORY)


Weight: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class SplitPlan(Record):
    """Weights of the splits. A hash of names and values decides, so that a larger run keeps
    every row in its split."""

    train: float = Field(
        default=0.6, gt=0, allow_inf_nan=False, description="Weight of the rows to train on."
    )
    validation: Weight = Field(default=0.1, description="Weight of the rows to validate on.")
    test_instruction: Weight = Field(
        default=0.1, description="Weight of the test rows whose APIs are seen in training."
    )
    test_tool: Weight = Field(
        default=0.1,
        description="Weight of the test rows of unseen tools, and the share of tools held out.",
    )
    test_category: Weight = Field(
        default=0.1,
        description="Weight of the test rows of unseen categories, and the share of categories "
        "held out.",
    )
    unseen: tuple[str, ...] = Field(
        default=(), description="Categories, or tools as `category/tool`, that are held out anyway."
    )
    seen: tuple[str, ...] = Field(
        default=(), description="Categories, or tools as `category/tool`, never held out."
    )

    @model_validator(mode="after")
    def _is_one_or_the_other(self) -> SplitPlan:
        if both := sorted(set(self.unseen) & set(self.seen)):
            raise ValueError(f"{both[0]} is in `unseen` and in `seen`")
        return self

    def weight(self, split: Split) -> float:
        found: float = getattr(self, split.value)
        return found

    def share(self, split: Split) -> float:
        """Its part of all rows, 0 to 1."""
        return self.weight(split) / sum(map(self.weight, Split))


SEEN = (Split.TRAIN, Split.VALIDATION, Split.TEST_INSTRUCTION)
"""The splits that share the APIs that are seen in training."""


@lru_cache(maxsize=100_000)  # asked for every API of every row
def zone(plan: SplitPlan, category: str, tool: str) -> Split:
    """Where a tool's APIs may be needed: TRAIN stands for all three splits of seen APIs."""
    whole, part = category, f"{category}/{tool}"
    if part in plan.seen:
        return Split.TRAIN
    if part in plan.unseen:
        return Split.TEST_TOOL
    if whole in plan.unseen:
        return Split.TEST_CATEGORY
    if whole not in plan.seen and fraction("category", whole) < plan.share(Split.TEST_CATEGORY):
        return Split.TEST_CATEGORY
    if whole not in plan.seen and fraction("tool", part) < plan.share(Split.TEST_TOOL):
        return Split.TEST_TOOL
    return Split.TRAIN


def fraction(*parts: str) -> float:
    """A number in [0, 1) that only these texts decide."""
    hashed = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(hashed[:6], "big") / 2**48


def signature(intent: Iterable[JsonObject]) -> str:
    """The calls of a need, whatever the words: equal calls give equal text."""
    return canonical([[i["api"], i["arguments"], i.get("references") or {}] for i in intent])


def split_of(plan: SplitPlan, need: JsonObject) -> Split:
    """The split of a need or query, as JSON: by the APIs it needs, then by its calls.

    Calls decide and not words, so that no dialogue of a test is in train with other words, and
    so that the split is known before any model is asked.
    """
    setting = need.get("setting")
    apis = needed(need)
    if setting:  # all that its world offers
        apis = [api for api in shown(need) if api["source"]["reference"] == setting["world"]]
    zones = {zone(plan, *tool) for tool in set(map(tool_of, apis))}
    for unseen in (Split.TEST_CATEGORY, Split.TEST_TOOL):
        if unseen in zones:
            return unseen
    if setting and setting["script"]:  # rows of one script say nearly the same
        return seen_split(plan, script_signature(setting["world"], setting["script"]))
    return seen_split(plan, signature(need["intent"]))


def script_signature(world: str, script: str) -> str:
    """Stands for the calls of all rows of a script."""
    return canonical([world, script])


def split_of_script(plan: SplitPlan, world: World, script: str) -> Split:
    """The split of all rows of a world's script, by its name."""
    place = zone(plan, world.category, world.tool)
    return place if place.unseen else seen_split(plan, script_signature(world.name, script))


def seen_split(plan: SplitPlan, calls: str) -> Split:
    """The split of a need of APIs that are seen in training, by the signature of its calls."""
    place = fraction("calls", calls) * sum(map(plan.weight, SEEN))
    for split in SEEN[1:]:
        place -= plan.weight(split)
        if place < 0:
            return split
    return Split.TRAIN


def split_of_need(plan: SplitPlan, need: Need) -> Split:
    """`split_of` for a record."""
    return split_of(
        plan, need.model_dump(mode="json", include={"intent", "pool", "outside", "setting"})
    )


def need_of(record: JsonObject) -> JsonObject:
    """The need or query inside a record of any stage, as JSON; empty where there is none."""
    inner: Any = record
    while isinstance(inner, dict) and "ability" not in inner:
        inner = inner.get("query", inner.get("dialogue"))
    return inner if isinstance(inner, dict) else {}


def needed(need: JsonObject) -> list[JsonObject]:
    """The APIs that the calls of a need go to; of an unserved one, those they would go to."""
    wanted = {intention["api"] for intention in need.get("intent", ())}
    return [api for api in shown(need) if api_id(api) in wanted]


def shown(need: JsonObject) -> list[JsonObject]:
    """Every API in a row: needed, distracting, or lacking."""
    outside = need.get("outside")
    return [*need.get("pool", ()), *([outside] if outside else [])]


def stray(plan: SplitPlan, need: JsonObject, split: Split) -> str | None:
    """The id of an API that must not be shown in this split, or None.

    Seen splits show no unseen API, not even as a distractor; unseen tools are shown with no API
    of an unseen category.
    """
    kept_out = {Split.TEST_TOOL: {Split.TEST_CATEGORY}, Split.TEST_CATEGORY: set[Split]()}
    forbidden = kept_out.get(split, {Split.TEST_TOOL, Split.TEST_CATEGORY})
    for api in shown(need):
        if zone(plan, *tool_of(api)) in forbidden:
            return api_id(api)
    return None


def tool_of(api: JsonObject) -> tuple[str, str]:
    return api["category"], api["tool"]


def api_id(api: JsonObject) -> str:
    """As `Api.id`."""
    return f"{api['category']}/{api['tool']}/{api['name']}"
