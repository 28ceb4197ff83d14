"""`python -m benchmarks`: measure, print markdown tables, write benchmarks/results.json."""

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import postgres
from benchmarks.depth import cost
from benchmarks.measure import Bench
from benchmarks.peers import BULLMQ, PEERS, QLAB, Peer, PeerError
from benchmarks.report import markdown, ratios, with_tables
from qlab.embedded import ServerError

DOCS = Path(__file__).parents[1] / "docs" / "performance.md"
LEVELS = (("waiting", 1_000), ("waiting", 100_000), ("waiting", 1_000_000),
          ("delayed", 100_000), ("completed", 100_000))  # fmt: skip


def options(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--peers", default=",".join(PEERS), help=f"of {', '.join(PEERS)}; default all")
    parser.add_argument("--n", type=int, default=10_000, help="jobs of enqueue, bulk and drain")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--quick", action="store_true", help="one round of fewer jobs, no depth: a first look"
    )
    parser.add_argument(
        "--sections", default="postgres,explorer", help="what else to measure; '' for nothing"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results.json")
    parser.add_argument(
        "--report",
        action="store_true",
        help="measure nothing: put the tables of --out into docs/performance.md",
    )
    given = parser.parse_args(arguments)
    if unknown := set(given.peers.split(",")) - set(PEERS):
        parser.error(f"unknown peer {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    if given.quick:
        given.rounds, given.n = 1, min(given.n, 2000)
    return given


def prepared(names: list[str], bench: Bench, errors: list[str]) -> dict[Peer, dict[str, str]]:
    """The peers that can run here, with their versions."""
    ready = {}
    for name in names:
        peer = PEERS[name]
        print(f"preparing {name}", file=sys.stderr)
        try:
            peer.prepare()
            ready[peer] = peer.call("versions", env=bench.env)
        except PeerError as error:
            errors.append(str(error))
    return ready


def one_round(bench: Bench, peer: Peer, given: argparse.Namespace, last: bool) -> dict[str, dict[str, Any]]:
    """Every workload of one peer."""
    found = {
        "enqueue": bench.enqueue(peer, given.n),
        "drain": bench.drain(peer, given.n),
        "io": bench.drain(peer, 2000, concurrency=100, kind="sleep"),
        "latency": bench.latency(peer, 50 if given.quick else 200),
    }
    if last and peer in (QLAB, BULLMQ):
        found["idle"] = bench.idle(peer, 6 if given.quick else 30)
    return found


def measure(bench: Bench, given: argparse.Namespace) -> dict[str, Any]:
    """All rounds, interleaved: the peers take turns, each round begins with another."""
    errors: list[str] = []
    ready = prepared(given.peers.split(","), bench, errors)
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {peer.name: {} for peer in ready}
    order, loads = list(ready), [os.getloadavg()[0]]
    for number in range(given.rounds):
        for peer in order[number % len(order) :] + order[: number % len(order)]:
            print(f"round {number + 1}: {peer.name}", file=sys.stderr)
            try:
                found = one_round(bench, peer, given, number == given.rounds - 1)
            except (PeerError, subprocess.TimeoutExpired) as error:
                errors.append(f"{peer.name}, round {number + 1}: {error}")
                continue
            for workload, figures in found.items():
                runs[peer.name].setdefault(workload, []).append(figures)
            loads.append(os.getloadavg()[0])
    whole = not given.quick and QLAB in ready
    depth = [cost(bench, what, level) for what, level in LEVELS] if whole else []
    return {
        "when": time.strftime("%F %T"), "rounds": given.rounds, "n": given.n, "cpus": os.cpu_count(),
        "server": f"Valkey {bench.redis.info('server')['valkey_version']}", "load": [min(loads), max(loads)],
        "python": sys.version.split()[0], "versions": {peer.name: found for peer, found in ready.items()},
        "ratios": ratios(runs), "runs": runs, "depth": depth, "errors": errors,
    }  # fmt: skip


def section(name: str, given: argparse.Namespace, result: dict[str, Any]) -> dict[str, Any] | None:
    """A part of its own: the queues in PostgreSQL, or `benchmarks/NAME.py`, if it is there, which has
    section(quick) -> a dict for results.json whose `markdown` is printed."""
    if name == "postgres":
        print("section postgres", file=sys.stderr)
        return postgres.section(given.quick, given.rounds, result["errors"])
    if not name or importlib.util.find_spec(f"benchmarks.{name}") is None:
        return None
    print(f"section {name}", file=sys.stderr)
    try:
        return dict(importlib.import_module(f"benchmarks.{name}").section(given.quick))
    except Exception as error:  # the other figures are worth keeping
        result["errors"].append(f"{name}: {type(error).__name__}: {error}")
        return None


def main(arguments: list[str] | None = None) -> int:
    """Measure and report; exit status 1 when qlab itself could not be measured."""
    given = options(arguments)
    if given.report:
        tables = markdown(json.loads(given.out.read_text()))
        DOCS.write_text(with_tables(DOCS.read_text(encoding="utf-8"), tables), encoding="utf-8")
        print(tables)
        return 0
    try:
        bench = Bench()
    except ServerError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    try:
        result = measure(bench, given)
    finally:
        bench.close()
    result |= {name: part for name in given.sections.split(",") if (part := section(name, given, result))}
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(markdown(result))
    return 1 if any(error.startswith(QLAB.name) for error in result["errors"]) else 0


if __name__ == "__main__":
    sys.exit(main())
