"""The API agent's way with a small model: one small question at a time.

A model of a few hundred million parameters cannot write a whole API. It can say which real
operation an API for the domain is like, what it is called and does, and which of the real
operation's fields it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from toolloom.agents.ask import Answer, BadAnswer, Costs, Job, NoUsableAnswer, ask, one, shape
from toolloom.agents.drafts import build, snake
from toolloom.agents.wording import stems, twin
from toolloom.llm import Model
from toolloom.prompts import render
from toolloom.schemas import Api, Domain, JsonObject, Reason, seed_for
from toolloom.schemas.api import ApiField, Operation, PublicApi

VERBS = (
    "get", "find", "search", "list", "check", "compare", "estimate", "calculate",
    "book", "order", "schedule", "track", "suggest",
)  # fmt: skip
MOST = 3  # inputs, and outputs, of an API
EXTRA = 2  # example values asked for beyond the one the catalogue has
SYNTAX = frozenset(",;|*=[]{}<>")  # in an example: a query language, which no user speaks
# Fields about the form of an answer: no user ever speaks of them.
TECHNICAL = frozenset(
    """page per_page page_size limit offset count size sort order_by key token format callback
    fields include lang locale cursor skip take rows start end""".split()  # noqa: SIM905 - a table
)


NAME = shape(
    {"verb": {"enum": list(VERBS)}, "object": {"type": "string", "pattern": "^[a-z]+( [a-z]+)*$"}}
)


def sentence(verb: str) -> JsonObject:
    """Shape of a description that begins with `verb`."""
    return one(
        "description", {"type": "string", "pattern": f"^{verb.capitalize()}( [a-z',-]+)+\\.$"}
    )


def choice(names: Sequence[str], most: int) -> JsonObject:
    """Shape of an answer that chooses one to `most` of `names`."""
    items = {"type": "array", "items": {"enum": list(names)}, "minItems": 1, "maxItems": most}
    return one("fields", items)


def read_name(answer: Any, subject: str, taken: Iterable[str]) -> str:
    """The name of an answer. Raises BadAnswer for one off the subject or much like another."""
    words = [w for w in answer["object"].split() if w not in VERBS]
    name = snake(" ".join([answer["verb"], *words]))
    parts = name.split("_")
    if not 2 <= len(parts) <= 5 or len(set(parts)) < len(parts):
        raise BadAnswer(Reason.UNUSABLE_RESPONSE, f"«{name}» is not a verb and one to four words.")
    strange = set(stems(answer["object"])) - set(stems(subject))
    if strange:
        raise BadAnswer(Reason.UNUSABLE_RESPONSE, f"{sorted(strange)} is not of «{subject}».")
    other = twin(name, taken)
    if other:
        raise BadAnswer(Reason.NEAR_DUPLICATE, f"«{name}» is nearly «{other}».")
    return name


def read_description(answer: Any) -> str:
    """A description. Raises BadAnswer for one that repeats itself or does not end."""
    words = answer["description"].lower().rstrip(".").split()
    if not 4 <= len(words) <= 14 or len(set(words)) < 0.8 * len(words):
        raise BadAnswer(
            Reason.UNUSABLE_RESPONSE, f"«{answer['description']}» is no short sentence."
        )
    return str(answer["description"])


def read_value(answer: Any, known: Sequence[Any]) -> str:
    """One more example value. Raises BadAnswer for a known one or a sentence."""
    value = " ".join(str(answer["value"]).split())
    most = max(len(str(k).split()) for k in known) + 1
    if not value or len(value.split()) > most or twin(value, [str(k) for k in known]):
        raise BadAnswer(Reason.UNUSABLE_RESPONSE, f"«{value}» is no new value like {known}.")
    return value


async def design(
    domain: Domain, job: Job, count: int, examples: Sequence[PublicApi]
) -> Answer[list[Api | BadAnswer]]:
    """`count` APIs, each after the first with an input that the first one returns."""
    apis: list[Api | BadAnswer] = []
    costs = Costs()
    operations = [o for a in examples for o in a.operations]
    for number in range(count):
        first = next((m for m in apis if isinstance(m, Api)), None)
        draft = SmallDraft(domain, job.model, seed_for(job.seed, number), first)
        try:
            answer = await draft.whole(operations)
            costs.book(answer.costs)
            apis.append(build(domain, snake(domain.name), answer.value))
        except NoUsableAnswer as why:
            costs.book(why.costs)
            apis.append(BadAnswer(why.reason, why.detail))
        except BadAnswer as why:
            apis.append(why)
    return costs.answer(apis)


def usable(fields: Iterable[ApiField]) -> dict[str, ApiField]:
    """Fields a small model can fill and a user speaks of, by name."""
    return {
        f.name: f
        for f in fields
        if f.type not in ("array", "object", "boolean")
        and f.name not in TECHNICAL
        and len(f.name) > 2
        and not (isinstance(f.example, str) and SYNTAX & set(f.example))
    }


@dataclass(frozen=True)
class SmallDraft:
    """One API as a draft for `build`, after the tool's `first` one if there is one."""

    domain: Domain
    model: Model
    seed: int
    first: Api | None

    async def whole(self, operations: Sequence[Operation]) -> Answer[JsonObject]:
        """The real operation it is like, its name, its fields, its description."""
        costs = Costs()
        like = await costs.take(self._like(operations))
        name = await costs.take(self._name(like))
        inputs = list(usable(like.parameters).values())
        returned = [f for f in like.returns if f.type not in ("array", "object")][:MOST]
        taking = await costs.take(self._choose(name, like.does, inputs)) if inputs else []
        if self.first is not None:
            linked = await costs.take(self._link(name, like.does, self.first, returned))
            taking = [*linked, *(t for t in taking if t.name not in {f.name for f in linked})][
                :MOST
            ]
        labels, words = [f.name.replace("_", " ") for f in taking], name.split("_")
        told = {"domain": self.domain.name, "name": " ".join(words), "inputs": labels}
        prompt, form = render("api_describe", told), sentence(words[0])
        description = await costs.take(
            ask(self.model, prompt, read_description, schema=form, seed=self.seed, max_tokens=40)
        )
        rich = await costs.take_all(self._enrich(field, name) for field in taking)
        names = {f.name for f in rich}
        returns = [f for f in returned if f.name not in names] or returned
        draft = {"name": name, "description": description, "parameters": rich, "returns": returns}
        return costs.answer(draft)

    async def _like(self, operations: Sequence[Operation]) -> Answer[Operation]:
        """The real operation that an API for the domain is most like."""
        by_name = {o.name: o for o in operations if usable(o.parameters)}
        variables = {"domain": self.domain.name, "operations": list(by_name.values())}
        return await ask(
            self.model,
            render("api_like", variables),
            lambda a: by_name[a["operation"]],
            schema=one("operation", {"enum": list(by_name)}),
            seed=self.seed,
            max_tokens=40,
        )

    async def _name(self, like: Operation) -> Answer[str]:
        domain, taken = self.domain, [self.first.name] if self.first else []
        known = {"category": domain.category, "domain": domain.name}
        subject = f"{domain.name} {like.name} {like.does}"
        return await ask(
            self.model,
            render("api_name", {**known, "like": like, "taken": taken}),
            lambda a: read_name(a, subject, taken),
            schema=NAME,
            seed=self.seed,
            max_tokens=40,
        )

    async def _choose(
        self, name: str, does: str, fields: Sequence[ApiField]
    ) -> Answer[list[ApiField]]:
        """One to three of the fields, as the API's inputs; required ones stay."""
        names = list({f.name: f for f in fields})
        answer = await ask(
            self.model,
            render("api_fields", {"function": name, "does": does, "fields": names}),
            lambda a: a["fields"],
            schema=choice(names, MOST),
            seed=self.seed,
            max_tokens=60,
        )
        chosen = {*answer.value, *(f.name for f in fields if f.required)}
        return Answer([f for f in fields if f.name in chosen][:MOST], answer.costs)

    async def _link(
        self, name: str, does: str, first: Api, returned: Sequence[ApiField]
    ) -> Answer[list[ApiField]]:
        """The input that the tool's first API returns, so that the two can be chained."""
        fields = [
            ApiField(name=n, type=s["type"], description=s.get("description", ""), required=False)
            for n, s in first.fields.items()
            if s["type"] not in ("boolean", "number") and n not in {f.name for f in returned}
        ]
        if not fields:
            return Answer([], Costs())
        chosen = await self._choose(name, does, fields)
        linked = [f.model_copy(update={"required": True}) for f in chosen.value[:1]]
        return Answer(linked, chosen.costs)

    async def _enrich(self, field: ApiField, name: str) -> Answer[ApiField]:
        """The field with a few more example values, where it is text that a user words freely."""
        examples: list[Any] = [field.example]
        costs = Costs()
        # Plain words a small model can vary; codes it cannot.
        plain = re.fullmatch(r"[A-Za-z][a-z]*( [A-Za-z]?[a-z]+)*", str(field.example))
        if field.type != "string" or field.enum or not isinstance(field.example, str) or not plain:
            return costs.answer(field)
        about = {"field": field.name, "description": field.description, "function": name}
        for number in range(EXTRA):
            try:
                answer = await ask(
                    self.model,
                    render("api_example", {**about, "examples": list(examples)}),
                    lambda a: read_value(a, tuple(examples)),
                    schema=one("value", {"type": "string", "pattern": "^[A-Za-z]+( [A-Za-z]+)*$"}),
                    seed=seed_for(self.seed, field.name, number),
                    max_tokens=24,
                )
            except NoUsableAnswer as why:
                costs.book(why.costs)
                break
            costs.book(answer.costs)
            examples.append(answer.value)
        rich = field.model_copy(update={"example": None, "examples": tuple(examples)})
        return costs.answer(rich)
