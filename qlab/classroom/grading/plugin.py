"""The hooks behind `pytest --submissions DIR`: every check of every submitted notebook becomes a test.

A check passes only with a positive verdict. Reports are written to `--submissions-report`.
"""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from qlab.classroom.grading.sandbox import Nursery
    from qlab.classroom.grading.submission import Submission
    from qlab.classroom.grading.verdict import Grade, Verdict


class SubmissionFile(pytest.Collector):
    """One submitted notebook. It is graded when the first of its checks is run."""

    submission: "Submission"
    grading: "Grading"
    grade: "Grade | None" = None

    def collect(self) -> Iterator[pytest.Item]:
        """One item for each check of the exercise."""
        for order, check in enumerate(self.grading.checks(self.submission)):
            item: CheckItem = CheckItem.from_parent(self, name=check)
            item.order = order
            item.add_marker(pytest.mark.timeout(0))  # the grader has limits of its own
            item.add_marker(pytest.mark.filterwarnings("default"))
            yield item

    def graded(self) -> "Grade":
        """The grade, made once."""
        if self.grade is None:
            self.grade = self.grading.grade(self.submission)
        return self.grade


class CheckItem(pytest.Item):
    """One check of one submission."""

    parent: SubmissionFile
    order: int

    def runtest(self) -> None:
        """Passes with a positive verdict, fails with the rule that was broken."""
        grade = self.parent.graded()
        verdict = grade.verdicts.get(self.name)
        self.user_properties.append(("qlab_row", _row(grade, self, verdict)))
        if verdict is None or not verdict.passed:
            raise CheckFailed(verdict)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The sentence and the evidence; no traceback of ours."""
        if not isinstance(excinfo.value, CheckFailed):
            return super().repr_failure(excinfo, style)
        row = dict(self.user_properties)["qlab_row"]
        return "{student} · {title}\n{mistake}: {explanation}\n{shown}".format(**row)  # type: ignore[arg-type]

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where the item is, for messages."""
        return self.path, None, f"{self.parent.name}::{self.name}"


class CheckFailed(Exception):
    """A check without a positive verdict."""


def _row(grade: "Grade", item: CheckItem, verdict: "Verdict | None") -> dict[str, Any]:
    from qlab.classroom.grading import words

    mistake = None if verdict and verdict.passed else (verdict.mistake if verdict else "grader_error")
    evidence = verdict.evidence if verdict else {}
    return {
        "student": grade.student,
        "file": item.parent.name,
        "exercise": grade.exercise,
        "check": item.name,
        "order": item.order,
        "title": words.title(grade.exercise, item.name),
        "points": grade.earned(item.name),
        "of": grade.points[item.name],
        "verdict": "failed" if mistake else "passed",
        "mistake": mistake,
        "explanation": words.explain(grade.exercise, mistake) if mistake else "",
        "evidence": json.loads(json.dumps(evidence, default=str)),
        "shown": ", ".join(f"{key}={value}" for key, value in evidence.items() if value not in (None, "")),
        "notes": grade.notes,
        "own_user": grade.own_user,
        "network_cut": grade.network_cut,
    }


