"""The one door to a model: what is asked, by which limits, at what cost, and what was answered.

A request is looked up in the response cache, and only if it is not there it is sent: within the
run's budget, the minute's quota and the number that may be under way, and again while that may
help. This is the only place that retries. The answer is committed before anyone sees it. Batches,
embeddings and the embedded model's server are ways of the same door, and the scripted endpoint for
tests and trials stands beside it.

May touch: the network, the cache's file; render, prompts, checks, schemas.
Begin with `Model._answer` in `model.py`: the way of a request, from top to bottom.
"""

from toolloom.llm.local import LocalServer
from toolloom.llm.messages import Reply, Request
from toolloom.llm.model import Embedder, Gateway, Model

__all__ = ["Embedder", "Gateway", "LocalServer", "Model", "Reply", "Request"]
