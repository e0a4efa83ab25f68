"""The report of a version: one HTML file that needs nothing else, and asks no network."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from pathlib import Path

from toolloom.pipeline.pages.dialogue import STYLE
from toolloom.pipeline.pages.figures import figures
from toolloom.pipeline.pages.reading import SHOWN, Seen, manifest_readable
from toolloom.pipeline.pages.samples import REASONS, samples
from toolloom.pipeline.render.html import render, source
from toolloom.pipeline.store.files import FULL, replacing
from toolloom.pipeline.store.version import Version
from toolloom.schemas import StoreError

MARK = b"<!doctype html>\n<!-- a toolloom report -->\n"  # how a report of ours begins


def page(version: Version, seen: Seen) -> str:
    """The HTML. Equal versions make equal pages: there is no time of day and no path in it.

    Raises StoreError for what is damaged.
    """
    style, script = source("report.css") + STYLE, source("report.js")
    with manifest_readable(version):
        told = figures(version, seen)
    return MARK.decode() + render(
        "report.html.j2",
        version=version,
        style=style,
        script=script,
        policy=_policy(style, script),
        samples=[*samples(version, seen)],
        shown=SHOWN,
        most_reasons=REASONS,
        **told,
    )


def _policy(style: str, script: str) -> str:
    """What the browser may run and load: this style, this script, and nothing else."""
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{b64encode(digest).decode()}'"


def place_of(version: Version, output: Path | None) -> Path:
    """Where a report goes: `<name>-<version>.html` here, or in the folder that is named.

    Raises StoreError rather than to write over a file that is no report.
    """
    name = f"{version.name}-{version.number}.html"
    path = Path(name) if output is None else output
    try:
        path = path / name if path.is_dir() else path
        if not path.parent.is_dir():
            raise StoreError(
                f"{path.parent}: is no folder. Make it, or choose another place with --output."
            )
        if path.exists():
            with path.open("rb") as file:
                if file.read(len(MARK)) != MARK:
                    raise StoreError(
                        f"{path}: is there already, and is no report of toolloom's. "
                        "Choose another file with --output."
                    )
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read ({error}). Choose another --output.") from error
    return path


def write(path: Path, text: str) -> int:
    """Write a report, whole or not at all; its bytes. Raises StoreError."""
    whole = text.encode()
    try:
        with replacing(path) as file:
            file.write(whole)
    except StoreError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno not in FULL:
            why = cause.strerror or str(cause)
            raise StoreError(
                f"{path}: cannot be written ({why}). Choose another file with --output."
            ) from cause
        raise
    return len(whole)
