"""Written templates: what their YAML makes, and what is told of mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import expanded_dataset
from support.template_files import APIS, choice, load, messages, template, weather

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.templates.expand import draw_templates
from toolloom.pipeline.templates.filling import Mistake, TemplateRenderer, rendered
from toolloom.pipeline.templates.written import Given, check_files, load_templates
from toolloom.schemas import Dialogue, Template, TemplateFileError

SHIPPED = sorted((Path(__file__).parents[3] / "recipes" / "templates").glob("*.yaml"))


def told(folder: Path, text: str) -> str:
    with pytest.raises(TemplateFileError) as error:
        load(folder, text)
    return str(error.value)


def rows(one: Template, count: int) -> list[Any]:
    renderer = TemplateRenderer(one)
    drawn = renderer.drawn(rng_for(1), count)
    return [Dialogue.model_validate(renderer.sample(row)["dialogue"]) for row in drawn]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_templates_that_ship_make_rows_that_pass(path: Path) -> None:
    """Read with the APIs that the files name."""
    for one in load_templates([path]):
        made = rows(one, 12)
        assert made and not [inspect(dialogue) for dialogue in made if inspect(dialogue)], one.id


def test_values_stand_where_their_variables_do(tmp_path: Path) -> None:
    """In words as text, alone with their type; the response is drawn and told."""
    (one,) = load(tmp_path, weather(rest="  pools: {city: [Bern, Basel]}\n"))
    assert (one.id, one.kind, one.goal) == (
        "written-one",
        "written",
        "How is the weather in {{ city }}?",
    )
    said = messages(one)
    assert said[1].content == "How is the weather in Bern?"
    assert said[2].tool_calls[0].function.arguments == {"city": "Bern"}
    assert choice(one, "city").rows == (("Bern",), ("Basel",))


@pytest.mark.parametrize(
    ("pool", "values"),
    [
        ("x: [Bern, Basel]", ["Bern", "Basel"]),
        ("x: {range: [1, 3]}", [1, 2, 3]),
        ("x: {range: [0.5, 1.5, 0.5]}", [0.5, 1, 1.5]),
        ("x: {days: [0, 1]}", ["2026-03-02", "2026-03-03"]),
        ("t: {table: [x, y], rows: [[1, one], [2, two]]}", [1, 2]),
    ],
)
def test_pools(pool: str, values: list[Any], tmp_path: Path) -> None:
    """Lists, ranges with both ends, days after the dialogue's present, and rows of a table, which
    are drawn as a whole; made-up values are distinct."""
    goal = "Weather in {{ city }}, {{ x }}" + " or {{ y }}?" * ("table" in pool)
    rest = f"  pools: {{city: {{faker: city, n: 5}}, {pool}}}\n"
    (one,) = load(tmp_path, "now: 2026-03-02T09:30\n" + weather(goal, rest))
    assert [row[0] for row in choice(one, "x").rows] == values
    assert len({row[0] for row in choice(one, "city").rows}) == 5


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("{{ n }}", 3),
        ("{{ n * 2 + 1 }}", 7),
        ("{{ n }} of {{ city | upper }}", "3 of PALO ALTO"),
        ("{{ city | replace(' ', '+') | lower }}", "palo+alto"),
        ("{{ {'Palo Alto': 'PA'}[city] }}", "PA"),
        ("{{ day | later(30) | date('%-d %B %Y, a %A') }}", "1 April 2026, a Wednesday"),
        ("{% if n > 2 %}many{% else %}few{% endif %}", "many"),
        ("{{ 'Zürich Altstadt' | slug }}", "zurich-altstadt"),
    ],
)
def test_texts_are_jinja(source: str, made: Any) -> None:
    """One expression and nothing else keeps its type."""
    assert rendered(source, {"n": 3, "city": "Palo Alto", "day": "2026-03-02"}) == made


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("{{ x.__class__.__mro__ }}", "cannot be rendered"),
        ("{% for i in x %}{{ i }}{% endfor %}", "`for` may not stand"),
        ("{{ range(9) }}", "`call` may not stand"),
        ("{{ 'a' * 999999999 }}", "numbers alone"),
        ("{{ '%999999999d' % 5 }}", "numbers alone"),
        ("{{ 9 ** 9 ** 9 }}", "`pow` may not stand"),
        ("{{ x | center(999999999) }}", "no filter `center`"),
        ("{{ x | replace('a', '" + "b" * 3000 + "') | replace('b', 'ccc') }}", "longer than"),
        ("{% include 'x' %}", "`include` may not stand"),
        ("{{ y }}", "'y' is undefined"),
        ("{{ x", "is not a template"),
        ("{{ x | date }}", "cannot be rendered"),
        ("{{ 1 / 0 }}", "cannot be rendered"),
        ("x" * 5_000 + "{{ x }}", "is longer than"),
    ],
)
def test_texts_can_do_little(source: str, why: str) -> None:
    """Whoever shares a file cannot make others read a file, run code or wait."""
    with pytest.raises(Mistake, match=why):
        rendered(source, {"x": "aa"})


def test_a_response_feeds_a_later_call(tmp_path: Path) -> None:
    """A variable that the goal does not say is what an earlier response tells: the call waits."""
    path = next(path for path in SHIPPED if path.stem == "bookshop")
    one = next(t for t in load_templates([path]) if t.id == "written-order-and-track")
    intent = one.sample["dialogue"]["query"]["intent"]
    assert intent[1]["references"] == {"order_number": {"call": 0, "field": "order_number"}}
    dialogue = rows(one, 1)[0]
    seen = json.loads(dialogue.messages[3].content)["response"]["order_number"]
    assert dialogue.messages[4].tool_calls[0].function.arguments == {"order_number": seen}


MISTAKES: dict[str, tuple[str, str]] = {
    "an unknown field": ("templates:\n- nmae: one\n", "unknown field; did you mean `name`?"),
    "an unknown API": (
        template("In {{ city }}?", '[{api: get_wether, arguments: {city: "{{ city }}"}}]'),
        "line 4: templates[0].calls[0].api: there is no API `get_wether`; did you mean",
    ),
    "an unknown argument": (
        template("In {{ city }}?", '[{api: get_weather, arguments: {town: "{{ city }}"}}]'),
        "has no argument `town`",
    ),
    "no variable": (weather("How is it?"), "has no `{{ variable }}`"),
    "an unknown variable": (
        weather("In {{ city }}?", "  answer: In {{ citi }} it rains.\n  pools: {city: [Bern]}\n"),
        "nothing gives `citi` a value: write a pool for it; did you mean `city`?",
    ),
    "a variable that nobody says": (
        template("At {{ x }}?", '[{api: get_weather, arguments: {city: "{{ city }}"}}]',
                 "  pools: {city: [Bern], x: [noon, night]}\n"),
        "nobody says `city`",
    ),
    "a pool that nobody uses": (
        weather(rest="  pools: {city: [Bern], x: [1]}\n"), "no text has the variable `x`"
    ),
    "a value that does not fit": (
        weather(rest="  pools:\n    city:\n    - Bern\n    - 7\n"), "7 is not a valid argument city"
    ),
    "a value that stands twice": (weather(rest="  pools: {city: [Bern, Bern]}\n"), "stands twice"),
    "no such provider": (weather(rest="  pools: {city: {faker: ssn}}\n"), "no provider `ssn`"),
    "no kind of pool": (weather(rest="  pools: {city: {rnage: [1, 2]}}\n"), "a pool is a list"),
    "a range downwards": (weather(rest="  pools: {city: {range: [3, 1]}}\n"), "upwards"),
    "a broken text": (weather("In {{ city?"), "is not a template"),
    "both goal and goals": (
        weather(rest='  goals: ["In {{ city }}?"]\n'), "give either `goal` or `goals`"
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told(mistake: str, tmp_path: Path) -> None:
    """With file, line and place."""
    text, words = MISTAKES[mistake]
    said = told(tmp_path, text)
    assert words in said, said
    assert str(tmp_path) in said and "line " in said


def test_all_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    """Names are unique over files; what can be told without APIs is told by `check_files`."""
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(weather(rest="  pools: {city: [Bern]}\n"))
    with pytest.raises(TemplateFileError, match="`one` is the name of the template in line 2"):
        load_templates([tmp_path], Given(APIS))
    (tmp_path / "a.yaml").write_text("templates: []\n")
    with pytest.raises(TemplateFileError, match="a.yaml has 1 mistake"):
        check_files([tmp_path])
    with pytest.raises(TemplateFileError, match="cannot be read"):
        check_files([tmp_path / "none.yaml"])


def test_a_template_shows_distractors_of_its_split(tmp_path: Path) -> None:
    """None of a category that is held out."""
    sea = APIS[1].model_copy(update={"category": "Sea", "function": "sea_room"})
    path = tmp_path / "t.yaml"
    path.write_text(weather(rest="  pools: {city: [Bern, Basel]}\n"))
    fields: Any = {"splits": {"seen": ["Travel"], "unseen": ["Sea"]}}
    plan = {"templates": [str(path)]}
    run = expanded_dataset.given(tmp_path, rows=[], apis=[*APIS, sea], expand=plan, **fields)
    (one,) = (Template.model_validate_json(m) for m in draw_templates(run) if isinstance(m, bytes))
    pool = one.sample["dialogue"]["query"]["pool"]
    assert len(pool) > 1 and {api["category"] for api in pool} == {"Travel"}
