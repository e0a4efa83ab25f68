"""The command that opens the notebook of rejected samples in JupyterLab."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from toolloom.cli.console import HERE, Outputs, say, shown

FIRST_PORT, PORTS = 8888, 100
HOST = "127.0.0.1"
COPY = {
    True: "It is a new copy of toolloom's notebook: change it as you like.",
    False: "It is your copy, as you left it.",
}


def notebook(
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET", help="A dataset `name` or `name/1.2.0`; else the newest one."
        ),
    ] = None,
    outputs: Outputs = HERE,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address only.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port on this machine, not the first free one."),
    ] = None,
) -> None:
    """Read in JupyterLab why samples were rejected, and mark which were rightly so. Ctrl-C ends it.

    The notebook is copied to `notebooks/` in the outputs; a copy that you changed is kept.

    Example: `toolloom notebook quickstart`
    """
    from toolloom.pipeline.pages.inspection import newest_dataset
    from toolloom.pipeline.pages.notebooks import copy_notebook, write_settings
    from toolloom.pipeline.store.version import find_version

    _need_jupyter()
    wanted = dataset or newest_dataset(outputs)
    version = find_version(outputs, wanted)
    if wanted.rstrip("/") in (version.name, f"{version.name}/latest"):
        opens, asked = f"the newest version of {version.name}, now {version.label}", version.name
    else:
        opens, asked = version.label, str(version.path.resolve())  # it may lie anywhere
    path, is_new = copy_notebook(outputs)
    settings = [str(write_settings(outputs).resolve()), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    chosen, token = _free_port(port), secrets.token_hex(16)
    say(
        f"{path}: opens {opens}. {COPY[is_new]}",
        f"http://{HOST}:{chosen}/lab/tree/{path.name}?token={token}",
    )
    environment = {
        **os.environ,
        "TOOLLOOM_OUTPUTS": shown(outputs.resolve()),
        "TOOLLOOM_DATASET": asked,
        "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, settings)),
        "JUPYTER_TOKEN": token,  # not among the arguments, which everyone on the machine sees
    }
    sys.stdout.flush()
    # From here on the process is Jupyter's: so is Ctrl-C, and nothing is left behind.
    os.execve(sys.executable, _command(path, chosen, no_browser), environment)


_CONTENTS = "jupyter_server.services.contents.largefilemanager"


def _command(path: Path, port: int, no_browser: bool) -> list[str]:
    """JupyterLab for this machine alone, that asks nobody and nothing on the network."""
    settings = {
        "ServerApp.ip": HOST,
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.root_dir": path.parent.resolve(),
        "ServerApp.answer_yes": True,
        "ServerApp.log_level": "WARN",
        # Of the asynchronous manager a thread may be left, which keeps the process from its end.
        "ServerApp.contents_manager_class": f"{_CONTENTS}.LargeFileManager",
        "LabApp.default_url": f"/lab/tree/{path.name}",
        "LabApp.extension_manager": "readonly",
        "LabApp.news_url": None,
        "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
    }
    flags = ["--no-browser"] if no_browser else []
    if os.geteuid() == 0:
        flags.append("--allow-root")  # as in a container; it listens to this machine only
    told = [f"--{name}={value}" for name, value in settings.items()]
    return [sys.executable, "-m", "jupyterlab", *flags, *told]


def _need_jupyter() -> None:
    from toolloom.schemas import ToolloomError

    lacking = [name for name in ("jupyterlab", "ipywidgets") if find_spec(name) is None]
    if lacking:
        raise ToolloomError(
            f"The notebook needs {' and '.join(lacking)}: pip install 'toolloom[notebook]'"
        )


def _free_port(wanted: int | None) -> int:
    """The port that was asked for, or the first one nobody listens on. Raises ToolloomError."""
    from toolloom.schemas import ToolloomError

    for port in [wanted] if wanted else range(FIRST_PORT, FIRST_PORT + PORTS):
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((HOST, port))
            except OSError:
                continue
            return port
    told = f"Port {wanted} is" if wanted else f"Ports {FIRST_PORT} and the {PORTS - 1} after it are"
    raise ToolloomError(f"{told} taken. --port names another one.")
