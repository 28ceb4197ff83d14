"""`python -m qlab.testing.kill_test`: prints one JSON line; exit status 1 when a promise is broken."""

import argparse
import json
import sys

from qlab.embedded import ServerError
from qlab.testing.kill_test.run import run
from qlab.testing.kill_test.setting import KillTestError, Setting, broken_promises


def main(arguments: list[str] | None = None) -> int:
    """Run one kill-test; see --help."""
    parser = argparse.ArgumentParser(prog="python -m qlab.testing.kill_test", description=__doc__)
    parser.add_argument("--jobs", type=int, default=Setting.jobs)
    parser.add_argument("--kills", type=int, default=Setting.kills)
    parser.add_argument(
        "--seed", type=int, help="of the moments and the victims; drawn and printed if not given"
    )
    parser.add_argument("--redis-restart", action="store_true", help="also SIGKILL Redis in the middle")
    parser.add_argument("--appendfsync", choices=["always", "everysec", "no"], default="always")
    given = vars(parser.parse_args(arguments))
    try:
        result = run(Setting(**{name: value for name, value in given.items() if value is not None}))
    except (KillTestError, ServerError) as error:
        print(f"kill-test: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result))
    broken = broken_promises(result)
    for sentence in broken:
        print(f"kill-test: {sentence} (seed {result['seed']})", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
