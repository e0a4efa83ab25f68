"""An MCP server of the functions of one Python file or module, over stdio.

    python -s -P function_server.py '{"file": "/home/ada/tools.py", "allowed": ["add"], …}'

It imports the file, describes its functions by their signatures and docstrings, and calls those
that are allowed, with limits on memory, files and time. It imports nothing of toolloom. Messages
go over copies of the standard streams: a function that prints, or reads its input, or starts a
program, cannot touch them.
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
import re
import signal
import sys
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any, TypeAlias
from uuid import UUID

resource: Any = None
with suppress(ImportError):  # not every system has it
    import resource

MEMORY = 2 * 2**30
FILE = 64 * 2**20
ANSWER = 4 * 2**20
SLACK = 5  # seconds after which it ends by itself, should nobody else do it
NO_METHOD, BAD_ARGUMENTS = -32601, -32602  # of JSON-RPC

Json: TypeAlias = dict[str, Any]


class Refused(Exception):
    """The call does not fit the function: it was not begun."""


def reply(module: ModuleType, settings: Json, method: str, params: Json) -> Json:
    """The `result` or the `error` of a JSON-RPC answer."""
    match method:
        case "initialize":
            offers = {"capabilities": {"tools": {}}, "serverInfo": {"name": "", "version": ""}}
            return {"result": {"protocolVersion": params["protocolVersion"], **offers}}
        case "tools/list":
            return {"result": described(module)}
        case "tools/call" if params["name"] in settings["allowed"]:
            with bound_time(settings["seconds"]):
                return call(module, params["name"], params.get("arguments") or {})
        case "tools/call":
            words = f"The function {params['name']} may not be called."
            return {"error": {"code": BAD_ARGUMENTS, "message": words}}
        case _:
            return {"error": {"code": NO_METHOD, "message": f"There is no method {method}."}}


def call(module: ModuleType, name: str, arguments: Json) -> Json:
    function: Any = module
    for part in name.split("."):
        function = getattr(function, part, None)
    try:
        if not callable(function):
            raise Refused(f"There is no function {name}.")
        text = written(_run(function, arguments))
        if len(text) > ANSWER:
            return _raised(f"the result is longer than {ANSWER} bytes")
        return {"result": {"content": [], "structuredContent": {"result": json.loads(text)}}}
    except Refused as error:
        return {"error": {"code": BAD_ARGUMENTS, "message": str(error)}}
    except Exception as error:  # noqa: BLE001 - whatever a function raises is a result
        return _raised(_words(error))


def serve(settings: Json) -> None:
    """Answer a line of JSON with a line of JSON until the input ends. `settings`: where the module
    is, what of it may be called, for how long."""
    lines = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    os.environ.pop("PYTHONHASHSEED", None)  # set so that sets come in the same order each time
    for name, most in (("RLIMIT_AS", MEMORY), ("RLIMIT_CORE", 0), ("RLIMIT_FSIZE", FILE)):
        with suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, name), (most, most))
    # A module is found where it was found when it was named; a file's neighbours come last.
    sys.path[:] = [*settings["first"], *sys.path, *settings["last"]]
    try:
        with bound_time(settings["start"]):
            module = _module(settings)
    except BaseException as error:  # noqa: BLE001 - whatever loading it raises is told
        sys.exit(_words(error))
    ours = os.getpid()
    for line in lines:
        message = json.loads(line)
        if "id" not in message:  # a notification
            continue
        answer = reply(module, settings, message["method"], message.get("params") or {})
        if os.getpid() != ours:  # a function forked, and its child came back as well
            os._exit(0)
        answers.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
        answers.flush()


@contextmanager
def bound_time(seconds: float) -> Iterator[None]:
    """Bound the processor time of what is done, and its time should nobody wait for it any more."""
    with suppress(AttributeError, ValueError):
        signal.alarm(math.ceil(seconds) + SLACK)
    with suppress(AttributeError, ValueError, OSError):
        used = resource.getrusage(resource.RUSAGE_SELF)
        most = math.ceil(used.ru_utime + used.ru_stime + seconds) + SLACK
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (most, hard))
    try:
        yield
    finally:
        with suppress(AttributeError):
            signal.alarm(0)


def _module(settings: Json) -> ModuleType:
    if "module" in settings:
        return importlib.import_module(settings["module"])
    name = "toolloom_functions"
    spec = importlib.util.spec_from_file_location(name, settings["file"])
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _run(function: Callable[..., Any], arguments: Json) -> Any:
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise Refused(f"TypeError: {error}") from error
    except ValueError:  # a function of C without a signature
        pass
    value = function(**arguments)

    async def awaited() -> Any:
        return await value

    return asyncio.run(awaited()) if inspect.isawaitable(value) else value


def _raised(words: str) -> Json:
    return {"result": {"content": [{"type": "text", "text": words}], "isError": True}}


def _words(error: BaseException) -> str:
    """An error as Python shows it; of one that cannot even be shown, its name."""
    try:
        words = f"{type(error).__name__}: {error}".rstrip(": ")
        return words.encode("utf-8", "replace").decode()
    except Exception:  # noqa: BLE001 - its text is made by the function's own code
        return type(error).__name__


# Describing


def described(module: ModuleType) -> Json:
    """The public functions as MCP's tools; in `_meta` what else it defines, with why it is none."""
    tools: list[Json] = []
    skipped: list[list[str]] = []
    names = getattr(module, "__all__", None)
    if names is None:
        found = {n: v for n, v in vars(module).items() if not n.startswith("_")}
        found = {n: v for n, v in found.items() if getattr(v, "__module__", "") == module.__name__}
    else:
        found = {str(n): getattr(module, str(n), None) for n in names}
    for name, value in found.items():
        if inspect.isroutine(value):
            try:
                tools.append(_tool(name, value))
            except Refused as error:
                skipped.append([name, str(error)])
        elif inspect.isclass(value):
            methods = [n for n, m in vars(value).items() if inspect.isfunction(m) and n[0] != "_"]
            skipped += [[f"{name}.{n}", "It is a method: it needs an object."] for n in methods]
    return {"tools": tools, "_meta": {"skipped": skipped}}


