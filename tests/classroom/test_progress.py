"""Progress on disk: several writers, damage, and folders that cannot be written."""

import json
import multiprocessing
from pathlib import Path

import pytest

from qlab.classroom import progress
from qlab.classroom.progress import Progress, current, home, prove


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "progress"


def test_a_proof_and_a_pass_are_read_back_by_another_notebook(folder: Path):
    Progress(folder).prove("D03", {"charges": 2, "acks": 1})
    Progress(folder).pass_quiz("D03", {"q1": 1})
    facts = Progress(folder).items
    assert list(facts) == ["D03"]
    assert facts["D03"]["run"]["evidence"] == {"charges": 2, "acks": 1}
    assert facts["D03"]["quiz"]["tries"] == {"q1": 1}
    assert facts["D03"]["run"]["at"].endswith("+00:00")


def test_the_proof_shows_a_line_that_depends_on_the_evidence_alone(folder: Path):
    first = repr(Progress(folder).prove("D03", {"charges": 2}))
    second = repr(Progress(folder).prove("D03", {"charges": 2}))
    assert first == second
    assert "D03" in first
    assert "charges=2" in first


def test_a_proof_with_much_evidence_takes_more_lines_and_says_the_same(folder: Path):
    evidence = {f"figure_{number}": number for number in range(20)}
    lines = repr(Progress(folder).prove("D03", evidence)).splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 100
    assert all(f"figure_{number}={number}" in " ".join(lines) for number in range(20))


@pytest.mark.parametrize(
    ("item", "evidence", "says"),
    [
        ("D99", {"runs": 1}, "no item 'D99'"),
        ("D03", {}, "needs evidence"),
        ("D03", [1], "needs evidence"),
        ("D03", {"ratio": float("nan")}, "plain JSON"),
        ("D03", {"job": object()}, "plain JSON"),
    ],
)
def test_a_bad_proof_is_refused_and_nothing_is_stored(folder: Path, item: str, evidence, says: str):
    with pytest.raises(ValueError, match=says):
        Progress(folder).prove(item, evidence)
    assert not folder.exists()


def test_a_name_that_would_leave_the_folder_is_refused(folder: Path):
    with pytest.raises(ValueError, match="cannot name a progress file"):
        Progress(folder).remember_guess("../../x", "1", "")


def _write_many(folder: Path, item: str) -> None:
    mine = Progress(folder)
    for number in range(50):
        mine.prove(item, {"number": number})
        mine.prove("D01", {"by": item})


def test_several_notebooks_write_at_once_and_none_loses_anything(folder: Path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(folder, item)) for item in ("D03", "D10", "D04")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    mine = Progress(folder)
    last = [mine.items[item]["run"]["evidence"] for item in ("D03", "D10", "D04")]
    assert last == [{"number": 49}] * 3
    assert mine.notices == []
    assert sorted(path.suffix for path in folder.iterdir()) == [".json"] * 4


@pytest.mark.parametrize("damage", [b"{", b"", b"\xff\xfe", b"[1, 2]", b"null"])
def test_a_damaged_file_costs_one_fact_is_kept_and_is_named_in_one_sentence(folder: Path, damage: bytes):
    Progress(folder).prove("D10", {"runs": 2})
    (folder / "D03.run.json").write_bytes(damage)
    mine = Progress(folder)
    assert list(mine.items) == ["D10"]
    assert len(mine.notices) == 1
    assert "D03.run.json" in mine.notices[0]
    assert (folder / "D03.run.json.broken").read_bytes() == damage
    mine.prove("D03", {"runs": 1})
    assert Progress(folder).items["D03"]["run"]["evidence"] == {"runs": 1}


def test_a_second_damaged_file_does_not_overwrite_the_first_backup(folder: Path):
    folder.mkdir()
    for damage in (b"{1", b"{2"):
        (folder / "D03.run.json").write_bytes(damage)
        assert Progress(folder).items == {}
    assert (folder / "D03.run.json.broken").read_bytes() == b"{1"
    assert (folder / "D03.run.json.broken-2").read_bytes() == b"{2"


def test_without_a_folder_to_write_in_the_lesson_goes_on_and_says_so(tmp_path: Path):
    (tmp_path / "file").write_text("not a folder")
    mine = Progress(tmp_path / "file" / "progress")
    mine.prove("D03", {"charges": 2})
    mine.remember_guess("03-charges", "1", "vì vậy")
    assert mine.items["D03"]["run"]["evidence"] == {"charges": 2}
    assert mine.guess("03-charges") is not None
    assert len(mine.notices) == 1
    assert "QLAB_HOME" in mine.notices[0]


def test_a_disk_that_is_full_keeps_the_old_fact_and_leaves_no_litter(folder: Path, monkeypatch):
    mine = Progress(folder)
    mine.prove("D03", {"charges": 1})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    mine.prove("D03", {"charges": 2})
    monkeypatch.undo()
    assert "No space left" in mine.notices[0]
    assert [path.name for path in folder.iterdir()] == ["D03.run.json"]
    assert json.loads((folder / "D03.run.json").read_text())["evidence"] == {"charges": 1}


def test_a_guess_of_another_shape_is_not_used(folder: Path):
    folder.mkdir()
    (folder / "03-charges.guess.json").write_text('{"choice": 7}')
    assert Progress(folder).guess("03-charges") is None


def test_qlab_home_decides_where_progress_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("QLAB_HOME", str(tmp_path / "mine"))
    prove("D10", {"runs": 2})
    assert (tmp_path / "mine" / "progress" / "D10.run.json").is_file()
    assert current() is current()
    monkeypatch.delenv("QLAB_HOME")
    assert home() == Path(progress.__file__).resolve().parents[2] / ".qlab"
