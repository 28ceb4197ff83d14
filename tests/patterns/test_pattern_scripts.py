"""Headers of the Lua files of the patterns are read by the loader."""

from importlib.resources import files

import pytest

from qlab.patterns.scripts import script

NAMES = sorted(path.name.removesuffix(".lua") for path in (files("qlab.patterns") / "lua").iterdir())


def test_there_are_scripts() -> None:
    assert {"token_bucket", "lock_acquire", "lock_release", "fair_push"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_file_says_what_it_does_and_keeps(name: str) -> None:
    one = script(name)
    assert one.keys
    assert one.argv
    assert "\n-- Invariant: " in one.source
    assert " Returns " in one.source
