"""A world as people write it, read into the record that the interpreter runs.

What stands in a world's YAML is short: `due: date(1..20) = since + 21 days`, `status:
choice(pending > shipped)`. Here each such text is read, every mistake is told with its place, and
all of them at once. docs/worlds.md is the page for those who write worlds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeAlias

from toolloom.pipeline.checks.world import grammar
from toolloom.pipeline.checks.world.grammar import Kind, Mistake, NameScope, Tree
from toolloom.pipeline.checks.world.interpreter import BROKEN, INVALID, PATTERNS, TOO_LARGE

Place: TypeAlias = tuple[str | int, ...]
Errors: TypeAlias = dict[str, dict[str, str]]  # of an operation, by code: `text`, and `fix`
FaultTold: TypeAlias = Callable[[Place, str], None]

MOST = {"entities": 40, "operations": 120, "steps": 24, "fields": 40, "rows": 200}
"""What a world may hold: enough for a good API, and bounded for a hostile file."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_QUOTED = r"'(?:[^'\\]|\\.)*'"
_FIELD = re.compile(
    r"(?P<type>->\s*[a-z_]+|list of [^(]+?|like [a-z_.]+|[a-z]+)"
    rf"(?:\((?P<inside>(?:{_QUOTED}|[^()'])*+|[^()]*)\))?"
    r"(?P<flags>(?:\s+(?:label|secret|free|known|unique|optional|other|empty))*)"
    r"(?:\s+=\s+(?P<derived>.+?))?(?:\s+--\s+(?P<about>.+))?"
)
_RANGE = re.compile(r"(?P<low>-?[\d.:]+?)\s*\.\.\s*(?P<high>-?[\d.:]+)(?:\s+by\s+(?P<by>[\d.]+))?")
_TYPES = {
    name: name for name in ("text", *grammar.NUMBERS, "boolean", *grammar.MOMENTS, "choice")
} | {"person": "text", "code": "text", "money": "number"}
_STEPS = ("require", "find", "let", "create", "update", "delete", "each")
_KEYS = {
    "world": {"world", "category", "tool", "about", "currency", "actor", "entities", "operations"}
    | {"policies", "promises"},
    "entity": {"key", "noun", "called", "rows", "fields", "data", "rules", "likely", "rising"},
    "operation": {"about", "args", "unknown", "steps", "returns"},
    "policy": {"says", "calls", "must", "first", "same", "one", "once", "consent", "words"},
    "promise": {"effects", "only_if", "after", "shows"},
    "step": {"when", "else", "fix", "as", "set", "do", *_STEPS},
}


