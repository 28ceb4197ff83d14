"""Adds a flow (or a schedule) and runs workers for it until all is done.

The tests run it as a process, kill it, and run it again: `python flow_process.py flow|tick`.
"""

import asyncio
import os
import sys

from qlab import FlowProducer, Queue, Worker

FAST = {"lock_duration": 0.4, "stalled_interval": 0.2, "max_stalled_count": 5}


async def thumb(job):
    return job.data


async def report(job):
    return sorted((await job.get_children_values()).values())


async def flow():
    """Three levels: c1 and the inner job m (which has c2 and c3) below p."""
    leaves = [{"name": "c", "queue": "thumb", "data": n, "options": {"job_id": f"c{n}"}} for n in (1, 2, 3)]
    inner = {"name": "m", "queue": "thumb", "data": 4, "options": {"job_id": "m"}, "children": leaves[1:]}
    tree = {"name": "p", "queue": "report", "options": {"job_id": "p"}, "children": [leaves[0], inner]}
    async with FlowProducer() as flows:
        node = await flows.add(tree)
        async with Worker("thumb", thumb, **FAST), Worker("report", report, **FAST):
            await node.job.wait_until_finished(30)


async def tick():
    """A schedule that ticks every 100 ms, until ten of its jobs have completed."""
    async with Queue("thumb") as queue, Worker("thumb", thumb, **FAST):
        await queue.upsert_job_scheduler(
            "s", "tick", every=0.1, missed="all", limit=1000, remove_on_complete=False
        )
        while (await queue.get_job_counts("completed"))["completed"] < 10:
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    asyncio.run({"flow": flow, "tick": tick}[sys.argv[1]]())
    print("done", os.getpid())
