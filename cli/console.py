"""What all commands share: exit codes, options and the ways to print."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolloom.cli import logs
from toolloom.pipeline.store.secrets import SECRETS

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


def _opened(folder: str | Path) -> Path:
    """The local folder of outputs. Raises StoreError if they are in a store that is not there."""
    from toolloom.pipeline.store import mirror
    from toolloom.schemas import StoreError

    if str(folder).lower().startswith("memory:"):
        raise StoreError(
            f"--outputs {folder}: is gone with the process, so the next command would find "
            "nothing. Name a folder, or a store such as s3://bucket/folder."
        )
    mirror.TELL.set(lambda message: complain(message, "mirror"))
    return mirror.opened(folder)


NOTHING_ACCEPTED, FOUND, MISTAKE, BUG = 1, 1, 2, 1
HERE = Path("outputs")
NAMED = 30  # names that a hint lists
Outputs = Annotated[
    Path,
    typer.Option(
        "--outputs",
        "-o",
        envvar="TOOLLOOM_OUTPUTS",
        parser=_opened,
        metavar="FOLDER|URL",
        help="Folder of runs, pools and datasets; or one in a store, such as s3://bucket/folder.",
    ),
]


def shown(path: Path) -> str:
    """A path of outputs as people know it: the URL in the store, if it is in one."""
    from toolloom.pipeline.store import mirror

    return mirror.shown(path)


def known(option: str, value: str | None, names: Sequence[str]) -> None:
    """Raises NothingFound that names the nearest, or all, for a value that does not exist."""
    if value is None or value in names:
        return
    from toolloom.schemas import NothingFound

    near = difflib.get_close_matches(value, names, n=1)
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    hint = f"known are: {', '.join(names[:NAMED])}{more}."
    if near:
        hint = f"did you mean `{near[0]}`?"
    raise NothingFound(f"{option} {value}: there is no such value; {hint}")


def console_on(file: Any) -> Console:
    """Output to a terminal is wrapped to its width, other output not at all."""
    from rich.console import Console

    width = None if file.isatty() else 100_000
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def say(*things: RenderableType, file: Any = None) -> None:
    """Print results, on standard output unless told otherwise."""
    from toolloom.pipeline.render.terminal import text

    console = console_on(file or sys.stdout)
    for thing in things:
        # Lines of ours are left whole, so that they can be copied.
        whole = isinstance(thing, str)
        console.print(text(thing) if whole else thing, soft_wrap=whole)


def complain(message: str, event: str = "error") -> None:
    """What went wrong, in the form of all lines on standard error."""
    from toolloom.pipeline.render.section import safe

    logs.tell(safe(SECRETS.hide(message)), event)
