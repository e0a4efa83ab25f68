"""An accepted sample becomes a template by itself (tool manipulation, sections 4.1 and C.1).

What the user tells, what calls pass and what observations and replies repeat is one value each;
where there is no doubt which, it becomes slots that are filled together. Values that hang together
keep their order: a start and an end, a low and a high.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from toolloom.pipeline.checks.text.words import name_words as words_of_name
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.templates.mining.doubts import Span, TextPlaces, is_told, settle, weigh
from toolloom.pipeline.templates.mining.options import (
    MOST,
    FormUse,
    SampleSetting,
    ValueOptions,
    fill,
    in_words,
)
from toolloom.pipeline.templates.mining.survey import (
    Path,
    SampleValues,
    SeenValues,
    survey,
    written,
)
from toolloom.pipeline.templates.mining.variables import (
    ITSELF,
    TEXT,
    Variable,
    clock_of,
    day_of,
    is_number,
    said_as,
    variables,
)
from toolloom.schemas import Finding, JsonObject, Provenance, Reason, Rejected, Scenario, Split
from toolloom.schemas.template import CLOSE, OPEN, Choice, Template, marker

_LOWER = frozenset("min minimum low lower start from begin first open opens departs".split())  # noqa: SIM905 - words
_UPPER = frozenset("max maximum high upper end to until last close closes arrives".split())  # noqa: SIM905 - words
_TRIES = 40


def tied(pools: Sequence[ValueOptions]) -> list[list[ValueOptions]]:
    """The pools, parted into those whose values are drawn together."""
    groups: list[list[ValueOptions]] = []
    for pool in pools:
        near = [g for g in groups if any(_belong(pool.one, p.one) for p in g)]
        groups = [g for g in groups if g not in near]
        groups.append([p for g in near for p in g] + [pool])
    return groups


def _belong(one: Variable, other: Variable) -> bool:
    """All days of a dialogue keep their order, the times of a call, and the ends of a range."""
    if day_of(one.value) and day_of(other.value):
        return True
    ours, theirs = (  # their calls, and those that are planned
        {(None if leaf.side == "intent" else leaf.api, leaf.number) for leaf, _ in each.leaves}
        for each in (one, other)
    )
    if not ours & theirs:
        return False
    if clock_of(one.value) and clock_of(other.value):
        return True
    one_name, other_name = ({*words_of_name(each.first.name)} for each in (one, other))
    ends = any(
        a & _LOWER and b & _UPPER for a, b in ((one_name, other_name), (other_name, one_name))
    )
    return is_number(one.value) and is_number(other.value) and ends


def rows(group: Sequence[ValueOptions], rng: random.Random) -> list[tuple[tuple[Any, str], ...]]:
    """At most 64 different rows of the group's values, in the original's order of size."""
    if len(group) == 1:
        return [(value,) for value in group[0].values]
    original = tuple(pool.values[0] for pool in group)
    drawn = {original: None}
    for _ in range(MOST * 2):
        for _ in range(_TRIES):
            row = tuple(rng.choice(pool.values) for pool in group)
            if _order(row) == _order(original):
                drawn[row] = None
                break
    return list(drawn)[:MOST]


def _order(row: Sequence[tuple[Any, str]]) -> list[int]:
    return sorted(range(len(row)), key=lambda place: row[place][0])


STAGE = "templates"
_FINDINGS = 40
MOST_POOLS = 60
_MARK = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
_ARTICLE = re.compile(r"\b(an?)\s\Z", re.IGNORECASE)


def mine(sample: JsonObject, known: SeenValues, split: Split | None = None) -> Template | Rejected:
    """A sample, as JSON, as a template; or why none of its values may vary."""
    found = survey(sample)
    if isinstance(found, Finding):
        return _refused(sample, [found])
    all_, loose = variables(found)
    weigh(found, all_, loose)
    pools, places = _pools(found, all_, known)
    findings = [_finding(one) for one in all_ if is_told(one.doubt)][:_FINDINGS]
    if not any(pool.one.is_argument for pool in pools):
        nothing = "none of the values that the user tells may vary"
        why = Finding(check="mining", reason=Reason.NOTHING_TO_VARY, detail=nothing)
        return _refused(sample, [why, *findings])
    query, names = found.query, _names(pools)
    name, unserved = query["id"], query["scenario"] == Scenario.IRRELEVANCE
    apis = [intention["api"] for intention in query["intent"] if not unserved]
    skeleton = _skeleton(found, pools, places, names)
    goal = skeleton["dialogue"]["query"]["text"]
    return Template(
        id=name,
        kind="mined",
        goal=_MARK.sub(lambda m: "{" + m[1] + "}", goal),
        apis=tuple(apis),
        sample=skeleton,
        choices=tuple(_choices(pools, names, rng_for("mined", name, "ties"))),
        provenance=(Provenance(stage=STAGE, agent="", model="", seed=0, parents=(name,)),),
    ).model_copy(update={"split": split, "refused": tuple(findings)})


def _refused(sample: JsonObject, findings: Sequence[Finding]) -> Rejected:
    return Rejected.of(sample, STAGE, findings[:_FINDINGS], id=sample["dialogue"]["query"]["id"])


def _finding(one: Variable) -> Finding:
    reason = Reason.VALUE_NOT_MENTIONED if one.unsaid else Reason.AMBIGUOUS_VALUE
    reason = Reason.NOTHING_TO_VARY if one.doubt == ONLY else reason
    places = sorted({leaf.place for leaf, _ in one.leaves if leaf.place >= 0})
    where = f" (messages {', '.join(map(str, places))})" if places else ""
    detail = f"{one.about} = {str(one.value)[:60]}{where}: {one.doubt}"
    return Finding(check="mining", reason=reason, detail=detail)


ONLY = "no other value is known for it"


def _pools(
    found: SampleValues, all_: Sequence[Variable], known: SeenValues
) -> tuple[list[ValueOptions], Sequence[TextPlaces]]:
    """The values that vary, each with what it may be, and where they stand.

    A value that cannot vary is a part of the words that stay, so the others are weighed again.
    """
    query = found.query
    while True:
        places = settle(found, all_)
        pools = [
            ValueOptions(v, list(dict.fromkeys(_uses(v, places)))) for v in all_ if not v.doubt
        ]
        for pool in pools[MOST_POOLS:]:
            pool.one.refuse(f"a template has at most {MOST_POOLS} values that vary")
        constant = in_words("\n".join(" … ".join(_around(at.spans, at.text.text)) for at in places))
        setting = SampleSetting(found.now, query.get("language", "English"), known, constant)
        fill(pools[:MOST_POOLS], setting, rng_for("mined", query["id"]))
        lacking = [pool.one for pool in pools if len(pool.values) < 2]
        if not lacking:
            return pools, places
        for one in lacking:
            one.refuse(ONLY)


def _uses(one: Variable, places: Sequence[TextPlaces]) -> Iterator[FormUse]:
    own = {leaf.path for leaf, _ in one.leaves}
    yield from (FormUse(form) for _, form in one.leaves)
    for at in places:
        text = at.text.text
        for span in at.of(one) if at.text.path not in own else ():
            article = _ARTICLE.search(text[max(0, span.start - 4) : span.start])
            after = re.match(r"\s?[^\W\d_]{2,}", text[span.end : span.end + 12])
            yield FormUse(
                _form_at(span.form, one, len(text) == span.end - span.start),
                role="user" if at.text.role == "goal" else at.text.role,
                before=article[1] if article else "",
                after=after.group() if after else "",
            )


def _form_at(form: str, one: Variable, whole: bool) -> str:
    """A text that is nothing but a number needs the number as text."""
    return TEXT if whole and form == ITSELF and is_number(one.value) else form


def _names(pools: Sequence[ValueOptions]) -> dict[int, str]:
    """A name for each value that varies, by its identity; its slots' names begin with it."""
    found: dict[int, str] = {}
    for pool in pools:
        base = re.sub(r"\W+", "_", pool.one.first.name)[:40].strip("_") or "value"
        name, number = base, 2
        while any(
            name == n or n.startswith(f"{name}_") or name.startswith(f"{n}_")
            for n in found.values()
        ):
            name, number = f"{base}{number}", number + 1
        found[id(pool.one)] = name
    return found


