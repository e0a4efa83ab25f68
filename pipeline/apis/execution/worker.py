"""Runs functions of one Python file or module, for toolloom, in a process of its own.

Imports nothing of toolloom. Reads a line of JSON, writes a line of JSON:

    {"file": …} or {"module": …}, "first": […], "last": […], "allowed": […], "seconds": …
                                                   →  {"ready": true} or {"failed": …}
    {"call": name, "arguments": {…}, "seconds": …}              →  {"value": …} or an error

The lines go over copies of the standard streams: a function that prints, or reads its input, or
starts a program, cannot touch them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import importlib
import importlib.util
import inspect
import json
import math
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

resource: Any = None
with suppress(ImportError):  # not every system has it
    import resource

MEMORY = 2 * 2**30
FILE = 64 * 2**20
ANSWER = 4 * 2**20
DEPTH = 100
BITS = 13_000  # of an integer: some 3,900 digits, fewer than Python reads back
SLACK = 5  # seconds after which it ends by itself, should nobody else do it


class Refused(Exception):
    """The call does not fit the function: it was not begun."""


def main() -> None:
    os.environ.pop("PYTHONHASHSEED", None)  # set so that sets come in the same order each time
    lines = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    for name, most in (("RLIMIT_AS", MEMORY), ("RLIMIT_CORE", 0), ("RLIMIT_FSIZE", FILE)):
        with suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, name), (most, most))
    functions: dict[str, Any] = {}
    ours = os.getpid()
    for line in lines:
        order = json.loads(line)
        answer = _call(functions, order) if "call" in order else _load(functions, order)
        if os.getpid() != ours:  # a function forked, and its child came back as well
            os._exit(0)
        text = json.dumps(answer, allow_nan=False)
        if len(text) > ANSWER:
            text = json.dumps({"raised": f"the result is longer than {ANSWER} bytes"})
        answers.write(text + "\n")
        answers.flush()


def _spend(seconds: float) -> None:
    """Bound the processor time of a call, and its time should nobody wait for it any more."""
    with suppress(AttributeError, ValueError):
        signal.alarm(math.ceil(seconds) + SLACK)
    with suppress(AttributeError, ValueError, OSError):
        used = resource.getrusage(resource.RUSAGE_SELF)
        most = math.ceil(used.ru_utime + used.ru_stime + seconds) + SLACK
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (most, hard))


def _rest() -> None:
    """Nothing is going on any more: no time is counted."""
    with suppress(AttributeError):
        signal.alarm(0)


def _load(functions: dict[str, Any], order: dict[str, Any]) -> dict[str, Any]:
    """Load the file or module and keep the functions that may be called, no others."""
    # A module is found where it was found when it was described; a file's neighbours come last.
    sys.path[:] = [*order["first"], *sys.path, *order["last"]]
    _spend(order["seconds"])
    try:
        module = _module(order)
    except BaseException as error:  # noqa: BLE001 - whatever loading it raises is told
        return {"failed": _words(error)}
    finally:
        _rest()
    for name in order["allowed"]:
        found: Any = module
        for part in name.split("."):
            found = getattr(found, part, None)
        if callable(found):
            functions[name] = found
    return {"ready": True}


def _module(order: dict[str, Any]) -> Any:
    if "module" in order:
        return importlib.import_module(order["module"])
    name = "toolloom_functions"
    spec = importlib.util.spec_from_file_location(name, order["file"])
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _call(functions: dict[str, Any], order: dict[str, Any]) -> dict[str, Any]:
    name = order["call"]
    if name not in functions:
        return {"refused": f"There is no function {name} that may be called."}
    _spend(order["seconds"])
    try:
        value = _run(functions[name], order["arguments"])
        return {"value": plain(value)}
    except Refused as error:
        return {"refused": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever a function raises is a result
        return {"raised": _words(error)}
    finally:
        _rest()


def _words(error: BaseException) -> str:
    """An error as Python shows it; of one that cannot even be shown, its name."""
    try:
        return f"{type(error).__name__}: {error}".rstrip(": ")
    except Exception:  # noqa: BLE001 - its text is made by the function's own code
        return type(error).__name__


def _run(function: Any, arguments: dict[str, Any]) -> Any:
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise Refused(f"TypeError: {error}") from error
    except ValueError:  # a function of C without a signature
        pass
    value = function(**arguments)
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Any) -> Any:
    return await value


def plain(value: Any, depth: int = DEPTH) -> Any:
    """A value as JSON can hold it. Raises TypeError or ValueError for what it cannot."""
    if depth == 0:
        raise ValueError(f"the result is nested more than {DEPTH} levels deep")
    if isinstance(value, int) and value.bit_length() > BITS:
        raise ValueError("the result holds an integer of thousands of digits")
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, enum.Enum):
        return plain(value.value, depth - 1)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"the result holds {value}, which JSON does not have")
        return float(value)
    if isinstance(value, int | str):  # of a class of their own
        return int(value) if isinstance(value, int) else str.__str__(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal | UUID | os.PathLike):
        return str(value)
    return _gathered(value, depth - 1)


def _gathered(value: Any, depth: int) -> Any:
    """A value that holds others."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {f.name: plain(getattr(value, f.name), depth) for f in fields}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict(), depth)
    if isinstance(value, Mapping):
        named: dict[str, Any] = {}
        for key, item in value.items():
            name = plain(key)
            if isinstance(name, dict | list):
                raise TypeError(f"the result has a {type(key).__name__} as a key, which is no JSON")
            name = name if isinstance(name, str) else json.dumps(name)
            if name in named:
                raise ValueError(f"the result has two keys that are {name} in JSON")
            named[name] = plain(item, depth)
        return named
    if isinstance(value, set | frozenset):
        return sorted((plain(item, depth) for item in value), key=json.dumps)
    if isinstance(value, list | tuple):
        return [plain(item, depth) for item in value]
    for method in ("model_dump", "tolist"):  # pydantic, numpy
        turn = getattr(value, method, None)
        if callable(turn) and not isinstance(value, type):
            return plain(turn(), depth)
    raise TypeError(f"the result holds a {type(value).__name__}, which is no JSON")


if __name__ == "__main__":
    main()
