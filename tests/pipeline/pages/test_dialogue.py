from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from support import finished_runs, toys
from support.shop import changed

from toolloom.pipeline.pages.dialogue import dialogue_html
from toolloom.schemas import (
    FunctionCall,
    Granularity,
    JsonObject,
    Message,
    Reason,
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


def test_the_intent_stands_beside_its_call() -> None:
    """What the user means is shown with each call that serves it, and where the call differs."""
    same, other = (
        dialogue_html(as_json(toys.sample(arguments=a))) for a in (None, {"city": "Bern"})
    )
    assert "The user means" in same
    assert "tl-differs" not in same
    assert "city=&#34;Bern&#34;, where the user means &#34;Zürich&#34;" in other


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


def test_arguments_that_could_not_be_read_are_shown_as_they_came() -> None:
    """The text of the model, in place of values."""
    call = ToolCall(id="1", function=FunctionCall(name="weather_current", arguments="{city: Zür"))
    made = toys.sample()
    messages = (*made.dialogue.messages[:1], Message(role="assistant", tool_calls=(call,)))
    assert "{city: Zür" in shown(changed(made, messages))


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
