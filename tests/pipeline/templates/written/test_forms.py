"""How the mistakes of a file of templates are told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from support.template_files import EXAMPLES, ROOT, template, told, weather

from toolloom.pipeline.templates.written.files import Given, load_templates
from toolloom.pipeline.templates.written.forms import CallForm, FileForm, TableForm, TemplateForm
from toolloom.pipeline.templates.written.pools import FORMS, DerivedPool
from toolloom.schemas import Api, TemplateFileError

MISTAKES: dict[str, tuple[str, *tuple[str, ...]]] = {
    "a slot that nothing fills": (
        weather("Weather in {city} on {dya}?", "  pools: {day: [Monday]}\n"),
        "line 3: templates[0].goal: nothing gives `{dya}` a value: write a pool for it; did you "
        "mean `day`?",
        "line 5: templates[0].pools.day: no text has the slot `{day}`; did you mean `{dya}`?",
    ),
    "a pool of the file for no template": (
        "pools: {guests: [1]}\n" + weather(),
        "line 1: pools.guests: no template has the slot `{guests}`.",
    ),
    "an unknown API": (
        template("Weather in {city}?", '[{api: get_wether, arguments: {city: "{city}"}}]'),
        "line 4: templates[0].calls[0].api: there is no API `get_wether`; did you mean "
        "`get_weather`?",
    ),
    "an unknown argument": (
        template("Weather in {city}?", '[{api: get_weather, arguments: {ctiy: "{city}"}}]'),
        "line 4: templates[0].calls[0].arguments.ctiy: get_weather has no argument `ctiy`; did "
        "you mean `city`?",
        "line 4: templates[0].calls[0].arguments: get_weather also needs `city`.",
    ),
    "a value of a pool that does not fit": (
        template(
            "A room in {city} for {guests}.",
            '[{api: book_room, arguments: {city: "{city}", guests: "{guests}"}}]',
            "  pools:\n    guests:\n      - 2\n      - many\n",
        ),
        'line 8: templates[0].pools.guests[1]: "many" is no argument guests of '
        "Travel/hotels/book_room: 'many' is not of type 'integer'.",
    ),
    "a written value that does not fit": (
        template(
            "A room in {city}.", '[{api: book_room, arguments: {city: "{city}", guests: 99}}]'
        ),
        "line 4: templates[0].calls[0].arguments.guests: 99 is no argument guests of "
        "Travel/hotels/book_room: 99 is greater than the maximum of 9.",
    ),
    "a field's pool that does not fit": (
        weather(rest="  pools: {celsius: [warm]}\n"),
        'line 5: templates[0].pools.celsius[0]: "warm" is no field celsius of the response of '
        "Travel/hotels/get_weather: 'warm' is not of type 'integer'.",
    ),
    "a response that does not fit": (
        template(
            "Weather in {city}?",
            '[{api: get_weather, arguments: {city: "{city}"}, response: {city: "{city}"}}]',
        ),
        "line 4: templates[0].calls[0].response: Travel/hotels/get_weather returns no such "
        "thing: 'celsius' is a required property.",
    ),
    "a response that nothing describes": (
        template("Read note {n}.", '[{api: read_note, arguments: {note: "{n}"}}]'),
        "line 4: templates[0].calls[0]: nothing says what `result` in the response of "
        "Travel/hotels/read_note looks like; write a `response`.",
    ),
    "an argument that nobody says": (
        weather("Is it {sky} outside?", "  pools: {sky: [clear], city: [Rome]}\n"),
        "line 4: templates[0].calls[0].arguments.city: nobody says `{city}`: neither the goal, "
        "nor a field of an earlier response, nor what it is derived from.",
    ),
    "derived from nothing": (
        weather("Weather in {city}?", "  pools: {city: {of: town, as: title}}\n"),
        "line 5: templates[0].pools.city.of: there is no slot `town`; there is none.",
    ),
    "derived from itself": (
        weather(
            "Weather in {city}?",
            "  pools:\n    city: {of: place, as: title}\n    place: {of: city, as: lower}\n",
        ),
        "line 6: templates[0].pools.city.of: is derived from itself: city → place → city.",
        "line 7: templates[0].pools.place.of: is derived from itself: place → city → place.",
    ),
    "a map without an entry": (
        weather(
            "Weather in {name}?",
            "  pools: {name: [Rome, Oslo], city: {of: name, map: {Rome: Roma}}}\n",
        ),
        'line 5: templates[0].pools.city: `map` has no entry for "Oslo".',
    ),
    "two ways to derive": (
        weather("{a}?", "  pools: {a: [x], city: {of: a, as: lower, format: '%d'}}\n"),
        "line 5: templates[0].pools.city: give one of `as`, `map`, `format` and `later`.",
    ),
    "a slot in a pool and a table": (
        weather(
            "{a} {city}?",
            "  pools: {a: [x]}\n  together: [{slots: [a, city], rows: [[x, Rome]]}]\n",
        ),
        "line 5: templates[0].pools.a: has values in `together` already.",
    ),
    "a table with a hole": (
        weather("{a} {city}?", "  together:\n  - slots: [a, city]\n    rows: [[x, Rome], [y]]\n"),
        "line 6: templates[0].together[0]: row 2 has 1 values for 2 slots.",
    ),
    "attributes in braces": (
        weather("{city.__class__} and {0}"),
        "line 3: templates[0].goal: `{city.__class__}` is no slot: its name is lower-case "
        "letters, digits and `_`; a brace of the text itself is written twice.",
    ),
    "a lone brace": (
        weather("{city} } {{"),
        "line 3: templates[0].goal: a lone `}`: a slot is `{name}`, a brace of the text is "
        "written twice.",
    ),
    "no slot": (
        template("Weather in Rome?", "[{api: get_weather, arguments: {city: Rome}}]"),
        "line 3: templates[0].goal: has no `{slot}`: all rows would be the same.",
    ),
    "a text that runs backwards, and a mark of ours": (
        template("Weather in {city}? \u202e enif", "[]", '  answer: "\ue000city\ue001"\n'),
        "line 3: templates[0].goal: holds the character U+202E, which nobody can see.",
        "line 4: templates[0].calls: has too few entries.",
        "line 5: templates[0].answer: holds the character U+E000, which nobody can see.",
    ),
    "an unknown field": (
        weather(rest="  awnser: It is fine.\n"),
        "line 5: templates[0].awnser: unknown field; did you mean `answer`?",
    ),
    "an unknown field of a call": (
        template("{city}", '[{api: get_weather, input: {city: "{city}"}}]'),
        "line 4: templates[0].calls[0].input: unknown field; known here are: api, arguments, "
        "response.",
    ),
    "neither goal nor goals": (
        "templates:\n- name: a\n  calls: [{api: get_weather}]\n",
        "line 2: templates[0]: give either `goal` or `goals`.",
    ),
    "a name of two words": (
        weather().replace("name: one", "name: One Two"),
        'line 2: templates[0].name: must be lower-case letters, digits and `-` (given: "One Two").',
    ),
    "a moment that is none": (
        weather(rest="  now: tomorrow\n"),
        "line 5: templates[0].now: must be a date and time, such as 2026-03-02T09:30 (given: "
        '"tomorrow").',
    ),
    "another language without an answer": (
        weather(rest="  language: German\n"),
        "line 2: templates[0].answer: missing: none can be made up in German.",
    ),
    "a key twice": (
        weather(rest="  answer: Fine.\n  answer: Bad.\n"),
        "line 6: templates[0].answer: stands twice; give each key once.",
    ),
    "nothing": (
        "",
        "line 1: must be a mapping; its fields are `language`, `now`, `pools`, `together`, "
        "`apis`, `templates`.",
    ),
    "indented wrongly": (
        "templates:\n  - name: a\n   goal: b\n",
        "FILE: line 3: is not valid YAML: did not find expected '-' indicator. Look at how far "
        "the lines are indented.",
    ),
    "tabs": (
        "templates:\n\t- name: a\n",
        "FILE: line 2: is not valid YAML: found character that cannot start any token. Indent "
        "with spaces, not tabs; quote text that begins with a sign.",
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

POOLS = {
    "an empty pool": ("city: []", "city: is empty; a slot needs at least one value."),
    "a value twice": ("city: [Rome, Rome]", 'city[1]: the value "Rome" stands twice.'),
    "a range downwards": (
        "city: {range: [9, 1]}",
        "city: a range is [from, to] or [from, to, step], upwards.",
    ),
    "a range that stands still": (
        "city: {range: [1, 2, 0]}",
        "city: a range is [from, to] or [from, to, step], upwards.",
    ),
    "a range without end": (
        "city: {range: [0, 1, 0.0000001]}",
        "city: a range has at most 2,000 values; take a longer step.",
    ),
    "a provider that is none": (
        "city: {faker: citty}",
        "city.faker: no provider `citty` may be used; did you mean `city`?",
    ),
    "too many of a provider": (
        "city: {faker: city, n: 1000000}",
        "city.n: input should be less than or equal to 2000 (given: 1000000).",
    ),
    "no kind of pool": ("city: {rnage: [1, 2]}", "city: is no kind of pool; did you mean `range`?"),
    "two kinds of pools": (
        "city: {faker: city, days: [1, 2]}",
        "city: is faker and days; a pool is one of them.",
    ),
}
MISTAKES |= {
    name: (weather(rest=f"  pools: {{{pool}}}\n"), f"line 5: templates[0].pools.{message}")
    for name, (pool, message) in POOLS.items()
}


def message(lines: list[str]) -> str:
    """All that is told of a file with these mistakes."""
    if lines[0].startswith("FILE"):
        return lines[0]
    several = "s" if len(lines) > 1 else ""
    return "\n  ".join([f"FILE has {len(lines)} mistake{several}:", *lines])


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_line_and_place(tmp_path: Path, name: str) -> None:
    """File, line, place, what is wrong and the nearest known name."""
    text, *lines = MISTAKES[name]
    assert told(tmp_path, text) == message(lines)


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
    text, *lines = MISTAKES[name]
    twice = re.sub(r'(?m)^  goal: (".*")$', r"  goals: [\1, \1]", text, count=1)
    mistakes = told(tmp_path, twice)
    assert all(mistakes.count(line) == 1 for line in lines if ".goal:" not in line)
