"""Plays the agents from the words of our own prompts, without a model; invents values and vectors.

An actor for trying recipes and testing the machinery, not a source of training data: its
domains, APIs and sentences come from one small vocabulary. It reads nothing but the request, as
a model would; equal requests get equal answers, and now and then it forgets a value or objects.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from toolloom.schemas import JsonObject, digest

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
METRICS = ("plausibility", "conciseness", "relevance", "realness")
_STOP = {"a", "an", "the", "for", "in", "to", "of", "its", "by", "what", "will", "about", "on"}


def act(body: JsonObject, schema: JsonObject | None) -> Any:
    """The answer to one of our prompts, or None where it is not one."""
    messages = body["messages"]
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    asked = [m["content"] for m in messages if m["role"] == "user"]
    if len(asked) > 1 and asked[-1].startswith("That answer cannot be used"):
        asked.pop()
    for beginning, part in PARTS.items():
        if system.startswith(beginning) and asked:
            return part(
                asked[-1], schema or {}, random.Random(digest([messages, body.get("seed")]))
            )
    return None


def name_domains(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """Things the category is about, each with a facet."""
    about = re.findall(r"Category: .*? \((.*)\)$", asked, re.MULTILINE)[-1]
    named = asked.partition("Already named:")[2].partition("\n")[0]
    count = int(re.findall(r"Name (\d+) new", asked)[-1])
    topics = [t.strip() for t in re.split(r",| and ", about) if t.strip()]
    pairs = [(t, f) for t in topics for f in FACETS if not {*t.split()} & {*f.split()}]
    dice.shuffle(pairs)
    pairs.sort(key=lambda pair: pair[0] in named)  # new topics first
    names = list(dict(pairs).items())[:count] or pairs[:count]
    return {
        "domains": [
            {"name": f"{t} {f}", "description": f"People use {f} for {t}."} for t, f in names
        ]
    }


def design_apis(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """A tool with the designs in their order, from a drawn start."""
    domain = re.search(r"Domain: (.*?) \(.*Design one tool with (\d+)", asked, re.DOTALL)
    assert domain, asked
    tool, count = domain[1], int(domain[2])
    topic = next((tool.removesuffix(f" {f}") for f in FACETS if tool.endswith(f)), tool)
    start = dice.choice((0, 0, 2, 4))
    apis = []
    for number in range(count):
        verb, does, takes, gives = DESIGNS[(start + number) % len(DESIGNS)]
        name = re.sub(r"\W+", "_", f"{verb} {topic}".lower()).strip("_")
        fields = [dict(f, required=f is takes[0] or dice.random() < 0.7) for f in takes]
        apis.append(
            {
                "name": name,
                "description": f"{does.format(x=topic)}.",
                "parameters": fields,
                "returns": [dict(f) for f in gives],
            }
        )
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
            statement = ", ".join(facts[:-1]) + " and " * (len(facts) > 1) + facts[-1]
            sentences.append(f"{statement[:1].upper()}{statement[1:]}.")
    if len(parts) > 1 and dice.random() < TELLING:
        sentences.insert(0, dice.choice(SITUATIONS))
    return " ".join(sentences) or "I am not sure."


def assist(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """The assistant's next act: wish by wish what is still to do, else the answer."""
    before, _, rest = asked.partition("\nDialogue:\n")
    functions = [json.loads(line) for line in before.splitlines() if line.startswith("{")]
    lines = rest.partition("\nThe assistant's next act:")[0].splitlines()
    said = [(who, text) for who, _, text in (x.partition(": ") for x in lines) if text]
    results = [json.loads(text) for who, text in said if who.startswith("Result of")]
    made = [text.partition("(") for who, text in said if who == "Call"]
    done = [
        Done(name, json.loads(text[:-1]), result)
        for (name, _, text), result in zip(made, results, strict=False)
    ]
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


class Done(NamedTuple):
    """A call that was made, and what came of it."""

    name: str
    arguments: JsonObject
    result: JsonObject


def _wishes(turns: Iterable[str]) -> list[tuple[str, str]]:
    """The user's wishes, each with the words that state its values; a turn without one adds to the
    wish before it."""
    wishes: list[tuple[str, str]] = []
    for text in turns:
        starts = [*_WISH.finditer(text)]
        for wish, after in zip(starts, [*starts[1:], None], strict=False):
            wishes.append((wish[1], text[wish.end() : after.start() if after else None]))
        if not starts and wishes:
            wishes[-1] = wishes[-1][0], f"{wishes[-1][1]} {text}"
    return wishes


