"""Stores in memory, for tests of what is kept in a store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

from fsspec.implementations.memory import MemoryFileSystem

from support import toys
from toolloom.pipeline.run import Made, make_dataset

MEMORY = MemoryFileSystem()


class OtherMemory(MemoryFileSystem):
    """A store in memory with a protocol, a `store` and habits of its own."""

    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace(f"{cls.protocol}://", "memory://")))


def run(outputs: Path, **changes: Any) -> Made:
    return asyncio.run(make_dataset(toys.recipe(**changes), outputs=outputs, stages=toys.STAGES))


def put(url: str, name: str, body: bytes = b"{}\n") -> None:
    MEMORY.pipe_file(f"{url.removeprefix('memory://')}/{name}", body)


def there(url: str) -> set[str]:
    root = "/" + url.removeprefix("memory://")
    return {name.removeprefix(f"{root}/") for name in MEMORY.find(root)}


def drop(url: str, name: str) -> None:
    MEMORY.rm(f"{url.removeprefix('memory://')}/{name}", recursive=True)
