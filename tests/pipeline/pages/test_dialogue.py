from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from support import finished_runs, toys
from support.shop import changed

from toolloom.pipeline.pages.dialogue import dialogue_html
from toolloom.pipeline.render.html import source
from toolloom.schemas import (
    Finding,
    FunctionCall,
    Granularity,
    Intention,
    JsonObject,
    Message,
    Reason,
    Reference,
    Sample,
    ToolCall,
)


def shown(record: Any, **options: Any) -> str:
    """The page's text, a line for each element."""
    return unescape(re.sub(r"\s*<[^>]*>\s*", "\n", dialogue_html(as_json(record), **options)))


def as_json(record: Any) -> JsonObject:
    return record if isinstance(record, dict) else record.model_dump(mode="json")


def parts(html: str, of: str) -> list[str]:
    """The list items of a class, as text."""
    found = re.findall(rf'<li class="{of}[^"]*">(.*?)</li>', html, re.DOTALL)
    return [re.sub(r"\s*<[^>]*>\s*", " ", one) for one in found]


def saying(content: Any) -> Sample:
    """A sample whose tool message has this content."""
    made = toys.sample()
    before, asked, observed, *rest = made.dialogue.messages
    observed = observed.model_copy(update={"content": content})
    return changed(made, (before, asked, observed, *rest))


def test_a_finding_stands_at_its_turn() -> None:
    """With reason, detail and the check that found it; no other turn is marked."""
    fallen = toys.rejected(toys.sample(), "tested", Reason.OFF_PATH, "Why it fell.")
    html = dialogue_html(as_json(fallen))
    [assistant, _] = parts(html, "tl-assistant")
    assert "off path Why it fell. found by toy" in re.sub(r"\s+", " ", assistant)
    assert html.count("tl-marked") == 1


def test_a_finding_without_a_turn_stands_above() -> None:
    """It is told once, and is not what the record says already."""
    found = [
        Finding(check="near", reason=Reason.NEAR_DUPLICATE, turn=turn, detail=f"Detail {turn}.")
        for turn in (None, 99)
    ]
    fallen = toys.rejected(toys.sample(), "tested", Reason.OFF_PATH)
    html = dialogue_html(as_json(fallen.model_copy(update={"findings": tuple(found)})))
    assert [html.count(one) for one in ("Detail None.", "Detail 99.", "tl-marked")] == [1, 1, 0]
    assert html.index("Detail 99.") < html.index("tl-turns")


def test_a_dialogue_that_stopped_says_where() -> None:
    """What fell on the way has no findings: its reason stands after its last turn."""
    record = toys.rejected(toys.sample(), "dialogues", Reason.OFF_PATH, "It went wrong.")
    record = record.model_copy(update={"findings": ()})
    html = dialogue_html(as_json(record))
    assert html.index("7 °C") < html.index("here it ended") < html.rindex("It went wrong.")


def test_the_intent_stands_beside_its_call() -> None:
    """What the user means is shown with each call that serves it, and where the call differs."""
    same, other = (
        dialogue_html(as_json(toys.sample(arguments=a))) for a in (None, {"city": "Bern"})
    )
    assert "The user means" in same
    assert "tl-differs" not in same
    assert "city=&#34;Bern&#34;, where the user means &#34;Zürich&#34;" in other


def test_an_intent_that_no_call_serves_is_told() -> None:
    """So that one sees what is missing; a value of an earlier call says which."""
    forecast = toys.api(name="forecast").model_copy(update={"function": "weather_forecast"})
    intent = (
        Intention(api=toys.api().id, arguments={"city": "Zürich"}),
        Intention(
            api=forecast.id, arguments={}, references={"day": Reference(call=0, field="date")}
        ),
    )
    asked = toys.query(pool=(toys.api(), forecast), intent=intent)
    text = shown(toys.sample(asked))
    missing = text[text.index("no call serves it") :]
    assert "weather_forecast" in missing
    assert "← date of weather_current" in missing


