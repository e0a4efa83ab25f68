"""What importing OpenAPI descriptions costs, and what comes of them, as a Markdown table.

    python benchmarks/import_openapi.py specs/*.json

Each file is read in a process of its own, its APIs written to a temporary file one by one. MB is
the highest resident memory of that process, and in brackets how much of it the import added.
Afterwards, untimed, every schema and function name is checked; a fault ends the benchmark.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from jsonschema import Draft202012Validator

from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.openapi import read
from toolloom.schemas import Api, ImportFailed

HEAD = (
    "| file | MB | version | operations | imported | renamed | cut | unresolved | seconds "
    "| MB used |"
)
LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def memory() -> float:
    """MB of resident memory at its highest so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(source: Path) -> str:
    """One row of the table. Raises ImportFailed."""
    ledger, before, number = ImportLog(source.name), memory(), 0
    with tempfile.TemporaryFile("w+", encoding="utf-8") as lines:
        start = time.perf_counter()
        for api in read(source, ledger):
            lines.write(api.model_dump_json() + "\n")
            number += 1
        seconds, after = time.perf_counter() - start, memory()
        lines.seek(0)
        check(Api.model_validate_json(line) for line in lines)
    report = ledger.report(imported=number, seconds=seconds)
    if report.read != number + len(report.skipped):
        raise SystemExit(f"{source}: {report.read} operations, {number} imported, and no word why")
    cells = [
        f"{source.parent.name}/{source.name}",
        f"{report.bytes / 1e6:.2f}",
        report.version,
        f"{report.read:,}",
        f"{number:,}",
        f"{len(report.renamed):,}",
        f"{len(report.cut):,}",
        str(len(report.unresolved)),
        f"{seconds:.2f}",
        f"{after:.0f} (+{after - before:.0f})",
    ]
    return f"| {' | '.join(cells)} |"


def check(apis: Iterator[Api]) -> None:
    """Schemas are legal and small, function names legal and unique, required names exist."""
    functions: set[str] = set()
    for api in apis:
        Draft202012Validator.check_schema(api.parameters)
        Draft202012Validator.check_schema(api.returns or {})
        for schema, most in ((api.parameters, 8_100), (api.returns or {}, 4_000)):
            text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
            if len(text.encode()) > most:
                raise SystemExit(f"{api.id}: a schema of {len(text.encode())} bytes")
        if not LEGAL.fullmatch(api.function) or api.function in functions:
            raise SystemExit(f"{api.id}: the function name {api.function}")
        if not set(api.required) <= set(api.properties):
            raise SystemExit(f"{api.id}: required arguments that are not described")
        functions.add(api.function)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+", type=Path, help="files, or folders of one each")
    parser.add_argument("--one", action="store_true", help="read the first one in this process")
    chosen = parser.parse_args()
    if chosen.one:
        try:
            print(measure(chosen.sources[0]))
        except ImportFailed as error:
            print(f"| {chosen.sources[0].name} | not imported: {error} |")
        return
    print(HEAD)
    print(re.sub(r"[^|]+", " --- ", HEAD))
    for source in chosen.sources:
        command = [sys.executable, __file__, "--one", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(
            done.stdout.strip() or f"| {source.name} | {done.stderr.strip()[-300:]} |", flush=True
        )


if __name__ == "__main__":
    main()
