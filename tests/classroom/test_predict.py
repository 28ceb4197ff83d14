"""The prediction widget, driven by its traits: lock, compare, restore; it never stands in the way."""

from pathlib import Path

import pytest

from qlab.classroom.predict import Predict
from qlab.classroom.progress import Progress
from qlab.classroom.texts import MissingText, load, names, text


@pytest.fixture
def progress(tmp_path: Path) -> Progress:
    return Progress(tmp_path / "progress")


@pytest.fixture
def guess(progress: Progress) -> Predict:
    return Predict("00-no-worker", progress=progress)


def test_without_a_guess_the_comparison_is_left_out(guess: Predict):
    assert guess.guess is None
    assert guess.compare("waits") is None
    assert guess.feedback.value == ""


def test_a_click_selects_and_the_button_locks_and_remembers(guess: Predict, progress: Progress):
    guess.choices["lost"].click()
    assert guess.guess is None
    assert guess.choices["lost"].description.startswith("●")
    assert guess.choices["waits"].description.startswith("○")
    guess.why.value = "  vì worker biến mất "
    guess.button.click()
    assert guess.guess == "lost"
    assert all(button.disabled for button in guess.choices.values())
    assert guess.why.disabled
    remembered = progress.guess("00-no-worker")
    assert remembered is not None
    assert (remembered["choice"], remembered["why"]) == ("lost", "vì worker biến mất")


def test_letters_that_arrive_after_the_lock_are_not_lost(guess: Predict, progress: Progress):
    guess.choose("lost")
    guess.why.value = "vì wor"
    guess.lock()
    guess.why.value = "vì worker biến mất"
    assert guess.reason == "vì worker biến mất"
    remembered = progress.guess("00-no-worker")
    assert remembered is not None
    assert remembered["why"] == "vì worker biến mất"


def test_a_wrong_guess_is_answered_personally(guess: Predict):
    guess.choose("lost")
    guess.why.value = "vì <b>mất</b>"
    guess.lock()
    answer = guess.compare("waits")
    assert answer is not None
    assert not answer.right
    wrong = next(option for option in guess.options if option.value == "lost")
    assert wrong.why in repr(answer)
    assert "vì <b>mất</b>" in repr(answer)
    assert "vì &lt;b&gt;mất&lt;/b&gt;" in answer._repr_html_()
    assert "✗" in repr(answer)


def test_a_right_guess_is_told_so_without_the_reply_to_wrong_ones(guess: Predict):
    guess.choose("waits")
    guess.lock()
    answer = guess.compare("waits")
    assert answer is not None
    assert answer.right
    assert repr(answer).startswith("✓")
    assert all(option.why not in repr(answer) for option in guess.options if option.why)


def test_confirming_without_a_choice_asks_for_one_and_locks_nothing(guess: Predict, progress: Progress):
    guess.button.click()
    assert text("predict.choose") in guess.feedback.value
    assert guess.guess is None
    assert progress.guess("00-no-worker") is None


def test_a_guess_after_the_run_is_answered_in_the_widget_and_marked_late(guess: Predict):
    assert guess.compare("waits") is None
    guess.choose("error")
    guess.lock()
    assert "✗" in guess.feedback.value
    assert text("predict.late")[:20] in guess.feedback.value


def test_the_guess_is_there_again_after_a_restart_and_can_be_given_up(guess: Predict, progress: Progress):
    guess.choose("lost")
    guess.lock()
    again = Predict("00-no-worker", progress=progress)
    assert again.guess == "lost"
    assert again.button.description == text("predict.again")
    again.button.click()
    assert again.guess is None
    assert not any(button.disabled for button in again.choices.values())
    again.choose("waits")
    again.button.click()
    assert Predict("00-no-worker", progress=progress).guess == "waits"


def test_what_is_stored_of_it_does_not_depend_on_the_learner(guess: Predict, progress: Progress):
    before = guess._repr_mimebundle_()
    guess.choose("lost")
    guess.lock()
    after = Predict("00-no-worker", progress=progress)._repr_mimebundle_()
    for mime in ("text/plain", "text/html"):
        assert before[mime] == after[mime]
        assert guess.question.split("**")[0] in before[mime]
        assert all(option.label.replace("`", "") in before["text/plain"] for option in guess.options)
    assert "application/vnd.jupyter.widget-view+json" in before


def test_a_value_that_is_no_choice_is_refused_with_or_without_a_guess(guess: Predict):
    with pytest.raises(ValueError, match="no choice '7': its values are waits, lost, error"):
        guess.compare(7)


def test_a_notebook_of_ones_own_may_bring_question_and_choices(progress: Progress):
    own = Predict("mine", "Mấy lần?", {"1": "một lần", "2": "hai lần"}, progress=progress)
    own.choose("1")
    own.lock()
    answer = own.compare(2)
    assert answer is not None
    assert "hai lần" in repr(answer)


@pytest.mark.parametrize("options", [["một"], ["một", "một"], []])
def test_fewer_than_two_different_choices_are_refused(progress: Progress, options: list[str]):
    with pytest.raises(ValueError, match="two or more choices"):
        Predict("mine", "Mấy lần?", options, progress=progress)


def test_an_unknown_prediction_names_the_file_to_add(progress: Progress):
    with pytest.raises(MissingText, match=r"predict/nope\.toml"):
        Predict("nope", progress=progress)


@pytest.mark.parametrize("name", names("predict"))
def test_every_prediction_can_be_asked_and_answers_most_wrong_guesses(name: str, progress: Progress):
    asked = Predict(name, progress=progress)
    raw = load(f"predict/{name}")
    answered = [option for option in raw["options"] if len(option.get("why", "")) > 20]
    assert len(answered) >= len(raw["options"]) - 1
    assert asked.lesson
