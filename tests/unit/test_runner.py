"""Finding the worker at `module:attribute`: our refusals are one sentence, errors of the program its own."""

import pytest

from qlab.runner import SpecError, load

OURS = {
    "from qlab import Worker\nworker = Worker('q', print, concurrency=0)\n": "line 2: concurrency must be",
    "from qlab import Queue\nqueue = Queue('a:b')\n": "line 2: queue name 'a:b'",
    "from qlab import Worker\nworker = Worker('q', print, 'http://x')\n": "line 2: the URL of Redis cannot",
}
THEIRS = {
    "import json\njson.loads('{')\n": ValueError,
    "import sys\nsys.nothing\n": AttributeError,
    "raise TypeError('mine')\n": TypeError,
    "import nowhere_at_all\n": ModuleNotFoundError,
}


@pytest.fixture
def module(tmp_path, monkeypatch, request):
    name = f"program_{abs(hash(request.param))}"
    (tmp_path / f"{name}.py").write_text(request.param)
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.mark.parametrize(("module", "sentence"), OURS.items(), indirect=["module"])
def test_what_the_library_refuses_is_one_sentence_with_its_place(module, sentence):
    with pytest.raises(SpecError, match=sentence) as caught:
        load(f"{module}:worker")
    assert str(caught.value).startswith(f"{module}.py, line 2: ")


@pytest.mark.parametrize(("module", "kind"), THEIRS.items(), indirect=["module"])
def test_an_error_of_the_program_keeps_its_traceback(module, kind):
    with pytest.raises(kind):
        load(f"{module}:worker")


@pytest.mark.parametrize("spec", ["", "a", "a:", ":b", "../a:b", ".a:b", "a..b:c", "a/b:c", "a.:b"])
def test_a_place_that_is_none_is_refused(spec):
    with pytest.raises(SpecError, match="write module:attribute"):
        load(spec)
