"""Every row of a version again: its record, all certain checks, its training row, its split."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pydantic_core import to_json

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.dataset.configs import (
    APIS,
    REJECTED,
    SAMPLES,
    api_row,
    rejected_row,
    samples_row,
)
from toolloom.pipeline.dataset.contents_rows import makers
from toolloom.pipeline.dataset.grown_figures import EXPANDED
from toolloom.pipeline.dataset.instruction_counts import InstructionCounts
from toolloom.pipeline.dataset.tallies import place_of_rejected, sources
from toolloom.pipeline.dataset.verify_reading import (
    UNFIT,
    Rows,
    differing_column,
    is_text_of,
    parsed,
    short,
    why_unfit,
)
from toolloom.pipeline.dataset.verify_report import Kind
from toolloom.pipeline.dataset.verify_training import Training
from toolloom.pipeline.store.files import to_text
from toolloom.pipeline.store.version import PARTS
from toolloom.schemas import Api, JsonObject, Reason, Rejected, Sample, Split, canonical
from toolloom.schemas.splits import api_id, needed, shown, split_of, stray, zone

_REJECTED_PARTS = ("findings", "record", "provenance")


def verify_apis(rows: Rows) -> None:
    """The APIs: valid records, each once, in their zones, counted right."""
    made = rows.told.configs.get(APIS.name, {})

    def records() -> Iterator[JsonObject]:
        for split in made:
            for file, row in rows.rows(APIS.name, split):
                if api := _api(rows, split, file, row):
                    yield api

    told, found = rows.told.apis, sources(records())
    if not rows.whole:
        return
    for name, figure in (("count", rows.read.get(APIS.name, 0)), ("sources", found)):
        if told.get(name) != figure:
            detail = f"apis.{name} is {short(told.get(name))}, the data have {short(figure)}"
            rows.findings.add(Kind.FIGURE, "manifest.json", detail)


def _api(rows: Rows, split: str, file: str, row: JsonObject) -> JsonObject | None:
    try:
        raw: JsonObject = parsed(row["record"])
        api = Api.model_validate(raw)
        differing = differing_column(api_row(raw), row)
    except UNFIT as error:
        rows.findings.add(Kind.RECORD, file, f"holds no API ({why_unfit(error)})", row.get("id"))
        return None
    if differing:
        detail = f"`{differing}` is not that of its record"
        rows.findings.add(Kind.RECORD, file, detail, row["id"])
    if rows.api_ids.add(api.id):
        rows.findings.add(Kind.RECORD, file, "its id is there twice", row["id"])
    rows.api_texts.add(to_text({**raw, "provenance": []}))
    rows.api_values.add(canonical(api.bare().model_dump(mode="json")))
    place = zone(rows.plan, api.category, api.tool)
    if place.value != split:
        detail = f"is in {split}; its category and tool belong into {place}"
        rows.findings.add(Kind.SPLIT, file, detail, row["id"])
    if place is Split.TRAIN:
        rows.seen_categories.add(api.category)
    return raw


def verify_samples(rows: Rows, split: str, keep: Callable[[str, JsonObject], None]) -> None:
    """A split's samples, and beside each its row of `sft`. `keep` is given each of them."""
    training = Training(rows, split)
    for file, row in rows.rows(SAMPLES.name, split):
        if raw := _sample(rows, file, row):
            _in_split(rows, split, file, raw)
            training.hold_against(raw, file)
            rows.count(split).add(raw)
            rows.makers |= makers(raw)
            rows.expanded[split] += _is_expanded(raw)
            keep(split, raw)
        else:
            training.skip(str(row.get("id")))
    training.finish()


def _is_expanded(raw: JsonObject) -> bool:
    """Whether a sample is a row of a template."""
    return any(share["stage"] == EXPANDED for share in raw["provenance"])


