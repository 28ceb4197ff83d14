"""The lessons in JupyterLab, with servers that live exactly as long as it does."""

import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from qlab.embedded import start

FIRST_PAGE = "notebooks/00_start_here.ipynb"
_PORT_OPTIONS = ("--port", "--ServerApp.port")


class LabError(RuntimeError):
    """The lab cannot start; the message is a sentence for the learner."""


def run(options: Sequence[str]) -> int:
    """Serve the lessons of the current folder until Ctrl-C or SIGTERM. `options` are JupyterLab's own.

    Raises `LabError` or `qlab.embedded.ServerError`.
    """
    if not Path(FIRST_PAGE).is_file():
        raise LabError(f"There is no {FIRST_PAGE} here: run `make lab` in the folder of the course.")
    port = chosen_port(options)
    if port is not None and not port_is_free(port):
        raise LabError(
            f"Port {port} is taken by another program: stop it, or choose another one with --port=…"
        )
    if find_spec("jupyterlab") is None:
        raise LabError("JupyterLab is not installed: run `make setup`.")
    with start() as servers:
        os.environ.update(servers.environment())
        os.environ.update(private_settings(Path(".qlab").absolute()))
        trust_stored_notebooks()
        print("servers: " + ", ".join(servers.versions().values()), *servers.notices, sep="\n", flush=True)
        from jupyterlab.labapp import LabApp  # only now: it reads those variables

        try:
            LabApp.launch_instance([*_settings(port), *options])
        except SystemExit as end:
            return int(end.code or 0)
    return 0


def chosen_port(options: Sequence[str]) -> int | None:
    """The port that `options` ask for; None when JupyterLab may look for a free one. Raises `LabError`."""
    chosen = None
    for option, following in itertools.pairwise([*options, ""]):
        name, equals, value = option.partition("=")
        if name in _PORT_OPTIONS:
            chosen = value if equals else following
    if chosen is None:
        return None
    if not chosen.isdigit() or not 0 < int(chosen) < 65536:
        raise LabError(f"{chosen!r} is not a port: write a number from 1 to 65535, for example --port=8888")
    return int(chosen)


def port_is_free(port: int) -> bool:
    """True when a server could listen on `port` of the loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def private_settings(folder: Path) -> dict[str, str]:
    """Variables that keep Jupyter and IPython to `folder`, whatever the user's settings and home."""
    jupyter = folder / "jupyter"
    found = {
        "JUPYTER_CONFIG_DIR": str(jupyter / "config"),
        "JUPYTER_DATA_DIR": str(jupyter / "data"),
        "JUPYTER_RUNTIME_DIR": str(jupyter / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(jupyter / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(jupyter / "workspaces"),
        "IPYTHONDIR": str(folder / "ipython"),
    }
    home = os.environ.get("HOME", "")
    if not (home and os.access(home, os.W_OK | os.X_OK)):
        found["HOME"] = str(folder / "home")
    for value in found.values():
        Path(value).mkdir(parents=True, exist_ok=True)
    _ask_nothing(Path(found["JUPYTERLAB_SETTINGS_DIR"]))
    return found


def _ask_nothing(settings: Path) -> None:
    """A learner's first screen is the lesson, not a question about news; a choice made later stays."""
    notification = settings / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    if not notification.exists():
        notification.parent.mkdir(parents=True, exist_ok=True)
        notification.write_text('{"fetchNews": "false", "checkForUpdates": false}\n')


def trust_stored_notebooks() -> None:
    """Let JupyterLab show the stored pictures: it hides the SVGs of a notebook that it does not trust.

    The lessons come with the course, as its code does. This runs beside the start of the lab.
    """
    notebooks = sorted(str(path) for path in Path("notebooks").glob("*.ipynb"))
    command = [sys.executable, "-m", "jupyter", "trust", *notebooks]
    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _settings(port: int | None) -> list[str]:
    """Options of JupyterLab for a lesson; those of the learner come after them and win."""
    settings = [
        f"--ServerApp.root_dir={Path.cwd()}",
        f"--LabApp.default_url=/lab/tree/{FIRST_PAGE}",
        "--LabApp.news_url=None",  # nothing is fetched from elsewhere
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
        "--LanguageServerManager.autodetect=False",  # it would run npm
        "--Application.log_level=WARN",  # the address is still shown
        "--ServerApp.answer_yes=True",  # Ctrl-C ends the lab without a question
    ]
    if port is not None:
        settings.append("--ServerApp.port_retries=0")
    if os.geteuid() == 0:
        settings.append("--allow-root")
    return settings
