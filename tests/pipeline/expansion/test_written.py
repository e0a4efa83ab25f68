"""Templates that people write: what comes of a file, and how its mistakes are told."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.expansion.mould import Mould
from toolloom.pipeline.expansion.pools import FORMS, DerivedPool
from toolloom.pipeline.expansion.preview import preview
from toolloom.pipeline.expansion.written import Given, check_files, load_templates
from toolloom.pipeline.expansion.written_forms import CallForm, FileForm, TableForm, TemplateForm
from toolloom.schemas import Api, Scenario, SplitPlan, Template, TemplateFileError

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "templates"


def api(name: str, returns: Any = None, **properties: Any) -> Api:
    required = [n for n, schema in properties.items() if "default" not in schema]
    return Api(
        category="Travel",
        tool="hotels",
        name=name,
        function=name,
        description=f"{name.replace('_', ' ').capitalize()}.",
        parameters={"type": "object", "properties": properties, "required": required},
        returns=returns,
    )


CITY = {"type": "string", "description": "name of a city", "examples": ["Paris", "Rome", "Oslo"]}
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "celsius": {"type": "integer", "minimum": -20, "maximum": 40},
        "sky": {"enum": ["clear", "cloudy"]},
    },
    "required": ["city", "celsius", "sky"],
}
BOOKING = {
    "type": "object",
    "properties": {"booking_id": {"type": "string"}, "price": {"type": "integer"}},
    "required": ["booking_id", "price"],
}
APIS = (
    api("get_weather", WEATHER, city=CITY),
    api("book_room", BOOKING, city=CITY, guests={"type": "integer", "minimum": 1, "maximum": 9}),
    api("cancel_room", None, booking_id={"type": "string"}),
    api("set_language", None, language={"enum": ["en", "de"]}),
    api("add_note", None, text={"type": "string"}, urgent={"type": "boolean", "default": False}),
    api("read_note", {"type": "string"}, note={"type": "integer"}),
)


def load(folder: Path, text: str, **given: Any) -> list[Template]:
    path = folder / "t.yaml"
    path.write_text(text, encoding="utf-8")
    return load_templates([path], Given(APIS, **given))


def told(folder: Path, text: str) -> str:
    """The mistakes of a file, without its path."""
    with pytest.raises(TemplateFileError) as raised:
        load(folder, text)
    return str(raised.value).replace(str(folder / "t.yaml"), "FILE")


def template(goal: str, calls: str, rest: str = "", name: str = "one") -> str:
    """A file of one template: the goal stands in line 3, calls in 4, the rest from 5 on."""
    return f"templates:\n- name: {name}\n  goal: {json.dumps(goal)}\n  calls: {calls}\n{rest}"


def weather(goal: str = "How is the weather in {city}?", rest: str = "", city: str = "city") -> str:
    return template(goal, f'[{{api: get_weather, arguments: {{city: "{{{city}}}"}}}}]', rest)


def messages(one: Template, row: tuple[int, ...] | None = None) -> list[Any]:
    sample = Mould(one).sample(row or (0,) * len(one.choices), "x", 0)
    assert not inspect(sample.dialogue)
    return [*sample.dialogue.messages]


def choice(one: Template, slot: str) -> Any:
    return next(c for c in one.choices if slot in c.slots)


def test_a_slot_without_a_pool_takes_the_examples_of_its_argument(tmp_path: Path) -> None:
    """The schema of the argument is the pool of a slot that has none."""
    (one,) = load(tmp_path, weather())
    assert one.kind == "written"
    assert one.id == "written-one"
    assert one.split is None
    assert one.goal == "How is the weather in {city}?"
    assert one.apis == ("Travel/hotels/get_weather",)
    assert choice(one, "city").rows == (("Paris",), ("Rome",), ("Oslo",))
    assert choice(one, "city").sources == {"examples": 3}


def test_a_response_is_drawn_and_its_values_are_slots(tmp_path: Path) -> None:
    """Without `response` and `answer` both are made: arguments come back, the rest varies."""
    (one,) = load(tmp_path, weather())
    seen = messages(one)
    response = json.loads(seen[-2].content)["response"]
    assert response["city"] == "Paris"
    assert seen[-1].content == (
        f"The celsius is {response['celsius']}. The sky is {response['sky']}."
    )
    assert choice(one, "sky").sources == {"enum": 2}


def test_a_field_takes_the_pool_of_its_name(tmp_path: Path) -> None:
    """A pool that is named like a field of a drawn response holds the field's values."""
    rest = "  answer: It has {celsius} degrees.\n  pools: {celsius: {range: [3, 5]}}\n"
    (one,) = load(tmp_path, weather(rest=rest))
    assert choice(one, "celsius").rows == ((3,), (4,), (5,))
    assert messages(one)[-1].content == "It has 3 degrees."


