"""What flows should do, in plain Python: jobs that know their parent and what they have heard of children."""

from dataclasses import dataclass, field

WAITING = ("waiting", "prioritized", "delayed", "waiting-children")


@dataclass
class FlowJob:
    """`heard` has for each child that has ended ("value" | "failure", whether that failed this job)."""

    name: str
    parent: str | None
    policy: str
    priority: int | None
    delay: int
    state: str = ""
    due: int = 0
    claim: int = 0
    released: bool = True
    pending: set[str] = field(default_factory=set)
    heard: dict[str, tuple[str, bool]] = field(default_factory=dict)

    @property
    def queue(self) -> str:
        return self.name.partition(":")[0]


@dataclass
class FlowModel:
    """Every method is one transition. Times are milliseconds."""

    now: int = 1_900_000_000_000
    jobs: dict[str, FlowJob] = field(default_factory=dict)

    def add(self, nodes: list[FlowJob]) -> str:
        """The answer to a flow, the root first: added, duplicate or exists."""
        if nodes[0].name in self.jobs:
            return "duplicate"
        if any(node.name in self.jobs for node in nodes):
            return "exists"
        for node in nodes:
            self.jobs[node.name] = node
            node.pending = {one.name for one in nodes if one.parent == node.name}
            node.released = not node.pending
            if node.pending:
                node.state = "waiting-children"
            else:
                self._start(node)
        return "added"

    def promote_due(self, queue: str) -> None:
        for job in self._in(queue, "delayed"):
            if job.due <= self.now:
                self._line_up(job)

    def take(self, name: str) -> int:
        job = self.jobs[name]
        assert job.state in ("waiting", "prioritized"), f"{name} was taken although it is {job.state}"
        job.state, job.claim = "active", job.claim + 1
        return job.claim

    def come_back(self, name: str, delay: int = 0) -> None:
        job = self.jobs[name]
        self._delay(job, delay) if delay else self._line_up(job)

    def finish(self, name: str, state: str, *, keep: bool) -> None:
        job = self.jobs[name]
        job.state = state
        if not keep:
            del self.jobs[name]
        self._tell(job, state)
        if not keep:
            self._tell(job, "removed")

    def tree(self, name: str) -> list[str]:
        """The job and all below it that are still there."""
        known = self.jobs[name].pending | set(self.jobs[name].heard)
        below = [one for one in sorted(known) if one in self.jobs and self.jobs[one].parent == name]
        return [name, *(deeper for one in below for deeper in self.tree(one))]

    def remove(self, names: list[str]) -> None:
        removed = [self.jobs.pop(name) for name in names]
        for job in removed:
            self._tell(job, "removed")

    def clean(self, queue: str, state: str) -> list[str]:
        names = [job.name for job in self._in(queue, state)]
        self.remove(names)
        return names

    def culprits(self, name: str) -> list[str]:
        """The children that made the job fail and have not been run again."""
        job = self.jobs[name]
        return [one for one in job.pending if job.heard.get(one, ("", False))[1]]

    def replay(self, name: str) -> None:
        job = self.jobs[name]
        was = job.state
        self._wait_again(job) if not job.released else self._line_up(job)
        if was == "failed":
            self._run_again(job)

    def _run_again(self, job: FlowJob) -> None:
        parent = self.jobs.get(job.parent or "")
        if parent is None or parent.released or job.policy == "remove_dependency":
            return
        if parent.heard.get(job.name, ("value", False))[0] == "value":
            return  # it completed once, or belongs to an earlier parent with this id
        parent.pending.add(job.name)
        parent.heard.pop(job.name, None)
        if parent.state == "failed" and not self.culprits(parent.name):
            self._wait_again(parent)
            self._run_again(parent)

    def _wait_again(self, job: FlowJob) -> None:
        if job.pending:
            job.state = "waiting-children"
        else:
            self._release(job)

    def _tell(self, job: FlowJob, how: str) -> None:
        parent = self.jobs.get(job.parent or "")
        if parent is None or job.name not in parent.pending:
            return
        policy = job.policy if how == "failed" else ""
        if policy not in ("fail_parent", "wait"):
            parent.pending.remove(job.name)
        parent.heard.pop(job.name, None)
        if how == "completed":
            parent.heard[job.name] = ("value", False)
        elif how == "failed" and policy != "remove_dependency":
            parent.heard[job.name] = ("failure", policy == "fail_parent")
        if parent.state != "waiting-children":
            return
        if policy == "fail_parent":
            parent.state = "failed"
            self._tell(parent, "failed")
        elif policy == "continue_parent" or not parent.pending:
            self._release(parent)

    def _release(self, job: FlowJob) -> None:
        job.released = True
        self._start(job)

    def _start(self, job: FlowJob) -> None:
        self._delay(job, job.delay) if job.delay else self._line_up(job)

    def _delay(self, job: FlowJob, delay: int) -> None:
        job.state, job.due = "delayed", self.now + delay

    def _line_up(self, job: FlowJob) -> None:
        job.state = "waiting" if job.priority is None else "prioritized"

    def _in(self, queue: str, state: str) -> list[FlowJob]:
        return [job for job in self.jobs.values() if (job.queue, job.state) == (queue, state)]
