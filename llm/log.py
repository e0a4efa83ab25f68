"""What happens between records and endpoints, told to Python's logging with names and numbers."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

LOG = logging.getLogger("toolloom")


@dataclass(frozen=True, slots=True)
class Work:
    """What is being worked on: it goes into each log line, and books what answers cost."""

    run: str = ""
    stage: str = ""
    agent: str = ""
    record: str = ""


NOTHING = Work()
WORK: ContextVar[Work] = ContextVar("WORK", default=NOTHING)


def note(level: int, event: str, message: str = "", **facts: Any) -> None:
    """Log an event. `message` is for people; `facts` are JSON values, and never hold a secret.

    DEBUG is for each request, INFO for what a run does, WARNING for what its user should know.
    """
    if LOG.isEnabledFor(level):
        work = WORK.get()
        named = {"run": work.run, "stage": work.stage, "agent": work.agent, "record": work.record}
        logged = {"event": event, **{k: v for k, v in named.items() if v}, **facts}
        LOG.log(level, "%s", message or event, extra={"facts": logged})
