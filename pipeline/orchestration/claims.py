"""Which flow run is at work on a dataset: a file beside its versions.

    <outputs>/datasets/<name>/growing.json

It is written by whoever holds the dataset's lock and removed at every orderly end. So if the lock
is free and the file names a flow run, the process of that run was killed. A server cannot tell:
to it such a run runs for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field

from toolloom.pipeline.store.files import read_records, record_line, write_lines
from toolloom.pipeline.store.mirror import remove
from toolloom.schemas import Record, StoreError

FILE = "growing.json"


class Claim(Record):
    """A flow run that works, or was killed at work."""

    flow_run: str = Field(description="Its id on Prefect's server.")
    name: str = Field(description="Its name there.")
    run: str = Field(default="", description="The run it carries out, once that is planned.")


def read_claim(outputs: Path, dataset: str) -> Claim | None:
    """The claim on a dataset; None also for one that was half written when the power failed."""
    path = _path(outputs, dataset)
    try:
        return next(read_records(path, Claim), None) if path.exists() else None
    except StoreError:
        return None


def write_claim(outputs: Path, dataset: str, claim: Claim) -> None:
    """Whoever writes it holds the dataset's lock."""
    write_lines(_path(outputs, dataset), [record_line(claim)])


@contextmanager
def claimed(outputs: Path, dataset: str, claim: Claim) -> Iterator[None]:
    """Claim the dataset until the work ends, well or not; a kill leaves the claim."""
    write_claim(outputs, dataset, claim)
    try:
        yield
    finally:
        remove(_path(outputs, dataset))


def _path(outputs: Path, dataset: str) -> Path:
    return outputs / "datasets" / dataset / FILE
