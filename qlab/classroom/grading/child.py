"""Runs in the answer's own process: loads the answer cells, then calls what the grader asks for.

The grader trusts nothing that comes from here: an answer can write anything on the channel. It is judged by
what reached the database and the provider.
"""

import ast
import asyncio
import importlib
import inspect
import json
import linecache
import socket
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

TEXT = 500  # characters of an error message that go into a report
LINE = 1 << 20

Stage = Callable[[dict[str, Any], dict[str, Any]], Awaitable[Any]]


def run(channel: int, job: dict[str, Any]) -> NoReturn:
    """Load the cells of `job` and serve calls until the grader closes the channel."""
    asyncio.run(_serve(channel, job))
    raise SystemExit(0)


async def _serve(channel: int, job: dict[str, Any]) -> None:
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=channel), limit=LINE)

    def send(message: dict[str, Any]) -> None:
        writer.write(json.dumps(message, default=repr)[:LINE].encode() + b"\n")

    names: dict[str, Any] = {"__name__": "answer"}
    try:
        for cell, source in job["cells"]:
            await _execute(cell, source, names)
    except BaseException as error:
        send({"event": "failed", "error": describe(error)})
        await writer.drain()
        return
    stage: Stage = await importlib.import_module(job["stage"]).open_stage(job["config"])
    send({"event": "loaded", "defined": job["entry"] in names})
    tasks = set()
    while line := await reader.readline():
        task = asyncio.create_task(_answer(stage, names, json.loads(line), send))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


async def _execute(cell: str, source: str, names: dict[str, Any]) -> None:
    """Run a cell as a notebook does, `await` at top level included."""
    filename = f"<{cell}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    code = compile(source, filename, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    made = eval(code, names)
    if inspect.isawaitable(made):
        await made


async def _answer(
    stage: Stage, names: dict[str, Any], command: dict[str, Any], send: Callable[[dict[str, Any]], None]
) -> None:
    try:
        send({"id": command["id"], "value": await stage(names, command)})
    except BaseException as error:
        send({"id": command["id"], "error": describe(error)})


def describe(error: BaseException) -> dict[str, Any]:
    """An error as data: its classes, its text, and the line of the answer where it came from."""
    where = None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith("<ans-"):
            where = f"{frame.filename[1:-1]}:{frame.lineno}"
    if isinstance(error, SyntaxError) and (error.filename or "").startswith("<ans-"):
        where = f"{(error.filename or '')[1:-1]}:{error.lineno}"
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be read)"
    return {"classes": [c.__name__ for c in type(error).__mro__], "text": text[:TEXT], "where": where}
