"""Medians, ratios and a markdown table."""

import json
import statistics
from typing import Any

from benchmarks.peers import BULLMQ, PYTHON, QLAB

Runs = dict[str, dict[str, list[dict[str, Any]]]]


def median(runs: Runs, peer: str, workload: str, key: str) -> float | None:
    """The median of a figure over the rounds; None without any."""
    figures = [one[key] for one in runs.get(peer, {}).get(workload, []) if key in one]
    return statistics.median(figures) if figures else None


def ratios(runs: Runs) -> dict[str, float | None]:
    """Above 1 always means that qlab is better; None where one side was not measured."""

    def against(other: float | None, mine: float | None) -> float | None:
        return round(mine / other, 2) if mine and other else None

    def of(workload: str, key: str) -> float | None:
        return against(median(runs, BULLMQ.name, workload, key), median(runs, QLAB.name, workload, key))

    drains = [median(runs, peer.name, "drain", "per_s") for peer in PYTHON]
    best = max((one for one in drains if one), default=None)
    latency = [median(runs, name, "latency", "p50") for name in (QLAB.name, BULLMQ.name)]
    return {
        "drain_vs_bullmq_node": of("drain", "per_s"),
        "drain_vs_best_python": against(best, median(runs, QLAB.name, "drain", "per_s")),
        "enqueue_vs_bullmq_node": of("enqueue", "per_s"),
        "bulk_vs_bullmq_node": of("drain", "bulk_per_s"),
        "latency_vs_bullmq_node": against(*latency),
    }


_COLUMNS = (
    ("enqueue, jobs/s", "enqueue", "per_s", "{:,.0f}"),
    ("bulk, jobs/s", "drain", "bulk_per_s", "{:,.0f}"),
    ("drain, jobs/s", "drain", "per_s", "{:,.0f}"),
    ("worker CPU, us/job", "drain", "cpu_us", "{:.0f}"),
    ("server CPU, us/job", "drain", "server_cpu_us", "{:.0f}"),
    ("worker peak RSS, MiB", "drain", "rss_mib", "{:.1f}"),
    ("2,000 x 10 ms at 100, s", "io", "seconds", "{:.2f}"),
    ("round trip p50, ms", "latency", "p50", "{:.2f}"),
    ("p99, ms", "latency", "p99", "{:.2f}"),
    ("idle, commands/s", "idle", "commands_per_s", "{:.2f}"),
)


_PG_COLUMNS = (
    ("enqueue, jobs/s", "enqueue", "per_s", "{:,.0f}"),
    ("bulk, jobs/s", "drain", "bulk_per_s", "{:,.0f}"),
    ("drain, jobs/s", "drain", "per_s", "{:,.0f}"),
    ("worker CPU, us/job", "drain", "cpu_us", "{:.0f}"),
    ("WAL bytes/job, add", "drain", "wal_add", "{:,.0f}"),
    ("WAL bytes/job, run", "drain", "wal_run", "{:,.0f}"),
)


def _postgres(part: dict[str, Any]) -> list[str]:
    title = f"Queues in PostgreSQL, {part['server']}, every commit flushed."
    return [title, "", *_table(part["runs"], part["versions"], _PG_COLUMNS)]


def _table(runs: Runs, versions: dict[str, Any], columns: tuple[tuple[str, ...], ...]) -> list[str]:
    """One row for each peer, the fastest drain first."""
    lines = [
        "| peer | " + " | ".join(title for title, *_ in columns) + " | versions |",
        "|---" * (len(columns) + 2) + "|",
    ]
    for peer in sorted(runs, key=lambda name: -(median(runs, name, "drain", "per_s") or 0)):
        figures = [(median(runs, peer, workload, key), form) for _, workload, key, form in columns]
        cells = ["-" if figure is None else form.format(figure) for figure, form in figures]
        words = ", ".join(f"{name} {version}" for name, version in versions[peer].items())
        lines.append(f"| {peer} | " + " | ".join(cells) + f" | {words} |")
    return lines


def markdown(result: dict[str, Any]) -> str:
    """The tables of one result."""
    runs: Runs = result["runs"]
    low, high = result["load"]
    lines = [
        f"Median of {result['rounds']} rounds, {result['n']:,} no-op jobs, concurrency 20, "
        f"{result['server']}, {result['cpus']} CPUs, load {low:.1f} to {high:.1f}.",
        "",
        *_table(runs, result["versions"], _COLUMNS),
    ]
    lines += ["", "| ratio (above 1: qlab is better) | |", "|---|---|"]
    lines += [f"| {name} | {'-' if value is None else value} |" for name, value in result["ratios"].items()]
    if result["depth"]:
        lines += ["", "| other jobs in the queue | us/job |", "|---|---|"]
        lines += [
            f"| {one['level']:,} {one['others']} | {one['us_per_job']:.0f} |" for one in result["depth"]
        ]
    if result.get("postgres"):
        lines += ["", *_postgres(result["postgres"])]
    if explorer := result.get("explorer"):
        lines += ["", explorer.get("markdown", json.dumps(explorer))]
    lines += ["", *(f"- {error}" for error in result["errors"])] if result["errors"] else []
    return "\n".join(lines)


def with_tables(text: str, tables: str) -> str:
    """A document with the tables between its two marks, whatever was there before."""
    begin, end = "<!-- tables: python -m benchmarks --report -->\n", "<!-- end of tables -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{tables}\n\n{end}{after}"
