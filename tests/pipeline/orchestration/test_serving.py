"""`toolloom serve` refuses what cannot be served before it registers anything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from support.processes import TOOLLOOM

from toolloom.pipeline.orchestration.serving import check_deployment, check_server
from toolloom.schemas import RecipeError, ToolloomError


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "url", "told"),
    [
        ("nome: toy", "http://127.0.0.1:9/api", "is not a valid recipe"),
        ("name: toy", None, "export PREFECT_API_URL=http://127.0.0.1:4200/api"),
        ("name: toy", "http://127.0.0.1:9/api", "does not answer"),
    ],
)
def test_what_cannot_be_served_is_refused(
    recipe: str, url: str | None, told: str, tmp_path: Path
) -> None:
    """One message that says what to do, no traceback, exit code 2."""
    (tmp_path / "toy.yaml").write_text(recipe)
    found = {**os.environ, "PREFECT_HOME": str(tmp_path), "PREFECT_API_URL": url}
    ran = subprocess.run(
        [*TOOLLOOM, "serve", "toy.yaml"],
        env={name: value for name, value in found.items() if value is not None},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert told in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("name", "cron", "zone", "told"),
    [
        ("a/b", None, "UTC", "no `/` and no `%`"),
        ("toy", "0 2 * * *", "Vienna", "no such zone"),
        ("toy", "0 2 * *", "UTC", "is not a schedule"),
        ("toy", "* * * * * *", "UTC", "has 6 fields"),
    ],
)
def test_a_deployment_is_checked_first(name: str, cron: str | None, zone: str, told: str) -> None:
    """Name, zone and schedule, each with a message of its own."""
    with pytest.raises(RecipeError, match=told):
        check_deployment(name, cron, zone)


async def test_an_address_that_is_none_is_told_before_the_server_is_blamed() -> None:
    """The variable is to be mended, not the server to be started."""
    with (
        temporary_settings({PREFECT_API_URL: "127.0.0.1:4200"}),
        pytest.raises(ToolloomError, match="begins with http://"),
    ):
        await check_server()
