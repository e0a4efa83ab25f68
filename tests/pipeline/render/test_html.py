from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import toys

from toolloom.pipeline.pages.dialogue import dialogue_html
from toolloom.pipeline.render.section import render, visible
from toolloom.schemas import Reason

PIECES = ("<b", "<script>", "</p>", "</script", "<!--", "&lt;", "&#60;", " on=", "'>", '">', "{{")
ODD = st.lists(
    st.one_of(
        st.text(st.characters(codec=None), max_size=5),
        st.sampled_from([*PIECES, "\u202e", "\x00", "\ud800", "\r"]),
    ),
    max_size=8,
).map("".join)


class Read(HTMLParser):
    """What a reader of HTML makes of it: the elements with their attributes, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, Any]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, sorted(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def rejected(text: str) -> Any:
    """A rejected sample as JSON in which a text stands wherever a model may write."""
    record = toys.rejected(toys.sample(), "tested", Reason.OFF_PATH).model_dump(mode="json")
    query, messages = (record["record"]["dialogue"][key] for key in ("query", "messages"))
    query["pool"][1].update(function=text, description=text)
    messages[0]["content"] = messages[-1]["content"] = text
    messages[1]["tool_calls"][0]["function"] = {"name": text, "arguments": {f"-{text}": text}}
    record["findings"][0]["detail"] = record["detail"] = text
    return {**record, "id": text, "raw": [text, text]}


@given(ODD)
def test_text_never_becomes_markup(text: str) -> None:
    """Whatever a model writes, the elements are those of a page with a plain word in its place."""
    plain, odd = (Read(dialogue_html(rejected(t), raw=True)) for t in ("word", text or "word"))
    assert odd.elements == plain.elements
    assert visible(text) in odd.text


@given(ODD)
def test_what_is_shown_can_be_written(text: str) -> None:
    """Half characters and control characters are spelled out, so a file can hold the page."""
    shown = visible(text)
    assert len(shown.encode()) >= len(text)
    assert not {*shown} & {*map(chr, range(9)), "\u202e", "\ud800"}
    assert visible(shown) == shown


def test_what_cannot_be_seen_is_spelled_out() -> None:
    """Reordered, hidden and zero-width text stands there as a person can see it."""
    assert visible("a\u202eb\u200bc\x00\x1b[31m\ufeff") == "a\\u202eb\\u200bc\\x00\\x1b[31m\\ufeff"
    assert visible("tab\tand\nline, العربية, 👩\u200d🚀") == "tab\tand\nline, العربية, 👩\u200d🚀"


def test_a_template_that_lacks_a_value_is_an_error() -> None:
    """Nothing is left out in silence."""
    with pytest.raises(LookupError, match="'said' is undefined"):
        render("instructions.html.j2", id="x", path=())
