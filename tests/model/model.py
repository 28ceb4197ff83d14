"""What a queue should do, in plain Python: lists and dicts, no Redis, no scripts."""

from dataclasses import dataclass, field


@dataclass
class ModelJob:
    id: str
    priority: int | None
    attempts: int
    state: str = ""
    attempts_made: int = 0
    stalled: int = 0
    claim: int = 0
    holder: str | None = None
    deadline: int = 0
    due: int = 0
    alone: bool = False


@dataclass
class ModelSchedule:
    every: int
    missed: str
    limit: int
    anchor: int
    next: int
    count: int = 0


@dataclass
class Model:
    """The states of jobs; every method is one transition. Times are milliseconds."""

    lock: int
    max_stalled: int
    now: int = 1_900_000_000_000
    jobs: dict[str, ModelJob] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    prioritized: list[str] = field(default_factory=list)
    delayed: list[str] = field(default_factory=list)
    finished: dict[str, list[str]] = field(default_factory=lambda: {"completed": [], "failed": []})
    paused: bool = False
    limited_until: int = 0
    limiter: tuple[int, int] | None = None
    window: tuple[int, int] = (0, 0)
    schedules: dict[str, ModelSchedule] = field(default_factory=dict)

    def add(self, job_id: str, delay: int, priority: int | None, attempts: int) -> None:
        self.jobs[job_id] = ModelJob(job_id, priority, attempts)
        self.order.append(job_id)
        if delay:
            self._delay(job_id, delay)
        else:
            self._line_up(job_id, head=False)

    def promote_due(self) -> None:
        for job_id in [one for one in self.delayed if self.jobs[one].due <= self.now]:
            self.delayed.remove(job_id)
            self._line_up(job_id, head=False)

    def take(self, worker: str, want: int) -> list[str]:
        self.promote_due()
        if self.paused or self.limited_until > self.now or not want:
            return []
        taken = self._next(min(want, self._allowed()))
        self._spend(len(taken))
        for job_id in taken:
            (self.waiting if job_id in self.waiting else self.prioritized).remove(job_id)
            job = self.jobs[job_id]
            job.state, job.holder, job.claim = "active", worker, job.claim + 1
            job.deadline = self.now + self.lock
        return taken

    def settle(self, job_id: str, worker: str, claim: int, kind: str, delay: int) -> str:
        job = self.jobs.get(job_id)
        if job is None or (job.holder, job.claim) != (worker, claim):
            return "lock-lost"
        job.holder = None
        if kind in ("completed", "failed"):
            job.attempts_made += 1
            self._finish(job_id, kind)
        elif kind == "retrying":
            job.attempts_made += 1
            self._delay(job_id, delay) if delay else self._line_up(job_id, head=True)
        elif kind == "delay":
            self._delay(job_id, delay)
        else:
            self._line_up(job_id, head=True)
        return "ok"

    def renew(self, worker: str, held: list[tuple[str, int]]) -> list[str]:
        lost = []
        for job_id, claim in held:
            job = self.jobs.get(job_id)
            if job and (job.holder, job.claim) == (worker, claim):
                job.deadline = self.now + self.lock
            else:
                lost.append(job_id)
        return lost

    def recover(self) -> list[str]:
        expired = [one for one in self.order if self._expired(one)]
        for job_id in reversed(expired):
            job = self.jobs[job_id]
            job.holder, job.stalled = None, job.stalled + 1
            if job.stalled > self.max_stalled:
                self._finish(job_id, "failed")
            else:
                job.alone = job.stalled == self.max_stalled
                self._line_up(job_id, head=True)
        return expired

    def remove(self, job_id: str) -> None:
        self._take_out(job_id)
        del self.jobs[job_id]
        self.order.remove(job_id)

    def replay(self, job_id: str) -> None:
        self._take_out(job_id)
        job = self.jobs[job_id]
        job.attempts_made, job.stalled, job.alone = 0, 0, False
        self._line_up(job_id, head=False)

    def change_delay(self, job_id: str, delay: int) -> None:
        self._take_out(job_id)
        self._delay(job_id, delay)

    def promote(self, job_id: str) -> None:
        self._take_out(job_id)
        self._line_up(job_id, head=False)

    def set_limit(self, limiter: tuple[int, int] | None) -> None:
        self.limiter = limiter
        if limiter is None:
            self.window, self.limited_until = (0, 0), 0

    def upsert(self, name: str, every: int, missed: str, limit: int) -> None:
        old = self.schedules.get(name)
        if old is None or old.every != every:
            self.schedules[name] = ModelSchedule(every, missed, limit, self.now, self.now + every)
        else:  # the same rhythm: its tick stays
            old.missed, old.limit = missed, limit

    def tick(self) -> int:
        """Every schedule that is due adds its jobs and moves on; how many were due."""
        due = sorted((one.next, name) for name, one in self.schedules.items() if one.next <= self.now)
        for _, name in due:
            schedule = self.schedules[name]
            ticks = list(range(schedule.next, self.now + 1, schedule.every))
            schedule.next = ticks[-1] + schedule.every
            for tick in self._to_run(schedule, ticks):
                schedule.count += 1
                if f"repeat-{name}-{tick}" not in self.jobs:
                    self.add(f"repeat-{name}-{tick}", 0, None, 1)
        return len(due)

    def _to_run(self, schedule: ModelSchedule, ticks: list[int]) -> list[int]:
        on_time = len(ticks) == 1 and self.now - ticks[0] <= min(60_000, schedule.every // 2)
        if schedule.missed == "skip":
            return ticks if on_time else []
        return ticks[-schedule.limit :]

    def _next(self, want: int) -> list[str]:
        """The next jobs in line; one that must be alone is the only one."""
        line = (self.waiting + self.prioritized)[:want]
        lonely = next((n for n, one in enumerate(line) if self.jobs[one].alone), None)
        return line if lonely is None else line[: max(lonely, 1)]

    def _allowed(self) -> int:
        if self.limiter is None:
            return 10**9
        start, used = self.window
        if self.now >= start + self.limiter[1]:
            self.window = (self.now, 0)
            return self.limiter[0]
        return max(0, self.limiter[0] - used)

    def _spend(self, count: int) -> None:
        if self.limiter is not None:
            start, used = self.window
            self.window = (start, used + count)

    def in_state(self, state: str) -> list[str]:
        return [job.id for job in self.jobs.values() if job.state == state]

    def _expired(self, job_id: str) -> bool:
        job = self.jobs[job_id]
        return job.state == "active" and job.deadline <= self.now

    def _take_out(self, job_id: str) -> None:
        for line in (self.waiting, self.prioritized, self.delayed, *self.finished.values()):
            if job_id in line:
                line.remove(job_id)

    def _finish(self, job_id: str, state: str) -> None:
        self.jobs[job_id].state = state
        self.finished[state].append(job_id)

    def _delay(self, job_id: str, delay: int) -> None:
        job = self.jobs[job_id]
        job.state, job.due = "delayed", self.now + delay
        self.delayed.append(job_id)
        self.delayed.sort(key=lambda one: self.jobs[one].due)

    def _line_up(self, job_id: str, *, head: bool) -> None:
        job = self.jobs[job_id]
        job.state = "waiting" if job.priority is None else "prioritized"
        line = self.waiting if job.priority is None else self.prioritized
        line.insert(0, job_id) if head else line.append(job_id)
        line.sort(key=lambda one: self.jobs[one].priority or 0)