@dataclass
class _World:
    """What is known of a world while it is read."""

    raw: Mapping[str, Any]
    fault: FaultTold
    entities: dict[str, dict[str, Kind]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    nouns: dict[str, str] = field(default_factory=dict)
    actor: str | None = None

    def scope(self) -> NameScope:
        names = {"me": grammar.row_of(self.actor)} if self.actor else {}
        return NameScope(self.entities, self.keys, names=names)

    def told(self, place: Place, act: Callable[..., Any], *values: Any) -> Any:
        """What an act gives for its values; its mistake is told, and gives nothing."""
        try:
            return act(*values)
        except Mistake as mistake:
            self.fault(place, str(mistake))
            return None

    def known(self, name: str, names: Iterable[str], place: Place, what: str) -> bool:
        """Whether a name is one of those that can stand at a place; another is a fault."""
        every = list(names)
        if name not in every:
            self.fault(place, f"`{name[:60]}` is {what}{grammar.near(name, every)}.")
        return name in every

    def mapping(self, value: Any, place: Place, kind: str = "") -> dict[str, Any]:
        """A mapping with known keys; anything else is a fault."""
        if not isinstance(value, dict):
            self.fault(place, "A mapping (`name: …`) is needed here.")
            return {}
        for key in value if kind else ():
            where = "in a step" if kind == "step" else "here"
            self.known(str(key), _KEYS[kind], (*place, key), f"unknown {where}")
        return value

    def listing(self, value: Any, place: Place) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            self.fault(place, "A list (`- …`) is needed here.")
            return []
        return value

    def text(self, value: Any, place: Place) -> str:
        if not isinstance(value, str) or not value.strip():
            self.fault(place, "A text is needed here.")
            return ""
        return value.strip()

    def named(
        self, value: Any, place: Place, most: str = "", form: re.Pattern[str] = _NAME
    ) -> Iterator[tuple[str, Any]]:
        """The entries of a mapping whose keys are names that tools can have."""
        entries = self.mapping(value, place)
        if most and len(entries) > MOST[most]:
            self.fault(place, f"A world has at most {MOST[most]} {most}; here are {len(entries)}.")
            entries = {}
        for name, inner in entries.items():
            free = form is _ARGUMENT or name not in grammar.WORDS  # `$limit` is no `limit`
            if isinstance(name, str) and form.fullmatch(name) and free:
                yield name, inner
            else:
                self.fault(
                    (*place, name),
                    f"{str(name)[:60]!r} cannot be a name: lower-case letters, digits and `_`, and "
                    "no word of the language.",
                )


def _written(value: Any) -> str:
    """The text of a term. Raises Mistake for what YAML takes for a list or a mapping."""
    if isinstance(value, (dict, list)):
        raise Mistake("A term is needed here; one that begins with `[` or `{` stands in quotes.")
    return str(value)


def read_world(raw: Any, fault: FaultTold) -> dict[str, Any]:
    """A world of a YAML value whose scalars are texts, as JSON for the interpreter.

    `fault` is told every mistake with its place; if it was, the result is of no use.
    """
    reader = _World({}, fault)
    reader.raw = reader.mapping(raw, (), "world")
    names = list(reader.named(reader.raw.get("entities"), ("entities",), "entities"))
    heads = {name: _declare(reader, name, spec) for name, spec in names}
    for name, spec in names:
        _fields(reader, name, spec)
    actor = str(reader.raw.get("actor") or "")
    if actor and reader.known(actor, reader.entities, ("actor",), "not an entity"):
        reader.actor = actor
    currency = str(reader.raw.get("currency", "$"))
    if not 0 < len(currency) <= 3:
        reader.fault(("currency",), f"{currency[:20]!r} is not a sign such as £, or a code.")
    entities = {name: _entity(reader, name, spec, heads[name]) for name, spec in names}
    _written_references(reader, entities)
    operations, scopes = {}, {}
    every = reader.raw.get("operations")
    for name, spec in reader.named(every, ("operations",), "operations", _TOOL_NAME):
        operations[name], scopes[name] = _operation(reader, name, spec)
    for name, operation in operations.items():
        for code, error in operation["errors"].items():
            if "fix" in error and error["fix"] not in operations:
                hints = grammar.near(error["fix"], operations)
                steps: Place = ("operations", name, "steps")
                fault(steps, f"The fix of `{code}` is not an operation{hints}.")
    return {
        "name": reader.text(reader.raw.get("world"), ("world",)),
        "category": str(reader.raw.get("category", "")),
        "tool": str(reader.raw.get("tool", "")),
        "about": str(reader.raw.get("about", "")),
        "currency": currency,
        "actor": reader.actor,
        "entities": entities,
        "operations": operations,
        "policies": _policies(reader, scopes),
        "promises": _promises(reader, scopes),
    }


# --- entities --------------------------------------------------------------------------------


def _declare(reader: _World, name: str, raw: Any) -> dict[str, Any]:
    """What an entity says of its key: others refer to it before it is read."""
    spec = reader.mapping(raw, ("entities", name), "entity")
    key = str(spec.get("key", ""))
    match = re.fullmatch(r"([a-z][a-z0-9_]*) ([A-Za-z]+[-_]?|#|(?=\d))(\d*)", key)
    if not match:
        reader.fault(
            ("entities", name, "key"),
            f"{key!r} is not a key: a field and a prefix are, as in `order_id ORD-`.",
        )
    field_name, prefix, first = match.groups() if match else (f"{name}_id", "", "1")
    whole = {"whole": True} if match and not prefix else {}
    reader.keys[name] = field_name
    reader.nouns[name] = str(spec.get("noun") or _singular(name))
    reader.entities[name] = {field_name: {"type": "ref", "entity": name, **whole}}
    return {
        "key": field_name,
        "prefix": prefix.lstrip("#"),
        **whole,
        "first": int(first or 1001),
        "noun": reader.nouns[name],
    }


def _singular(name: str) -> str:
    for ending, other in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("s", "")):
        if name.endswith(ending):
            return name.removesuffix(ending) + other
    return name


