"""What is written in the files: one set of requirements, and nothing of the machine they came from."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
# Written in pieces, so that this file does not name what it forbids.
HOSTS = [
    "pypi" + ".org",
    "python" + "hosted.org",
    "registry." + "npmjs",
    "conda." + "anaconda.org",
    "index" + "-url",
]
FOLDERS = [
    r"/ro" + r"ot/",
    r"/wo" + r"rk/",
    r"/ho" + r"me/\w",
    r"/Us" + r"ers/\w",
    r"/tmp/" + r"tmp\w",
    r"/opt/" + r"wheels",
]
FORBIDDEN = re.compile("|".join([*map(re.escape, HOSTS), *(rf"(?<![\w.~*-]){folder}" for folder in FOLDERS)]))
# The test of the check of notebooks: examples of what that check refuses.
EXAMPLES = {Path("tests/classroom/test_checks.py")}
BINARY = {".png", ".ico", ".zip", ".gz"}


def tracked() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [Path(name) for name in listing.decode().split("\0") if name and Path(ROOT, name).is_file()]


def test_no_host_of_a_registry_and_no_folder_of_a_machine():
    found = []
    for path in tracked():
        if path.suffix not in BINARY and path not in EXAMPLES:
            for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
                found += [f"{path}:{number}: {hit.group()}" for hit in FORBIDDEN.finditer(line)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [f"see https://{HOSTS[0]}/x", "/ro" + "ot/.cache", "in /tmp/" + "tmpab12/x", "'/ho" + "me/an/khoá'"],
)
def test_the_pattern_sees(line):
    assert FORBIDDEN.search(line)


def pinned() -> dict[str, int]:
    """Names in requirements.txt, normalised, with how many hashes each has."""
    names: dict[str, int] = {}
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        if match := re.match(r"([a-z0-9][a-z0-9._-]*)==", line):
            name = match.group(1)
            names[name] = 0
        elif "--hash=sha256:" in line:
            names[name] += 1
    return names


def test_every_requirement_is_locked_by_hash():
    assert len(pinned()) > 50
    assert [name for name, hashes in pinned().items() if hashes == 0] == []


def test_what_the_project_asks_for_is_locked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + [
        word for extra in project["optional-dependencies"].values() for word in extra
    ]
    names = {re.match(r"[A-Za-z0-9._-]+", requirement).group().lower() for requirement in asked}
    assert names - {"qlab-course"} <= set(pinned())


def test_conda_installs_the_same_requirements():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert environment["channels"] == ["conda-forge"]
    *conda, last = environment["dependencies"]
    assert [name.partition("=")[0] for name in conda] == ["python", "pip"]
    assert last == {"pip": ["-r requirements.txt"]}
    version = tuple(map(int, conda[0].partition("=")[2].split(".")))
    assert (3, 11) <= version <= (3, 13)


def test_make_uses_relative_paths():
    makefile = (ROOT / "Makefile").read_text()
    assert not re.search(r"CURDIR|abspath|realpath|\bpwd\b", makefile)