def test_a_field_that_means_something_else_is_a_slot_of_its_own(tmp_path: Path) -> None:
    """A slot of the goal whose values do not fit a field of its name is not that field."""
    text = weather("Is it {sky} in {city}?", "  pools: {sky: [bright, grey]}\n")
    (one,) = load(tmp_path, text.replace("name: one", "name: one\n  answer: It is {sky_2}."))
    assert choice(one, "sky").rows == (("bright",), ("grey",))
    assert set(choice(one, "sky_2").rows) == {("clear",), ("cloudy",)}


def test_a_value_of_a_pool_keeps_its_type_where_it_stands_alone(tmp_path: Path) -> None:
    """`"{guests}"` is the number itself; inside a longer text it is the number's text."""
    calls = '[{api: book_room, arguments: {city: "{city}", guests: "{guests}"}}]'
    rest = "  pools: {guests: [2, 4], city: [Oslo]}\n"
    (one,) = load(tmp_path, template("A room in {city} for {guests} guests, please.", calls, rest))
    called = messages(one)[2].tool_calls[0].function
    assert called.arguments == {"city": "Oslo", "guests": 2}
    assert "for 2 guests" in messages(one)[1].content


def test_what_an_earlier_call_finds_out_is_a_reference(tmp_path: Path) -> None:
    """A value that the goal does not say comes from a field of an earlier response."""
    calls = (
        '[{api: book_room, arguments: {city: "{city}", guests: 2}}, '
        '{api: cancel_room, arguments: {booking_id: "{booking_id}"}}]'
    )
    (one,) = load(tmp_path, template("Book a room in {city} for 2, then cancel it.", calls))
    query = one.sample["dialogue"]["query"]
    assert query["scenario"] == Scenario.SEQUENTIAL
    assert query["intent"][1]["arguments"] == {}
    assert query["intent"][1]["references"] == {"booking_id": {"call": 0, "field": "booking_id"}}
    roles = [m.role for m in messages(one)]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "assistant"]


def test_calls_that_do_not_need_each_other_are_made_at_once(tmp_path: Path) -> None:
    """Two calls of one API in one act; each result has values of its own."""
    calls = (
        '[{api: get_weather, arguments: {city: "{here}"}}, '
        '{api: get_weather, arguments: {city: "{there}"}}]'
    )
    rest = "  pools: {here: [Bern, Basel], there: [Lyon, Nice]}\n"
    (one,) = load(tmp_path, template("Weather in {here} and in {there}?", calls, rest))
    assert one.sample["dialogue"]["query"]["scenario"] == Scenario.PARALLEL
    assert len(messages(one)[2].tool_calls) == 2
    assert choice(one, "celsius") is not choice(one, "celsius_2")
    assert messages(one)[-1].content.startswith("For Bern, the celsius is ")


def test_several_goals_are_as_many_templates(tmp_path: Path) -> None:
    """Paraphrases are numbered from 1."""
    text = (
        "templates:\n- name: sky\n  goals: ['Weather in {city}?', 'How is {city} today?']\n"
        '  calls: [{api: get_weather, arguments: {city: "{city}"}}]\n'
    )
    assert [one.id for one in load(tmp_path, text)] == ["written-sky-1", "written-sky-2"]