def _fields(reader: _World, name: str, raw: Any) -> None:
    place: Place = ("entities", name, "fields")
    spec = raw.get("fields") if isinstance(raw, dict) else None
    for field_name, text in reader.named(spec, place, "fields"):
        kind = kind_of(reader, text, (*place, field_name), ranges="draw")
        if field_name in reader.entities[name]:
            reader.fault((*place, field_name), f"`{field_name}` is the key already.")
        reader.entities[name][field_name] = kind
    for field_name, kind in reader.entities[name].items():
        hop = field_name.removesuffix("_id")
        if kind["type"] == "ref" and hop != field_name and hop in reader.entities[name]:
            reader.fault((*place, hop), f"`{hop}` is the row of `{field_name}` already.")


def kind_of(reader: _World, raw: Any, place: Place, ranges: str = "") -> Kind:
    """The type that a field or an argument is said to have.

    `ranges`: under which name bounds are kept: those of a field say what is drawn, those of an
    argument what is allowed.
    """
    if isinstance(raw, dict) and set(raw) <= {"list", "object", "about", "optional"} and raw:
        return _nested(reader, raw, place, ranges)
    text = reader.text(raw, place)
    match = _FIELD.fullmatch(text)
    if match is None:
        reader.fault(
            place,
            f"{text[:200]!r} is not a type; for instance `text label`, `integer(1..9)`, "
            "`-> orders`.",
        )
        return {"type": "any"}
    kind = _simple(reader, match["type"], match["inside"], place, ranges)
    kind |= dict.fromkeys(match["flags"].split(), True)
    if match["derived"]:
        kind["= "] = match["derived"]
    if match["about"]:
        kind["about"] = match["about"]
    return kind


def _nested(reader: _World, raw: dict[str, Any], place: Place, ranges: str) -> Kind:
    inner = raw.get("list", raw.get("object"))
    where = (*place, "list" if "list" in raw else "object")
    if isinstance(inner, dict):
        fields = {n: kind_of(reader, t, (*where, n), ranges) for n, t in reader.named(inner, where)}
        kind: Kind = {"type": "object", "fields": fields}
    else:
        kind = kind_of(reader, inner, where, ranges)
    if "list" in raw:
        kind = grammar.list_of(kind)
    if raw.get("optional") == "true":
        kind["optional"] = True
    if raw.get("about"):
        kind["about"] = str(raw["about"])
    return kind


def _simple(reader: _World, form: str, inside: str | None, place: Place, ranges: str) -> Kind:
    if form.startswith("->"):
        entity = form[2:].strip()
        if not reader.known(entity, reader.entities, place, "not an entity"):
            return {"type": "any"}
        own = next(iter(reader.entities[entity].values()))  # that of its key
        return {**own, "noun": reader.nouns[entity]}
    if form.startswith("list of "):
        item = form[8:] if inside is None else f"{form[8:]}({inside})"
        return grammar.list_of(kind_of(reader, item, place, ranges))
    if form.startswith("like "):
        entity, _, other = form[5:].partition(".")
        known = reader.entities.get(entity, {})
        if other not in known:
            reader.fault(place, f"`{form[5:]}` is not a field{grammar.near(other, known)}.")
            return {"type": "any"}
        taken = ("unique", "optional", "= ", "label", "known")
        return {n: v for n, v in known[other].items() if n not in taken} | {"like": form[5:]}
    if not reader.known(form, [*_TYPES, "->", "list of"], place, "not a type"):
        return {"type": "any"}
    kind: Kind = {"type": _TYPES[form]}
    if form in ("person", "money"):
        kind["role"] = form
    if form == "choice":
        _choices(reader, kind, inside or "", place)
    elif form == "text" and inside:
        kind["examples"] = [text for text, _ in _pieces(inside, ";") if text]
    elif form == "code":
        kind |= {"role": "code", "pattern": inside or "9999"}
    elif inside is not None:
        _bounds(reader, kind, inside, place, ranges)
    return kind


def _pieces(text: str, signs: str) -> Iterator[tuple[str, str]]:
    """What signs part, each with the sign behind it. One that has such a sign stands in quotes."""
    for piece, sign in re.findall(rf"\s*({_QUOTED}|[^{signs}]*)\s*([{signs}]|$)", text):
        yield grammar.unquoted(piece) if re.fullmatch(_QUOTED, piece) else piece.strip(), sign


