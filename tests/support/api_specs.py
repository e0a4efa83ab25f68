"""OpenAPI descriptions of a zoo, and what comes of importing them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.openapi import read
from toolloom.schemas import Api, ImportReport

INFO = {"title": "Zoo", "version": "1", "license": {"name": "MIT License", "identifier": "MIT"}}


def spec(paths: Any, **more: Any) -> dict[str, Any]:
    return {"openapi": "3.0.3", "info": INFO, "paths": paths, **more}


def imported(file: Path, document: Any, category: str = "") -> tuple[list[Api], ImportReport]:
    """What comes of a description. Every operation must be accounted for, every schema legal."""
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    ledger = ImportLog(file.name)
    start = time.perf_counter()
    apis = list(read(file, ledger, category=category))
    assert time.perf_counter() - start < 20
    report = ledger.report(imported=len(apis))
    assert report.read == len(apis) + len(report.skipped)
    assert len({api.function for api in apis}) == len({api.id for api in apis}) == len(apis)
    for api in apis:
        Draft202012Validator.check_schema(api.parameters)
        Draft202012Validator.check_schema(api.returns or {})
        api.model_dump_json()
    return apis, report


def one(file: Path, operation: Any, path: str = "/a", method: str = "post", **more: Any) -> Api:
    apis, _ = imported(file, spec({path: {method: operation}}, **more))
    return apis[0]