def test_a_derived_value_is_a_column_of_its_origin(tmp_path: Path) -> None:
    """Derivations of derivations too; `map` is looked up by the value."""
    calls = '[{api: set_language, arguments: {language: "{code}"}}]'
    rest = (
        "  pools:\n    language: [English, German]\n"
        "    code: {of: language, map: {English: en, German: de}}\n"
    )
    (one,) = load(tmp_path, template("Talk {language} to me.", calls, rest))
    assert one.choices[0].slots == ("language", "code")
    assert one.choices[0].rows == (("English", "en"), ("German", "de"))


def test_rows_of_a_table_stay_together(tmp_path: Path) -> None:
    """`together` is one choice, and what is derived from one of its slots joins it."""
    calls = '[{api: book_room, arguments: {city: "{city}", guests: "{guests}"}}]'
    rest = (
        "  together: [{slots: [city, guests], rows: [[Oslo, 2], [Rome, 5]]}]\n"
        "  pools: {shout: {of: city, as: upper}}\n  answer: '{shout}! Booking {booking_id}.'\n"
    )
    (one,) = load(tmp_path, template("{guests} people want a room in {city}.", calls, rest))
    assert choice(one, "city").slots == ("city", "guests", "shout")
    assert choice(one, "city").rows[1] == ("Rome", 5, "ROME")


def test_pools_of_the_file_serve_every_template(tmp_path: Path) -> None:
    """A template's own pool goes before the file's."""
    call = '  calls: [{api: get_weather, arguments: {city: "{city}"}}]\n'
    text = (
        "pools: {city: [Bonn]}\ntemplates:\n"
        f"- name: a\n  goal: Weather in {{city}}?\n{call}"
        f"- name: b\n  goal: Is it nice in {{city}}?\n{call}  pools: {{city: [Kiel]}}\n"
    )
    first, second = load(tmp_path, text)
    assert choice(first, "city").rows == (("Bonn",),)
    assert choice(second, "city").rows == (("Kiel",),)


def test_doubled_braces_are_braces(tmp_path: Path) -> None:
    """`{{` and `}}` are letters of the text."""
    calls = '[{api: add_note, arguments: {text: "{{{text}}}"}}]'
    rest = "  pools: {text: [buy milk, call Ada]}\n"
    (one,) = load(tmp_path, template("Note this: {text}", calls, rest))
    arguments = one.sample["dialogue"]["query"]["intent"][0]["arguments"]
    assert arguments["text"].startswith("{")
    assert arguments["text"].endswith("}")


def test_the_pool_holds_distractors_and_the_present_is_told(tmp_path: Path) -> None:
    """The sample is whole: other APIs on offer, a system turn with the moment."""
    (one,) = load(tmp_path, weather(rest="  now: 2026-03-02T09:30\n"), distractors=2)
    assert len(one.sample["dialogue"]["query"]["pool"]) == 3
    assert "Monday 2026-03-02 09:30" in messages(one)[0].content


def test_no_api_that_is_held_out_is_a_distractor(tmp_path: Path) -> None:
    """A template of seen APIs is shown with seen ones alone, one of unseen ones with all."""
    sea = APIS[2].model_copy(update={"category": "Sea", "function": "sea_cancel"})
    splits = SplitPlan(seen=("Travel",), unseen=("Sea",))
    path = tmp_path / "t.yaml"
    path.write_text(weather())
    (one,) = load_templates([path], Given((*APIS, sea), distractors=9, splits=splits))
    assert {a["category"] for a in one.sample["dialogue"]["query"]["pool"]} == {"Travel"}
    calls = '[{api: sea_cancel, arguments: {booking_id: "{id}"}}]'
    path.write_text(template("Cancel my booking {id}.", calls, "  pools: {id: [B-1, B-2]}\n"))
    (one,) = load_templates([path], Given((*APIS, sea), distractors=9, splits=splits))
    assert len(one.sample["dialogue"]["query"]["pool"]) == len(APIS) + 1


def test_the_same_seed_draws_the_same_templates(tmp_path: Path) -> None:
    """Values depend on the seed and the names, not on what else is in the file."""
    assert load(tmp_path, weather(), seed=3) == load(tmp_path, weather(), seed=3)
    assert load(tmp_path, weather(), seed=3) != load(tmp_path, weather(), seed=4)


