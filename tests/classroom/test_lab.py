"""The lab: its servers, its workers, its sentences, and that nothing of it stays behind."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
import redis.asyncio as redis_async

from qlab import Queue
from qlab.classroom.lab import Lab
from qlab.classroom.processes import LabError

WORKER = """
import os
from qlab import Worker
from qlab.testing.provider_client import ProviderClient

provider = ProviderClient(os.environ["PROVIDER_URL"])

async def handle(job):
    await provider.charge(job.data["order"], 100)
    return os.environ.get("MOOD", "done")

worker = Worker("jobs", handle, lock_duration=1.0, stalled_interval=0.3)
"""


@pytest.fixture
async def lab(capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Lab]:
    lab = await Lab.open("98")
    try:
        yield lab
    finally:
        await lab.close()


@pytest.fixture
async def queue(lab: Lab) -> AsyncIterator[Queue]:
    lab.write_worker("work.py", WORKER)
    async with Queue("jobs") as queue:
        yield queue


def databases() -> set[str]:
    with psycopg.connect(os.environ["QLAB_PG_DSN"]) as connection:
        return {name for (name,) in connection.execute("SELECT datname FROM pg_database")}


async def test_opening_says_in_two_lines_what_it_runs_on(capsys: pytest.CaptureFixture[str]) -> None:
    async with await Lab.open("98") as lab:
        redis, postgres, *notices = capsys.readouterr().out.splitlines()
        assert redis.startswith("Redis ")
        assert lab.servers.versions()["redis"] in redis
        assert lab.servers.versions()["postgres"] in postgres
        assert notices == lab.servers.notices


async def test_closing_leaves_no_key_no_database_no_file_and_the_old_environment(
    redis: redis_async.Redis,
) -> None:
    before = dict(os.environ)
    lab = await Lab.open("98")
    folder, own = lab.folder, lab.prefix.replace("-", "_")
    assert os.environ["QLAB_PREFIX"] == lab.prefix
    assert os.environ["QLAB_PG_DSN"] != before["QLAB_PG_DSN"]
    assert own in databases()
    async with Queue("jobs") as queue:
        await queue.add("x")
        assert queue.keys.prefix == lab.prefix
    lab.write_worker("work.py", WORKER)
    assert (folder / "work.py").exists()
    await lab.close()
    await lab.close()
    assert dict(os.environ) == before
    assert not folder.exists()
    assert own not in databases()
    assert [key async for key in redis.scan_iter(f"{lab.prefix}:*")] == []


async def test_opening_again_closes_the_lab_before(lab: Lab) -> None:
    async with await Lab.open("98") as second:
        assert second.prefix != lab.prefix
        assert not lab.folder.exists()
        with pytest.raises(LabError, match="Phòng thí nghiệm đã đóng"):
            await lab.start_worker("work:worker", "A")


async def test_a_job_goes_through_a_real_process_and_is_recorded(lab: Lab, queue: Queue) -> None:
    async with lab.record(queue) as run:
        job = await queue.add("x", {"order": "o-1"})
        worker = await lab.start_worker("work:worker", "A", MOOD="fine")
        assert worker.pid != os.getpid()
        assert await job.wait_until_finished(10) == "fine"
    assert worker.exit_code == 0
    assert run.counts == {"runs": 1, "charges": 1, "acks": 1, "refused": 0, "stalled": 0}
    kinds = [(event.kind, event.lane) for event in run.events if event.kind != "renewed"]
    assert kinds == [
        ("added", "broker"),
        ("started", "A"),
        ("taken", "A"),
        ("effect", "A"),
        ("completed", "A"),
        ("stopped", "A"),
    ]
    assert len(lab.provider.charges) == 1


async def test_a_killed_worker_is_seen_and_its_job_given_to_another(lab: Lab, queue: Queue) -> None:
    async with lab.record(queue) as run:
        await lab.hold_answers("A")
        job = await queue.add("x", {"order": "o-1"})
        first = await lab.start_worker("work:worker", "A")
        await run.seen("effect", "A")
        view = await lab.broker_view(job)
        first.kill()
        assert await first.exited() == -9
        assert await lab.broker_view(job) == view
        await lab.start_worker("work:worker", "B")
        await job.wait_until_finished(20)
    assert view["state"] == "active"
    assert view["in"] == ["active"]
    assert view["events"] == ["added", "active"]
    assert not {"token", "worker", "birth"} & set(view)
    assert [event.note for event in run.events if event.kind == "died"] == ["SIGKILL"]
    assert run.tally("runs", "charges", "stalled") == {"runs": 2, "charges": 2, "stalled": 1}


async def test_a_paused_worker_wakes_up_without_its_lock(lab: Lab, queue: Queue) -> None:
    async with lab.record(queue) as run:
        await lab.hold_answers("A")
        job = await queue.add("x", {"order": "o-1"})
        first = await lab.start_worker("work:worker", "A")
        await run.seen("effect", "A")
        first.pause()
        await lab.start_worker("work:worker", "B")
        await job.wait_until_finished(20)
        await lab.release_answers("A")
        first.resume()
        await run.seen("lock-lost", "A")
    assert run.tally("runs", "acks", "refused") == {"runs": 2, "acks": 1, "refused": 1}
    assert run.at("paused") < run.at("expired") < run.at("resumed") < run.at("lock-lost")


async def test_a_paused_worker_is_stopped_all_the_same(lab: Lab, queue: Queue) -> None:
    worker = await lab.start_worker("work:worker", "A")
    worker.pause()
    await lab.stop_workers()
    assert worker.exit_code == 0


async def test_a_worker_that_does_not_come_up_says_why_with_the_end_of_its_log(lab: Lab) -> None:
    lab.write_worker("broken.py", "import no_such_library\n")
    with pytest.raises(LabError) as caught:
        await lab.start_worker("broken:worker", "A")
    said = str(caught.value)
    assert said.startswith("Worker A không lên được: tiến trình thoát với mã ")
    assert said.splitlines()[-1] == "ModuleNotFoundError: No module named 'no_such_library'"
    assert caught.value._render_traceback_() == [said]
    assert not lab.workers["A"].alive


async def test_a_worker_that_is_not_there_is_said_so(lab: Lab) -> None:
    with pytest.raises(LabError, match="there is no module 'nowhere' here"):
        await lab.start_worker("nowhere:worker", "A")


async def test_a_worker_that_dies_before_it_is_up_is_told_by_its_signal(lab: Lab) -> None:
    lab.write_worker("suicide.py", "import os\nos.kill(os.getpid(), 9)\n")
    with pytest.raises(LabError, match=r"bị SIGKILL trước khi kịp nhận việc\. Log của nó trống\."):
        await lab.start_worker("suicide:worker", "A")


async def test_two_workers_cannot_share_a_lane(lab: Lab, queue: Queue) -> None:
    first = await lab.start_worker("work:worker", "A")
    with pytest.raises(LabError, match="Đã có worker A đang chạy"):
        await lab.start_worker("work:worker", "A")
    await first.stop()
    await lab.start_worker("work:worker", "A")


async def test_signals_to_a_dead_worker_are_refused_with_a_sentence(lab: Lab, queue: Queue) -> None:
    worker = await lab.start_worker("work:worker", "A")
    with pytest.raises(LabError, match=r"Đã chờ 0\.05 giây mà worker A vẫn còn sống"):
        await worker.exited(within=0.05)
    worker.kill()
    await worker.exited()
    with pytest.raises(LabError, match="Worker A đã thoát rồi"):
        worker.kill()
    await worker.stop()


@pytest.mark.parametrize("lane", ["", "broker", "a b", "../A", "lànA", "toolonglane"])
async def test_a_lane_needs_a_short_plain_name(lab: Lab, lane: str) -> None:
    with pytest.raises(LabError, match="không dùng được"):
        await lab.start_worker("work:worker", lane)


@pytest.mark.parametrize("name", ["", "work", "../work.py", "a-b.py", "1.py", "Work.py", "a b.py"])
async def test_a_worker_file_needs_a_name_that_can_be_imported(lab: Lab, name: str) -> None:
    with pytest.raises(LabError, match="hãy dùng một tên mô-đun Python"):
        lab.write_worker(name, WORKER)


async def test_a_worker_file_with_a_syntax_error_is_refused_before_anything_runs(lab: Lab) -> None:
    with pytest.raises(LabError, match=r"Tệp work\.py có lỗi cú pháp ở dòng 2"):
        lab.write_worker("work.py", "x = 1\ndef handle(:\n")
    assert not (lab.folder / "work.py").exists()


async def test_a_rewritten_worker_file_is_the_one_that_runs(lab: Lab, queue: Queue) -> None:
    for answer in ("first!", "second"):
        lab.write_worker("work.py", WORKER.replace('os.environ.get("MOOD", "done")', repr(answer)))
        job = await queue.add("x", {"order": "o-1"})
        async with lab.record(queue):
            await lab.start_worker("work:worker", "A")
            assert await job.wait_until_finished(10) == answer


async def test_the_folder_of_the_lab_is_its_own(lab: Lab) -> None:
    assert lab.folder.stat().st_mode & 0o077 == 0
    assert Path(lab.write_worker("work.py", WORKER)).parent == lab.folder


async def test_without_its_watcher_a_lab_starts_nothing_and_still_closes(lab: Lab, queue: Queue) -> None:
    lab._watcher._process.kill()
    lab._watcher._process.wait()
    with pytest.raises(LabError, match="Tiến trình canh gác của phòng thí nghiệm đã bị tắt"):
        await lab.start_worker("work:worker", "A")
    await lab.close()
    assert not lab.folder.exists()


SCRIPT = """
import os, signal, sys
print("hello", os.environ["MOOD"], flush=True)
if sys.argv[1] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(int(sys.argv[1]))
"""


async def test_a_script_runs_as_a_program_and_tells_how_it_ended(lab: Lab) -> None:
    lab.write_worker("script.py", SCRIPT)
    assert await lab.run_script("script.py", "0", MOOD="fine") == 0
    assert await lab.run_script("script.py", "die", MOOD="fine") == -9
    assert await lab.run_script("script.py", "3", MOOD="bad", may_fail=True) == 3
    with pytest.raises(LabError, match=r"mã 3.*\nhello bad"):
        await lab.run_script("script.py", "3", MOOD="bad")
    with pytest.raises(LabError, match=r"%%worker other\.py"):
        await lab.run_script("other.py")
