"""The kill-test keeps its promises, and would say so if one were broken."""

import json
import subprocess
import sys

import pytest

from qlab.testing.kill_test.setting import KillTestError, Setting, broken_promises

GOOD = {
    "TOTAL": 100, "secs": 1.0, "completed": 100, "failed": 0, "runs": 107, "distinctRuns": 100, "reruns": 7,
    "effect_naive": 107, "naive_duplicates": 7, "effect_idem": 100, "lost": 0, "kills": 2, "seed": 1,
    "setting": {"concurrency": 20},
}  # fmt: skip


def kill_test(*options: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "qlab.testing.kill_test", *options], capture_output=True, text=True,
        check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    return json.loads(line)


def test_a_good_result_breaks_nothing():
    assert broken_promises(GOOD) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lost": 1}, "1 jobs were lost"),
        ({"failed": 2}, "2 jobs failed"),
        ({"effect_idem": 101}, "happened 101 times for 100 jobs"),
        ({"reruns": 41, "naive_duplicates": 41}, "41 reruns are more than kills x concurrency = 40"),
        ({"naive_duplicates": 6}, "6 duplicates for 7 reruns"),
    ],
)
def test_each_broken_promise_is_one_sentence(change, words):
    [sentence] = broken_promises(GOOD | change)
    assert words in sentence


def test_a_kill_test_without_jobs_is_refused():
    with pytest.raises(KillTestError, match="at least 1 job"):
        Setting(jobs=0)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_is_lost_when_workers_are_killed():
    result = kill_test("--jobs", "2000", "--kills", "4")
    assert result["lost"] == result["failed"] == 0
    assert result["completed"] == result["effect_idem"] == result["distinctRuns"] == 2000
    assert 0 < result["reruns"] == result["naive_duplicates"] <= 4 * 20


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_is_lost_when_redis_is_killed_too():
    result = kill_test("--jobs", "2000", "--kills", "4", "--redis-restart")
    assert result["lost"] == result["failed"] == 0
    assert result["completed"] == result["effect_idem"] == 2000
    assert result["setting"]["appendfsync"] == "always"
