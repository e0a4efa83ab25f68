"""From which APIs the needs of a split are drawn, and with which they may be shown."""

from __future__ import annotations

from collections.abc import Iterable

from toolloom.pipeline.sampling.chance import rng_for
from toolloom.pipeline.sampling.groups import Group, in_order
from toolloom.pipeline.sampling.needs import servable
from toolloom.pipeline.sampling.offers import Distractors
from toolloom.schemas import Api, Recipe, Split, ToolloomError
from toolloom.schemas.splits import zone

NAMED = 10  # categories in an error


class SplitPools:
    """A recipe's APIs, parted by what their splits may need and show.

    All splits of seen APIs share a group. Unseen tools are of categories that have a seen one,
    and are shown with seen APIs; unseen categories are shown with all.
    """

    def __init__(self, recipe: Recipe, apis: Iterable[Api]) -> None:
        self._recipe = recipe
        self._all = in_order(apis)
        self._needed: dict[Split, list[Api]] = {split: [] for split in Split}
        for api in self._all:
            self._needed[zone(recipe.splits, api.category, api.tool)].append(api)
        known = {api.category for api in self._needed[Split.TRAIN]}
        tools = [api for api in self._needed[Split.TEST_TOOL] if api.category in known]
        self._needed[Split.TEST_TOOL] = tools
        self._groups: dict[Split, Group] = {}
        self._offers: dict[Split, Distractors] = {}

    def group(self, split: Split) -> Group:
        """What needs of a split are drawn from."""
        place = _place(split)
        if place not in self._groups:
            rng = rng_for(self._recipe.seed, "queries", "group", place)
            self._groups[place] = Group(self._needed[place], rng, self._servable)
        return self._groups[place]

    def offers(self, split: Split) -> Distractors:
        """What needs of a split may be shown with."""
        place = _place(split)
        if place not in self._offers:
            seen, tools = self._needed[Split.TRAIN], self._needed[Split.TEST_TOOL]
            shown = {Split.TRAIN: seen, Split.TEST_TOOL: [*seen, *tools]}
            self._offers[place] = Distractors(shown.get(place, self._all))
        return self._offers[place]

    def check_seen(self) -> None:
        """Raises ToolloomError if something can be drawn, but nothing to train on."""
        if self.group(Split.TRAIN).serves() or not any(map(self._servable, self._all)):
            return
        names = sorted({api.category for api in self._all})
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        raise ToolloomError(
            "queries: there is nothing to train on: every API that can be drawn is held out for "
            "a test, by the hash of its category or tool, or by `splits.unseen`. Put a category "
            f"under `splits.seen`; there are: {', '.join(names[:NAMED])}{more}."
        )

    def _servable(self, api: Api) -> bool:
        return servable(self._recipe, api, rng_for(self._recipe.seed, "queries", api.id))


def _place(split: Split) -> Split:
    """The split that stands for all with the same APIs."""
    return split if split.unseen else Split.TRAIN
