from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import toys

from toolloom.pipeline.sampling.draw import check_executed, executed_by
from toolloom.schemas import Source, ToolloomError


def runs(source: dict[str, Any], **of: Any) -> bool:
    recipe = toys.recipe(apis={"sources": [{"execute": ["current"], **source}]})
    found = executed_by(recipe, toys.api().model_copy(update={"source": Source(**of)}))
    assert found in (None, *recipe.apis.sources)
    return found is not None


def test_what_a_source_lists_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name or its operation, from the very source that lists it."""
    monkeypatch.chdir(tmp_path)
    Path("tools").mkdir()
    Path("tools/weather.py").touch()
    python: dict[str, Any] = {"kind": "python", "reference": "tools/weather.py"}
    assert runs({"path": "tools/weather.py"}, **python)
    assert runs({"path": "tools"}, **python)
    assert runs({"path": "tools/weather.py", "execute": ["now"]}, **python, operation="now")
    assert not runs({"path": "tools/weather.py", "execute": ["forecast"]}, **python)
    assert not runs({"path": "tools/weather.py", "execute": []}, **python)
    assert not runs({"path": "tools/other.py"}, **python)
    assert not runs({"path": "tools/weather.py"})  # generated
    assert not runs({"mcp": "weather"}, kind="python", reference="weather")


def test_a_server_is_known_by_its_name() -> None:
    """The one the recipe gives it, else its program's."""
    assert runs({"mcp": "/opt/bin/weather --home x"}, kind="mcp", reference="weather")
    assert runs({"mcp": "weather", "name": "sky"}, kind="mcp", reference="sky")
    assert not runs({"mcp": "weather", "name": "sky"}, kind="mcp", reference="weather")


def test_a_source_that_executes_nothing_is_told() -> None:
    """`execute` on a spec or a pool would leave all its APIs to the model without a word."""
    server: dict[str, Any] = {"mcp": "weather", "execute": ["current"]}
    api = toys.api().model_copy(update={"source": Source(kind="mcp", reference="weather")})
    check_executed(toys.recipe(apis={"sources": [server, {"path": "weather.json"}]}), [api])
    spec = {"path": "weather.json", "execute": ["current"]}
    with pytest.raises(ToolloomError, match=r"weather\.json: `execute` names current, of which"):
        check_executed(toys.recipe(apis={"sources": [server, spec]}), [api])
