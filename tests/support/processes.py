"""Commands and a scripted endpoint in processes of their own, and what they leave behind."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TOOLLOOM = [sys.executable, "-c", "from toolloom.cli import main; main()"]
FAKE = [sys.executable, "-m", "toolloom.llm.scripted", "--port=0", "--latency=0.05"]
WHOLE = """
name: %s
model: {base_url: "%s", model: fake, concurrency: 16, retry: {tries: 2}}
apis: {domains: 4, per_domain: 3, worlds: false}
queries: {count: %d}
shard_size: %d
"""


@dataclass(frozen=True)
class Endpoint:
    """A scripted endpoint, and the log of what it has answered."""

    base_url: str
    log: Path

    def answered(self) -> list[str]:
        """The beginning of the hash of each request's body, for every answer that was sent. The
        last line of the log may be half written."""
        whole = self.log.read_text().rpartition("\n")[0] if self.log.exists() else ""
        return [json.loads(line)["key"][:12] for line in whole.splitlines()]


@contextmanager
def endpoint(folder: Path) -> Iterator[Endpoint]:
    """One that answers after 0.05 s, until the end of the block; `folder`: where its log is."""
    log = folder / "log.jsonl"
    with subprocess.Popen([*FAKE, "--log", log], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield Endpoint(process.stdout.readline().split()[-1], log)
        finally:
            process.terminate()


def whole_recipe(base_url: str, count: int = 60, shard_size: int = 4, name: str = "whole") -> str:
    """A recipe of all five agents, with so many queries."""
    return WHOLE % (name, base_url, count, shard_size)


def committed(cache: Path) -> set[str]:
    """Answers in a response cache, by the beginning of their request's hash (in their id)."""
    if not cache.exists():
        return set()
    with sqlite3.connect(cache) as opened:
        found = opened.execute("SELECT 1 FROM sqlite_master WHERE name = 'responses'").fetchone()
        if found is None:
            return set()
        raws = opened.execute("SELECT body FROM responses WHERE kind = 'chat'").fetchall()
    return {json.loads(raw)["id"].removeprefix("chatcmpl-") for (raw,) in raws}


def hashes(outputs: Path) -> dict[str, str]:
    """SHA-256 of every file of runs and datasets but their locks."""
    files = [p for part in ("runs", "datasets") for p in (outputs / part).rglob("*") if p.is_file()]
    found = [path for path in files if path.name not in {".lock", ".held"}]
    return {str(p.relative_to(outputs)): hashlib.sha256(p.read_bytes()).hexdigest() for p in found}
