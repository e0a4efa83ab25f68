"""Where log records go: text for people, or one JSON object a line. No line holds a secret."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from toolloom.pipeline.store.secrets import SECRETS, keys_of

if TYPE_CHECKING:
    from rich.console import Console

    from toolloom.schemas import Recipe

LOG = logging.getLogger("toolloom")


class Level(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


class Lines(logging.Handler):
    """Writes a line for each record, with `form`, by `write`."""

    def __init__(
        self, form: Callable[[logging.LogRecord], str], write: Callable[[str], None]
    ) -> None:
        super().__init__()
        self._form = form
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(self._form(record))
        except (OSError, ValueError, TypeError):  # such as a message whose arguments do not fit
            self.handleError(record)


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
        **_traceback(record),
    }
    return json.dumps(_hidden(told), default=str)


def as_text(record: logging.LogRecord) -> str:
    """The message, then what it is about."""
    facts = {k: v for k, v in getattr(record, "facts", {}).items() if k not in ("event", "run")}
    about = ", ".join(f"{name} {value}" for name, value in facts.items())
    line = f"{record.levelname.lower()}: {record.getMessage()}{f' ({about})' if about else ''}"
    return SECRETS.hide("\n".join([line, *_traceback(record).values()]))


def _hidden(value: Any) -> Any:
    """A JSON value whose texts hold no secret; the names of its fields are ours."""
    if isinstance(value, dict):
        return {name: _hidden(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return SECRETS.hide(str(value))


def _traceback(record: logging.LogRecord) -> dict[str, str]:
    if not record.exc_info:
        return {}
    return {"traceback": logging.Formatter().formatException(record.exc_info)}


def start(console: Console, level: Level | None, *, json_lines: bool, recipe: Recipe) -> None:
    """Send log records to standard error, until `close`.

    Without a level people see warnings, and programs what the run does.
    """
    SECRETS.learn(keys_of(recipe))
    handler = Lines(as_json, _write_json) if json_lines else Lines(as_text, _on(console))
    chosen = level or (Level.INFO if json_lines else Level.WARNING)
    Outlet(handler, chosen, json_lines).open()


class Outlet:
    """A handler that takes all records of the process, while it is open."""

    opened: ClassVar[Outlet | None] = None

    def __init__(self, handler: Lines, level: Level, json_lines: bool) -> None:
        root = logging.getLogger()
        self.json_lines = json_lines
        self._handler = handler
        self._level = level
        self._before = (root.handlers[:], root.level, LOG.level)

    def open(self) -> None:
        """Also once more, after a library has set up handlers of its own."""
        root = logging.getLogger()
        root.handlers[:] = [self._handler]
        # Of other libraries only warnings: some tell of every request at INFO.
        root.setLevel(logging.DEBUG if self._level is Level.DEBUG else logging.WARNING)
        LOG.setLevel(self._level.upper())
        logging.captureWarnings(self.json_lines)
        Outlet.opened = self

    def close(self) -> None:
        root = logging.getLogger()
        root.handlers[:], root_level, level = self._before
        root.setLevel(root_level)
        LOG.setLevel(level)
        logging.captureWarnings(False)
        Outlet.opened = None


def close() -> None:
    """Send them where they went before."""
    if Outlet.opened:
        Outlet.opened.close()


def open_again() -> None:
    """After a library has set up logging its own way."""
    if Outlet.opened:
        Outlet.opened.open()


def tell(message: str, event: str) -> None:
    """A message in the form of all lines. It is printed as it is, and nothing is imported."""
    if Outlet.opened and Outlet.opened.json_lines:
        LOG.error("%s", message, extra={"facts": {"event": event}})
    else:
        print(message, file=sys.stderr, flush=True)


def _write_json(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _on(console: Console) -> Callable[[str], None]:
    """Above the bars, if there are any; whatever the text holds, the terminal obeys none of it."""
    from toolloom.pipeline.render.terminal import text

    return lambda line: console.print(text(line, "yellow"), soft_wrap=True)
