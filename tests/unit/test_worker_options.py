"""Options that do not fit together are refused when the worker is made, before anything runs."""

import functools
import threading

import pytest

from qlab import Keep, Queue, Worker
from qlab.execute import runs_on_loop
from qlab.retention import encode


async def handler(job):
    pass


def plain(job):
    pass


def yields(job):
    yield job


async def yields_async(job):
    yield job


BAD_HANDLERS = [None, 7, "handler", lambda: None, lambda a, b: None, yields, yields_async]


@pytest.mark.parametrize("bad", BAD_HANDLERS)
def test_a_handler_must_take_one_job(bad):
    with pytest.raises(TypeError, match="handler"):
        Worker("q", bad)


@pytest.mark.parametrize(("lock", "renew"), [(1, 1), (1, 2), (0, None), (0.001, None)])
def test_a_lock_must_outlast_its_renewal(lock, renew):
    with pytest.raises(ValueError, match="lock_renew_time"):
        Worker("q", handler, lock_duration=lock, lock_renew_time=renew)


@pytest.mark.parametrize(
    "option",
    [
        {"concurrency": 0},
        {"concurrency": 1.5},
        {"concurrency": 10**6},
        {"max_stalled_count": -1},
        {"stalled_interval": 0},
    ],
)
def test_a_bad_number_is_refused(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        Worker("q", handler, **option)


@pytest.mark.parametrize("name", ["two words", "", 7])
def test_a_bad_name_is_refused(name):
    with pytest.raises(ValueError, match=r"^worker name"):
        Worker("q", handler, name=name)


def test_the_defaults_are_those_of_the_field():
    worker = Worker("q", handler)
    assert (worker.lock_duration, worker.lock_renew_time) == (30, 15)
    assert (worker.stalled_interval, worker.max_stalled_count, worker.concurrency) == (30, 1, 1)


class Callable:
    async def __call__(self, job):
        pass

    async def method(self, job):
        pass


def test_async_handlers_run_on_the_loop_and_others_in_a_thread():
    assert runs_on_loop(handler)
    assert runs_on_loop(functools.partial(handler))
    assert runs_on_loop(Callable())
    assert runs_on_loop(Callable().method)
    assert not runs_on_loop(plain)
    assert not runs_on_loop(print)


def test_a_worker_is_not_run_where_it_cannot_obey_signals():
    found = []

    def run():
        with pytest.raises(RuntimeError, match="needs the main thread"):
            Worker("q", handler).run()
        found.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(10)
    assert found == [True]


async def test_a_worker_is_not_run_inside_an_event_loop():
    with pytest.raises(RuntimeError, match="here use `async with worker:`"):
        Worker("q", handler).run()


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="lock_time"):
        Worker("q", handler, lock_time=1)


def test_what_is_neither_a_url_nor_a_client_is_refused():
    with pytest.raises(TypeError, match=r"URL or a redis\.asyncio\.Redis"):
        Queue("q", 7)


@pytest.mark.parametrize(
    "url",
    [
        "http://me:Secret@localhost", "redis://me:Secret/x@localhost:1/0", "redis://me:Secret#x@localhost:1/0",
        "redis://h:1/0?socket_timeout=bad&password=Secret", "Secret@localhost:1", "redis://h:1/0?Secret=1",
        "redis://me:Sec[ret@localhost",
    ],
)  # fmt: skip
def test_a_url_that_cannot_be_read_is_refused_and_never_shown(url):
    with pytest.raises(ValueError, match="the URL of Redis cannot be read: write redis://") as caught:
        Queue("q", url)
    assert "Sec" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_address_is_shown_without_its_password():
    assert Queue("q", "redis://me:Secret@localhost:1").connection.address == "localhost:1"


def test_retention_has_one_stored_form():
    assert [encode(rule) for rule in (True, False, 5, Keep(age=1.5, count=2))] == [":0", ":", ":5", "1500:2"]
    with pytest.raises(ValueError, match="count"):
        Keep(count=-1)
