"""Flows: a job that waits for its children, in any queues.

    async with FlowProducer() as flows:
        node = await flows.add({
            "name": "report", "queue": "report", "data": {"order": 7},
            "children": [
                {"name": "thumb", "queue": "thumb", "data": {"size": 64}},
                {"name": "thumb", "queue": "thumb", "data": {"size": 256}, "on_failure": "ignore_dependency"},
            ],
        })

    async def report(job):                        # runs once all children have ended
        return await job.get_children_values()    # {"thumb:<id of the child>": what its handler returned}

The whole tree is stored by one script, or nothing of it. The parent has the set of the children that it
still waits for, so a child that ends twice counts once. A flow is no transaction and no saga: what a child
did stays done if another one fails, and each child may run more than once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from qlab import payload
from qlab.connection import Clock, Connection, RedisLike
from qlab.errors import FlowError
from qlab.flow_tree import Node, flatten
from qlab.job import Job, JobRecord, read_record


@dataclass(slots=True)
class JobNode:
    """One job of a flow that was added, and the nodes of its children in their order."""

    job: Job
    children: list[JobNode] = field(default_factory=list, repr=False)


class FlowProducer:
    """Adds flows. `redis`, `prefix`, `max_data` and `clock` are as for a Queue; the queues are named by the
    flows. The jobs that it returns can be used until it is closed.
    """

    def __init__(
        self,
        redis: RedisLike = None,
        *,
        prefix: str | None = None,
        max_data: int = payload.DEFAULT_LIMIT,
        clock: Clock | None = None,
    ) -> None:
        self._settings = (redis, prefix, clock)
        self._max_data = max_data
        self._queues: dict[str, Connection] = {}
        self._ready: set[str] = set()
        self._is_cluster: bool | None = None

    async def add(self, flow: dict[str, Any], *, on_child_failure: str = "fail_parent") -> JobNode:
        """Add a tree of jobs, all or none, and return the node of its root.

        A node is a dict: `name` and `queue`, and if you like `data`, `options` (a dict of the options of
        Queue.add), `children` (a list of nodes) and `on_failure`. At most 1,000 nodes, as deep as you like.
        A queue exists by being named, as for Queue; a name that is missing or impossible is refused.
        A node with children is in the state waiting-children until they have ended; then its delay begins
        and its priority counts.

        `on_failure` says what happens to the parent when this child has failed for good (its attempts are
        used up, UnrecoverableError, stalled too often); `on_child_failure` is the default of the tree:

        - "fail_parent": the parent fails at once and its reason names the child. It comes back by itself
          when the child is run again (`retry`).
        - "ignore_dependency": the parent runs when the others have ended, and finds the reason in
          `get_children_failures`.
        - "remove_dependency": the parent runs when the others have ended and hears nothing of this child.
        - "continue_parent": the parent runs now, although others may still run; see
          `get_children_failures`.
        - "wait": the parent waits, for ever unless the child is run again or removed.
          `get_pending_children` names it.

        A child that is removed (by anybody, in any way) is no longer waited for. What has released the
        parent stays: a child that ends again later changes nothing.

        If a job with the root's `job_id` (or `deduplicate` key) is there already, nothing is added and the
        node's job has `duplicate` True. A child that exists already is refused with FlowError, whatever its
        state: a flow makes all its jobs. Raises ValueError or PayloadError that names the node for a bad
        flow, FlowError for queues in several slots of a Redis Cluster, RedisUnavailable. Nothing is stored
        in each of these cases (of RedisUnavailable it is not known).
        """
        nodes = flatten(flow, on_child_failure, self._max_data)
        connections = [await self._connection(node.queue) for node in nodes]
        await self._check_slots(connections)
        root = nodes[0].job
        key, ttl = root.arguments()[3:5]
        reply, first, *births = await connections[0].call(
            "add_flow", [word for node in nodes for word in node.arguments()], key=key, ttl=ttl
        )
        if reply == "exists":
            raise FlowError(
                f"job {first} exists already ({births[0]}): a flow makes all its jobs, so give this child "
                "another job_id or remove that job first; nothing was stored"
            )
        if reply == "duplicate":
            if root.is_duplicate(first):
                record = await read_record(connections[0], first)
                record = record or JobRecord(first, root.name, root.data, birth=births[0])
                return JobNode(Job(record, connections[0], duplicate=True))
        else:
            births.insert(0, first)
        return _tree(nodes, connections, births)

    async def close(self) -> None:
        """Close the connections. Jobs are not touched."""
        for connection in self._queues.values():
            await connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _connection(self, queue: str) -> Connection:
        """The connection of the queue, whose key schema has been checked."""
        if queue not in self._queues:
            self._queues[queue] = Connection(queue, *self._settings)
        if queue not in self._ready:
            await self._queues[queue].check()
            self._ready.add(queue)
        return self._queues[queue]

    async def _check_slots(self, connections: list[Connection]) -> None:
        """A script of a Redis Cluster works in one slot."""
        if len({connection.keys.hash_tag for connection in connections}) == 1:
            return
        if self._is_cluster is None:
            self._is_cluster = await connections[0].is_cluster()
        if self._is_cluster:
            queues = ", ".join(sorted({connection.keys.queue for connection in connections}))
            raise FlowError(
                f"this Redis is a cluster, and the queues of the flow ({queues}) are in different slots: "
                "use one queue, or for all programs a prefix with a part in braces, such as '{shop}', which "
                "puts all queues into one slot; nothing was stored"
            )


def _tree(nodes: list[Node], connections: list[Connection], births: list[str]) -> JobNode:
    made: list[JobNode] = []
    for node, connection, birth in zip(nodes, connections, births, strict=True):
        record = node.job.record(birth or "0", connection.now())
        if node.children:
            record = record._replace(state="waiting-children")
        made.append(JobNode(Job(record._replace(birth=birth), connection)))
        if node.parent is not None:
            made[node.parent].children.append(made[-1])
    return made[0]
