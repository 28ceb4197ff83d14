"""fakeredis as a server: `python fake_server.py FILE` listens on a free local port and writes it to FILE."""

import sys
from pathlib import Path


def main(place: Path) -> None:
    from fakeredis import TcpFakeServer

    server = TcpFakeServer(("127.0.0.1", 0), server_type="valkey")
    unfinished = place.with_suffix(".new")
    unfinished.write_text(str(server.server_address[1]))
    unfinished.replace(place)
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