def _tool(name: str, function: Callable[..., Any]) -> Json:
    import docstring_parser  # only where functions are described

    try:
        signature = inspect.signature(function)
    except ValueError as error:
        raise Refused("Its arguments are not known.") from error
    nameless = [p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_ONLY]
    if nameless:
        raise Refused(f"Arguments that cannot be given by name: {', '.join(nameless)}.")
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 - of a name that is imported for type checkers alone, say
        hints = {}
    text = inspect.getdoc(function) or ""
    try:
        document = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        document = docstring_parser.Docstring()
        document.short_description = text.partition("\n\n")[0]
    told = {p.arg_name.lstrip("*"): p for p in document.params}
    definitions: Json = {}
    properties: Json = {}
    lost: list[str] = []
    required: list[str] = []
    for key, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            lost.append(f"*{key}")
            continue
        schema, known = _schema(hints.get(key), told.get(key), "validation", definitions)
        properties[key] = schema
        if not known:
            lost.append(key)
        if parameter.default is parameter.empty:
            required.append(key)
        elif parameter.default is not None:
            try:
                schema["default"] = json.loads(written(parameter.default))
            except (TypeError, ValueError):
                lost.append(f"{key}.default")
    tool: Json = {"name": name, "description": _description(document), "_meta": {"lost": lost}}
    tool["inputSchema"] = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,  # `**more` is not offered
    }
    if definitions:
        tool["inputSchema"]["$defs"] = definitions
    definitions = {}
    result, _ = _schema(hints.get("return"), document.returns, "serialization", definitions)
    if result:
        tool["outputSchema"] = {"type": "object", "properties": {"result": result}}
        tool["outputSchema"] |= {"$defs": definitions} if definitions else {}
    if hasattr(function, "__deprecated__") or document.deprecation or DEPRECATED.search(text):
        tool["_meta"]["deprecated"] = True
    return tool


DOCUMENTED = {kind.__name__: kind for kind in (str, int, float, bool, list, dict)}
DEPRECATED = re.compile(
    r"(?i)\A[^\w\n]{0,9}deprecated\b|\bis (?:now )?deprecated\b|\.\. deprecated::"
)


def _schema(hint: Any, said: Any, mode: Any, definitions: Json) -> tuple[Json, bool]:
    """The JSON Schema of a type hint, as pydantic makes it, and whether there is one. `said`: what
    the docstring says, which may name the type too."""
    from pydantic import TypeAdapter

    hint = hint or DOCUMENTED.get((said and said.type_name) or "", Any)
    schema: Json | None = {}
    if hint is not Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                schema = TypeAdapter(hint).json_schema(mode=mode)
        except Exception:  # noqa: BLE001 - a class may say in any way that it has none
            schema = None
    known, schema = schema is not None, schema or {}
    definitions.update(schema.pop("$defs", {}))
    for note in (*(getattr(hint, "__metadata__", ()) if known else ()), said and said.description):
        if isinstance(note, str) and note:  # `Annotated[bool, "Wrap it."]` comes first
            schema.setdefault("description", note)
    return schema, known


def _description(document: Any) -> str:
    """Its paragraphs up to the first directive, without sessions of an interpreter."""
    parts = (document.short_description or "", document.long_description or "")
    prose = re.split(r"\n[ \t]*\.\. \w+::", "\n\n".join(filter(None, parts)))[0]
    paragraphs = re.split(r"\n[ \t]*\n", prose)
    return "\n\n".join(p for p in paragraphs if not p.lstrip().startswith(">>>")).strip()


# Values


def written(value: Any) -> str:
    """A value as JSON in UTF-8. Raises TypeError or ValueError for what that cannot hold."""
    text = json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace").decode()


def _plain(value: Any) -> Any:
    """What JSON has no word for, in words that it has; the parts of it may need some too."""
    match value:
        case enum.Enum():
            return value.value
        case datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            return value.total_seconds()
        case decimal.Decimal() | UUID() | os.PathLike():
            return str(value)
        case Mapping():
            return dict(value)
        case set() | frozenset():
            return sorted(value, key=written)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    for method in ("model_dump", "tolist"):  # pydantic, numpy
        turn = getattr(value, method, None)
        if callable(turn) and not isinstance(value, type):
            return turn()
    raise TypeError(f"the result holds a {type(value).__name__}, which is not JSON")


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
