"""The command line. Each command imports what it needs when it runs, so that a worker starts fast."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str], course: Mapping[str, Command]) -> int:
    """Run one command and return the exit status. `course` holds the commands that belong to the course."""
    options = _parser().parse_args(arguments)
    commands: dict[str, Command] = {"worker": _worker, "doctor": _doctor, "lab": _lab, **course}
    try:
        return commands[options.command](options)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough (`... | head`); the interpreter must not write to it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m qlab", description="A small, real job queue, and its course."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    worker = commands.add_parser("worker", help="run a worker until SIGTERM or Ctrl-C")
    worker.add_argument("spec", metavar="module:attribute", help="a Worker, or a function that returns one")
    worker.add_argument(
        "--close-timeout", type=_seconds, metavar="SECONDS",
        help="after a signal, give jobs back that take longer than this (default: wait for them)",
    )  # fmt: skip
    commands.add_parser(
        "doctor", help="check this machine: versions, servers, a first job, memory, disk, port"
    )
    lab = commands.add_parser("lab", help="open the lessons in JupyterLab, with servers", prefix_chars="\0")
    lab.add_argument("options", nargs=argparse.REMAINDER, help="handed to JupyterLab, such as --no-browser")
    start = commands.add_parser("start", help="copy an exercise to my/, where it is yours")
    start.add_argument("exercise", metavar="EXERCISE", help="for example ex04")
    commands.add_parser("handout", help="pack the course without its solutions")
    commands.add_parser("board", help="show which goals of the course are proved")
    return parser


def _seconds(text: str) -> float:
    from qlab.retry import seconds

    try:
        return seconds(float(text), "it")
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None


def _worker(options: argparse.Namespace) -> int:
    from qlab.runner import run

    return run(options.spec, options.close_timeout)


def _doctor(options: argparse.Namespace) -> int:
    from qlab.ops.doctor import diagnose, report

    failed = [check for check in diagnose(report) if not check.ok]
    print(f"\n{len(failed)} of the checks above failed: see the fixes." if failed else "\nAll is well.")
    return 1 if failed else 0


def _lab(options: argparse.Namespace) -> int:
    from qlab.embedded import ServerError
    from qlab.ops.lab import LabError, run

    try:
        return run(options.options)
    except (LabError, ServerError) as error:
        print(f"The lab cannot start. {error}", file=sys.stderr)
        return 1
