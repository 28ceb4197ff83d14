"""Names that would break the layout of keys are refused, with the rule in the message."""

import pytest

from qlab.keys import Keys, check_job_id, check_queue_name


@pytest.mark.parametrize("name", ["", "a:b", "a{b", "a}b", "a b", "a*", "é" * 101, 7, None, "\ud800"])
def test_a_bad_queue_name_is_refused(name):
    with pytest.raises(ValueError, match="queue name"):
        check_queue_name(name)


@pytest.mark.parametrize("name", ["emails", "emails-critical", "thư", "a.b_c", "x" * 100])
def test_a_good_queue_name_is_kept(name):
    assert check_queue_name(name) == name


@pytest.mark.parametrize("job_id", ["", "a:b", "a b", "{a}", "a\n", 7, "x" * 201, "\udfff"])
def test_a_bad_job_id_is_refused(job_id):
    with pytest.raises(ValueError, match="job id"):
        check_job_id(job_id)


def test_all_keys_of_a_queue_share_one_hash_tag():
    keys = Keys("emails", "qlab")
    assert keys["waiting"] == "qlab:{emails}:waiting"
    assert keys.job("7") == "qlab:{emails}:job:7"


def test_the_prefix_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("QLAB_PREFIX", "lesson")
    assert Keys("emails")["waiting"] == "lesson:{emails}:waiting"
    assert Keys("emails", "mine")["waiting"] == "mine:{emails}:waiting"


@pytest.mark.parametrize(("prefix", "tag"), [("qlab", "emails"), ("{shop}", "shop"), ("eu-{shop}:2", "shop")])
def test_a_part_of_the_prefix_in_braces_is_the_hash_tag_of_all_queues(prefix, tag):
    keys = Keys("emails", prefix)
    assert (keys["waiting"], keys.hash_tag) == (f"{prefix}:{{emails}}:waiting", tag)


@pytest.mark.parametrize("prefix", ["a{b", "a b", "*", "{}", "{a}{b}", "x" * 101])
def test_a_bad_prefix_is_refused(prefix):
    with pytest.raises(ValueError, match="prefix"):
        Keys("emails", prefix)