def _choices(reader: _World, kind: Kind, inside: str, place: Place) -> None:
    """`a, b, c`, or with the ways that a value may go: `a > b > c; a > d`."""
    moves: dict[str, list[str]] = {}
    choices: list[str] = []
    steps: list[str] = []  # since the last `;`
    ways = False  # whether one of them leads to the next
    for step, sign in _pieces(inside, ",;>"):
        steps += [step] if step else []
        ways = ways or sign == ">"
        if sign in (";", ""):
            choices = list(dict.fromkeys((*choices, *steps)))
            for one, two in pairwise(steps) if ways else ():
                moves.setdefault(one, []).append(two)
            steps, ways = [], False
    if not choices:
        reader.fault(place, "A choice needs values: `choice(open, closed)`.")
    kind["choices"] = choices
    if moves:
        kind["moves"] = moves


def _bounds(reader: _World, kind: Kind, inside: str, place: Place, ranges: str) -> None:
    match = _RANGE.fullmatch(inside.strip())
    if not match:
        reader.fault(
            place, f"{inside!r} is not a range; `1..9`, `0..12 by 0.5` or `09:00..17:00` is."
        )
        return
    bounds: dict[str, Any] = {}
    for name, text in match.groupdict().items():
        if text and kind["type"] == "time" and name != "by":
            bounds[name] = text
        elif text:
            bounds[name] = float(text) if "." in text else int(text)
    if kind["type"] not in (*grammar.NUMBERS, *grammar.MOMENTS):
        reader.fault(place, f"A {kind['type']} has no range.")
    elif bounds["low"] > bounds["high"]:
        reader.fault(place, f"{inside!r} begins after its end.")
    elif ranges or kind["type"] not in grammar.NUMBERS:
        kind["draw"] = bounds
    else:
        kind |= bounds


def _entity(reader: _World, name: str, raw: Any, head: dict[str, Any]) -> dict[str, Any]:
    spec = raw if isinstance(raw, dict) else {}
    place: Place = ("entities", name)
    fields = {f: k for f, k in reader.entities[name].items() if f != reader.keys[name]}
    own = reader.scope().at("this", name, shown=True)
    for field_name, kind in fields.items():
        if "= " in kind:
            where = (*place, "fields", field_name)
            derived = reader.told(where, fitting, kind.pop("= "), own, kind)
            if derived is not None:
                kind["derived"] = derived
    rules = _clauses(reader, reader.listing(spec.get("rules"), place), own, (*place, "rules"))
    likely = _clauses(reader, reader.listing(spec.get("likely"), place), own, (*place, "likely"))
    rising = str(spec.get("rising", ""))
    if rising:
        reader.known(rising, fields, (*place, "rising"), "not a field")
    called = reader.told((*place, "called"), grammar.template, str(spec.get("called", "")), own)
    return {
        **head,
        "called": called,
        "rows": _row_range(reader, name, spec.get("rows"), (*place, "rows")),
        "fields": fields,
        "rules": rules,
        "likely": likely,
        "rising": rising,
        "data": _data(reader, name, spec.get("data"), (*place, "data")),
    }


def fitting(text: str, scope: NameScope, kind: Kind) -> Tree:
    """A term whose value a field or an argument of this type can have. Raises Mistake."""
    tree, found = grammar.term(text, scope)
    tree, found = grammar.as_key(tree, found, kind, scope)
    if not grammar.fits(kind, found):
        days = kind["type"] in ("date", "datetime") and found["type"] in grammar.NUMBERS
        hint = f": write `today + {text} days`" if days else ""
        need = f"{grammar.said(kind)} is needed{hint}"
        raise Mistake(f"{text!r} is {grammar.said(found)}, and {need}.")
    grammar.check_choice(tree, kind)
    return tree


def _row_range(reader: _World, name: str, raw: Any, place: Place) -> list[Any] | None:
    """How many rows are drawn: `7`, `4..9`, or for each row that a field refers to, `1..3 per
    order_id`."""
    if raw is None:
        return None
    match = re.fullmatch(r"(\d{1,4})(?:\s*\.\.\s*(\d{1,4}))?(?:\s+per\s+(\w+))?", str(raw))
    if not match or int(match[2] or match[1]) > MOST["rows"]:
        reader.fault(place, f"{str(raw)[:40]!r} is not a number of rows up to {MOST['rows']}.")
        return None
    per = match[3]
    if per and reader.entities[name].get(per, {}).get("type") != "ref":
        references = [f for f, k in reader.entities[name].items() if k["type"] == "ref"]
        hints = grammar.near(per, references)
        reader.fault(place, f"`{per}` of {name} refers to no entity{hints}.")
    return [int(match[1]), int(match[2] or match[1]), per]


EMPTY = ("null", "~", "", "nothing")
"""How a written row says that an optional field has no value; `""` is a value of `text empty`."""


