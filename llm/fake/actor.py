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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from toolloom.schemas import JsonObject, canonical, digest

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


def execute(asked: str, schema: JsonObject, dice: random.Random) -> Any:
    """Any response that fits the return schema."""
    return invent(schema, str(dice.random()))


def vote(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """A vote; one in six objects."""
    if dice.random() > 1 / 6:
        return {"explanation": "It reads well and is solved.", "accept": True, "broken": "none"}
    why = "The request sounds stiff."
    return {"explanation": why, "accept": False, "broken": "unnatural_query"}


def validate(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """Whether an objection stands; one in two does."""
    return {"explanation": "Its first words are a command.", "upheld": dice.random() < 0.5}


@dataclass
class _Wish:
    """One wish of the user and the words that state its values."""

    wish: str
    text: str


def assist(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """The assistant's next act: wish by wish what is still to do, else the answer."""
    scene = _Scene(asked)
    calls: list[JsonObject] = []
    for part in scene.parts():
        act_or_reply = scene.next_for(part)
        if isinstance(act_or_reply, str):
            if not calls:
                return {"calls": [], "reply": act_or_reply}
            break
        calls += act_or_reply
        if calls and calls[-1]["name"] == "api_search":
            break
    if calls and dice.random() < SLIPS:
        calls[-1]["arguments"].popitem() if len(calls[-1]["arguments"]) > 1 else calls.clear()
    results = scene.results()
    slip = dice.random() < SLIPS and any(c.isdigit() for c in results)
    return {"calls": calls, "reply": "" if calls else results + " It takes 97 hours." * slip}


class _Scene:
    """What stands in the simulator's prompt: functions by name, the talk as (speaker, text), calls
    with their arguments and results."""

    def __init__(self, asked: str) -> None:
        before, _, rest = asked.partition("\nDialogue:\n")
        functions = [json.loads(line) for line in before.splitlines() if line.startswith("{")]
        self.functions: dict[str, JsonObject] = {f["name"]: f for f in functions}
        lines = rest.partition("\nThe assistant's next act:")[0].splitlines()
        self.said = said = [(w, text) for w, _, text in (x.partition(": ") for x in lines) if text]
        calls = [t.partition("(") for who, t in said if who == "Call"]
        results = [json.loads(t) for who, t in said if who.startswith("Result of")]
        self.calls = [
            (name, json.loads(text[:-1]), seen)
            for (name, _, text), seen in zip(calls, results, strict=False)
        ]

    def parts(self) -> list[_Wish]:
        """The user's wishes; a turn without one adds to the wish before it."""
        wishes: list[_Wish] = []
        for text in (t for who, t in self.said if who == "User"):
            starts = [*_WISH.finditer(text)]
            for wish, after in zip(starts, [*starts[1:], None], strict=False):
                words = text[wish.end() : after.start() if after else None]
                wishes.append(_Wish(wish[1], words))
            if not starts and wishes:
                wishes[-1].text += f" {text}"
        return wishes

    def next_for(self, part: _Wish) -> str | list[JsonObject]:
        """Calls that are due for a wish, or words that end the turn."""
        function = self._fitting(part)
        if function is None:
            return self._search(part)
        name = function["name"]
        arguments = self._arguments(function, part)
        missing = [n for n in function["parameters"].get("required", ()) if n not in arguments]
        if missing:
            return f"Which {missing[0].replace('_', ' ')} do you mean?"
        seen = [s["error"] for c, given, s in self.calls if (c, given) == (name, arguments)]
        if None in seen:
            return []
        if seen and ("try again" not in seen[-1].lower() or len(seen) > 2):
            return f"I am sorry, that could not be done: {seen[-1].partition(': ')[2]}."
        return [{"name": name, "arguments": arguments}]

    def _fitting(self, part: _Wish) -> JsonObject | None:
        """The function whose description has nearly all words of the wish."""
        wanted = _words(part.wish)
        others = (f for f in self.functions.values() if f["name"] != "api_search")
        best = max(others, key=lambda f: len(wanted & _words(f["description"])), default=None)
        if best is None or len(wanted & _words(best["description"])) < 0.8 * len(wanted):
            return None
        return best

    def _search(self, part: _Wish) -> str | list[JsonObject]:
        keywords = " ".join(w for w in part.wish.split() if w.lower() not in _STOP)
        arguments = {"keywords": keywords}
        done = any((c, g) == ("api_search", arguments) for c, g, _ in self.calls)
        if "api_search" not in self.functions or done:
            return "I am sorry, I cannot help with that: none of the functions I have does it."
        return [{"name": "api_search", "arguments": arguments}]

    def _arguments(self, function: JsonObject, part: _Wish) -> JsonObject:
        """Values the user said for this wish, or else an earlier result gave."""
        arguments: JsonObject = {}
        for name, schema in function["parameters"]["properties"].items():
            label = re.escape(name.replace("_", " "))
            if said := re.findall(_SAID.format(label), part.text, re.IGNORECASE):
                arguments[name] = _typed(said[-1], schema.get("type"))  # a correction comes last
            elif name in function["parameters"].get("required", ()):
                for result in (s["response"] for _, _, s in self.calls):
                    if isinstance(result, dict) and name in result:
                        arguments[name] = result[name]
        return arguments

    def results(self) -> str:
        """What the last turn's calls found, each field in a sentence."""
        last = max(i for i, (who, _) in enumerate(self.said) if who == "User")
        seen = [json.loads(t) for who, t in self.said[last:] if who.startswith("Result of")]
        facts = [x for s in seen for x in _facts(s["response"])]
        return " ".join(dict.fromkeys(facts)) or "It is done."


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


OMISSIONS = 0.07  # share of requests that name one thing too few
AIMS = ("to give me some ideas", "to find out what suits me", "to help me with it")
METRICS = ("plausibility", "conciseness", "relevance", "realness")
_NAMES = re.compile(r"^(?:Categories of services|Tools|Operations): (.*)$", re.MULTILINE)


def choose_situation(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """The first part that is offered."""
    return {"situation": 1 if re.search(r"^1\. ", asked, re.MULTILINE) else 0}


def finish_request(asked: str, schema: JsonObject, dice: random.Random) -> str:
    """A request that names what it is given, now and then without the last of it."""
    lists = _NAMES.findall(asked)
    names = lists[-1].split("; ") if lists else []
    if dice.random() < OMISSIONS:
        names = names[:-1]
    listed = ", ".join(names[:-1]) + " and " * (len(names) > 1) + "".join(names[-1:])
    return f"Please use {listed or 'anything'} {dice.choice(AIMS)}."


_LINE = re.compile(r"^(User|Assistant) \d+:(.*)$", re.MULTILINE)
_VALUE = re.compile(r"(?: = | is the one with [\w.]+ )([^;,]+)")


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


def rate(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """Marks: mostly good, seldom poor."""
    marks = {metric: dice.choices((1, 2, 3), (1, 6, 13))[0] for metric in METRICS}
    return {"explanation": "It reads well, if a little stiff.", **marks}


PARTS: dict[str, Callable[[str, JsonObject, random.Random], Any]] = {
    "You name application domains": name_domains,
    "You design web APIs": design_apis,
    "You write what a person says": speak,
    "You play the assistant": assist,
    "You simulate the execution": execute,
    "You play the user": speak,
    "You test training data": vote,
    "A tester has rejected": validate,
    "You find the part of a request": choose_situation,
    "You finish a person's request": finish_request,
    "You rate what people say": rate,
    "You write what is said in a dialogue": word_turns,
}


WORDS = [
    *("amber", "anchor", "autumn", "basket", "bridge", "candle", "canyon", "cedar"),
    *("copper", "coral", "dawn", "ember", "falcon", "field", "forest", "garden"),
    *("glacier", "harbor", "island", "juniper", "lantern", "maple", "meadow", "mirror"),
    *("north", "ocean", "orchard", "pebble", "pine", "quartz", "river", "saffron"),
    *("silver", "summit", "timber", "valley", "velvet", "willow", "winter"),
]
DEEPEST = 8
DIMENSIONS = 256


def invent(schema: JsonObject, seed: str) -> Any:
    """A value that fits the schema; the same schema and seed give the same value.

    Knows the keywords toolloom's own schemas use; ignores `pattern` and conditions.
    """
    return _Inventor(schema, random.Random(seed)).value(schema, 0)


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


class _Inventor:
    def __init__(self, root: JsonObject, dice: random.Random) -> None:
        self._root = root
        self._dice = dice

    def value(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict):
            return self._text({})
        schema = self._resolved(schema)
        for keyword in ("enum", "examples"):
            if schema.get(keyword):
                return self._dice.choice(schema[keyword])
        for keyword in ("const", "default"):
            if keyword in schema:
                return schema[keyword]
        for keyword in ("anyOf", "oneOf"):
            if schema.get(keyword):
                rest = {k: v for k, v in schema.items() if k != keyword}
                return self.value({**rest, **self._dice.choice(schema[keyword])}, depth)
        kinds = schema.get("type") or ("object" if "properties" in schema else "string")
        kind = kinds if isinstance(kinds, str) else next((k for k in kinds if k != "null"), "null")
        if kind == "object":
            properties = schema.get("properties", {})
            required = schema.get("required", ())
            names = required if depth >= DEEPEST else dict.fromkeys([*properties, *required])
            return {name: self.value(properties.get(name, {}), depth + 1) for name in names}
        if kind == "array":
            least = schema.get("minItems", 0 if depth >= DEEPEST else 1)
            count = min(max(least, 2), schema.get("maxItems", max(least, 2)))
            unique: dict[str, Any] = {}
            values = [self.value(schema.get("items", {}), depth + 1) for _ in range(count)]
            if not schema.get("uniqueItems"):
                return values
            for _ in range(100):
                unique.update({canonical(value): value for value in values})
                values = [self.value(schema.get("items", {}), depth + 1)]
                if len(unique) >= count:
                    break
            return list(unique.values())[:count]
        if kind in ("integer", "number"):
            whole = kind == "integer"
            low: Any = schema.get("minimum", schema.get("exclusiveMinimum", 0))
            low += 1 if whole and "exclusiveMinimum" in schema else 0
            high: Any = schema.get("maximum", schema.get("exclusiveMaximum", low + 100))
            high -= 1 if whole and "exclusiveMaximum" in schema else 0
            step = schema.get("multipleOf")
            if step:
                first, last = -(-low // step), high // step
                return step * self._dice.randint(int(first), int(max(first, last)))
            if whole:
                return self._dice.randint(int(-(-low // 1)), int(high // 1))
            # Strictly between the bounds, unless they meet.
            return (
                round(low + (high - low) * self._dice.uniform(0.1, 0.9), 2) if high > low else low
            )
        if kind == "boolean":
            return self._dice.random() < 0.5
        return None if kind == "null" else self._text(schema)

    def _resolved(self, schema: JsonObject) -> JsonObject:
        """The schema with its local reference and its `allOf` folded in."""
        for _ in range(DEEPEST):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                break
            rest = {k: v for k, v in schema.items() if k != "$ref"}
            target: Any = self._root
            for step in filter(None, reference.removeprefix("#").split("/")):
                step = step.replace("~1", "/").replace("~0", "~")
                target = target.get(step, {}) if isinstance(target, dict) else {}
            schema = {**(target if isinstance(target, dict) else {}), **rest}
        merged = dict(schema)
        for part in merged.pop("allOf", ()):
            part = self._resolved(part)
            properties = {**merged.get("properties", {}), **part.get("properties", {})}
            required = [*merged.get("required", ()), *part.get("required", ())]
            joined = {"properties": properties, "required": required} if properties else {}
            merged = {**merged, **part, **joined}
        return merged

    def _text(self, schema: JsonObject) -> str:
        text = FORMATS.get(schema.get("format", ""), _two_words)(self._dice)
        while len(text) < schema.get("minLength", 0):
            text += f" {_two_words(self._dice)}"
        return text[: schema.get("maxLength", len(text))]


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