def _due(
    wish: str, text: str, functions: Sequence[JsonObject], done: Sequence[Done]
) -> str | list[JsonObject]:
    """Calls that are due for a wish, or words that end the turn."""
    wanted, names = _words(wish), {function["name"] for function in functions}
    others = [function for function in functions if function["name"] != "api_search"]
    fitting = {f["name"]: len(wanted & _words(f["description"])) for f in others}
    function = max(others, key=lambda f: fitting[f["name"]], default=None)
    if function is None or fitting[function["name"]] < 0.8 * len(wanted):
        arguments = {"keywords": " ".join(w for w in wish.split() if w.lower() not in _STOP)}
        sought = any((call.name, call.arguments) == ("api_search", arguments) for call in done)
        if "api_search" not in names or sought:
            return "I am sorry, I cannot help with that: none of the functions I have does it."
        return [{"name": "api_search", "arguments": arguments}]
    name, required = function["name"], function["parameters"].get("required", ())
    arguments = {}
    for field, schema in function["parameters"]["properties"].items():
        label = re.escape(field.replace("_", " "))
        if said := re.findall(_SAID.format(label), text, re.IGNORECASE):
            arguments[field] = _typed(said[-1], schema.get("type"))  # a correction comes last
        elif field in required:
            for response in (call.result["response"] for call in done):
                if isinstance(response, dict) and field in response:
                    arguments[field] = response[field]
    if missing := [field for field in required if field not in arguments]:
        return f"Which {missing[0].replace('_', ' ')} do you mean?"
    errors = [c.result["error"] for c in done if (c.name, c.arguments) == (name, arguments)]
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
    try:
        if kind in ("integer", "number"):
            return int(text) if kind == "integer" else float(text)
    except ValueError:
        return text
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
    lists = _NAMES.findall(asked)
    names = lists[-1].split("; ") if lists else []
    if dice.random() < SLIPS:
        names = names[:-1]
    listed = ", ".join(names[:-1]) + " and " * (len(names) > 1) + "".join(names[-1:])
    return f"Please use {listed or 'anything'} {dice.choice(AIMS)}."


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
    return {"person": "somebody in a hurry", "turns": turns}


PARTS: dict[str, Callable[[str, JsonObject, random.Random], Any]] = {
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
    "You find the part of a request": lambda asked, schema, dice: {
        "situation": int("\n1. " in f"\n{asked}")
    },
    "You finish a person's request": finish_request,
    "You rate what people say": lambda asked, schema, dice: {
        **{metric: dice.choices((1, 2, 3), (1, 6, 13))[0] for metric in METRICS},
        "explanation": "It reads well, if a little stiff.",
    },
    "You write what is said in a dialogue": word_turns,
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


def sentence(seed: str) -> str:
    """A few words that mean nothing."""
    words = random.Random(seed).sample(WORDS, 7)
    return f"{' '.join(words).capitalize()}."


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
    """A value that fits the schema; the same schema and seed give the same value.

    Knows the keywords that toolloom's own schemas use.
    """
    dice = random.Random(seed)

    def value(part: Any, depth: int) -> Any:
        part = part if isinstance(part, dict) else {}
        while isinstance(reference := part.get("$ref"), str) and depth <= DEEPEST:
            part, depth = schema, depth + 1
            for step in filter(None, reference.removeprefix("#").split("/")):
                part = part.get(step, {})
        for keyword in ("enum", "examples"):
            if part.get(keyword):
                return dice.choice(part[keyword])
        for keyword in ("const", "default"):
            if keyword in part:
                return part[keyword]
        for keyword in ("anyOf", "oneOf"):
            if part.get(keyword):
                rest = {k: v for k, v in part.items() if k != keyword}
                return value({**rest, **dice.choice(part[keyword])}, depth)
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
    year = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return year + dt.timedelta(minutes=dice.randrange(525_600))


FORMATS: dict[str, Callable[[random.Random], str]] = {
    "date": lambda dice: _moment(dice).date().isoformat(),
    "date-time": lambda dice: _moment(dice).isoformat().replace("+00:00", "Z"),
    "time": lambda dice: f"{_moment(dice):%H:%M:%S}Z",
    "email": lambda dice: f"{dice.choice(WORDS)}@example.com",
    "uri": lambda dice: f"https://example.com/{dice.choice(WORDS)}",
    "uuid": lambda dice: f"{dice.getrandbits(32):08x}-0000-4000-8000-{dice.getrandbits(48):012x}",
}
