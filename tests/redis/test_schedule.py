"""Schedules: one job for each nominal tick, whatever the number of processes and whenever they were down."""

import asyncio

import pytest

from qlab import Queue
from qlab.new_job import NewJob
from qlab.schedule import Schedule, make, run_due
from tests.redis.queue_state import check_invariants, until


class Clock:
    def __init__(self):
        self.now = 1_900_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
async def timed(redis_url, prefix, redis):
    clock = Clock()
    async with Queue("q", redis_url, prefix=prefix, clock=clock) as queue:
        yield queue, clock
    await check_invariants(redis, queue.keys)


async def nominal_times(queue):
    """Seconds after the clock's start at which the jobs that wait were due."""
    ids = await queue.connection.command("LRANGE", queue.keys["waiting"], 0, -1)
    jobs = [await queue.get_job(job_id) for job_id in ids]
    return [job.record.nominal / 1000 - 1_900_000_000 for job in jobs]


async def test_three_upserts_make_one_schedule(queue):
    """The chapter's figure: exactly ['nightly-cleanup']."""
    for _ in range(3):
        await queue.upsert_job_scheduler(
            "nightly-cleanup", "cleanup", pattern="0 3 * * *", tz="Asia/Ho_Chi_Minh"
        )
    assert [one.id for one in await queue.get_job_schedulers()] == ["nightly-cleanup"]


async def test_each_tick_adds_one_job_with_its_nominal_time(timed):
    queue, clock = timed
    await queue.upsert_job_scheduler("s", "tidy", {"n": 1}, every=1, attempts=3)
    for _ in range(3):
        clock.now += 1
        await run_due(queue.connection)
    assert await nominal_times(queue) == [1, 2, 3]
    job = await queue.get_job(f"repeat-s-{(1_900_000_000 + 2) * 1000}")
    assert (job.name, job.data, job.record.attempts, job.record.scheduler) == ("tidy", {"n": 1}, 3, "s")
    assert job.scheduled_for.timestamp() == 1_900_000_002


async def test_h14_many_processes_settle_a_tick_once(timed, redis_url, prefix):
    queue, clock = timed
    others = [Queue("q", redis_url, prefix=prefix, clock=clock) for _ in range(8)]
    for other in others:
        await other.upsert_job_scheduler("s", "tidy", every=1)
    for _ in range(20):
        clock.now += 1
        settled = await asyncio.gather(*(run_due(other.connection) for other in others))
        assert sum(settled) == 1
    assert await nominal_times(queue) == list(range(1, 21))
    assert len(await queue.get_job_schedulers()) == 1
    for other in others:
        await other.close()


async def test_h14_an_unchanged_upsert_does_not_move_the_next_tick(timed):
    queue, clock = timed
    for _ in range(10):
        await queue.upsert_job_scheduler("s", "tidy", every=1)
        clock.now += 0.7
        await run_due(queue.connection)
    assert await nominal_times(queue) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("rule", [{"every": 60}, {"pattern": "* * * * *", "tz": "UTC"}])
async def test_h14_other_data_in_the_same_rhythm_does_not_move_the_next_tick(timed, rule):
    """Each deployment writes its version into the template, and there are more of them than ticks."""
    queue, clock = timed
    first = await queue.upsert_job_scheduler("s", "tidy", {"version": 0}, **rule)
    for version in range(1, 4):
        clock.now += 19
        upserted = await queue.upsert_job_scheduler(
            "s", "tidy", {"version": version}, attempts=version, missed="all", limit=version, **rule
        )
        assert (upserted.next, upserted.anchor) == (first.next, first.anchor)
    clock.now = first.next / 1000
    assert await run_due(queue.connection) == 1
    job = await queue.get_job(f"repeat-s-{first.next}")
    assert (job.data, job.record.attempts) == ({"version": 3}, 3)
    again = await queue.upsert_job_scheduler("s", "tidy", {"version": 4}, **rule)
    assert (again.next, again.count) == (first.next + 60_000, 1)


async def test_h14_a_missed_tick_is_not_lost_by_an_upsert(timed):
    """Nobody was there at the tick; whoever comes first upserts its new data before it looks what is due."""
    queue, clock = timed
    await queue.upsert_job_scheduler("s", "tidy", 1, every=60)
    clock.now += 70
    await queue.upsert_job_scheduler("s", "tidy", 2, every=60)
    assert await run_due(queue.connection) == 1
    assert await nominal_times(queue) == [60]


async def test_h14_a_changed_schedule_ticks_by_its_new_rule_with_its_new_data(timed):
    queue, clock = timed
    await queue.upsert_job_scheduler("s", "tidy", {"v": 1}, every=1)
    changed = await queue.upsert_job_scheduler("s", "tidy", {"v": 2}, every=5)
    assert changed.next == (1_900_000_000 + 5) * 1000
    clock.now += 4
    assert await run_due(queue.connection) == 0
    clock.now += 1
    assert await run_due(queue.connection) == 1
    (one,) = await queue.get_job_schedulers()
    assert (one.every, one.count) == (5000, 1)
    job = await queue.get_job(f"repeat-s-{(1_900_000_000 + 5) * 1000}")
    assert job.data == {"v": 2}


@pytest.mark.parametrize(
    ("missed", "limit", "caught_up"), [("skip", 1, []), ("once", 1, [10]), ("all", 5, [6, 7, 8, 9, 10])]
)
async def test_h16_missed_ticks_follow_the_policy_and_the_phase_is_kept(timed, missed, limit, caught_up):
    queue, clock = timed
    await queue.upsert_job_scheduler("s", "tidy", every=1, missed=missed, limit=limit)
    clock.now += 10.5
    await run_due(queue.connection)
    assert await nominal_times(queue) == caught_up
    clock.now += 0.5
    await run_due(queue.connection)
    assert await nominal_times(queue) == [*caught_up, 11]


