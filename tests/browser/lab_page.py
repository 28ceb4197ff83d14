"""A real JupyterLab on a copy of the lessons, and a page of a real browser to look at it."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, Playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SETTINGS = '{"fetchNews": "false", "checkForUpdates": false}'
READY = """() => {
  const widget = (window.jupyterapp || window.jupyterlab)?.shell.currentWidget;
  const kernel = widget?.sessionContext?.session?.kernel;
  const connected = kernel?.connectionStatus === 'connected' && kernel.status === 'idle';
  return widget?.sessionContext?.isReady && connected;
}"""
SHUT_DOWN = """() => (window.jupyterapp || window.jupyterlab).shell.currentWidget.sessionContext.shutdown()"""
RUN_ALL = """() => {
  window.qlabRan = null;
  void (window.jupyterapp || window.jupyterlab).commands.execute('notebook:run-all-cells')
    .then(ok => { window.qlabRan = 'ran ' + ok; }, error => { window.qlabRan = 'failed ' + error; });
}"""


def browser() -> str | None:
    """The browser to use: $QLAB_CHROMIUM, else a Chromium or Chrome of the system."""
    chosen = os.environ.get("QLAB_CHROMIUM")
    return chosen or next((path for name in BROWSERS if (path := shutil.which(name))), None)


@contextmanager
def jupyterlab(lessons: Path, home: Path) -> Iterator[str]:
    """Serve ``lessons`` from JupyterLab with nothing of the user's own; yields the address with its token."""
    settings = home / "config/lab/user-settings/@jupyterlab/apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text(SETTINGS)
    token, port = secrets.token_hex(16), _free_port()
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [f"--port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"]
    command += [f"--ServerApp.root_dir={lessons}", "--LabApp.news_url=None", "--expose-app-in-browser"]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    command += ["--LabApp.extension_manager=readonly"]
    with (home / "lab.log").open("w") as log:
        server = subprocess.Popen(command, env=_environment(home), stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_until_served(server, port, home / "lab.log")
            yield f"http://127.0.0.1:{port}/lab?token={token}"
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _environment(home: Path) -> dict[str, str]:
    own = {
        "HOME": str(home),
        "QLAB_HOME": str(home / "qlab"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
        "LANG": "C.UTF-8",
    }
    return {**os.environ, **own}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_served(server: subprocess.Popen[bytes], port: int, log: Path, limit: float = 60) -> None:
    end = time.monotonic() + limit
    while time.monotonic() < end and server.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=2).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not come up within {limit} s:\n{log.read_text()[-2000:]}")


class Notebook:
    """One notebook open in JupyterLab; ``requests`` and ``errors`` are what should not have happened."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.base, _, self.token = address.partition("/lab?token=")
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.context.on("request", lambda request: self._saw(request.url))
        page.on("console", lambda message: self._heard(message.type, message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.set_default_timeout(60_000)

    def open(self, name: str) -> None:
        """Open a notebook and wait until its kernel is connected and idle."""
        # A workspace of its own: the lab would open the notebooks of earlier tests beside this one.
        workspace = f"test-{secrets.token_hex(4)}"
        self.page.goto(f"{self.base}/lab/workspaces/{workspace}/tree/{name}?token={self.token}")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        self.page.wait_for_function(READY)

    def run_all(self, limit: float) -> str:
        """Run all cells as the menu does; returns "ran true" when none failed. ``limit`` is seconds."""
        self.page.evaluate(RUN_ALL)
        self.page.wait_for_function("window.qlabRan !== null", timeout=limit * 1000)
        return str(self.page.evaluate("window.qlabRan"))

    def shut_down(self) -> None:
        """End the kernel and with it the servers and workers of the lesson."""
        self.page.evaluate(SHUT_DOWN)

    def _saw(self, url: str) -> None:
        own = self.base, self.base.replace("http", "ws", 1), "data:", "blob:"
        if not url.startswith(own):
            self.requests.append(url)

    def _heard(self, kind: str, words: str) -> None:
        if kind == "error":
            self.errors.append(words)


@contextmanager
def page(playwright: Playwright, profile: Path, dark: bool = False) -> Iterator[Page]:
    """A page of a fresh browser that reaches nothing but this machine."""
    path = browser()
    if path is None:
        raise RuntimeError("no Chromium here: install the system's chromium package, or set QLAB_CHROMIUM")
    context: BrowserContext = playwright.chromium.launch_persistent_context(
        profile,
        executable_path=path,
        headless=True,
        viewport={"width": 1280, "height": 1400},
        color_scheme="dark" if dark else "light",
        args=FLAGS,
    )
    try:
        context.route(lambda url: not url.startswith("http://127.0.0.1:"), lambda route: route.abort())
        yield context.pages[0]
    finally:
        context.close()
