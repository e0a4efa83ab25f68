"""Everything toolloom raises for a reason a user can act on. The tree says what each is.

ToolloomError
├── RecipeError            a recipe that cannot be read or does not fit the model
├── TemplateError          a prompt template that is broken or uses an undefined variable
├── EndpointError          an endpoint that cannot serve the run: the run stops, and can go on
│   ├── EndpointDown       nobody answers, or only errors, after all tries
│   ├── EndpointDenied     the key is missing or not accepted
│   └── ModelMissing       the endpoint does not know the model
├── BudgetReached          the run's budget has no room for another request
├── RequestRefused         the endpoint refuses this one request; the record is rejected
├── TemplateFileError      files of written templates that cannot be read or do not fit their APIs
├── WorldError             a file of a world that cannot be read, or is no sound world
├── ImportFailed           a source of APIs that cannot be read at all
├── ClusterError           machines that cannot take a run's work, or lose it again and again
├── StoreError             a folder or file that cannot be written or read
│   └── Busy               another process holds it: wait, or end that process
├── PublishError           a dataset that cannot be made of a run
├── ExportError            a dataset that cannot be written, or a file read, in a trainer's form
├── PushError              a version that cannot be brought to the Hub
└── NothingFound           a run, dataset or record that does not exist
"""

from __future__ import annotations

from pathlib import Path


def absent(path: Path | str) -> str:
    """That there is nothing at a path, in words that name the folder that was looked in."""
    looked = "" if Path(path).is_absolute() else f" (looked for in {Path.cwd()})"
    return f"{path} does not exist{looked}"


class ToolloomError(Exception):
    """The base: its text says what happened, where, and what to do."""


class RecipeError(ToolloomError): ...


class TemplateError(ToolloomError): ...


class EndpointError(ToolloomError): ...


class EndpointDown(EndpointError): ...


class EndpointDenied(EndpointError): ...


class ModelMissing(EndpointError): ...


class BudgetReached(ToolloomError): ...


class RequestRefused(ToolloomError):
    """The endpoint refuses this one request. `raw` is its answer."""

    def __init__(self, message: str, raw: str = "") -> None:
        super().__init__(message)
        self.raw = raw


class TemplateFileError(ToolloomError): ...


class WorldError(ToolloomError): ...


class ImportFailed(ToolloomError): ...


class ClusterError(ToolloomError): ...


class StoreError(ToolloomError): ...


class Busy(StoreError): ...


class PublishError(ToolloomError): ...


class PushError(ToolloomError): ...


class ExportError(ToolloomError): ...


class NothingFound(ToolloomError): ...
