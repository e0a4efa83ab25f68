"""What all commands share: exit codes, options, results on standard output, and on standard error
the log: text for people, or one JSON object a line. No line of it holds a secret."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

import typer

from toolloom.pipeline.store.secrets import SECRETS

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from toolloom.pipeline.render.section import Section

LOG = logging.getLogger("toolloom")
SECONDS_BETWEEN_LINES = 3.0  # of work that is no run


def _local(folder: str | Path) -> Path:
    """A folder of outputs. Raises StoreError for an address."""
    from toolloom.pipeline.store.sync import local_outputs

    return local_outputs(folder)


NOTHING_ACCEPTED, FOUND, MISTAKE, BUG = 1, 1, 2, 1
HERE = Path("outputs")
Level: TypeAlias = Literal["debug", "info", "warning"]
Outputs = Annotated[
    Path,
    typer.Option(
        "--outputs",
        "-o",
        envvar="TOOLLOOM_OUTPUTS",
        parser=_local,
        metavar="FOLDER",
        help="Folder of runs, pools and datasets.",
    ),
]
Dataset = Annotated[
    str,
    typer.Argument(metavar="NAME[/VERSION]", help="A dataset, `name/1.0.0`, or a version's path."),
]
JsonFile = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE|-", help="Write the report there, or print it (-)."),
]


def known(option: str, value: str | None, names: Sequence[str]) -> None:
    """Raises NothingFound that names the nearest, or all, for a value that does not exist."""
    if value is None or value in names:
        return
    from toolloom.pipeline.store.documents import nearest
    from toolloom.schemas import NothingFound

    hint = nearest(value, names, "use one of")
    raise NothingFound(f"{option} {value}: there is no such value; {hint}")


def console_on(file: Any) -> Console:
    """Output to a terminal is wrapped to its width, other output not at all."""
    from rich.console import Console

    width = None if file.isatty() else 100_000
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def say(*things: RenderableType | list[Section]) -> None:
    """Print results."""
    from toolloom.pipeline.render.terminal import text, view

    console = console_on(sys.stdout)
    for thing in things:
        if isinstance(thing, list):
            console.print(view(thing))
        else:
            # Lines of ours are left whole, so that they can be copied.
            whole = isinstance(thing, str)
            console.print(text(thing) if whole else thing, soft_wrap=whole)


def ticker() -> Callable[[str], None]:
    """For work that is no run: it is told how far that is, in words, as often as one likes, and
    now and then prints what it is told on standard error."""
    from toolloom.pipeline.render.terminal import text

    console, began = console_on(sys.stderr), time.monotonic()
    printed = began

    def tell(line: str) -> None:
        nonlocal printed
        if (now := time.monotonic()) >= printed + SECONDS_BETWEEN_LINES:
            printed = now
            console.print(text(f"{line}, {now - began:.0f} s"), soft_wrap=True)

    return tell


def deliver(report: str, target: str | None, *things: RenderableType | list[Section]) -> None:
    """Print results, and write their report, JSON, where `--json` says; `-`: print it instead."""
    from toolloom.pipeline.store.files import write_lines
    from toolloom.schemas import StoreError

    if target == "-":
        print(report)
        return
    say(*things)
    if target:
        path = Path(target).absolute()
        if path.exists() and not path.is_file():  # a device must not be replaced
            raise StoreError(
                f"{path}: cannot be written, it is not a file. Name one, or - to print."
            )
        write_lines(path, [report.encode() + b"\n"])


def complain(message: str, event: str = "error") -> None:
    """What went wrong, in the form of all lines on standard error."""
    from toolloom.pipeline.render.section import visible

    tell(visible(SECRETS.hide(message)), event)


def as_json(record: logging.LogRecord) -> str:
    """One object: time, level, event and message first."""
    facts = dict(getattr(record, "facts", {}))
    told = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "event": facts.pop("event", "log"),
        "message": record.getMessage(),
        **({} if record.name == LOG.name else {"logger": record.name}),
        **facts,
    }
    if record.exc_info:
        told["traceback"] = logging.Formatter().formatException(record.exc_info)
    return json.dumps(_hidden(told), default=lambda other: SECRETS.hide(str(other)))


def as_text(record: logging.LogRecord) -> str:
    """The message, then what it is about."""
    facts = {k: v for k, v in getattr(record, "facts", {}).items() if k not in ("event", "run")}
    about = ", ".join(f"{name} {value}" for name, value in facts.items())
    line = f"{record.levelname.lower()}: {record.getMessage()}{f' ({about})' if about else ''}"
    if record.exc_info:
        line += "\n" + logging.Formatter().formatException(record.exc_info)
    return SECRETS.hide(line)


def _hidden(value: Any) -> Any:
    """A JSON value whose texts hold no secret; the names of its fields are ours."""
    if isinstance(value, dict):
        return {name: _hidden(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(inner) for inner in value]
    return SECRETS.hide(value) if isinstance(value, str) else value


class Outlet(logging.Handler):
    """Takes all records of the process, from `begin` to `close_log`, and writes a line for each to
    standard error. Without a level people see warnings, and programs what the run does."""

    opened: ClassVar[Outlet | None] = None

    def __init__(self, console: Console, level: Level | None, json_lines: bool) -> None:
        super().__init__()
        root = logging.getLogger()
        self.json_lines, self._console = json_lines, console
        self._chosen = level or ("info" if json_lines else "warning")
        self._before = (root.handlers[:], root.level, LOG.level)

    def emit(self, record: logging.LogRecord) -> None:
        from toolloom.pipeline.render.terminal import text

        try:
            if self.json_lines:
                print(as_json(record), file=sys.stderr, flush=True)
            else:  # above the bars, if there are any; the terminal obeys nothing of the text
                self._console.print(text(as_text(record), "yellow"), soft_wrap=True)
        except (OSError, ValueError, TypeError):  # such as a message whose arguments do not fit
            self.handleError(record)

    def begin(self) -> None:
        """Also once more, after a library has set up handlers of its own."""
        root = logging.getLogger()
        root.handlers[:] = [self]
        # Of other libraries only warnings: some tell of every request at INFO.
        root.setLevel(logging.DEBUG if self._chosen == "debug" else logging.WARNING)
        LOG.setLevel(self._chosen.upper())
        logging.captureWarnings(self.json_lines)
        Outlet.opened = self

    def end(self) -> None:
        root = logging.getLogger()
        root.handlers[:], level, ours = self._before
        root.setLevel(level)
        LOG.setLevel(ours)
        logging.captureWarnings(False)
        Outlet.opened = None


def close_log() -> None:
    """Send them where they went before."""
    if Outlet.opened:
        Outlet.opened.end()


def reopen_log() -> None:
    """After a library has set up logging its own way."""
    if Outlet.opened:
        Outlet.opened.begin()


def tell(message: str, event: str) -> None:
    """A message in the form of all lines. It is printed as it is, and nothing is imported."""
    if Outlet.opened and Outlet.opened.json_lines:
        LOG.error("%s", message, extra={"facts": {"event": event}})
    else:
        print(message, file=sys.stderr, flush=True)
