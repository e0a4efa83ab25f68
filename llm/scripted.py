"""A scripted OpenAI-compatible endpoint on this machine: for tests, and to try recipes for free.

`FakeServer` serves chat completions (streamed too) and embeddings over real HTTP, so that nothing
of the door to models is replaced when it is tested. It fails, waits and limits as real endpoints
do, the same with every start, and counts what came. What it says is a script, a function of a
request's body. The one that ships, `improvise`, plays the agents from the words of our own
prompts, and is no source of training data: its domains, APIs and sentences come from one small
vocabulary. It reads nothing but the request, as a model would; equal requests get equal answers,
and now and then it forgets a value or objects.

`model: scripted` in a recipe starts one, and so does

    python -m toolloom.llm.scripted --port 8123 --latency 0.2
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import hashlib
import inspect
import json
import math
import random
import re
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

from aiohttp import web

from toolloom.llm.messages import SCHEMA_SENTENCE, readings
from toolloom.schemas import JsonObject, Metric, canonical, digest

GOODBYE = struct.pack("ii", 1, 0)  # linger for no time: TCP sends a reset
JSON = "application/json"
CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"


def error_body(message: str, code: str | None = None) -> str:
    """An error as OpenAI writes it."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return json.dumps({"error": error})


class ScriptedFailure(NamedTuple):
    """An answer that is none."""

    status: int = 500
    retry_after: float | None = None
    body: str = error_body("scripted failure")
    reset: bool = False  # close the connection without a word
    name: str = ""  # what it is counted as; else its status


class ScriptedReply(NamedTuple):
    """A completion with another finish_reason than "stop"."""

    text: str
    finish_reason: str = "length"


Scripted: TypeAlias = str | JsonObject | list[Any] | ScriptedReply | ScriptedFailure
Script: TypeAlias = Callable[[JsonObject], Scripted | Awaitable[Scripted]]

FAILURES: Mapping[str, ScriptedFailure] = {
    "reset": ScriptedFailure(reset=True, name="reset"),
    "truncated": ScriptedFailure(200, body='{"id": "chatcmpl-cut", "choi', name="truncated"),
}


def improvise(body: JsonObject) -> Scripted:
    """The script of a server without one: plays our own prompts, and answers others with a value
    that fits the schema, or a sentence."""
    messages = body["messages"]
    wrapper = (body.get("response_format") or {}).get("json_schema") or {}
    schema: JsonObject | None = wrapper.get("schema")
    if schema is None:  # the last message may tell it
        _, sentinel, text = messages[-1]["content"].rpartition(SCHEMA_SENTENCE)
        schema = next((value for value, _ in readings(text)), None) if sentinel else None
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    asked = [m["content"] for m in messages if m["role"] == "user"]
    if len(asked) > 1 and asked[-1].startswith("That answer cannot be used"):
        asked.pop()
    seed = digest([messages, body.get("seed")])
    for beginning, part in PARTS.items():
        if system.startswith(beginning) and asked:
            return part(asked[-1], schema or {}, random.Random(seed))
    if schema is not None:
        return canonical(invent(schema, seed))
    return f"{' '.join(random.Random(seed).sample(WORDS, 7)).capitalize()}."


