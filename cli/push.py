"""The command that brings a version to the Hugging Face Hub."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from toolloom.cli.console import HERE, Outputs, console_on, say
from toolloom.pipeline.store.secrets import SECRETS


def push(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The dataset's name.")],
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="A version, such as 1.0.0, or latest.")
    ],
    repo: Annotated[str, typer.Argument(metavar="REPO", help="On the Hub: owner/name.")],
    public: Annotated[
        bool, typer.Option("--public", help="A repository that is made now is public.")
    ] = False,
    outputs: Outputs = HERE,
) -> None:
    """Push a version of a dataset to the Hugging Face Hub: one commit, and a tag.

    The repository is made if there is none, private without `--public`. Its head becomes what
    the version is; earlier versions stay under their tags. A push that was interrupted goes on
    with the same command. The token is HF_TOKEN's, or that of `hf auth login`.

    Example: `toolloom push quickstart latest me/quickstart`
    """
    from toolloom.pipeline.dataset import push as pushing
    from toolloom.pipeline.dataset.parcel import Load
    from toolloom.pipeline.pages.sections import pushed_lines, sending
    from toolloom.pipeline.render.terminal import Ticking
    from toolloom.pipeline.store.version import find_version

    # Otherwise it asks the Hub, beside all else, by which programs it may be run.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    found = find_version(outputs, f"{name}/{version}")
    token = pushing.login()
    SECRETS.learn([token])
    load = Load()
    with Ticking(console_on(sys.stderr), lambda seconds: sending(load, seconds)):
        pushed = pushing.push(found, repo, token, public=public, load=load)
    for line in pushed_lines(found, pushed):
        say(line)
