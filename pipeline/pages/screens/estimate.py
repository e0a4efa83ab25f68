"""What a person sees of a forecast."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table

from toolloom.pipeline.dataset.report import API_BANK, dollars
from toolloom.pipeline.estimate import Forecast, Limit
from toolloom.pipeline.render.terminal import asked, grid, lacking, text


def forecast_view(forecast: Forecast) -> RenderableType:
    """The table by stage with its range, and what it comes to."""
    lines = [_rows(forecast), *_unseen(forecast), *map(_limit, forecast.limits), _sample(forecast)]
    return Group(
        text(f"Run {forecast.run}, about:", "bold"),
        _table(forecast),
        *(part for line in lines for part in (text(""), text(line))),
    )


def _table(forecast: Forecast) -> Table:
    priced = forecast.sample.counts.priced
    head = ["stage", "agent", "records", "accepted", "requests", "tokens sent", "cached"]
    rows: list[tuple[str | int, ...]] = [
        (s.name, s.agent, s.records, s.accepted, *asked(s.use, priced)) for s in forecast.stages
    ]
    for name, total in (
        ("in all", forecast.expected),
        ("at least", forecast.low),
        ("at most", forecast.high),
    ):
        requests, sent, cached, *rest = asked(total.use, priced)
        share = cached if total is forecast.expected else ""  # the two are not of one sample
        rows.append((name, "", "", total.accepted, requests, sent, share, *rest))
    return grid([*head, "received", *(["cost"] if priced else [])], rows)


def _rows(forecast: Forecast) -> str:
    """Rows, and where prices are known what each of them costs."""
    low, high = forecast.low.accepted, forecast.high.accepted
    words = f"About {forecast.expected.accepted:,} rows ({low:,} to {high:,})"
    counts = forecast.sample.counts
    if counts.priced and forecast.expected.accepted:
        each = forecast.expected.use.cost / forecast.expected.accepted
        words += f", at {dollars(each)} for each (API-Bank's agents: ${API_BANK:g})"
    words += f".{lacking(counts.unpriced if counts.priced else ())}"
    if all(stage.agent for stage in forecast.stages):
        return words
    return f"{words} What curation will take of them a sample does not tell."


def _unseen(forecast: Forecast) -> list[str]:
    if not forecast.unseen:
        return []
    names = ", ".join(forecast.unseen)
    return [f"No record of the sample reached {names}, so that is missing: try a larger -n."]


def _limit(limit: Limit) -> str:
    """Whether a limit of the budget would stop the run."""
    shown = dollars if limit.name == "max_cost" else "{:,.0f}".format
    name = f"budget.{limit.name} ({shown(limit.limit)})"
    takes = f"about {shown(limit.expected)} ({shown(limit.low)} to {shown(limit.high)})"
    if limit.low > limit.limit:
        return f"{name} will stop the run, which takes {takes}."
    if limit.high > limit.limit:
        return f"{name} may stop the run, which takes {takes}."
    return f"{name} has room for the run, which takes {takes}."


def _sample(forecast: Forecast) -> str:
    did, counts = forecast.sample, forecast.sample.counts
    cost = f" for {dollars(did.cost)}" if counts.priced else ""
    return (
        f"From a sample of {forecast.queries:,} queries: {did.asked:,} requests sent, "
        f"{did.cached:,} answered by the cache, {did.tokens:,} tokens{cost}, in "
        f"{did.seconds:.1f} s. Asked again it costs nothing."
    )
