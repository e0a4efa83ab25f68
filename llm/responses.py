"""Responses in the database: what is kept of each, and the statements that read and write them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from toolloom.llm.database import LOST, POSTGRESQL, RESPONSES, SQLITE, TRAITS
from toolloom.schemas import Usage

AT_ONCE = 500  # keys in a statement: SQLite takes 32,766 parameters, other databases fewer


def inserts(table: sa.Table) -> dict[str, Any]:
    """For each kind of database an insert that leaves a row with the same key as it is."""
    kinds: dict[str, Any] = {SQLITE: sqlite.insert, POSTGRESQL: postgresql.insert}
    return {
        # SQLAlchemy drops the number of inserted rows unless asked to keep it.
        name: kind(table)
        .on_conflict_do_nothing()
        .inline()
        .execution_options(preserve_rowcount=True)
        for name, kind in kinds.items()
    }


WRITES = inserts(RESPONSES)
LEARNS = inserts(TRAITS)
READ_ONE = sa.select(RESPONSES.c.body).where(RESPONSES.c.key == sa.bindparam("wanted"))
READ = sa.select(RESPONSES.c.key, RESPONSES.c.body).where(
    RESPONSES.c.key.in_(sa.bindparam("wanted", expanding=True))
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A response, and what it took to get it. `requests` counts tries; `cost` is US dollars."""

    key: str
    body: str
    kind: str = "chat"  # or embedding, or execution
    endpoint: str = ""
    model: str = ""
    run: str = ""
    stage: str = ""
    agent: str = ""
    requests: int = 1
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


FIELDS = tuple(Entry.__dataclass_fields__)
VALUES = attrgetter(*FIELDS)


def storable(entry: Entry) -> Entry:
    """With what no database takes, NUL and lone surrogates, as escapes: in JSON the same text."""
    body = entry.body
    if "\0" in body:
        body = body.replace("\0", "\\u0000")
    if not body.isascii():
        body = body.encode("utf-8", "backslashreplace").decode()
    return entry if body == entry.body else replace(entry, body=body)


def read(connection: sa.Connection, keys: Sequence[str]) -> dict[str, str]:
    """The bodies of those keys that have one."""
    if len(keys) == 1:  # a third cheaper
        body = connection.execute(READ_ONE, {"wanted": keys[0]}).scalar()
        return {} if body is None else {keys[0]: body}
    found: dict[str, str] = {}
    for start in range(0, len(keys), AT_ONCE):
        rows = connection.execute(READ, {"wanted": keys[start : start + AT_ONCE]})
        found.update((row[0], row[1]) for row in rows)
    return found


def write(connection: sa.Connection, entries: Sequence[Entry]) -> dict[str, str]:
    """Insert responses. If any was there, the bodies that stand, by key; else nothing."""
    now = time.time()
    # In one order everywhere: so two processes never wait for each other.
    rows = [dict(zip(FIELDS, VALUES(e), strict=True)) for e in entries]
    rows.sort(key=lambda row: row["key"])
    if not rows:
        return {}
    for row in rows:
        row["at"] = now
    inserted = connection.execute(WRITES[connection.dialect.name], rows).rowcount
    return {} if inserted == len(rows) else read(connection, [row["key"] for row in rows])


def spent(connection: sa.Connection, run: str) -> Usage:
    """What a run used, in all processes that worked on it: its responses and its failed tries.

    Of those only the sum of their tokens is kept: it is among the prompts'.
    """
    columns = RESPONSES.c
    answered = sa.select(
        sa.func.coalesce(sa.func.sum(sa.case((columns.requests > 0, 1), else_=0)), 0),
        sa.func.coalesce(sa.func.sum(columns.prompt_tokens), 0),
        sa.func.coalesce(sa.func.sum(columns.cost), 0.0),
        sa.func.coalesce(sa.func.sum(columns.completion_tokens), 0),
    ).where(columns.run == run, columns.kind != "execution")
    lost = sa.select(LOST.c.requests, LOST.c.tokens, LOST.c.cost).where(LOST.c.run == run)
    requests, sent, cost, received = connection.execute(answered).one()
    total = Usage(
        requests=int(requests),
        prompt_tokens=int(sent),
        completion_tokens=int(received),
        cost=float(cost),
    )
    for row in connection.execute(lost):
        total += Usage(requests=row.requests, prompt_tokens=row.tokens, cost=row.cost)
    return total


def lose(connection: sa.Connection, run: str, lost: Usage) -> None:
    """Add to what the run's tries without an answer used."""
    row = {"run": run, "requests": lost.requests, "tokens": lost.tokens, "cost": lost.cost}
    kinds: dict[str, Any] = {SQLITE: sqlite.insert, POSTGRESQL: postgresql.insert}
    new = kinds[connection.dialect.name](LOST).values(row)
    sums = {name: LOST.c[name] + new.excluded[name] for name in ("requests", "tokens", "cost")}
    connection.execute(new.on_conflict_do_update(index_elements=["run"], set_=sums))