def _data(reader: _World, name: str, raw: Any, place: Place) -> list[dict[str, Any]]:
    """Rows that are written out; fields that they leave out are drawn."""
    rows = reader.listing(raw, place)
    if len(rows) > MOST["rows"]:
        reader.fault(place, f"An entity has at most {MOST['rows']} rows; here are {len(rows):,}.")
        return []
    data = []
    for number, row in enumerate(rows):
        values: dict[str, Any] = {}
        for field_name, text in reader.mapping(row, (*place, number)).items():
            kind = reader.entities[name].get(field_name)
            where = (*place, number, field_name)
            if kind is None:
                hints = grammar.near(str(field_name), reader.entities[name])
                reader.fault(where, f"{name} has no field `{str(field_name)[:60]}`{hints}.")
            elif text in EMPTY and not (
                kind.get("empty") if text == "" else text in kind.get("choices", ())
            ):
                values[field_name] = None
                if not kind.get("optional"):
                    hint = "write a value, or leave the field out to have one drawn"
                    reader.fault(where, f"`{field_name}` is not optional: {hint}.")
            else:
                values[field_name] = reader.told(where, constant, kind, text)
        data.append(values)
    return data


def _written_references(reader: _World, entities: Mapping[str, dict[str, Any]]) -> None:
    """A written row refers to rows whose keys are written too: those of others are drawn."""
    keys = {n: {row.get(spec["key"]) for row in spec["data"]} for n, spec in entities.items()}
    for name, spec in entities.items():
        for number, row in enumerate(spec["data"]):
            for column, value in row.items():
                target = reader.entities[name][column].get("entity")
                if column != spec["key"] and target and value and value not in keys[target]:
                    key = f"{reader.keys[target]}: {str(value)[:40]}"
                    reader.fault(
                        ("entities", name, "data", number, column),
                        f"No row of {target} is written with this key: write `{key}` in its row.",
                    )


def constant(kind: Kind, raw: Any) -> Any:
    """A value as a file says it. Dates may be days from today: `-3`, `60`. Raises Mistake."""
    form = kind["type"]
    if form == "list":
        items = raw if isinstance(raw, list) else [part.strip() for part in str(raw).split(",")]
        return [constant(kind["of"], item) for item in items]
    text = str(raw).strip()
    if form in grammar.NUMBERS and re.fullmatch(r"-?\d{1,12}(\.\d{1,6})?", text):
        number = float(text)
        return int(number) if number.is_integer() else number
    if form == "boolean" and text in ("true", "false", "yes", "no"):
        return text in ("true", "yes")
    if form == "choice" and text in kind["choices"]:
        return text
    if form in ("text", "ref", "any"):
        return text
    if form in grammar.MOMENTS and re.fullmatch(r"[+-]?\d{1,3}(T\d\d:\d\d)?", text):
        return text if text[0] in "+-" else f"+{text}"
    if form in grammar.MOMENTS and PATTERNS[form].fullmatch(text):
        return text
    hint = ""
    if form in ("date", "datetime"):
        hint = "; write 2026-03-14" + "T09:30" * (form == "datetime") + ", or days from today: `+3`"
    raise Mistake(f"{text[:60]!r} is not {grammar.said(kind)}{hint}.")


# --- operations ------------------------------------------------------------------------------


