"""Plays the agents from the words of our own prompts, without a model.

An actor for trying recipes and testing the machinery, not a source of training data: its
domains, APIs and sentences come from one small vocabulary. It reads nothing but the request, as
a model would; equal requests get equal answers, and now and then it forgets a value or objects.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from toolloom.llm import actor_rewriting
from toolloom.llm.invent import invent
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
    known = asked.partition("Already named:")[2].partition("\n")[0]
    count = int(re.findall(r"Name (\d+) new", asked)[-1])
    topics = [t.strip() for t in re.split(r",| and ", about) if t.strip()]
    pairs = [(t, f) for t in topics for f in FACETS if not {*t.split()} & {*f.split()}]
    dice.shuffle(pairs)
    pairs.sort(key=lambda pair: pair[0] in known)  # new topics first
    names = list(dict(pairs).items())[:count] or pairs[:count]
    return {
        "domains": [
            {"name": f"{t} {f}", "description": f"People use {f} for {t}."} for t, f in names
        ]
    }


def design_apis(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """A tool with the designs in their order, from a drawn start."""
    found = re.search(r"Domain: (.*?) \(.*Design one tool with (\d+)", asked, re.DOTALL)
    assert found, asked
    topic = next((found[1].removesuffix(f" {f}") for f in FACETS if found[1].endswith(f)), found[1])
    start = dice.choice((0, 0, 2, 4))
    apis = []
    for number in range(int(found[2])):
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
    return {"tool": found[1], "apis": apis}


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
            told = ", ".join(facts[:-1]) + " and " * (len(facts) > 1) + facts[-1]
            sentences.append(f"{told[:1].upper()}{told[1:]}.")
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
    turn: int


def assist(asked: str, schema: JsonObject, dice: random.Random) -> JsonObject:
    """The assistant's next act: wish by wish what is still to do, else the answer."""
    functions, said = _read(asked)
    scene = _Scene({f["name"]: f for f in functions}, said)
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
    told = scene.told()
    slip = dice.random() < SLIPS and any(c.isdigit() for c in told)
    return {"calls": calls, "reply": "" if calls else told + " It takes 97 hours." * slip}


def _read(asked: str) -> tuple[list[JsonObject], list[tuple[str, str]]]:
    """The functions and the (speaker, text) lines of the simulator's prompt."""
    known, _, rest = asked.partition("\nDialogue:\n")
    functions = [json.loads(line) for line in known.splitlines() if line.startswith("{")]
    lines = rest.partition("\nThe assistant's next act:")[0].splitlines()
    return functions, [(who, text) for who, _, text in (x.partition(": ") for x in lines) if text]


class _Scene:
    """What stands in the prompt: functions by name, the talk, calls with their results."""

    def __init__(self, functions: dict[str, JsonObject], said: list[tuple[str, str]]) -> None:
        self.functions = functions
        self.said = said
        calls = [t.partition("(") for who, t in said if who == "Call"]
        results = [json.loads(t) for who, t in said if who.startswith("Result of")]
        self.made = [
            (name, json.loads(text[:-1]), seen)
            for (name, _, text), seen in zip(calls, results, strict=False)
        ]

    def parts(self) -> list[_Wish]:
        """The user's wishes; a turn without one adds to the wish before it."""
        found: list[_Wish] = []
        for turn, text in enumerate(t for who, t in self.said if who == "User"):
            starts = [*_WISH.finditer(text)]
            for wish, after in zip(starts, [*starts[1:], None], strict=False):
                words = text[wish.end() : after.start() if after else None]
                found.append(_Wish(wish[1], words, turn))
            if not starts and found:
                found[-1].text += f" {text}"
                found[-1].turn = turn
        return found

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
        seen = [s["error"] for c, given, s in self.made if (c, given) == (name, arguments)]
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
        done = any((c, g) == ("api_search", arguments) for c, g, _ in self.made)
        if "api_search" not in self.functions or done:
            return "I am sorry, I cannot help with that: none of the functions I have does it."
        return [{"name": "api_search", "arguments": arguments}]

    def _arguments(self, function: JsonObject, part: _Wish) -> JsonObject:
        """Values the user said for this wish, or else an earlier result gave."""
        found: JsonObject = {}
        for name, schema in function["parameters"]["properties"].items():
            label = re.escape(name.replace("_", " "))
            if said := re.findall(_SAID.format(label), part.text, re.IGNORECASE):
                found[name] = _typed(said[-1], schema.get("type"))  # a correction comes last
            elif name in function["parameters"].get("required", ()):
                for result in (s["response"] for _, _, s in self.made):
                    if isinstance(result, dict) and name in result:
                        found[name] = result[name]
        return found

    def told(self) -> str:
        """What the last turn's calls found, each field in a sentence."""
        last = max(i for i, (who, _) in enumerate(self.said) if who == "User")
        seen = [json.loads(t) for who, t in self.said[last:] if who.startswith("Result of")]
        facts = [x for s in seen for x in _facts(s["response"])]
        return " ".join(dict.fromkeys(facts)) or "It is done."


def _fields(function: JsonObject) -> JsonObject:
    found: JsonObject = (function.get("returns") or {}).get("properties", {})
    return found


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


PARTS: dict[str, Callable[[str, JsonObject, random.Random], Any]] = {
    "You name application domains": name_domains,
    "You design web APIs": design_apis,
    "You write what a person says": speak,
    "You play the assistant": assist,
    "You simulate the execution": execute,
    "You play the user": speak,
    "You test training data": vote,
    "A tester has rejected": validate,
    "You find the part of a request": actor_rewriting.choose_situation,
    "You finish a person's request": actor_rewriting.finish_request,
    "You continue what a person says": actor_rewriting.continue_request,
    "You rate what people say": actor_rewriting.rate,
}
