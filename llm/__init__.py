"""The one door to a model."""

from typing import TYPE_CHECKING, Any

from toolloom.llm.embeddings import Embedder
from toolloom.llm.gateway import Gateway
from toolloom.llm.local import LocalServer
from toolloom.llm.model import Model
from toolloom.llm.wire import Reply, Request

if TYPE_CHECKING:
    from toolloom.llm.fake import FakeServer

__all__ = [
    "Embedder",
    "FakeServer",
    "Gateway",
    "LocalServer",
    "Model",
    "Reply",
    "Request",
]


def __getattr__(name: str) -> Any:
    # Later: it loads a web server, and `python -m toolloom.llm.fake` must find it unloaded.
    if name == "FakeServer":
        from toolloom.llm.fake import FakeServer

        return FakeServer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