def _operation(reader: _World, name: str, raw: Any) -> tuple[dict[str, Any], NameScope]:
    place: Place = ("operations", name)
    spec = reader.mapping(raw, place, "operation")
    scope = reader.scope()
    args: dict[str, Kind] = {}
    for arg, text in reader.named(spec.get("args", {}), (*place, "args"), form=_ARGUMENT):
        kind = kind_of(reader, text, (*place, "args", arg))
        args[arg] = kind
        if kind["type"] == "ref":
            kind["as"] = arg.removesuffix("_id")
            if kind["as"] in scope.names or kind["as"] in grammar.WORDS:
                named = f"`{kind['as']}` is the name of two rows, or a word of the language"
                reader.fault((*place, "args", arg), f"{named}: rename `{arg}`.")
            scope = scope.bound(kind["as"], {**grammar.row_of(kind["entity"]), "arg": arg})
    errors: Errors = {}
    unknown = {}
    plain = replace(reader.scope(), args=args)  # while rows are looked for, none has a name
    for arg, text in reader.mapping(spec.get("unknown", {}), (*place, "unknown")).items():
        where = (*place, "unknown", arg)
        keyed = (each for each, kind in args.items() if any(grammar.keys_of(kind)))
        if reader.known(str(arg), keyed, where, "no argument that names a row"):
            unknown[arg] = reader.told(where, _refusal, str(text), plain, errors)
    scope = given = replace(scope, args=args)
    raw_steps = reader.listing(spec.get("steps"), (*place, "steps"))
    if len(raw_steps) > MOST["steps"]:
        reader.fault((*place, "steps"), f"An operation has at most {MOST['steps']} steps.")
        raw_steps = []
    steps, scope = _steps(reader, raw_steps, scope, (*place, "steps"), errors, nested=False)
    returns, shape = None, grammar.NOTHING
    if spec.get("returns") is not None:
        where = (*place, "returns")
        returns, shape = _response(reader, spec["returns"], scope, where)
        if shape["type"] == "row":
            reader.fault(where, "A row needs the fields that are shown: `order[order_id, …]`.")
    operation = {
        "about": reader.text(spec.get("about"), (*place, "about")),
        "args": args,
        **({"unknown": unknown} if unknown else {}),
        "steps": steps,
        "returns": returns,
        "shape": shape,
        "errors": errors,
    }
    return operation, given


def _steps(
    reader: _World, raw: list[Any], scope: NameScope, place: Place, errors: Errors, nested: bool
) -> tuple[list[Tree], NameScope]:
    steps: list[Tree] = []
    for number, raw_step in enumerate(raw):
        where = (*place, number)
        spec = reader.mapping(raw_step, where, "step")
        acts = [act for act in _STEPS if act in spec]
        if len(acts) != 1:
            reader.fault(where, f"A step does one of {', '.join(_STEPS)}; here are {len(acts)}.")
            continue
        if acts[0] == "each" and nested:
            reader.fault(where, "`each` cannot stand in another `each`.")
            continue
        step = _Step(reader, spec, scope, where, errors)
        trees = reader.told(where, getattr(step, f"read_{acts[0]}"))
        if trees is None:  # what it would have named raises no mistakes of its own
            lets = spec["let"] if acts == ["let"] and isinstance(spec["let"], dict) else {}
            for name in (*lets, *([spec["as"]] if "as" in spec else [])):
                scope = scope.bound(str(name), grammar.ANY)
            continue
        if "when" in spec:
            asking = replace(scope, skips=False)
            test = reader.told((*where, "when"), grammar.clause, str(spec["when"]), asking)
            trees = [["when", test, tree] for tree in trees]
        steps += trees
        scope = step.scope
    return steps, scope


def _response(
    reader: _World, raw: Any, scope: NameScope, place: Place, inner: bool = False
) -> tuple[Tree, Kind]:
    """What is returned: a term, or an object of terms."""
    if not isinstance(raw, dict):
        act = grammar.entry if inner else grammar.term
        nothing = (["value", None], grammar.NOTHING)
        return reader.told(place, lambda: act(_written(raw), scope)) or nothing
    parts = {name: _response(reader, raw[name], scope, (*place, name), True) for name in raw}
    shape = {"type": "object", "fields": {name: kind for name, (_, kind) in parts.items()}}
    return ["view", [[name, tree] for name, (tree, _) in parts.items()]], shape


def _refusal(said: str, scope: NameScope, errors: Errors, fix: Any = None) -> tuple[str, Tree]:
    """The code and the text of an error: `twice: It was renewed twice.`"""
    code, _, text = said.partition(":")
    code, text = code.strip(), text.strip()
    if not _NAME.fullmatch(code) or not text:
        raise Mistake('`else` needs a code and a text: `else: "too_late: It was sent on {sent}."`')
    if code in (INVALID, BROKEN, TOO_LARGE):
        raise Mistake(f"`{code}` is what any call may end in: give the error another code.")
    tree = grammar.template(text, scope)
    errors.setdefault(code, {"text": text} | ({"fix": str(fix)} if fix else {}))
    return code, tree


