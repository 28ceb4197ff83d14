"""What a job of a flow knows of its children, and why it may not be changed because of them."""

from __future__ import annotations

from typing import Any

from qlab import payload
from qlab.connection import Connection


async def values(connection: Connection, job_id: str) -> dict[str, Any]:
    """Results of the children that completed, by name."""
    return {name: payload.decode(text) for name, text in (await _words(connection, job_id, "=")).items()}


async def failures(connection: Connection, job_id: str) -> dict[str, str]:
    """Reasons of the children that failed, by name; none under remove_dependency."""
    return await _words(connection, job_id, "!x")


async def pending(connection: Connection, job_id: str) -> list[str]:
    """Names of the children that the job waits for, sorted."""
    return sorted(await connection.command("SMEMBERS", f"{connection.keys['pending']}:{job_id}"))


async def _words(connection: Connection, job_id: str, marks: str) -> dict[str, str]:
    """What the script join noted: a mark and a text for each child."""
    noted = await connection.command("HGETALL", f"{connection.keys['children']}:{job_id}")
    return {name: word[1:] for name, word in sorted(noted.items()) if word[0] in marks}


def refusal(job_id: str, answer: str) -> str | None:
    """The sentence for an answer of the script change_job that names a child; None for another answer."""
    word, _, child = answer.partition(" ")
    if word == "child-active":
        return f"job {job_id} has the child {child}, which is active: nothing was removed"
    if word == "child-failed":
        return (
            f"job {job_id} failed because of its child {child}: retry that, and this one waits for it again"
        )
    return None