@pytest.mark.parametrize("name", ["household", "bookshop"])
def test_the_examples_preview_cleanly(name: str) -> None:
    """The files that we ship name their APIs, and every shown row passes the certain checks."""
    found = load_templates([EXAMPLES / f"{name}.yaml"])
    assert len(found) >= 4
    for one in found:
        shown = preview(one, 5)
        assert not [row.findings for row in shown.rows if row.findings]
        assert shown.possible >= 3


MISTAKES = {
    "a slot that nothing fills": (
        weather("Weather in {city} on {dya}?", "  pools: {day: [Monday]}\n"),
        "FILE has 2 mistakes:\n"
        "  line 3: templates[0].goal: nothing gives `{dya}` a value: write a pool for it; did you "
        "mean `day`?\n"
        "  line 5: templates[0].pools.day: no text has the slot `{day}`; did you mean `{dya}`?",
    ),
    "a pool for no slot": (
        weather(rest="  pools: {guests: [1, 2]}\n"),
        "FILE has 1 mistake:\n  line 5: templates[0].pools.guests: no text has the slot "
        "`{guests}`.",
    ),
    "a pool of the file for no template": (
        "pools: {guests: [1]}\n" + weather(),
        "FILE has 1 mistake:\n  line 1: pools.guests: no template has the slot `{guests}`.",
    ),
    "an unknown API": (
        template("Weather in {city}?", '[{api: get_wether, arguments: {city: "{city}"}}]'),
        "FILE has 1 mistake:\n  line 4: templates[0].calls[0].api: there is no API `get_wether`; "
        "did you mean `get_weather`?",
    ),
    "an unknown argument": (
        template("Weather in {city}?", '[{api: get_weather, arguments: {ctiy: "{city}"}}]'),
        "FILE has 2 mistakes:\n"
        "  line 4: templates[0].calls[0].arguments.ctiy: get_weather has no argument `ctiy`; did "
        "you mean `city`?\n"
        "  line 4: templates[0].calls[0].arguments: get_weather also needs `city`.",
    ),
    "a value of a pool that does not fit": (
        template(
            "A room in {city} for {guests}.",
            '[{api: book_room, arguments: {city: "{city}", guests: "{guests}"}}]',
            "  pools:\n    guests:\n      - 2\n      - many\n",
        ),
        'FILE has 1 mistake:\n  line 8: templates[0].pools.guests[1]: "many" is no argument guests '
        "of Travel/hotels/book_room: 'many' is not of type 'integer'.",
    ),
    "a written value that does not fit": (
        template(
            "A room in {city}.", '[{api: book_room, arguments: {city: "{city}", guests: 99}}]'
        ),
        "FILE has 1 mistake:\n  line 4: templates[0].calls[0].arguments.guests: 99 is no argument "
        "guests of Travel/hotels/book_room: 99 is greater than the maximum of 9.",
    ),
    "a field's pool that does not fit": (
        weather(rest="  pools: {celsius: [warm]}\n"),
        'FILE has 1 mistake:\n  line 5: templates[0].pools.celsius[0]: "warm" is no field celsius '
        "of the response of Travel/hotels/get_weather: 'warm' is not of type 'integer'.",
    ),
    "a response that does not fit": (
        template(
            "Weather in {city}?",
            '[{api: get_weather, arguments: {city: "{city}"}, response: {city: "{city}"}}]',
        ),
        "FILE has 1 mistake:\n  line 4: templates[0].calls[0].response: Travel/hotels/get_weather "
        "returns no such thing: 'celsius' is a required property.",
    ),
    "a response that nothing describes": (
        template("Read note {n}.", '[{api: read_note, arguments: {note: "{n}"}}]'),
        "FILE has 1 mistake:\n  line 4: templates[0].calls[0]: nothing says what `result` in the "
        "response of Travel/hotels/read_note looks like; write a `response`.",
    ),
    "an argument that nobody says": (
        weather("Is it {sky} outside?", "  pools: {sky: [clear], city: [Rome]}\n"),
        "FILE has 1 mistake:\n  line 4: templates[0].calls[0].arguments.city: nobody says "
        "`{city}`: neither the goal, nor a field of an earlier response, nor what it is derived "
        "from.",
    ),
    "derived from nothing": (
        weather("Weather in {city}?", "  pools: {city: {of: town, as: title}}\n"),
        "FILE has 1 mistake:\n  line 5: templates[0].pools.city.of: there is no slot `town`; "
        "there is none.",
    ),
    "derived from itself": (
        weather(
            "Weather in {city}?",
            "  pools:\n    city: {of: place, as: title}\n    place: {of: city, as: lower}\n",
        ),
        "FILE has 2 mistakes:\n"
        "  line 6: templates[0].pools.city.of: is derived from itself: city → place → city.\n"
        "  line 7: templates[0].pools.place.of: is derived from itself: place → city → place.",
    ),
    "a map without an entry": (
        weather(
            "Weather in {name}?",
            "  pools: {name: [Rome, Oslo], city: {of: name, map: {Rome: Roma}}}\n",
        ),
        'FILE has 1 mistake:\n  line 5: templates[0].pools.city: `map` has no entry for "Oslo".',
    ),
    "two ways to derive": (
        weather("{a}?", "  pools: {a: [x], city: {of: a, as: lower, format: '%d'}}\n"),
        "FILE has 1 mistake:\n  line 5: templates[0].pools.city: give one of `as`, `map`, `format` "
        "and `later`.",
    ),
    "a date that is none": (
        weather("{a}?", "  pools: {a: [soon], city: {of: a, format: '%d'}}\n"),
        'FILE has 1 mistake:\n  line 5: templates[0].pools.city: `format` takes dates, and "soon" '
        "is none such as 2026-03-02.",
    ),
    "a format that reaches further": (
        weather("{a}?", "  pools: {a: {days: [1, 2]}, city: {of: a, format: '%s'}}\n"),
        "FILE has 1 mistake:\n  line 5: templates[0].pools.city: `format` does not know `%s`; it "
        "knows %d %-d %m %-m %B %b %Y %y %A %a %%.",
    ),
    "an empty pool": (
        weather(rest="  pools: {city: []}\n"),
        "FILE has 1 mistake:\n  line 5: templates[0].pools.city: is empty; a slot needs at least "
        "one value.",
    ),
    "a value twice": (
        weather(rest="  pools: {city: [Rome, Rome]}\n"),
        'FILE has 1 mistake:\n  line 5: templates[0].pools.city[1]: the value "Rome" stands twice.',
    ),
    "a range downwards": (
        weather(rest="  pools: {city: {range: [9, 1]}}\n"),
        "FILE has 1 mistake:\n  line 5: templates[0].pools.city: a range is [from, to] or "
        "[from, to, step], upwards.",
    ),
    "a range without end": (
        weather(rest="  pools: {city: {range: [0, 1, 0.0000001]}}\n"),
        "FILE has 1 mistake:\n  line 5: templates[0].pools.city: a range has at most 2,000 "
        "values; take a longer step.",
    ),
    "a provider that is none": (
        weather(rest="  pools: {city: {faker: citty}}\n"),
        "FILE has 1 mistake:\n  line 5: templates[0].pools.city.faker: no provider `citty` may be "
        "used; did you mean `city`?",
    ),
    "too many of a provider": (
        weather(rest="  pools: {city: {faker: city, n: 1000000}}\n"),
        "FILE has 1 mistake:\n  line 5: templates[0].pools.city.n: input should be less than or "
        "equal to 2000 (given: 1000000).",
    ),
    "no kind of pool": (
        weather(rest="  pools: {city: {rnage: [1, 2]}}\n"),
        "FILE has 1 mistake:\n  line 5: templates[0].pools.city: is no kind of pool; did you mean "
        "`range`?",
    ),
    "two kinds of pools": (
        weather(rest="  pools: {city: {faker: city, days: [1, 2]}}\n"),
        "FILE has 1 mistake:\n  line 5: templates[0].pools.city: is faker and days; a pool is one "
        "of them.",
    ),
    "a slot in a pool and a table": (
        weather(
            "{a} {city}?",
            "  pools: {a: [x]}\n  together: [{slots: [a, city], rows: [[x, Rome]]}]\n",
        ),
        "FILE has 1 mistake:\n  line 5: templates[0].pools.a: has values in `together` already.",
    ),
    "a table with a hole": (
        weather("{a} {city}?", "  together:\n  - slots: [a, city]\n    rows: [[x, Rome], [y]]\n"),
        "FILE has 1 mistake:\n  line 6: templates[0].together[0]: row 2 has 1 values for 2 slots.",
    ),
    "attributes in braces": (
        weather("{city.__class__} and {0}"),
        "FILE has 1 mistake:\n  line 3: templates[0].goal: `{city.__class__}` is no slot: its name "
        "is lower-case letters, digits and `_`; a brace of the text itself is written twice.",
    ),
    "a lone brace": (
        weather("{city} } {{"),
        "FILE has 1 mistake:\n  line 3: templates[0].goal: a lone `}`: a slot is `{name}`, a brace "
        "of the text is written twice.",
    ),
    "no slot": (
        template("Weather in Rome?", "[{api: get_weather, arguments: {city: Rome}}]"),
        "FILE has 1 mistake:\n  line 3: templates[0].goal: has no `{slot}`: all rows would be the "
        "same.",
    ),
    "a mark of ours": (
        template("Weather in {city}? XXX", "[]").replace("XXX", "\ue000city\ue001"),
        "FILE has 2 mistakes:\n"
        "  line 3: templates[0].goal: holds the character U+E000, which nobody can see.\n"
        "  line 4: templates[0].calls: has too few entries.",
    ),
    "a text that runs backwards": (
        weather(rest='  answer: "It is fine \u202e enif si tI"\n'),
        "FILE has 1 mistake:\n  line 5: templates[0].answer: holds the character U+202E, which "
        "nobody can see.",
    ),
    "an unknown field": (
        weather(rest="  awnser: It is fine.\n"),
        "FILE has 1 mistake:\n  line 5: templates[0].awnser: unknown field; did you mean `answer`?",
    ),
    "an unknown field of a call": (
        template("{city}", '[{api: get_weather, input: {city: "{city}"}}]'),
        "FILE has 1 mistake:\n  line 4: templates[0].calls[0].input: unknown field; known here are: "
        "api, arguments, response.",
    ),
    "neither goal nor goals": (
        "templates:\n- name: a\n  calls: [{api: get_weather}]\n",
        "FILE has 1 mistake:\n  line 2: templates[0]: give either `goal` or `goals`.",
    ),
    "a name of two words": (
        weather().replace("name: one", "name: One Two"),
        "FILE has 1 mistake:\n  line 2: templates[0].name: must be lower-case letters, digits and "
        '`-` (given: "One Two").',
    ),
    "a moment that is none": (
        weather(rest="  now: tomorrow\n"),
        "FILE has 1 mistake:\n  line 5: templates[0].now: must be a date and time, such as "
        '2026-03-02T09:30 (given: "tomorrow").',
    ),
    "another language without an answer": (
        weather(rest="  language: German\n"),
        "FILE has 1 mistake:\n  line 2: templates[0].answer: missing: none can be made up in "
        "German.",
    ),
    "a key twice": (
        weather(rest="  answer: Fine.\n  answer: Bad.\n"),
        "FILE has 1 mistake:\n  line 6: templates[0].answer: stands twice; give each key once.",
    ),
    "no mapping": (
        "- a\n- b\n",
        "FILE has 1 mistake:\n  line 1: must be a mapping; its fields are `language`, `now`, "
        "`pools`, `together`, `apis`, `templates`.",
    ),
    "nothing": (
        "",
        "FILE has 1 mistake:\n  line 1: must be a mapping; its fields are `language`, `now`, "
        "`pools`, `together`, `apis`, `templates`.",
    ),
    "indented wrongly": (
        "templates:\n  - name: a\n   goal: b\n",
        "FILE: line 3: is not valid YAML: did not find expected '-' indicator. Look at how far the "
        "lines are indented.",
    ),
    "tabs": (
        "templates:\n\t- name: a\n",
        "FILE: line 2: is not valid YAML: found character that cannot start any token. Indent with "
        "spaces, not tabs; quote text that begins with a sign.",
    ),
    "a colon": (
        "templates:\n- name: a\n  goal: Note this: {text}\n",
        "FILE: line 3: is not valid YAML: mapping values are not allowed in this context. Quote "
        "text that holds a colon and a space.",
    ),
    "an anchor": (
        "templates: &all\n- name: a\n",
        "FILE: line 1: `&all`: anchors and aliases are not read. Write the values out, or quote "
        "the text.",
    ),
    "an alias": (
        "templates: [*all, *all]\n",
        "FILE: line 1: `*all`: anchors and aliases are not read. Write the values out, or quote "
        "the text.",
    ),
    "a tag that would run something": (
        "templates: !!python/object/apply:os.system ['true']\n",
        "FILE: line 1: the tag `tag:yaml.org,2002:python/object/apply:os.system` is not read. "
        "Leave it out.",
    ),
    "two documents": (
        "templates: []\n---\ntemplates: []\n",
        "FILE: line 2: a second document begins; one is read.",
    ),
    "a deep nest": (
        f"templates: {'[' * 5000}{']' * 5000}\n",
        "FILE: line 1: nested too deeply.",
    ),
    "a control character": (
        "templates: [\x07]\n",
        "FILE: is not valid YAML: control characters are not allowed (character 12).",
    ),
    "a list as a key": (
        "? [a]\n: b\n",
        "FILE: line 1: a key must be plain text.",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_line_and_place(tmp_path: Path, name: str) -> None:
    """File, line, place, what is wrong and the nearest known name."""
    text, message = MISTAKES[name]
    assert told(tmp_path, text) == message


def test_the_page_tells_the_language(tmp_path: Path) -> None:
    """docs/templates.md names every field, pool and derivation, and its examples are real."""
    page = (ROOT / "docs" / "templates.md").read_text(encoding="utf-8")
    ways = get_args(get_args(DerivedPool.model_fields["way"].annotation)[0])
    forms = (FileForm, TemplateForm, CallForm, TableForm)
    fields = {name for form in forms for name in form.model_fields}
    for name in (*ways, *fields):
        assert f"`{name}`" in page, name
    for name in FORMS:
        assert f"`{{{name}: " in page, name
    example = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0]
    (tmp_path / "shop.yaml").write_text(example)
    books = load_templates([EXAMPLES / "bookshop.yaml"])[-1].sample["dialogue"]["query"]["pool"]
    apis = [Api.model_validate(one) for one in books]
    assert len(load_templates([tmp_path / "shop.yaml"], Given(apis))) == 1
    wrong = example.replace("{subject}", "{subjekt}", 1).replace('max_price: "', 'max_prise: "')
    (tmp_path / "shop.yaml").write_text(wrong)
    with pytest.raises(TemplateFileError) as raised:
        load_templates([tmp_path / "shop.yaml"], Given(apis))
    assert f"```text\n{raised.value}\n```".replace(f"{tmp_path}/", "") in page


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_several_goals_is_told_once(tmp_path: Path, name: str) -> None:
    """What paraphrases share is no new mistake, and stops each of them."""
    text, message = MISTAKES[name]
    twice = re.sub(r'(?m)^  goal: (".*")$', r"  goals: [\1, \1]", text, count=1)
    shared = [line for line in message.splitlines()[1:] if ".goal:" not in line]
    mistakes = told(tmp_path, twice)
    assert all(mistakes.count(line) == 1 for line in shared)


WORDS = st.sampled_from(
    [
        "{city}",
        "{",
        "{{",
        "city",
        "get_weather",
        "of",
        "range",
        "schema",
        "faker",
        "2026-03-02",
        "é",
    ]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=True) | WORDS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
FIELDS = ["name", "goal", "goals", "calls", "answer", "pools", "together", "now", "language"]


@given(st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=4))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_value_anywhere_breaks_the_reader(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Whatever stands in a field: templates come of it, or mistakes in words."""
    call = {"api": "get_weather", "arguments": {"city": "{city}"}}
    whole = {"name": "one", "goal": "Weather in {city}?", "calls": [call], **changes}
    path = tmp_path / "t.yaml"
    path.write_text(yaml.safe_dump({"templates": [whole]}, allow_unicode=True), encoding="utf-8")
    with suppress(TemplateFileError):
        load_templates([path], Given(APIS))


@given(ANYTHING, ANYTHING, ANYTHING)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_pool_or_response_breaks_the_reader(
    tmp_path: Path, pool: Any, response: Any, argument: Any
) -> None:
    """The same, deeper in the file."""
    call = {"api": "add_note", "arguments": {"text": argument}, "response": response}
    whole = {"name": "one", "goal": "Note {city}.", "calls": [call], "pools": {"city": pool}}
    path = tmp_path / "t.yaml"
    path.write_text(yaml.safe_dump({"templates": [whole]}, allow_unicode=True), encoding="utf-8")
    with suppress(TemplateFileError):
        load_templates([path], Given(APIS))


@given(st.binary(max_size=200) | st.text(alphabet="a{}[]:-\n &*!|>'\"#%@,?", max_size=60))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_breaks_the_reader(tmp_path: Path, text: bytes | str) -> None:
    """Any bytes: mistakes in words, never anything else."""
    path = tmp_path / "t.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(TemplateFileError):
        load_templates([path], Given(APIS))


def test_all_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    """One run tells everything that is to be mended, whatever file it is in."""
    (tmp_path / "a.yaml").write_text(weather("{x}{y}"))
    (tmp_path / "b.yaml").write_text("a: b: c\n")
    with pytest.raises(TemplateFileError) as raised:
        load_templates([tmp_path], Given(APIS))
    text = str(raised.value)
    assert "a.yaml has 3 mistakes" in text
    assert "b.yaml: line 1: is not valid YAML" in text


def test_a_name_is_given_once_across_files(tmp_path: Path) -> None:
    """Ids are unique in a run; the numbers of paraphrases count too."""
    (tmp_path / "a.yaml").write_text(weather())
    (tmp_path / "b.yml").write_text(weather())
    with pytest.raises(TemplateFileError, match=r"`one` is the name of the template in line 2 of"):
        load_templates([tmp_path], Given(APIS))


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    """Missing, no text, too large, a folder without any: each in words."""
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\xfa")
    (tmp_path / "large.yaml").write_text("# " + "x" * 1_000_001)
    (tmp_path / "none").mkdir()
    for path, told_as in {
        "missing.yaml": "cannot be read",
        "bytes.yaml": "is not UTF-8 text",
        "large.yaml": "has 1,000,003 bytes; at most 1,000,000 are read",
        "none": "the folder holds no .yaml file",
    }.items():
        with pytest.raises(TemplateFileError, match=told_as):
            load_templates([tmp_path / path], Given(APIS))


def test_a_file_of_too_many_values_is_refused(tmp_path: Path) -> None:
    """A file within the size may still hold more values than a person writes."""
    text = told(tmp_path, "a: [" + "1," * 200_000 + "]\n")
    assert text == "FILE: line 1: more than 100,000 values. Split the file."


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("", "line 1: apis: missing: the file names no `apis`, and no dataset was given."),
        ("apis: nowhere.json\n", "line 1: apis: there is no {folder}/nowhere.json."),
        ("apis: t.yaml\n", "line 1: apis: "),
    ],
)
def test_apis_that_a_file_names_must_be_there(tmp_path: Path, named: str, message: str) -> None:
    """Without a dataset each file tells where its APIs are."""
    path = tmp_path / "t.yaml"
    path.write_text(named + weather())
    with pytest.raises(TemplateFileError) as raised:
        load_templates([path])
    assert message.format(folder=tmp_path) in str(raised.value)


def test_the_form_of_a_file_is_checked_without_apis(tmp_path: Path) -> None:
    """Before a run begins, when nobody knows its APIs yet."""
    path = tmp_path / "t.yaml"
    path.write_text(weather())
    check_files([path])
    path.write_text(weather(rest="  awnser: x\n"))
    with pytest.raises(TemplateFileError, match="did you mean `answer`"):
        check_files([path])
