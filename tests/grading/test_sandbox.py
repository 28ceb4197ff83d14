"""The grader's own side: it says when it cannot work, and leaves nothing behind then."""

import sys
import tempfile
from pathlib import Path

import pytest

from qlab.classroom.grading import accounts
from qlab.classroom.grading.accounts import Accounts, NoAccount
from qlab.classroom.grading.cage import Cage
from qlab.classroom.grading.sandbox import GraderSetupError, Nursery


def places(folder: Path) -> list[str]:
    """The folders of submissions that are still there."""
    return [path.name for path in folder.glob("qlab-grade-*")]


async def test_a_nursery_that_does_not_start_stops_the_grading(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    nursery = Nursery()
    cage = Cage(nursery, cut_network=True)
    try:
        with pytest.raises(GraderSetupError, match=r"requirements\.txt"):
            await cage.spawn({})
        with pytest.raises(GraderSetupError):
            cage.close()
    finally:
        nursery.close()
    assert places(tmp_path) == []


def test_two_graders_never_share_user_ids(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(accounts.os, "getuid", lambda: 0)
    monkeypatch.setattr(accounts, "SLOTS", 2)
    owner = tmp_path.stat().st_uid
    if owner != 0:  # without root the folder of locks cannot belong to root, and that is refused
        with pytest.raises(NoAccount, match="belongs to somebody else"):
            Accounts()
        return
    first, second = Accounts(), Accounts()
    given = [one.next() for one in (first, second) for _ in range(accounts.PER_SLOT)]
    assert len(set(given)) == 2 * accounts.PER_SLOT
    with pytest.raises(NoAccount, match="wait for one to end"):
        Accounts()
    first.close()
    third = Accounts()
    assert third.next() in given[: accounts.PER_SLOT]
    second.close()
    third.close()


def test_without_root_there_are_no_user_ids() -> None:
    without = Accounts(wanted=False)
    assert without.next() is None
    without.close()
