"""Chat templates, run as `transformers` runs them."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import TemplateError

from toolloom.pipeline.dataset.export.templates import USUAL, ChatTemplate, choose, shipped
from toolloom.schemas import ExportError, NothingFound

HELLO = [{"role": "user", "content": "<Zürich & Oslo>"}]


def render(source: str) -> str:
    return ChatTemplate("mine", source).render(HELLO, [])


def test_trl_ships_the_usual_ones() -> None:
    """They are found without importing TRL, whose dependencies are not installed."""
    assert set(USUAL) <= set(shipped())
    assert [template.name for template in choose([])] == list(USUAL)
    assert len(choose(["all"])) > 30


def test_the_environment_is_that_of_transformers() -> None:
    """JSON without HTML's escapes, blocks trimmed, loop controls, dates and generation marks."""
    assert render("{{ messages[0] | tojson }}") == '{"role": "user", "content": "<Zürich & Oslo>"}'
    assert render("  {% if true %}\na\n  {% endif %}\n") == "a\n"
    assert render("{% for m in [1, 2] %}{% break %}{% endfor %}b") == "b"
    assert render("{% generation %}{{ messages[0].role }}{% endgeneration %}") == "user"
    assert render("{{ strftime_now('%Y') }}") == "2026"
    assert render("{{ bos_token }}{{ tools is none }}") == "<s>True"
    with pytest.raises(TemplateError, match="no tools here"):
        render("{{ raise_exception('no tools here') }}")


def test_a_template_is_held_in_a_sandbox() -> None:
    """What reaches for Python's insides is refused."""
    with pytest.raises(TemplateError):
        render("{{ ''.__class__.__mro__[1].__subclasses__() }}")


def test_a_rendering_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not grow without end."""
    monkeypatch.setattr("toolloom.pipeline.dataset.export.templates.MOST", 1_000)
    with pytest.raises(TemplateError, match="too long"):
        render("{% for i in range(99999) %}{{ i }}{% endfor %}")


def test_templates_that_know_no_tools_are_told() -> None:
    """Some write out calls but not the tools, and some neither."""
    told = dict.fromkeys(("llama3", "phi3"), (False, False))
    told |= {"qwen3": (True, True), "deepseekv3": (True, False)}
    assert {one.name: (one.knows_tools, one.shows_tools) for one in choose([*told])} == told


def test_files_are_templates_too(tmp_path: Path) -> None:
    """By their path; what is no template says so."""
    path = tmp_path / "mine.jinja"
    path.write_text("{{ messages[0].content }}")
    (template,) = choose([str(path)])
    assert template.render(HELLO, []) == "<Zürich & Oslo>"
    with pytest.raises(NothingFound, match="no such template"):
        choose(["qwen99"])
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ExportError, match="UTF-8"):
        choose([str(path)])
    with pytest.raises(ExportError, match="broken"):
        render("{% if %}")