def embed(body: JsonObject) -> JsonObject:
    """The body that answers a request for embeddings: hashed words."""
    texts = body.get("input") or ()
    texts = [texts] if isinstance(texts, str) else texts
    data = [
        {"object": "embedding", "index": n, "embedding": vector(t)} for n, t in enumerate(texts)
    ]
    sent = sum(len(text) // 4 + 1 for text in texts)
    usage = {"prompt_tokens": sent, "total_tokens": sent}
    return {"object": "list", "model": body.get("model"), "data": data, "usage": usage}


def key_of(body: JsonObject) -> str:
    """Equal bodies have equal keys; an answer's id begins with its request's."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:32]


def completion(body: JsonObject, said: ScriptedReply) -> JsonObject:
    """A response body as OpenAI writes it; four characters count as a token."""
    sent = sum(len(message.get("content") or "") // 4 + 4 for message in body["messages"])
    got = len(said.text) // 4 + 1
    message = {"role": "assistant", "content": said.text}
    return {
        "id": f"chatcmpl-{key_of(body)[:12]}",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": said.finish_reason}],
        "usage": {"prompt_tokens": sent, "completion_tokens": got, "total_tokens": sent + got},
    }


def events(whole: JsonObject) -> Iterator[str]:
    """A completion as server-sent events: a word at a time, and what it took with the last."""
    (choice,), head = whole["choices"], {**whole, "object": "chat.completion.chunk", "usage": None}
    for number, word in enumerate(choice["message"]["content"].split(" ")):
        delta = {"content": f" {word}"} if number else {"role": "assistant", "content": word}
        said = {"index": 0, "delta": delta, "finish_reason": None}
        yield f"data: {json.dumps({**head, 'choices': [said]})}\n\n"
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    ended = {**head, "choices": [last], "usage": whole["usage"]}
    yield f"data: {json.dumps(ended)}\n\ndata: [DONE]\n\n"


@dataclass(eq=False)
class FakeServer:
    """The endpoint. `async with FakeServer(script) as server:` or `with server.serve_in_thread():`.

    `script` is given each request's body. It returns the text of the answer, an object to be
    written as JSON, a ScriptedReply or a ScriptedFailure; a coroutine function may wait before.
    Raises ValueError for a failure nobody knows, or shares above 1.
    """

    script: Script = improvise
    _: KW_ONLY
    embeddings: Script = embed  # says the whole body, or a failure
    latency: float = 0.0  # seconds before each answer
    failures: Mapping[str, float] = field(default_factory=dict)  # shares; by status, or FAILURES
    retry_after: float = 1.0  # seconds that a share of 429 asks to wait, which comes at once
    places: int | None = None  # requests under way; one more gets 429
    key: str | None = None  # others get 401
    models: Sequence[str] | None = None  # others get 404
    modes: Sequence[str] = ("json_schema", "json_object")  # of response_format; others get 400
    log: str | Path | None = None  # a file that gets one line for each answer sent
    port: int = 0

    def __post_init__(self) -> None:
        self.received = self.answered = 0
        self.repeats = 0  # answers to a body that had been answered before
        self.busy = self.peak = 0  # requests under way, and most of them at once
        self.failed: Counter[str] = Counter()  # by name
        self.bodies: deque[JsonObject] = deque(maxlen=1000)
        self._seen: set[str] = set()
        self._dice = random.Random(0)
        self._failures: dict[ScriptedFailure, float] = {}
        for name, share in self.failures.items():
            if name not in FAILURES and not (name.isdecimal() and 400 <= int(name) <= 599):
                names = ", ".join(FAILURES)
                raise ValueError(f"failures: {name!r} is neither a status nor one of {names}")
            wait = self.retry_after if name == "429" else None
            self._failures[FAILURES.get(name) or ScriptedFailure(int(name), wait)] = share
        if sum(self.failures.values()) > 1:
            raise ValueError("failures: the shares are more than 1 together")
        self._runner: web.AppRunner | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def routes(self, app: web.Application) -> None:
        for path in (CHAT, EMBEDDINGS):
            app.router.add_post(path, self._answer)
        app.router.add_get("/v1/models", self._list)
        app.router.add_get("/counters", self._counters)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 2**20)
        self.routes(app)
        # Nothing is under way once a test is over that is worth waiting for.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, backlog=1024).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @contextmanager
    def serve_in_thread(self) -> Iterator[Self]:
        """Serve beside synchronous code, on an event loop of its own."""
        loop = asyncio.new_event_loop()
        loop.run_until_complete(self.__aenter__())
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.run_until_complete(self.__aexit__())
            loop.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.received += 1
        self.busy += 1
        self.peak = max(self.peak, self.busy)
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        try:
            if self.key not in (None, shown):
                # Like several real servers, it repeats the wrong one.
                words = error_body(f"Incorrect API key provided: {shown}.", "invalid_api_key")
                return self._fail(ScriptedFailure(401, body=words), request)
            body: JsonObject = json.loads(await request.read())
            self.bodies.append(body)
            if self.places is not None and self.busy > self.places:
                return self._fail(ScriptedFailure(429), request)
            failure = self.chance()
            if self.latency and not (failure and failure.status == 429):
                await asyncio.sleep(self.latency)
            said = failure or await self.say(body, request.path)
            if isinstance(said, ScriptedFailure):
                return self._fail(said, request)
            streamed = body.get("stream") is True and request.path == CHAT
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            if not streamed:
                response = web.Response(body=json.dumps(said).encode(), content_type=JSON)
            await response.prepare(request)
            for event in events(said) if streamed else ():
                await response.write(event.encode())
            await response.write_eof()
            self.count(body)
            return response
        finally:
            self.busy -= 1

    def chance(self) -> ScriptedFailure | None:
        """How the next request fails, if it does."""
        drawn = self._dice.random() if self._failures else 1.0
        for failure, share in self._failures.items():
            if drawn < share:
                return failure
            drawn -= share
        return None

    async def say(self, body: JsonObject, path: str = CHAT) -> JsonObject | ScriptedFailure:
        """What the endpoint has to say to a body."""
        model, kind = str(body.get("model")), (body.get("response_format") or {}).get("type")
        if self.models is not None and model not in self.models:
            words = error_body(f"The model `{model}` does not exist.", "model_not_found")
            return ScriptedFailure(404, body=words)
        if kind not in (None, "text", *self.modes):
            words = error_body(f"response_format of type `{kind}` is not supported.")
            return ScriptedFailure(400, body=words)
        said: Any = (self.script if path == CHAT else self.embeddings)(body)
        said = await said if inspect.isawaitable(said) else said
        if isinstance(said, ScriptedFailure):
            return said
        if path == EMBEDDINGS:
            return dict(said)
        if not isinstance(said, ScriptedReply):
            said = ScriptedReply(said if isinstance(said, str) else canonical(said), "stop")
        return completion(body, said)

    def _fail(self, failure: ScriptedFailure, request: web.Request) -> web.Response:
        self.failed[failure.name or str(failure.status)] += 1
        if failure.reset and (transport := request.transport):
            raw = transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, GOODBYE)
            transport.close()
        response = web.Response(status=failure.status, body=failure.body.encode())
        response.content_type = JSON if failure.body.startswith("{") else "text/plain"
        if failure.retry_after is not None:
            response.headers["Retry-After"] = str(failure.retry_after)
        return response

    def count(self, body: JsonObject) -> None:
        """An answer has been written to its socket."""
        key = key_of(body)
        self.answered += 1
        self.repeats += key in self._seen
        self._seen.add(key)
        if self.log:
            with Path(self.log).open("a", encoding="utf-8") as log:
                log.write(json.dumps({"key": key, "model": body.get("model")}) + "\n")

    async def _counters(self, request: web.Request) -> web.Response:
        counted = {"received": self.received, "answered": self.answered, "busy": self.busy}
        return web.json_response({**counted, "failed": self.failed})

    async def _list(self, request: web.Request) -> web.Response:
        names = ("fake",) if self.models is None else self.models
        entries = [{"id": name, "object": "model", "owned_by": "toolloom"} for name in names]
        return web.json_response({"object": "list", "data": entries})


FACETS = (
    *("price comparison", "appointment booking", "quality ratings", "opening hours"),
    *("delivery tracking", "membership renewal", "repair requests", "gift vouchers"),
)
SLIPS = 0.07  # share of acts in which the actor forgets or invents something
CITIES = ["Lisbon", "Oslo", "Turin", "Ghent", "Porto", "Malmö"]


def _field(name: str, kind: str, description: str, **more: Any) -> JsonObject:
    return {"name": name, "type": kind, "description": description, **more}


_OFFER = _field("offer_id", "string", "Code of the offer")
_CITY = _field("city", "string", "Name of the city", examples=CITIES)
_DAY = _field("day", "string", "Day it is for", format="date")
_PRICE = _field("price", "number", "Price in euros")
_COUNT = _field("quantity", "integer", "How many are wanted", examples=[2, 3, 4, 6, 8, 12])
_LEVEL = _field("level", "string", "Level of service", enum=["basic", "standard", "premium"])
_TEAM = _field("team", "string", "Who does it", examples=["north desk", "garden team", "pier crew"])
_EMAIL = _field("email", "string", "Address to write to")
# Verb, description, parameters, returned fields; {x} is the domain's topic. An offer's code,
# which the first returns, is what the later ones take.
DESIGNS: tuple[tuple[str, str, list[JsonObject], list[JsonObject]], ...] = (
    ("find", "Find the best offer for {x} in a city", [_CITY, _DAY], [_OFFER, _PRICE]),
    ("book", "Book an offer for {x} by its code", [_OFFER, _COUNT], [_PRICE, _TEAM]),
    ("estimate", "Estimate what {x} will cost", [_COUNT, _LEVEL], [_PRICE]),
    ("subscribe_to", "Send news about {x} to an email address", [_EMAIL, _LEVEL], [_TEAM]),
    ("assign", "Assign a team that looks after {x} on a day", [_DAY, _CITY], [_TEAM, _OFFER]),
    ("upgrade", "Upgrade an offer for {x} to another level", [_OFFER, _LEVEL], [_PRICE]),
)
OPENINGS = ("Can you", "Could you", "Please", "I would like you to")
SITUATIONS = ("We are getting ready for a busy season.", "My family is moving to a new home.")
TELLING = 0.5  # share of requests that begin with one of them
_WISH = re.compile(rf"(?:{'|'.join(OPENINGS)}) (.+?)[.?](?: |$)", re.IGNORECASE)
_FACT = re.compile(r"^\s*- (\w+) \(.*?\) = (.*)$")
_SAID = r"\bthe {} is (.+?)(?=,? and the [\w ]+ is |, the [\w ]+ is |[.?](?:\s|$))"
_NAMES = re.compile(r"^(?:Categories of services|Tools|Operations): (.*)$", re.MULTILINE)
_LINE = re.compile(r"^(User|Assistant) \d+:(.*)$", re.MULTILINE)
_VALUE = re.compile(r"(?: = | is the one with [\w.]+ )([^;,]+)")
AIMS = ("to give me some ideas", "to find out what suits me", "to help me with it")
_STOP = {"a", "an", "the", "for", "in", "to", "of", "its", "by", "what", "will", "about", "on"}


def name_domains(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """Things the category is about, each with a facet."""
    about = re.findall(r"Category: .*? \((.*)\)$", asked, re.MULTILINE)[-1]
    named = asked.partition("Already named:")[2].partition("\n")[0]
    count = int(re.findall(r"Name (\d+) new", asked)[-1])
    topics = [t.strip() for t in re.split(r",| and ", about) if t.strip()]
    pairs = [(t, f) for t in topics for f in FACETS if not {*t.split()} & {*f.split()}]
    dice.shuffle(pairs)
    pairs.sort(key=lambda pair: pair[0] in named)  # new topics first
    names = {f"{t} {f}": f"People use {f} for {t}." for t, f in list(dict(pairs).items())[:count]}
    return {"domains": [{"name": name, "description": told} for name, told in names.items()]}


def design_apis(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """A tool with the designs in their order, from a drawn start."""
    domain = re.search(r"Domain: (.*?) \(.*Design one tool with (\d+)", asked, re.DOTALL)
    assert domain, asked
    tool, count = domain[1], int(domain[2])
    topic = next((tool.removesuffix(f" {f}") for f in FACETS if tool.endswith(f)), tool)
    start = dice.choice((0, 0, 2, 4))
    apis: list[JsonObject] = []
    for number in range(count):
        verb, does, takes, gives = DESIGNS[(start + number) % len(DESIGNS)]
        name = re.sub(r"\W+", "_", f"{verb} {topic}".lower()).strip("_")
        fields = [dict(f, required=f is takes[0] or dice.random() < 0.7) for f in takes]
        told = {"name": name, "description": f"{does.format(x=topic)}."}
        apis.append({**told, "parameters": fields, "returns": gives})
    return {"tool": tool, "apis": apis}


def speak(asked: str, schema: JsonObject, dice: random.Random) -> str:
    """A user's turn: now and then a situation, then each wish with its values as «the city is
    Oslo», some forgotten."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    for line in asked.splitlines():
        if wish := re.match(r"^\d+\. (.+?)\.?$", line):
            parts.append((wish[1], []))
        elif (fact := _FACT.match(line)) and dice.random() > SLIPS:
            parts[-1][1].append(f"the {fact[1].replace('_', ' ')} is {fact[2]}")
    sentences = []
    for wish_text, facts in parts:
        if wish_text:
            opening = dice.choice(OPENINGS)
            mark = "?" if opening in OPENINGS[:2] else "."
            sentences.append(f"{opening} {wish_text[:1].lower()}{wish_text[1:]}{mark}")
        if facts:
            sentences.append(f"T{_listed(facts)[1:]}.")
    if len(parts) > 1 and dice.random() < TELLING:
        sentences.insert(0, dice.choice(SITUATIONS))
    return " ".join(sentences) or "I am not sure."


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + "".join(parts[-1:])


def assist(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """The assistant's next act: wish by wish what is still to do, else the answer."""
    before, _, rest = asked.partition("\nDialogue:\n")
    functions = [json.loads(line) for line in before.splitlines() if line.startswith("{")]
    lines = rest.partition("\nThe assistant's next act:")[0].splitlines()
    said = [(who, text) for who, _, text in (x.partition(": ") for x in lines) if text]
    results = [json.loads(text) for who, text in said if who.startswith("Result of")]
    made = [text.partition("(") for who, text in said if who == "Call"]
    done = [(m[0], json.loads(m[2][:-1]), r) for m, r in zip(made, results, strict=False)]
    calls: list[JsonObject] = []
    for wish, words in _wishes(text for who, text in said if who == "User"):
        due = _due(wish, words, functions, done)
        if isinstance(due, str):
            if not calls:
                return {"calls": [], "reply": due}
            break
        calls += due
        if calls and calls[-1]["name"] == "api_search":
            break
    if calls and dice.random() < SLIPS:
        calls[-1]["arguments"].popitem() if len(calls[-1]["arguments"]) > 1 else calls.clear()
    last = max(n for n, (who, _) in enumerate(said) if who == "User")
    seen = [json.loads(text) for who, text in said[last:] if who.startswith("Result of")]
    facts = [fact for result in seen for fact in _facts(result["response"])]
    told = " ".join(dict.fromkeys(facts)) or "It is done."
    slip = dice.random() < SLIPS and any(c.isdigit() for c in told)
    return {"calls": calls, "reply": "" if calls else told + " It takes 97 hours." * slip}


def _wishes(turns: Iterable[str]) -> list[tuple[str, str]]:
    """The user's wishes, each with the words that state its values; a turn without one adds to the
    wish before it."""
    wishes: list[tuple[str, str]] = []
    for text in turns:
        before, *parts = _WISH.split(text)
        if parts:
            wishes += zip(parts[::2], parts[1::2], strict=True)
        elif wishes:
            wishes[-1] = wishes[-1][0], f"{wishes[-1][1]} {before}"
    return wishes


def _due(
    wish: str, text: str, functions: list[JsonObject], done: Sequence[tuple[Any, ...]]
) -> str | list[JsonObject]:
    """Calls that are due for a wish, or words that end the turn. `done`: the name, arguments and
    result of each call so far."""
    wanted, names = _words(wish), {function["name"] for function in functions}
    others = [function for function in functions if function["name"] != "api_search"]
    fitting = {f["name"]: len(wanted & _words(f["description"])) for f in others}
    function = max(others, key=lambda f: fitting[f["name"]], default=None)
    if function is None or fitting[function["name"]] < 0.8 * len(wanted):
        arguments = {"keywords": " ".join(w for w in wish.split() if w.lower() not in _STOP)}
        if "api_search" not in names or ("api_search", arguments) in [call[:2] for call in done]:
            return "I am sorry, I cannot help with that: none of the functions I have does it."
        return [{"name": "api_search", "arguments": arguments}]
    name, required = function["name"], function["parameters"].get("required", ())
    arguments = {}
    for taken, schema in function["parameters"]["properties"].items():
        label = re.escape(taken.replace("_", " "))
        if said := re.findall(_SAID.format(label), text, re.IGNORECASE):
            arguments[taken] = _typed(said[-1], schema.get("type"))  # a correction comes last
        elif taken in required:
            for response in (result["response"] for _, _, result in done):
                if isinstance(response, dict) and taken in response:
                    arguments[taken] = response[taken]
    if missing := [name for name in required if name not in arguments]:
        return f"Which {missing[0].replace('_', ' ')} do you mean?"
    errors = [result["error"] for *call, result in done if call == [name, arguments]]
    if None in errors:
        return []
    if errors and ("try again" not in errors[-1].lower() or len(errors) > 2):
        return f"I am sorry, that could not be done: {errors[-1].partition(': ')[2]}."
    return [{"name": name, "arguments": arguments}]


def _facts(response: Any, label: str = "") -> Iterator[str]:
    """A response in sentences: a field each, at any depth; a text as it is; no lists of finds."""
    if isinstance(response, dict):
        for name, value in response.items():
            yield from _facts(value, f"{label} {name.replace('_', ' ')}".strip())
    elif isinstance(response, bool) and label:
        yield f"It is {'' if response else 'not '}{label}."
    elif isinstance(response, str) and not label:
        yield " ".join(response.split())
    elif label and response not in (None, "", []):
        shown = ", ".join(map(str, response)) if isinstance(response, list) else str(response)
        yield f"The {label} is {shown}."


def _words(text: str) -> set[str]:
    return {w for w in re.findall(r"\w+", text.lower()) if w not in _STOP}


def _typed(text: str, kind: Any) -> Any:
    """A value in the type its schema asks for, where the words allow it."""
    with suppress(ValueError):
        if kind in ("integer", "number"):
            return int(text) if kind == "integer" else float(text)
    if kind == "array":
        return text.split(", ")
    return text.lower() in ("yes", "true") if kind == "boolean" else text


def vote(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """A vote; one in six objects."""
    if dice.random() > 1 / 6:
        return {"explanation": "It reads well and is solved.", "accept": True, "broken": "none"}
    why = "The request sounds stiff."
    return {"explanation": why, "accept": False, "broken": "unnatural_query"}


def finish_request(asked: str, schema: JsonObject, dice: random.Random) -> str:
    """A request that names what it is given, now and then without the last of it."""
    names = (_NAMES.findall(asked) or [""])[-1].split("; ")
    if dice.random() < SLIPS:
        names.pop()
    return f"Please use {_listed(names) or 'anything'} {dice.choice(AIMS)}."


def word_turns(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """The words of a dialogue in a world: the values of its lines, and little else."""
    turns: list[JsonObject] = []
    for who, line in _LINE.findall(asked):
        values = ", ".join(value.strip() for value in _VALUE.findall(line))
        if who == "User":
            opening = dice.choice(OPENINGS) if not turns else "Yes,"
            turns.append({"user": f"{opening} see to this: {values or 'as you say'}."})
        elif "asks for a yes" in line:
            turns[-1]["assistant"] = f"I would do that, with {values or 'no cost'}. Shall I?"
        else:
            turns[-1]["assistant"] = f"That is done. It comes to {values or 'what you asked for'}."
    return {"person": "somebody in a hurry", "turns": turns, "likely": True}


SEARCHES = ("change or cancel", "list all of mine", "find or search", "details of one")

PARTS: dict[str, Callable[[str, JsonObject, random.Random], Scripted]] = {
    "You name application domains": name_domains,
    "You design web APIs": design_apis,
    "You write what a person says": speak,
    "You play the user": speak,
    "You play the assistant": assist,
    "You simulate the execution": lambda asked, schema, dice: invent(schema, str(dice.random())),
    "You test training data": vote,
    "A tester has rejected": lambda asked, schema, dice: {  # one objection in two stands
        "explanation": "Its first words are a command.",
        "upheld": dice.random() < 0.5,
    },
    "You find the part of a request": lambda text, *_: {"situation": int("\n1. " in f"\n{text}")},
    "You finish a person's request": finish_request,
    "You rate what people say": lambda asked, schema, dice: {
        **{metric: dice.choices((1, 2, 3), (1, 6, 13))[0] for metric in Metric},
        "explanation": "It reads well, if a little stiff.",
    },
    "You write what is said in a dialogue": word_turns,
    "You go on as the user of a": lambda asked, schema, dice: asked.rpartition(
        "What the user meant to say: "
    )[2].partition("\n")[0],
    "You are the assistant of the": lambda asked, schema, dice: {
        "keywords": SEARCHES[asked.count("Result of api_search") % len(SEARCHES)]
    },
}
"""How each of our prompts begins, and who answers it."""


WORDS = [
    *("amber", "anchor", "autumn", "basket", "bridge", "candle", "canyon", "cedar"),
    *("copper", "coral", "dawn", "ember", "falcon", "field", "forest", "garden"),
    *("glacier", "harbor", "island", "juniper", "lantern", "maple", "meadow", "mirror"),
    *("north", "ocean", "orchard", "pebble", "pine", "quartz", "river", "saffron"),
    *("silver", "summit", "timber", "valley", "velvet", "willow", "winter"),
]
DEEPEST = 8
DIMENSIONS = 256


def vector(text: str) -> list[float]:
    """The words of a text, each hashed to a direction, as one vector of length 1."""
    direction = [0.0] * DIMENSIONS
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    for word in re.findall(r"[^\W_]+", parted.lower()) or [text]:
        hashed = int.from_bytes(hashlib.sha256(word.encode("utf-8", "replace")).digest()[:8])
        direction[hashed % DIMENSIONS] += 1.0 if hashed >> 32 & 1 else -1.0
    length = math.hypot(*direction) or 1.0
    return [number / length for number in direction]


def invent(schema: JsonObject, seed: str) -> Any:
    """A value that fits a schema of the keywords that ours use, the same one for the same seed."""
    dice = random.Random(seed)

    def value(part: Any, depth: int) -> Any:
        part = part if isinstance(part, dict) else {}
        while isinstance(reference := part.get("$ref"), str) and depth <= DEEPEST:
            part, depth = schema, depth + 1
            for step in filter(None, reference.removeprefix("#").split("/")):
                part = part.get(step, {})
        if choices := part.get("enum") or part.get("examples"):
            return dice.choice(choices)
        for keyword in ("const", "default"):
            if keyword in part:
                return part[keyword]
        if choices := part.get("anyOf") or part.get("oneOf"):
            rest = {k: v for k, v in part.items() if k not in ("anyOf", "oneOf")}
            return value({**rest, **dice.choice(choices)}, depth)
        kinds = part.get("type") or ("object" if "properties" in part else "string")
        kind = kinds if isinstance(kinds, str) else next((k for k in kinds if k != "null"), "null")
        if kind == "object":
            properties, required = part.get("properties", {}), part.get("required", ())
            names = required if depth >= DEEPEST else dict.fromkeys([*properties, *required])
            return {name: value(properties.get(name, {}), depth + 1) for name in names}
        if kind == "array":
            least = part.get("minItems", 0 if depth >= DEEPEST else 1)
            count = min(max(least, 2), part.get("maxItems", max(least, 2)))
            return [value(part.get("items", {}), depth + 1) for _ in range(count)]
        if kind in ("integer", "number"):
            low: Any = part.get("minimum", part.get("exclusiveMinimum", 0))
            high: Any = part.get("maximum", part.get("exclusiveMaximum", low + 100))
            if kind == "integer":
                low, high = low + ("exclusiveMinimum" in part), high - ("exclusiveMaximum" in part)
                return dice.randint(math.ceil(low), math.floor(high))
            return round(low + (high - low) * dice.uniform(0.1, 0.9), 2) if high > low else low
        if kind == "boolean":
            return dice.random() < 0.5
        if kind == "null":
            return None
        text = FORMATS.get(part.get("format", ""), _two_words)(dice)
        while len(text) < part.get("minLength", 0):
            text += f" {_two_words(dice)}"
        return text[: part.get("maxLength", len(text))]

    return value(schema, 0)


def _two_words(dice: random.Random) -> str:
    return " ".join(dice.sample(WORDS, 2))


def _moment(dice: random.Random) -> dt.datetime:
    return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=dice.randrange(525_600))


FORMATS: dict[str, Callable[[random.Random], str]] = {
    "date": lambda dice: _moment(dice).date().isoformat(),
    "date-time": lambda dice: _moment(dice).isoformat().replace("+00:00", "Z"),
    "email": lambda dice: f"{dice.choice(WORDS)}@example.com",
    "uuid": lambda dice: f"{dice.getrandbits(32):08x}-0000-4000-8000-{dice.getrandbits(48):012x}",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m toolloom.llm.scripted",
        description="A scripted OpenAI-compatible endpoint on this machine.",
    )
    add = parser.add_argument
    add("--port", type=int, default=8123, help="0 takes a free one")
    add("--latency", type=float, default=0.0, help="seconds before each answer")
    add("--failures", default="", help="shares: 429=0.05,reset=0.01,truncated=0.01")
    add("--log", help="file that gets one line for each answer")
    add("--answer", help="what each answer says; unless given, the scripted agents answer")
    options = vars(parser.parse_args())
    if answer := options.pop("answer"):
        options["script"] = lambda _: answer
    pairs = (part.partition("=") for part in options["failures"].split(",") if part)
    options["failures"] = {name.strip(): float(share) for name, _, share in pairs}

    async def serve() -> None:
        async with FakeServer(**options) as server:
            print(f"serving on {server.base_url}", flush=True)
            await asyncio.Event().wait()

    with suppress(KeyboardInterrupt):
        asyncio.run(serve())


if __name__ == "__main__":
    main()
