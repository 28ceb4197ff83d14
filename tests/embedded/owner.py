"""A program for the tests: start servers, say where they are, then wait to be told to go on.

    python owner.py main|thread [no-postgres]

Line 1: JSON with the servers. After a line on standard input it closes them and ends.
"""

import json
import signal
import sys
import threading

from qlab.embedded import Servers, start


def main(where: str, *options: str) -> None:
    found: list[Servers] = []

    def begin() -> None:
        found.append(start(postgres="no-postgres" not in options))

    if where == "thread":  # the thread ends at once: the servers must not end with it
        thread = threading.Thread(target=begin)
        thread.start()
        thread.join()
    else:
        begin()
    servers = found[0]
    about = {"redis": servers.redis_url, "pg": servers.pg_dsn, "kinds": [servers.redis_kind, servers.pg_kind]}
    print(json.dumps(about | {"notices": servers.notices}), flush=True)
    sys.stdin.readline()
    servers.close()
    print("closed", flush=True)


# As a terminal starts programs: a run in the background hands down an ignored Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
main(*sys.argv[1:])
