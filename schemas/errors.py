"""Everything toolloom raises for a reason a user can act on.

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


class ToolloomError(Exception):
    """The base: its text says what happened, where, and what to do."""


class RecipeError(ToolloomError):
    """A recipe that cannot be read or does not fit the model."""


class TemplateError(ToolloomError):
    """A prompt template that is broken or uses an undefined variable."""


class EndpointError(ToolloomError):
    """An endpoint that cannot serve the run."""


class EndpointDown(EndpointError):
    """Nobody answers, or only errors, after all tries."""


class EndpointDenied(EndpointError):
    """The key is missing or not accepted."""


class ModelMissing(EndpointError):
    """The endpoint does not know the model."""


class BudgetReached(ToolloomError):
    """The run's budget has no room for another request: the run stops, and can go on."""


class RequestRefused(ToolloomError):
    """The endpoint refuses this one request. `raw` is its answer."""

    def __init__(self, message: str, raw: str = "") -> None:
        super().__init__(message)
        self.raw = raw


class TemplateFileError(ToolloomError):
    """Files of written templates that cannot be read, or that do not fit the APIs they call."""


class WorldError(ToolloomError):
    """A file of a world that cannot be read, or that is no world: each mistake with its line."""


class ImportFailed(ToolloomError):
    """A source of APIs that cannot be read at all."""


class ClusterError(ToolloomError):
    """Machines that cannot take a run's work, or lose it again and again."""


class StoreError(ToolloomError):
    """A folder or file that cannot be written or read."""


class Busy(StoreError):
    """What another process is at work on."""


class PublishError(ToolloomError):
    """A dataset that cannot be made of a run."""


class PushError(ToolloomError):
    """A version that cannot be brought to the Hub."""


class ExportError(ToolloomError):
    """A dataset that cannot be written, or a file that cannot be read, in a trainer's form."""


class NothingFound(ToolloomError):
    """A run, dataset or record that does not exist."""