class Grading:
    """The hooks of a grading run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.folder = Path(config.getoption("--submissions"))
        self.rows: list[dict[str, Any]] = []
        self._nursery: Nursery | None = None
        self._servers: Any = None
        self.written: list[Path] = []
        self.summary: dict[str, Any] = {}
        if not self.folder.is_dir():
            raise pytest.UsageError(f"--submissions: there is no folder {self.folder}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool | None:
        """Collect the submissions and nothing else: no file of DIR is imported, no conftest.py is read."""
        if self.config.pluginmanager.has_plugin("dsession"):
            return None  # xdist: the workers collect
        from qlab.classroom.exercises import known
        from qlab.classroom.grading.submission import find

        exercise = self.config.getoption("--exercise")
        names = [name for name in known() if self._is_graded(name)]
        if exercise and exercise not in names:
            raise pytest.UsageError(
                f"--exercise: {exercise!r} is not graded here; there are {', '.join(names)}"
            )
        session.items = []
        for submission in find(self.folder, names, exercise):
            session.items += self._items(session, submission)
        self.config.hook.pytest_collection_modifyitems(
            session=session, config=self.config, items=session.items
        )
        self.config.hook.pytest_collection_finish(session=session)
        session.testscollected = len(session.items)
        return True

    @staticmethod
    def _is_graded(name: str) -> bool:
        from importlib.util import find_spec

        return find_spec(f"qlab.classroom.grading.{name}") is not None

    def _items(self, session: pytest.Session, submission: "Submission") -> list[pytest.Item]:
        inside = submission.path.relative_to(self.folder)
        node = SubmissionFile.from_parent(
            session, name=str(inside), path=submission.path, nodeid=f"{self.folder.name}/{inside}"
        )
        node.submission, node.grading = submission, self
        return list(node.collect())

    def checks(self, submission: "Submission") -> list[str]:
        """The checks of a submission's exercise; of the first exercise when nobody knows which it is."""
        from qlab.classroom.grading.grader import load

        if submission.exercise == "":
            from qlab.classroom.exercises import known

            submission.exercise = next(name for name in known() if self._is_graded(name))
        return list(load(submission.exercise)[0].points)

    def grade(self, submission: "Submission") -> "Grade":
        """Grade one submission; an error of the grader itself becomes its row, not the end of the batch."""
        from qlab.classroom.grading.accounts import NoAccount
        from qlab.classroom.grading.grader import failed, grade
        from qlab.classroom.grading.sandbox import GraderSetupError, Nursery

        server = self._server()
        try:
            self._nursery = self._nursery or Nursery()
            return asyncio.run(
                grade(submission, self._nursery, server, self.config.getoption("--submissions-seed"))
            )
        except (GraderSetupError, NoAccount) as error:
            pytest.exit(f"grading stopped: {error}", returncode=4)
        except Exception as error:
            if self._nursery is not None:
                self._nursery.stop()
            return failed(submission, "grader_error", {"error": f"{type(error).__name__}: {error}"})

    def _server(self) -> str:
        if "QLAB_PG_DSN" in os.environ:
            return os.environ["QLAB_PG_DSN"]
        if self._servers is None:
            from qlab.embedded import start

            self._servers = start(postgres=True)
        if self._servers.pg_dsn is None:
            pytest.exit("grading needs PostgreSQL: " + " ".join(self._servers.notices), returncode=4)
        return str(self._servers.pg_dsn)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the row out of the report; with xdist it came from a worker."""
        if hasattr(self.config, "workerinput"):
            return
        for name, row in list(report.user_properties):
            if name == "qlab_row" and isinstance(row, dict):
                if report.when == "call":
                    self.rows.append(row)
                shown = [(key, row[key]) for key in ("points", "of", "mistake") if row[key] is not None]
                report.user_properties = shown  # what JUnit keeps

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the reports, in the process that the instructor started."""
        if self._nursery is not None:
            self._nursery.close()
        if self._servers is not None:
            self._servers.close()
        if hasattr(self.config, "workerinput") or not self.rows:
            return
        from qlab.classroom.grading import reports

        self.summary = reports.summarise(self.rows, self._conditions())
        folder = Path(self.config.getoption("--submissions-report"))
        self.written = reports.write(folder, self.summary)

    def _conditions(self) -> dict[str, Any]:
        """Under which the answers ran; the weakest counts."""
        run = [row for row in self.rows if row["network_cut"] is not None]
        return {
            "own_user": bool(run) and all(row["own_user"] for row in run),
            "network_cut": bool(run) and all(row["network_cut"] for row in run),
            "seed": self.config.getoption("--submissions-seed"),
        }

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """One line for each submission, then what the class got wrong, then where the reports are."""
        if not self.written:
            return
        terminalreporter.section("grades")
        for done in self.summary["submissions"]:
            mistakes = dict.fromkeys(c["mistake"] for c in done["checks"] if c["mistake"])
            points = f"{done['points']:>3}/{done['of']}"
            terminalreporter.write_line(
                f"{points}  {done['student']}  {done['exercise']}  {' '.join(mistakes)}"
            )
        for item in self.summary["misconceptions"]:
            terminalreporter.write_line(f"{item['count']:>4} × {item['mistake']}: {item['explanation']}")
        for path in self.written:
            terminalreporter.write_line(f"report: {path}")
