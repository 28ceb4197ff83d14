"""Queues that live in PostgreSQL, qlab's PgQueue beside pgqueuer and pg-boss: how fast, how much written."""

import json
import os
import time
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import psycopg

from benchmarks.measure import Runner
from benchmarks.peers import PG_PEERS, Peer, PeerError
from benchmarks.processes import cpu_seconds, peak_rss, tree
from qlab.embedded import create_database, drop_database, start

DATABASE = f"qlab_bench_{os.getpid()}"


class PgBench(Runner):
    """A database of its own on a private PostgreSQL (or that of QLAB_PG_DSN), default settings."""

    def __init__(self) -> None:
        super().__init__()
        self._servers = start(redis="fakeredis")
        if self._servers.pg_dsn is None:
            raise PeerError("; ".join(self._servers.notices))
        self._dsn = self._servers.pg_dsn
        self.version = self._servers.versions()["postgres"]

    def close(self) -> None:
        """Drop the database, stop the server."""
        drop_database(self._dsn, DATABASE)
        self._servers.close()

    def fresh(self, peer: Peer) -> None:
        """A new database with the peer's tables."""
        drop_database(self._dsn, DATABASE)
        dsn = create_database(self._dsn, DATABASE)
        self.env = self.env | {"BENCH_PG_DSN": dsn, "BENCH_PG": json.dumps(_parts(dsn))}
        peer.call("setup", env=self.env)
        self._ask("CHECKPOINT")

    def left(self, peer: Peer) -> int:
        """Jobs that are not completed."""
        return int(self._ask(peer.left[0][0]))

    def written(self) -> int:
        """Bytes of write-ahead log so far."""
        return int(self._ask("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"))

    def enqueue(self, peer: Peer, n: int) -> dict[str, Any]:
        """n jobs one by one, each committed."""
        self.fresh(peer)
        seconds = peer.call("enqueue", n, "one", "noop", env=self.env)
        self._check(self.left(peer) == n, f"{self.left(peer)} jobs in the table after {n} adds")
        return {"n": n, "per_s": n / seconds}

    def drain(self, peer: Peer, n: int, concurrency: int = 20) -> dict[str, Any]:
        """n waiting jobs, one worker; what it cost the log to add them and to run them."""
        self.fresh(peer)
        before = self.written()
        bulk = peer.call("enqueue", n, "bulk", "noop", env=self.env)
        self._check(self.left(peer) == n, f"{self.left(peer)} jobs in the table after {n} adds")
        added = self.written()
        with self.worker(peer, concurrency) as (pid, counter):
            first = self._wait(lambda: counter.read()[0])
            cpu = cpu_seconds(tree(pid))
            self._wait(lambda: counter.read()[1] >= n and self.left(peer) == 0)
            seconds = time.monotonic() - first
            self._check(counter.read()[1] == n, f"{counter.read()[1]} runs of {n} jobs")
            cpu, rss = cpu_seconds(tree(pid)) - cpu, peak_rss(tree(pid))
        ran = self.written()
        return {
            "n": n, "per_s": n / seconds, "bulk_per_s": n / bulk, "cpu_us": cpu / n * 1e6, "rss_mib": rss,
            "wal_add": (added - before) / n, "wal_run": (ran - added) / n,
        }  # fmt: skip

    def _ask(self, query: str) -> Any:
        with psycopg.connect(self.env["BENCH_PG_DSN"], autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def _parts(dsn: str) -> dict[str, Any]:
    """Host (a folder or a name), port, user, password and database, for clients that read no libpq URI."""
    url = urlsplit(dsn)
    more = {key: values[0] for key, values in parse_qs(url.query).items()}
    found = {
        "host": url.hostname or more.get("host"), "port": url.port or int(more.get("port", 5432)),
        "user": (url.username and unquote(url.username)) or more.get("user", "postgres"),
        "database": url.path.lstrip("/"),
    }  # fmt: skip
    password = (url.password and unquote(url.password)) or more.get("password")
    return found | ({"password": password} if password else {})


def section(quick: bool, rounds: int, errors: list[str]) -> dict[str, Any]:
    """The runs of every PostgreSQL peer, interleaved."""
    try:
        bench = PgBench()
    except PeerError as error:
        errors.append(f"postgres: {error}")
        return {}
    try:
        return _measure(bench, quick, rounds, errors)
    finally:
        bench.close()


def _measure(bench: PgBench, quick: bool, rounds: int, errors: list[str]) -> dict[str, Any]:
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    versions = {}
    for number in range(rounds):
        for peer in PG_PEERS[number % len(PG_PEERS) :] + PG_PEERS[: number % len(PG_PEERS)]:
            try:
                if peer.name not in versions:
                    peer.prepare()
                    versions[peer.name] = peer.call("versions", env=bench.env)
                found = {
                    "enqueue": bench.enqueue(peer, 200 if quick else 2000),
                    "drain": bench.drain(peer, 500 if quick else 5000),
                }
            except (PeerError, psycopg.Error) as error:
                errors.append(f"postgres, {peer.name}, round {number + 1}: {error}")
                continue
            for workload, figures in found.items():
                runs.setdefault(peer.name, {}).setdefault(workload, []).append(figures)
    return {"server": bench.version, "versions": versions, "runs": runs}