def _slot(name: str, form: str) -> str:
    return f"{name}_{form}" if form else name


def _skeleton(
    found: SampleValues,
    pools: Sequence[ValueOptions],
    places: Sequence[TextPlaces],
    names: dict[int, str],
) -> JsonObject:
    """The sample with slots in place of what varies, and without how it was made."""
    tree = found.tree
    for at in places:
        _put(tree, at.text.path, _marked(at, names))
    for pool in pools:
        for leaf, form in pool.one.leaves:
            _put(tree, leaf.path, marker(_slot(names[id(pool.one)], form)))
    messages = tree["dialogue"]["messages"]
    for place, content in found.contents.items():
        messages[place]["content"] = written(messages[place]["content"], content)
    tree["dialogue"]["provenance"] = tree["dialogue"]["query"]["provenance"] = []
    return {**tree, "flags": [], "provenance": []}


def _around(spans: Iterable[tuple[Span, Variable]], text: str) -> Iterator[str]:
    """The parts of a text between values, with what is before the first and after the last."""
    start = 0
    for span, _ in spans:
        yield text[start : span.start]
        start = span.end
    yield text[start:]


def _marked(at: TextPlaces, names: dict[int, str]) -> str:
    text = at.text.text
    varying = [(span, one) for span, one in at.spans if id(one) in names]
    first, *rest = _around(varying, text)
    marks = (
        marker(_slot(names[id(one)], _form_at(span.form, one, len(text) == span.end - span.start)))
        for span, one in varying
    )
    return first + "".join(mark + after for mark, after in zip(marks, rest, strict=True))


def _put(tree: Any, path: Path, value: Any) -> None:
    for step in path[:-1]:
        tree = tree[step]
    tree[path[-1]] = value


def _choices(
    pools: Sequence[ValueOptions], names: dict[int, str], rng: random.Random
) -> Iterator[Choice]:
    for group in tied(pools):
        slots = [(number, form) for number, pool in enumerate(group) for form in pool.forms]
        found = rows(group, rng)
        sources = Counter(source for row in found for _, source in row)
        yield Choice(
            slots=tuple(_slot(names[id(group[number].one)], form) for number, form in slots),
            rows=tuple(
                tuple(
                    row[number][0] if form == ITSELF else said_as(row[number][0], form)
                    for number, form in slots
                )
                for row in found
            ),
            about="; ".join(pool.one.about for pool in group),
            sources=dict(sources),
        )