def _sample(rows: Rows, file: str, row: JsonObject) -> JsonObject | None:
    """The record in a row, with all that is wrong in it told; None if it holds none."""
    findings, name = rows.findings, row.get("id")
    try:
        raw = {key: parsed(row[key]) for key in PARTS}
        sample = Sample.model_validate(raw)
        query = raw["dialogue"]["query"]
        same = all(is_text_of(row[key], raw[key]) for key in PARTS)
        same = same and all(query[key] == row[key] for key in ("id", "ability", "scenario"))
        differing = None if same else differing_column(samples_row(raw), row)
    except UNFIT as error:
        findings.add(Kind.RECORD, file, f"holds no sample ({why_unfit(error)})", name)
        return None
    if differing:
        findings.add(Kind.RECORD, file, f"`{differing}` is not that of its record", name)
    if rows.ids.add(sample.id):
        findings.add(Kind.RECORD, file, "its id is there twice", name)
    if not sample.verdict.accepted:
        findings.add(Kind.RECORD, file, "its verdict is not to accept it", name)
    for fault in inspect(sample.dialogue):
        at = "" if fault.turn is None else f" (message {fault.turn})"
        findings.add(Kind.CHECK, file, f"{fault.reason}: {fault.detail}{at}", name)
    rows.inspected += 1
    return raw


def _in_split(rows: Rows, split: str, file: str, raw: JsonObject) -> None:
    """The row is in the split of its calls, and shows nothing that is held out of it."""
    need, findings = raw["dialogue"]["query"], rows.findings
    if split not in tuple(Split):
        return  # told as a fault of the manifest
    place = split_of(rows.plan, need)
    if place.value != split:
        detail = f"is in {split}; its APIs and calls belong into {place}"
        findings.add(Kind.SPLIT, file, detail, need["id"])
    elif held_out := stray(rows.plan, need, place):
        detail = f"shows {held_out}, which is held out of {split}"
        findings.add(Kind.SPLIT, file, detail, need["id"])
    if any(config == APIS.name for config, _ in rows.broken):
        return
    for api in shown(need):
        if api_id(api) not in rows.api_ids:
            findings.add(Kind.SPLIT, file, f"shows {api_id(api)}, not in `apis`", need["id"])
        elif not _is_published(api, rows):
            detail = f"shows {api_id(api)} otherwise than `apis` has it"
            findings.add(Kind.RECORD, file, detail, need["id"])
    if split == Split.TEST_TOOL:
        for api in needed(need):
            if api["category"] not in rows.seen_categories:
                detail = f"needs {api_id(api)}, of whose category no tool is seen in training"
                findings.add(Kind.SPLIT, file, detail, need["id"])


def _is_published(api: JsonObject, rows: Rows) -> bool:
    """Whether an API of a row, which was read before, is one of `apis`; nearly all are letter by
    letter, but for rows that another version of toolloom wrote."""
    try:
        text = to_json(api).decode()
    except ValueError:  # half characters
        text = to_text(api)
    if text in rows.api_texts:
        return True
    found = Api.model_validate(api).bare().model_dump(mode="json")
    return canonical(found) in rows.api_values


def verify_rejected(rows: Rows) -> None:
    """What was rejected: valid records, in their splits."""
    for split in rows.told.configs.get(REJECTED.name, {}):
        for file, row in rows.rows(REJECTED.name, split):
            _rejected(rows, split, file, row)


def _rejected(rows: Rows, split: str, file: str, row: JsonObject) -> None:
    findings, name = rows.findings, row.get("id")
    try:
        raw = {**row, **{key: parsed(row[key]) for key in _REJECTED_PARTS}}
        record = Rejected.model_validate(raw)
        same = all(is_text_of(row[key], raw[key]) for key in _REJECTED_PARTS)
        differing = None if same else differing_column(rejected_row(raw), row)
        place = place_of_rejected(rows.plan, raw["record"])
    except UNFIT as error:
        findings.add(Kind.RECORD, file, f"holds no rejected record ({why_unfit(error)})", name)
        return
    if differing:
        findings.add(Kind.RECORD, file, f"`{differing}` is not that of its record", name)
    if place != split:
        findings.add(Kind.SPLIT, file, f"is in {split}; it was drawn for {place}", name)
    rows.count(split).reject(Reason(record.reason).value)
    rows.instructions.setdefault(split, InstructionCounts()).reject(raw)
