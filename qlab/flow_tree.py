"""The tree of a flow as it is given to FlowProducer.add: checked completely before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from qlab.errors import PayloadError
from qlab.keys import check_queue_name
from qlab.new_job import NewJob, known_options

MOST_NODES = 1000
"""Jobs of one flow: one script stores them all."""

POLICIES = ("fail_parent", "ignore_dependency", "remove_dependency", "continue_parent", "wait")
_KEYS = ("name", "queue", "data", "options", "children", "on_failure")


@dataclass(slots=True)
class Node:
    """A job of the flow; `parent` is its parent's place in the list of nodes, `children` their names."""

    queue: str
    job: NewJob
    parent: int | None
    children: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """How the scripts and `get_children_values` call the job."""
        return f"{self.queue}:{self.job.id}"

    def arguments(self) -> list[Any]:
        """As the script add_flow reads it."""
        job_id, delay, priority, _, _, *fields = self.job.arguments()
        return [self.queue, job_id, delay, priority, len(self.children), *self.children, *fields]


@dataclass(slots=True)
class _Given:
    """A node that is still to be checked: what was given, where it hangs, and how to call it in an error."""

    value: Any
    above: _Given | None
    number: int
    parent: int | None

    def where(self) -> str:
        words, one = [], self
        while one.above is not None:
            words.append(f"children[{one.number}]")
            one = one.above
        return ".".join(reversed(words)) or "root"

    def hangs_below(self, value: Any) -> bool:
        one = self.above
        while one is not None:
            if one.value is value:
                return True
            one = one.above
        return False


def flatten(flow: object, on_child_failure: str, max_data: int) -> list[Node]:
    """The nodes of a flow, parents before their children. Raises ValueError or PayloadError naming the node.

    It is no recursion, so a tree may be as deep as it has nodes.
    """
    _check_policy(on_child_failure, "on_child_failure")
    nodes: list[Node] = []
    names: set[str] = set()
    todo = [_Given(flow, None, 0, None)]
    while todo:
        given = todo.pop()
        try:
            if len(nodes) == MOST_NODES:
                raise ValueError(f"a flow has at most {MOST_NODES:,} jobs, this one has more")
            node = _check(given, nodes, on_child_failure, max_data)
            if node.name in names:
                raise ValueError(f"job {node.name} is in the flow twice; each child has a job_id of its own")
        except (PayloadError, ValueError, TypeError) as error:
            kind = PayloadError if isinstance(error, PayloadError) else ValueError
            raise kind(f"{given.where()} of the flow: {error}") from None
        names.add(node.name)
        nodes.append(node)
        if node.parent is not None:
            nodes[node.parent].children.append(node.name)
        below = enumerate(given.value.get("children") or ())
        todo += reversed([_Given(child, given, n, len(nodes) - 1) for n, child in below])
    return nodes


def _check(given: _Given, nodes: list[Node], on_child_failure: str, max_data: int) -> Node:
    value = given.value
    if not isinstance(value, dict):
        raise ValueError(f"a node is a dict with name, queue and so on, not {type(value).__name__}")
    if unknown := [key for key in value if key not in _KEYS]:
        raise ValueError(f"unknown keys {', '.join(map(repr, unknown))}; there are {', '.join(_KEYS)}")
    for key in ("name", "queue"):
        if value.get(key) is None:
            raise ValueError(f"{key!r} is missing: each job of a flow names itself and its queue")
    if given.hangs_below(value):
        raise ValueError("it hangs below itself: a flow is a tree, so it would never end")
    if not isinstance(value.get("children"), list | tuple | None):
        raise ValueError(f"children must be a list of nodes, not {value['children']!r:.100}")
    options = {} if value.get("options") is None else known_options(value["options"])
    job = NewJob.make(value["name"], value.get("data"), max_data, **options)
    return Node(
        check_queue_name(value["queue"]), _with_parent(job, given, nodes, on_child_failure), given.parent
    )


def _with_parent(job: NewJob, given: _Given, nodes: list[Node], on_child_failure: str) -> NewJob:
    """The fields that tie the job to its parent. The root has an empty one if it has children."""
    policy = given.value.get("on_failure")
    if given.parent is None:
        if policy is not None:
            raise ValueError("on_failure says what a failure does to the parent; the root has none")
        return job._replace(options=job.options | {"parent": ""}) if given.value.get("children") else job
    if job.deduplicate is not None:
        raise ValueError("deduplicate belongs to the root: a child that is left out could never end")
    policy = on_child_failure if policy is None else _check_policy(policy, "on_failure")
    return job._replace(options=job.options | {"parent": nodes[given.parent].name, "on_failure": policy})


def _check_policy(policy: Any, what: str) -> str:
    if policy not in POLICIES:
        raise ValueError(f"{what} must be one of {', '.join(POLICIES)}, not {policy!r}")
    return str(policy)