@dataclass
class _Step:
    """One step of an operation while it is read; `scope` grows by what it names."""

    world: _World
    spec: Mapping[str, Any]
    scope: NameScope
    place: Place
    errors: Errors

    def refusal(self) -> tuple[str, Tree]:
        """The code and text after `else`."""
        said, fix = str(self.spec.get("else", "")), self.spec.get("fix")
        return _refusal(said, self.scope, self.errors, fix)

    def target(self, act: str) -> tuple[Tree, str]:
        """The row that an act changes, and its entity."""
        tree, kind = grammar.term(_written(self.spec[act]), self.scope)
        if kind["type"] == "ref":
            tree, kind = ["hop", tree, kind["entity"]], grammar.row_of(kind["entity"])
        if kind["type"] != "row":
            raise Mistake(f"`{act}` needs a row, and {self.spec[act]!r} is {grammar.said(kind)}.")
        return tree, kind["entity"]

    def sets(self, entity: str, scope: NameScope, new: bool = False) -> list[Any]:
        """New values of fields, of a new row of its key too, and the arguments without which one is
        not set."""
        fields: dict[str, Tree] = {}
        names: dict[str, list[str]] = {}
        columns = self.world.entities[entity]
        given = self.world.mapping(self.spec.get("set", {}), (*self.place, "set"))
        for name, text in given.items():
            if name not in columns or (name == self.world.keys[entity] and not new):
                hints = grammar.near(str(name), columns)
                raise Mistake(f"{entity} has no field `{name}` to set{hints}.")
            fields[name] = fitting(_written(text), scope, columns[name])
            if absent := grammar.absent_in(fields[name], scope):
                names[name] = absent
        return [fields, names]

    def read_require(self) -> list[Tree]:
        test = grammar.clause(_written(self.spec["require"]), self.scope)
        return [["require", test, *self.refusal()]]

    def read_find(self) -> list[Tree]:
        text = _written(self.spec["find"])
        tree, kind = grammar.term(text, self.scope)
        if kind["type"] == "list" and kind["of"]["type"] == "row":
            tree, kind = ["first", *tree[1:5]], kind["of"]
        if kind["type"] != "row":
            raise Mistake(f"`find` needs a search for rows, and {text!r} is {grammar.said(kind)}.")
        name = str(self.spec.get("as", "row"))
        step = ["find", name, tree, *self.refusal()]
        self.scope = self.scope.bound(name, kind)
        return [step]

    def read_let(self) -> list[Tree]:
        trees: list[Tree] = []
        for name, text in self.world.named(self.spec["let"], (*self.place, "let")):
            tree, kind = grammar.term(_written(text), self.scope)
            known = self.scope.names.get(name, kind)
            if not grammar.fits(known, kind):
                raise Mistake(f"`{name}` is {grammar.said(known)} already.")
            self.scope = self.scope.bound(name, kind)
            trees.append(["let", name, tree])
        if not trees:
            raise Mistake("`let` names a value: `let: {total: …}`.")
        return trees

    def read_create(self) -> list[Tree]:
        entity = str(self.spec["create"])
        if entity not in self.world.entities:
            hints = grammar.near(entity, self.world.entities)
            raise Mistake(f"`{entity[:60]}` is not an entity{hints}.")
        fields, names = self.sets(entity, self.scope, new=True)
        for name, kind in self.world.entities[entity].items():
            needed = not kind.get("optional") and "derived" not in kind and name not in fields
            if needed and name != self.world.keys[entity]:
                raise Mistake(f"A new row of {entity} needs `{name}`: set it, or make it optional.")
        alias = str(self.spec["as"]) if self.spec.get("as") else None
        if alias:
            self.scope = self.scope.bound(alias, grammar.row_of(entity))
        return [["create", entity, alias, fields, names]]

    def read_update(self) -> list[Tree]:
        tree, entity = self.target("update")
        own = self.scope.at("this", entity, shown=True)
        return [["update", entity, tree, *self.sets(entity, own)]]

    def read_delete(self) -> list[Tree]:
        tree, entity = self.target("delete")
        return [["delete", entity, tree]]

    def read_each(self) -> list[Tree]:
        text = _written(self.spec["each"])
        tree, kind = grammar.term(text, self.scope)
        if kind["type"] != "list":
            raise Mistake(f"`each` needs a list, and {text!r} is {grammar.said(kind)}.")
        name, place = str(self.spec.get("as", "item")), (*self.place, "do")
        raw = self.world.listing(self.spec.get("do"), place)[: MOST["steps"]]
        inner = self.scope.bound(name, kind["of"])
        steps, after = _steps(self.world, raw, inner, place, self.errors, nested=True)
        lets = {n: k for n, k in after.names.items() if n in self.scope.names}
        self.scope = replace(self.scope, names={**self.scope.names, **lets})
        entity = kind["of"].get("entity") if kind["of"]["type"] == "row" else None
        return [["each", name, tree, entity, steps]]


# --- policies and promises -------------------------------------------------------------------


