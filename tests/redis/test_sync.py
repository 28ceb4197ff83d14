"""The producer without asyncio adds the same jobs, with the same checks."""

import asyncio
import os
import socket
import threading

import pytest

from qlab import Deduplicate, PayloadError, RedisUnavailable, SyncQueue


async def test_jobs_added_without_asyncio_are_like_all_others(queue, start_worker, redis_url, prefix):
    async def handler(job):
        return job.data

    await start_worker(handler)
    with SyncQueue("q", redis_url, prefix=prefix) as producer:
        one = await asyncio.to_thread(producer.add, "a", {"n": 1}, attempts=3)
        many = await asyncio.to_thread(producer.add_bulk, [("a", n) for n in range(1500)])
    assert await (await queue.get_job(one.id)).wait_until_finished(5) == {"n": 1}
    assert len({added.id for added in many}) == 1500
    assert not any(added.duplicate for added in many)


def test_duplicates_are_reported(redis_url, prefix):
    with SyncQueue("q", redis_url, prefix=prefix) as producer:
        assert producer.add("a", job_id="x") == ("x", False)
        assert producer.add("a", job_id="x") == ("x", True)
        first = producer.add("a", deduplicate=Deduplicate("k", 60))
        assert producer.add("a", deduplicate=Deduplicate("k", 60)) == (first.id, True)


def test_bad_jobs_are_refused(redis_url, prefix):
    with SyncQueue("q", redis_url, prefix=prefix) as producer:
        with pytest.raises(PayloadError):
            producer.add("a", {1, 2})
        with pytest.raises(PayloadError, match="job 1 of the bulk"):
            producer.add_bulk([("a", 1), ("a", float("nan"))])


def test_it_fails_fast_without_redis():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    producer = SyncQueue("q", f"redis://127.0.0.1:{port}")
    with pytest.raises(RedisUnavailable, match="cannot reach Redis"):
        producer.add("a")


def test_threads_share_a_producer(redis_url, prefix, redis_sync_client):
    with SyncQueue("q", redis_url, prefix=prefix) as producer:
        threads = [threading.Thread(target=lambda: [producer.add("a") for _ in range(50)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert redis_sync_client.llen(f"{prefix}:{{q}}:waiting") == 200


def test_a_producer_made_before_a_fork_adds_distinct_jobs(redis_url, prefix, redis_sync_client):
    with SyncQueue("q", redis_url, prefix=prefix) as producer:
        children = []
        for _ in range(3):
            if (pid := os.fork()) == 0:
                try:
                    producer.add("a")
                finally:
                    os._exit(0)
            children.append(pid)
        for pid in children:
            os.waitpid(pid, 0)
    assert redis_sync_client.llen(f"{prefix}:{{q}}:waiting") == 3
