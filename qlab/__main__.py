"""`python -m qlab`. The course's commands are joined here: no other module of the library knows it."""

import argparse
import sys

from qlab.ops import cli


def _start(options: argparse.Namespace) -> int:
    from qlab.classroom.exercises import main_start

    return main_start(options.exercise) or 0


def _handout(options: argparse.Namespace) -> int:
    from qlab.classroom.exercises import main_handout

    return main_handout() or 0


def _board(options: argparse.Namespace) -> int:
    from qlab.classroom import board

    return board.main() or 0


def main() -> int:
    """Run the command of this process; return its exit status."""
    return cli.main(sys.argv[1:], {"start": _start, "handout": _handout, "board": _board})


if __name__ == "__main__":
    sys.exit(main())