def _clauses(reader: _World, raw: Any, scope: NameScope, place: Place) -> list[list[Any]]:
    texts = raw if isinstance(raw, list) else [raw] if raw is not None else []
    trees = []
    for number, text in enumerate(texts):
        trees.append([str(text), reader.told((*place, number), grammar.clause, str(text), scope)])
    return trees


def _policies(reader: _World, scopes: Mapping[str, NameScope]) -> list[dict[str, Any]]:
    policies = []
    for number, raw in enumerate(reader.listing(reader.raw.get("policies"), ("policies",))):
        place: Place = ("policies", number)
        spec = reader.mapping(raw, place, "policy")
        policy: dict[str, Any] = {"says": reader.text(spec.get("says"), (*place, "says"))}
        calls, firsts, same = (
            [str(name) for name in reader.listing(spec.get(key), (*place, key))]
            for key in ("calls", "first", "same")
        )
        for name in (*calls, *firsts):
            reader.known(name, scopes, place, "not an operation")
        policy["calls"] = calls
        known = [name for name in calls if name in scopes]
        if "must" in spec:
            must, where = spec["must"], (*place, "must")
            policy["must"] = {n: _clauses(reader, must, scopes[n], where) for n in known}
        for key in ("one", "once"):
            if key in spec:
                terms = {n: _compared(reader, spec[key], scopes[n], (*place, key)) for n in known}
                policy[key] = terms
        if firsts:
            policy |= {"first": firsts, "same": same}
        policy |= {key: True for key in ("consent", "words") if spec.get(key) == "true"}
        if set(policy) <= {"says", "calls"}:
            ways = "must, first, one, once, consent or words"
            reader.fault(place, f"A policy needs what holds it: {ways}.")
        policies.append(policy)
    return policies


def _compared(reader: _World, raw: Any, scope: NameScope, place: Place) -> Tree:
    """A term whose values of several calls are compared; of a row its key."""
    nothing = (["value", None], grammar.NOTHING)
    tree, kind = reader.told(place, lambda: grammar.term(_written(raw), scope)) or nothing
    return grammar.as_key(tree, kind, kind, scope)[0]


def _promises(reader: _World, scopes: Mapping[str, NameScope]) -> dict[str, Any]:
    promises = {}
    raw = reader.raw.get("promises") or {}
    for name, spec in reader.named(raw, ("promises",), form=_TOOL_NAME):
        place: Place = ("promises", name)
        if not reader.known(name, scopes, place, "not an operation"):
            continue
        promise = reader.mapping(spec, place, "promise")
        effects = []
        for number, text in enumerate(reader.listing(promise.get("effects"), (*place, "effects"))):
            effects.append(reader.told((*place, "effects", number), _effect, reader, str(text)))
        # What must hold for a call to succeed, by the error that it ends in otherwise.
        conditions = []
        told = promise.get("only_if") or {}
        for code, text in reader.named(told, (*place, "only_if"), form=_ARGUMENT):
            tree = reader.told((*place, "only_if", code), grammar.clause, str(text), scopes[name])
            conditions.append([code, str(text), tree])
        # What a response shows: a view, or a search without one for the rows whose keys it has.
        after, shows = replace(scopes[name], after=True), None
        if promise.get("shows") is not None:
            tree, kind = _response(reader, promise["shows"], after, (*place, "shows"))
            rows = kind["type"] == "list" and kind["of"]["type"] == "row"
            shows = [kind["of"]["entity"] if rows else None, tree]
        promises[name] = {
            "effects": effects,
            "only_if": conditions,
            "after": _clauses(reader, promise.get("after"), after, (*place, "after")),
            "shows": shows,
        }
    return promises


def _effect(reader: _World, text: str) -> list[str]:
    """`loans due set`, `holds created`: an entity, its field but for rows, and what comes of it."""
    words = text.split()
    entity = words[0] if words else ""
    if entity not in reader.entities:
        raise Mistake(f"`{entity}` is not an entity{grammar.near(entity, reader.entities)}.")
    if len(words) == 2 and words[1] in ("created", "deleted"):
        return [entity, "", words[1]]
    if len(words) == 3 and words[2] in ("set", "up", "down"):
        if words[1] not in reader.entities[entity]:
            hints = grammar.near(words[1], reader.entities[entity])
            raise Mistake(f"{entity} has no field `{words[1]}`{hints}.")
        return words
    raise Mistake(f"{text!r} is not an effect; `orders created` or `orders status set` is.")
