"""`toolloom` called as a command, in this process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from toolloom.cli import app


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])