@pytest.mark.parametrize("rule", [{"every": 1}, {"pattern": "* * * * *", "tz": "Europe/Berlin"}])
@pytest.mark.parametrize(("missed", "limit"), [("skip", 1), ("once", 1), ("all", 5)])
def test_h16_a_year_of_missed_ticks_is_not_gone_through_one_by_one(monkeypatch, rule, missed, limit):
    """It would block the event loop of the worker for longer than its lock."""
    asked, begin, ask = [], 1_900_000_000_000, Schedule.tick_after
    monkeypatch.setattr(Schedule, "tick_after", lambda one, at: asked.append(at) or ask(one, at))
    given = {"pattern": None, "tz": None, "every": None} | rule
    one = make("s", NewJob.make("a", 1, 100), **given, missed=missed, limit=limit, now=begin)
    first, now = ask(one, begin), begin + 365 * 86_400_000 + 500
    ticks, step = one.to_run(first, now), ask(one, first) - first
    last = ask(one, now) - step
    assert ticks == [last - n * step for n in reversed(range(0 if missed == "skip" else limit))]
    assert len(asked) < 100


@pytest.mark.parametrize("pattern", ["30 2 * * *", "0 0 29 2 *", "*/7 1-3 * * 0", "0 * * * *", "* 0 1 * *"])
@pytest.mark.parametrize("limit", [1, 3, 40])
def test_h16_missed_cron_ticks_are_the_latest_also_where_they_are_uneven(pattern, limit):
    """Over the clock changes of some years, compared with going through every tick."""
    begin = 1_900_000_000_000
    one = make(
        "s", NewJob.make("a", 1, 100), pattern=pattern, tz="Europe/Berlin", every=None, missed="all",
        limit=limit, now=begin,
    )  # fmt: skip
    every, tick = [], begin
    while (tick := one.tick_after(tick)) <= begin + 4500 * 86_400_000 and len(every) < 3000:
        every.append(tick)
    for count in (1, 2, 5, 41, len(every)):
        assert one.to_run(every[0], every[:count][-1] + 1) == every[:count][-limit:]


async def test_h14_an_id_that_is_too_long_for_the_ids_of_its_jobs_is_refused(queue):
    with pytest.raises(ValueError, match="1 to 200 characters"):
        await queue.upsert_job_scheduler("i" * 190, "tidy", every=1)
    assert await queue.get_job_schedulers() == []


@pytest.mark.parametrize(("missed", "runs"), [("skip", 0), ("once", 1)])
async def test_h16_a_single_tick_that_is_an_hour_late_is_missed_too(timed, missed, runs):
    queue, clock = timed
    await queue.upsert_job_scheduler("s", "tidy", pattern="0 3 * * *", tz="UTC", missed=missed)
    (one,) = await queue.get_job_schedulers()
    clock.now = one.next / 1000 + 3600
    await run_due(queue.connection)
    assert (await queue.get_job_counts("waiting"))["waiting"] == runs


async def test_h16_a_weekly_schedule_runs_weekly_though_the_process_restarts_daily(timed):
    queue, clock = timed
    for _ in range(28):
        await queue.upsert_job_scheduler("s", "weekly", pattern="0 4 * * 1", tz="Europe/Berlin")
        clock.now += 86_400
        await run_due(queue.connection)
    assert (await queue.get_job_counts("waiting"))["waiting"] == 4


async def test_a_running_worker_ticks_by_itself(queue, start_worker, redis):
    runs = []

    async def handler(job):
        runs.append(job.record.nominal)

    await start_worker(handler)
    await start_worker(handler, name="second")
    made = await queue.upsert_job_scheduler("s", "tidy", every=0.2)
    await until(lambda: len(runs) >= 5)
    assert await queue.remove_job_scheduler("s")
    assert not await queue.remove_job_scheduler("s")
    assert runs[:5] == [made.next + n * 200 for n in range(5)]
    assert await queue.get_job_schedulers() == []


async def test_a_removed_schedule_leaves_the_jobs_that_it_made(timed):
    queue, clock = timed
    await queue.upsert_job_scheduler("s", "tidy", every=1)
    clock.now += 1
    await run_due(queue.connection)
    await queue.remove_job_scheduler("s")
    clock.now += 5
    assert await run_due(queue.connection) == 0
    assert await nominal_times(queue) == [1]


@pytest.mark.parametrize(
    "rule",
    [
        {}, {"every": 0}, {"every": -1}, {"every": 1, "pattern": "0 3 * * *", "tz": "UTC"},
        {"pattern": "0 3 * * *"}, {"pattern": "0 0 3 * * *", "tz": "UTC"}, {"every": 1, "tz": "UTC"},
        {"every": 1, "missed": "never"}, {"every": 1, "missed": "all", "limit": 0}, {"every": 1, "delay": 5},
        {"every": 1, "job_id": "x"}, {"pattern": "1" * 5000 + " * * * *", "tz": "UTC"},
    ],
)  # fmt: skip
async def test_a_schedule_that_can_not_tick_stores_nothing(queue, redis, rule):
    with pytest.raises(ValueError, match=r"every|pattern|tz|missed|limit|delay"):
        await queue.upsert_job_scheduler("s", "tidy", **rule)
    assert [key async for key in redis.scan_iter(queue.keys["*"])] == [queue.keys["meta"]]