def test_raw_responses_are_there_on_demand() -> None:
    """Only if asked for, folded; first what the model said, then the whole response."""
    raw = json.dumps({"choices": [{"message": {"content": "Its words."}}], "usage": {"tokens": 3}})
    fallen = toys.rejected(toys.sample(), "tested", Reason.OFF_PATH)
    record = {**as_json(fallen), "raw": [raw]}
    assert "Its words." not in dialogue_html(record)
    html = dialogue_html(record, raw=True)
    assert (
        html.index("<details") < html.index("1 raw response") < html.index("<pre>Its words.</pre>")
    )
    assert "&#34;usage&#34;" in html


def test_an_observation_may_be_an_error_or_long() -> None:
    """Errors are said; of a long result the beginning, the rest on demand."""
    assert "error: 404 not found" in shown(saying('{"response": null, "error": "404 not found"}'))
    long = json.dumps({"response": {"items": ["x" * 300]}, "error": None})
    html = dialogue_html(as_json(saying(long)))
    assert "<summary><code>{&#34;items&#34;" in html
    assert "x" * 300 in html
    assert "not JSON" in shown(saying("not JSON"))


def test_arguments_that_could_not_be_read_are_shown_as_they_came() -> None:
    """The text of the model, in place of values."""
    call = ToolCall(id="1", function=FunctionCall(name="weather_current", arguments="{city: Zür"))
    made = toys.sample()
    messages = (*made.dialogue.messages[:1], Message(role="assistant", tool_calls=(call,)))
    assert "{city: Zür" in shown(changed(made, messages))


def test_texts_are_cut_where_that_is_wanted() -> None:
    """And what is left out is counted."""
    text = shown(toys.sample(answer="y" * 500), longest=100)
    assert "y" * 100 + "… (400 more characters)" in text
    assert "y" * 101 not in text
    assert "y" * 500 in shown(toys.sample(answer="y" * 500))


@pytest.mark.parametrize("depth", [400, 900])
def test_deep_json_is_no_matter(depth: int) -> None:
    """What can be read can be shown, or at least does not stop the page."""
    deep = json.loads("[" * depth + "]" * depth)
    made = as_json(saying(json.dumps({"response": None})))
    made["dialogue"]["messages"][2]["content"] = '{"response": %s}' % ("[" * depth + "]" * depth)
    made["dialogue"]["messages"][1]["tool_calls"][0]["function"]["arguments"] = {"city": deep}
    assert "7 °C" in dialogue_html(made)


def test_records_that_never_had_words_are_shown() -> None:
    """A domain, a request that was not written, an instruction that fell, and one that did not."""
    domain = {"category": "Health", "name": "health care", "description": ""}
    fallen = as_json(toys.rejected(toys.query(), "domains", Reason.NEAR_DUPLICATE))
    assert "health care" in shown({**fallen, "record": domain})
    need = {key: value for key, value in as_json(toys.query()).items() if key != "text"}
    assert "The user is to mean" in shown({**fallen, "record": need})
    seed = {"hybrid": "The whole request.", "steps": [{"function": "weather_current"}]}
    draft = shown({**fallen, "record": {"seed": seed, "level": "tool", "text": "A draft."}})
    assert "The whole request." in draft
    assert "A draft." in draft
    assert "level tool." in shown(finished_runs.instruction(Granularity.TOOL))


def test_votes_and_makers_are_told() -> None:
    """What the tester said, and who made what with which tokens."""
    made = as_json(toys.sample())
    made["verdict"]["votes"] = [
        {"accept": False, "reason": "unnatural_query", "explanation": "Odd.", "upheld": False}
    ]
    text = shown(made)
    assert "rejects: unnatural query (withdrawn when asked again)" in text
    assert "queries" in text[text.index("How it was made") :]


def test_styles_stay_within_the_dialogue() -> None:
    """A notebook shows it among other things: no rule reaches beyond it."""
    style = re.sub(r"/\*.*?\*/", "", source("style.css"), flags=re.DOTALL)
    variables, _, rest = style.partition("}")
    assert re.fullmatch(r":root \{(\s*--tl-[\w-]+: [^;]+;)+\s*", variables)
    rules = re.findall(r"(?:^|(?<=}))\s*([^@{}\s][^{}]*)\{", rest, re.MULTILINE)
    assert len(rules) > 60
    plain = [re.sub(r"\((?:[^()]|\([^()]*\))*\)", "", rule) for rule in rules]
    parts = [part for rule in plain for part in rule.split(",")]
    assert [part for part in parts if not re.search(r"\.toolloom|\.tl-section", part)] == []
