"""The headers of the Lua files are what the loader checks calls and compositions against."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from qlab import scripts
from qlab.keys import Keys

NAMES = sorted(path.name.removesuffix(".lua") for path in (files("qlab") / "lua").iterdir())
ENTRIES = [name for name in NAMES if scripts._read(name).argv is not None]


def test_there_are_entry_scripts_and_transitions():
    assert {"add_jobs", "settle_and_take", "renew", "recover"} <= set(ENTRIES)
    assert {"enqueue", "take", "settle"} <= set(NAMES) - set(ENTRIES)


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_script_composes(name):
    one = scripts.script(name)
    assert len(set(one.keys)) == len(one.keys)
    assert one.argv[0] == "now"


@pytest.mark.parametrize("name", NAMES)
def test_every_file_says_what_it_does_and_keeps(name):
    first, *rest = scripts._read(name).source.splitlines()
    assert re.match(rf"-- ({name}: \S|Helpers of)", first)
    if name not in ("prelude", "add_jobs"):
        assert any(line.startswith("-- Invariant: ") for line in rest)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_uses_only_the_keys_that_its_header_names(name):
    """A key that is not declared would be a global, which Redis refuses only when the line runs."""
    declared = {"job", "events", "wake", "meta"} | set(scripts._read(name).keys)
    for used in scripts._read(name).needs + scripts._read(name).uses:
        declared |= set(scripts._read(used).keys)
    all_keys = {key for other in NAMES for key in scripts._read(other).keys}
    code = "\n".join(line for line in scripts._read(name).source.splitlines() if not line.startswith("--"))
    words = set(re.findall(r"redis\.call\('\w+', ([a-z_]+)", code))
    assert words & all_keys <= declared


def test_the_state_machine_names_every_file():
    text = (Path(__file__).parents[2] / "docs" / "state_machine.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}.lua`" not in text] == []


def test_a_script_for_several_queues_can_name_all_keys_of_another():
    """Also the keys whose name is no name for a Lua local."""
    source = scripts.script("settle_and_take").source
    assert "  waiting_children = base .. 'waiting-children'\n" in source
    assert "  job = base .. 'job:'\n" in source
    assert "function enter" not in scripts.script("renew").source


def test_a_call_that_differs_from_the_header_is_refused():
    one = scripts.script("renew")
    with pytest.raises(TypeError, match="renew takes"):
        one.arguments(Keys("q"), {"now": "", "lock": 1}, [])


def test_a_transition_cannot_be_called():
    with pytest.raises(ValueError, match="transition"):
        scripts.script("take")
