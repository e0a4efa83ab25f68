"""The one door to stores: a folder of outputs at a URL, through fsspec.

A store is asked for nothing but this: list a folder, tell of a file, take, give and remove whole
files. Names are paths in the folder of outputs, with slashes.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from toolloom.schemas import StoreError

T = TypeVar("T")
V = TypeVar("V")

URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*(?:::|://)")
AT_ONCE = 8  # files on their way
PATIENCE = 20.0  # seconds in which a store must answer for the first time
TAGS = ("ETag", "etag", "md5Hash", "md5", "checksum", "mtime", "LastModified", "last_modified")
AGES = ("created",)  # where there is nothing better: what is replaced is made anew
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
TIMES = ("LastModified", "last_modified", "mtime", "updated", "created")
SECRET = re.compile(r"secret|token|password|passphrase|credential|key|sas", re.IGNORECASE)


@dataclass(frozen=True)
class RemoteFile:
    """A file in the store, as a listing tells of it."""

    size: int
    tag: str = ""
    time: float = 0.0

    @classmethod
    def of(cls, info: dict[str, Any]) -> RemoteFile:
        """Stores name the same things differently."""
        tag = next((info[name] for name in TAGS + AGES if info.get(name)), "")
        time = next((info[name] for name in TIMES if info.get(name)), 0.0)
        if hasattr(time, "timestamp"):
            time = time.timestamp()
        return cls(
            int(info.get("size") or 0),
            str(tag),
            float(time) if isinstance(time, int | float) else 0.0,
        )


def is_url(text: str) -> bool:
    """Whether a folder of outputs is in a store, as far as its name tells."""
    return bool(URL.match(text))


class Remote:
    """A folder of outputs in a store. Raises StoreError, whatever goes wrong."""

    def __init__(self, url: str) -> None:
        if re.search(r"//[^@]*:.*@", url) or "?" in url:  # a key may hold slashes
            raise StoreError(
                "--outputs: a URL with a password, or with anything after `?`, would be shown and "
                "kept in many places. Put it into the environment, or into fsspec's configuration "
                "(docs/remote.md)."
            )
        scheme, _, rest = url.rpartition("://")
        if not scheme or not rest.strip("/") or set("*[") & set(rest):
            raise StoreError(
                f"--outputs {url}: is no folder. Name one, such as s3://bucket/folder, "
                "without `*` and `[`."
            )
        self.url = f"{scheme.lower()}://{rest.rstrip('/')}"

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        import fsspec  # late: few need it

        fs, root = fsspec.core.url_to_fs(self.url)
        return fs, str(root).rstrip("/")

    @property
    def endpoint(self) -> str:
        """Where the store is, if its URL does not tell: two may have buckets of one name."""
        options = self._opened[0].storage_options
        told = options.get("endpoint_url") or options.get("client_kwargs", {}).get("endpoint_url")
        names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") if self.url.startswith("s3") else ()
        return str(told or next((os.environ[n] for n in names if os.environ.get(n)), ""))

    def reach(self) -> None:
        """See whether the store answers, and in time; else the error says what to do."""
        failed: list[BaseException] = []
        thread = threading.Thread(target=self._knock, args=(failed,), daemon=True)
        thread.start()
        thread.join(PATIENCE)
        if thread.is_alive():
            raise StoreError(
                f"{self.url}: does not answer within {PATIENCE:.0f} s"
                f"{f' ({self.endpoint})' if '_opened' in self.__dict__ else ''}. Check the address "
                "of the store (for S3 FSSPEC_S3_ENDPOINT_URL) and the network."
            )
        if failed:
            raise self._told(failed[0], "opened") from failed[0]

    def _knock(self, failed: list[BaseException]) -> None:
        try:
            fs, root = self._opened
            fs.invalidate_cache()
            try:
                fs.ls(root, detail=True)
            except FileNotFoundError:  # nothing is there yet; but the bucket must be
                top = "/" if root.startswith("/") else root.partition("/")[0]
                fs.ls(top, detail=True)
        except BaseException as error:  # noqa: BLE001 – it is raised where it is waited for
            failed.append(error)

    def names(self, folder: str) -> dict[str, RemoteFile | None]:
        """What is in a folder, by its own name: files, and folders as None."""
        return dict(self._listed(folder, "ls"))

    def files(self, folder: str) -> dict[str, RemoteFile]:
        """All files below a folder, by their paths in it."""
        return {name: seen for name, seen in self._listed(folder, "find") if seen is not None}

    def _listed(
        self, folder: str, how: Literal["ls", "find"]
    ) -> Iterator[tuple[str, RemoteFile | None]]:
        """Names in a folder, as far as they stay in it: whoever may write there may be hostile.

        Hidden names are this machine's own: locks, and what is not whole yet. A pattern could stand
        for other files when it is to be removed.
        """
        fs, root = self._opened
        start = f"{root}/{folder}".removeprefix("/") + "/"
        try:
            fs.invalidate_cache()
            listed = getattr(fs, how)(f"{root}/{folder}", detail=True)
        except FileNotFoundError:
            return
        except Exception as error:
            raise self._told(error, "listed", folder) from error
        # Of a path that is a file itself some stores tell no more than the name.
        for path, info in listed.items() if how == "find" else ((i["name"], i) for i in listed):
            full = path.rstrip("/").removeprefix("/")
            name = full.removeprefix(start)
            hidden = any(not part or part.startswith(".") for part in name.split("/"))
            if full.startswith(start) and not hidden and not set("\0*[?") & set(name):
                yield name, RemoteFile.of(info) if info["type"] == "file" else None

    def seen(self, name: str) -> RemoteFile | None:
        """A file, or None if there is none of this name."""
        fs, root = self._opened
        try:
            fs.invalidate_cache()
            info = fs.info(f"{root}/{name}")
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._told(error, "read", name) from error
        return RemoteFile.of(info) if info.get("type") == "file" else None

    def take(self, name: str, path: Path) -> None:
        """Copy a file from the store to the disk."""
        fs, root = self._opened
        try:
            fs.get_file(f"{root}/{name}", str(path))
        except Exception as error:
            if isinstance(error, OSError) and error.errno in FULL:  # the disk here
                raise
            raise self._told(error, "read", name) from error

    def give(self, path: Path, name: str, *, new: bool = False) -> bool:
        """Copy a file from the disk to the store; if it must be `new`, only if none is there.

        Whether it was copied. Raises FileNotFoundError if there is no such file on the disk.
        """
        fs, root = self._opened
        place = f"{root}/{name}"
        try:
            fs.put_file(str(path), place, **({"mode": "create"} if new else {}))
        except FileExistsError:
            return False
        except Exception as error:
            path.stat()  # what is not there, cannot be given
            raise self._told(error, "written", name) from error
        return True

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; those that are not there are as they should be."""
        fs, root = self._opened
        places = [f"{root}/{name}" for name in names]
        try:
            try:
                fs.rm(places)  # S3 takes a thousand at a time
            except FileNotFoundError:
                for place in places:
                    with suppress(FileNotFoundError):
                        fs.rm_file(place)
        except Exception as error:
            raise self._told(error, "cleared of what is not needed any more") from error

    def _told(self, error: BaseException, done: str, name: str = "") -> StoreError:
        """An error of a store's library as one that says what to do."""
        where = f"{self.url}/{name}" if name else self.url
        text = str(error) or type(error).__name__
        options = self._opened[0].storage_options if "_opened" in self.__dict__ else {}
        for option, value in options.items():
            if SECRET.search(option) and isinstance(value, str) and len(value) > 3:
                text = text.replace(value, "[key]")
        text = re.sub(r"\?[\w.%-]+=[^\s\"']*", "", text)  # an address's parameters: signatures
        why = " ".join(re.sub(r"//[^/\s:@]*:[^/\s@]*@", "//[key]@", text).split())
        return StoreError(f"{where}: cannot be {done} ({why}). {self._advice(error)}")

    def _advice(self, error: BaseException) -> str:
        scheme = self.url.partition("://")[0]
        known = "environment, or fsspec's configuration (docs/remote.md)"
        if isinstance(error, ImportError):
            package = "'toolloom[s3]'" if scheme in ("s3", "s3a") else "the package it names"
            return f"Install {package} with pip, and run the same command again."
        if isinstance(error, ValueError) and "rotocol" in str(error):
            return "Name a folder, or a URL whose beginning fsspec knows, such as s3://."
        if isinstance(error, PermissionError) or "redential" in type(error).__name__:
            return f"Check the keys of the store in the {known}, and what they may do."
        if isinstance(error, FileNotFoundError):
            return "Make the bucket, or check its name, and run the same command again."
        if isinstance(error, NotImplementedError):
            return "This kind of store cannot be written; choose another with --outputs."
        return (
            f"Check the store's address and keys in the {known}, and the network; then run the "
            "same command again: nothing that was finished is lost."
        )


def each(work: Callable[[T], V], items: Iterable[T]) -> list[V]:
    """`work` of each item, several at once; the first error ends what has not begun."""
    items = list(items)
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        waiting = [threads.submit(copy_context().run, work, item) for item in items]
        try:
            return [one.result() for one in waiting]
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise
