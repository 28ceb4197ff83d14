"""Quizzes, driven by clicks on their buttons, and the questions themselves."""

from pathlib import Path

import pytest

from qlab.classroom import quiz_items, strip, texts
from qlab.classroom.progress import Progress
from qlab.classroom.quiz import ChoiceView, OrderView, Quiz
from qlab.classroom.quiz_items import QuizError, read
from qlab.classroom.texts import MissingText, load, names

QUIZZES = names("quiz")
QUESTIONS = [(quiz, question) for quiz in QUIZZES for question in read(quiz)[1]]


@pytest.fixture
def progress(tmp_path: Path) -> Progress:
    return Progress(tmp_path / "progress")


def answer(view: ChoiceView | OrderView, right: bool) -> None:
    """Click an answer, the right one or a wrong one."""
    if isinstance(view, OrderView):
        order = list(view.question.answer) if right else list(reversed(view.question.answer))
        view.again.click()
        for step in order:
            view.buttons[step].click()
        return
    wanted = next(n for n, choice in enumerate(view.question.choices) if choice.right == right)
    view.buttons[wanted].click()


def shown(view: ChoiceView | OrderView) -> str:
    lines = [view.reply] if isinstance(view, OrderView) else view.replies
    visible = [line.value for line in lines if line.layout.display != "none"]
    assert len(visible) == 1
    return visible[0]


@pytest.mark.parametrize("quiz_id", QUIZZES)
def test_each_wrong_answer_gets_its_own_reply_and_the_pass_is_recorded(quiz_id: str, progress: Progress):
    quiz = Quiz(quiz_id, progress=progress)
    for view in quiz.views:
        answer(view, right=False)
        assert "Chưa đúng" in shown(view)
        answer(view, right=True)
        assert "Đúng" in shown(view)
        assert "Chưa đúng" not in shown(view)
    assert quiz.passed
    assert (progress.folder / f"{quiz_id}.quiz.json").is_file()
    assert set(quiz.tries.values()) == {2}
    assert quiz.right_first == set()


def test_nothing_is_recorded_before_the_last_question_is_right(progress: Progress):
    quiz = Quiz("D03", progress=progress)
    for view in quiz.views[:-1]:
        answer(view, right=True)
    answer(quiz.views[-1], right=False)
    assert progress.items == {}
    answer(quiz.views[-1], right=True)
    assert set(progress.items["D03"]) == {"quiz"}
    assert quiz.right_first == {view.question.id for view in quiz.views[:-1]}


def test_looking_at_wrong_answers_afterwards_takes_nothing_away(progress: Progress):
    quiz = Quiz("D03", progress=progress)
    for view in quiz.views:
        answer(view, right=True)
    answer(quiz.views[0], right=False)
    assert "Chưa đúng" in shown(quiz.views[0])
    assert quiz.passed
    assert set(quiz.tries.values()) == {1}


def test_the_reply_stands_below_the_answer_picked_with_a_sign_and_a_word(progress: Progress):
    view = Quiz("D03", progress=progress).views[0]
    view.buttons[0].click()
    view.buttons[2].click()
    assert view.buttons[0].description.startswith("A.")
    assert view.buttons[2].description.startswith("✗ C.")
    assert view.question.choices[2].why.split("`")[0][:40] in view.replies[2].value


def test_a_placed_step_can_be_taken_back(progress: Progress):
    view = next(v for v in Quiz("D03", progress=progress).views if isinstance(v, OrderView))
    first, second = list(view.buttons)[:2]
    view.buttons[first].click()
    view.buttons[second].click()
    view.buttons[first].click()
    assert view.placed == [second]
    assert view.buttons[second].description.startswith("1.")
    assert view.buttons[first].description.startswith("…")


@pytest.mark.parametrize("quiz_id", QUIZZES)
def test_what_is_stored_of_it_is_fixed_and_holds_every_question_and_reply(quiz_id: str, progress: Progress):
    quiz = Quiz(quiz_id, progress=progress)
    before = quiz._repr_mimebundle_()
    for view in quiz.views:
        answer(view, right=True)
    after = quiz._repr_mimebundle_()
    assert {k: before[k] for k in ("text/plain", "text/html")} == {
        k: after[k] for k in ("text/plain", "text/html")
    }
    for question in quiz.questions:
        assert question.ask.replace("**", "").replace("`", "") in before["text/plain"]
        for choice in question.choices:
            assert strip.words(list(choice.marks)) in before["text/plain"]


@pytest.mark.parametrize(("quiz_id", "question"), QUESTIONS, ids=lambda value: getattr(value, "id", value))
def test_every_question_answers_every_wrong_choice_at_length(quiz_id: str, question: quiz_items.Question):
    replies = [choice.why for choice in question.choices] or [m.why for m in question.mistakes]
    assert len(replies) >= 3
    assert all(len(reply) > 40 for reply in replies)
    assert len(set(replies)) == len(replies)


@pytest.mark.parametrize(("quiz_id", "question"), [q for q in QUESTIONS if q[1].kind == "order"])
def test_an_order_is_not_shown_in_its_answer_and_each_swap_of_neighbours_is_answered(quiz_id, question):
    assert tuple(step for step, _ in question.steps) != question.answer
    for place in range(len(question.answer) - 1):
        swapped = list(question.answer)
        swapped[place : place + 2] = reversed(swapped[place : place + 2])
        right, why = question.reply_to_order(swapped)
        assert not right
        assert why != load("quiz")["other_order"], swapped


@pytest.mark.parametrize("quiz_id", ["D03", "D10"])
def test_a_quiz_of_the_board_has_four_questions_of_all_kinds(quiz_id: str):
    questions = read(quiz_id)[1]
    assert len(questions) == 4
    assert {question.kind for question in questions} == set(quiz_items.KINDS)
    places = [[c.right for c in q.choices].index(True) for q in questions if q.choices]
    assert len(set(places)) > 1, "the right answer is always at the same place"


def test_an_unknown_quiz_names_the_file_to_add():
    with pytest.raises(MissingText, match=r"quiz/D99\.toml"):
        Quiz("D99")


BAD = {
    "no title": ("", "lacks 'title'"),
    "two right": (
        'title="t"\n[[questions]]\nid="q"\nkind="choice"\nask="?"\n'
        'choices=[{says="a",why="w",right=true},{says="b",why="w",right=true},{says="c",why="w"}]',
        "exactly one with right",
    ),
    "unknown kind": ('title="t"\n[[questions]]\nid="q"\nkind="poll"\nask="?"', "kind must be one of"),
    "no reply": (
        'title="t"\n[[questions]]\nid="q"\nkind="choice"\nask="?"\nchoices=[{says="a"}]',
        "lacks 'why'",
    ),
    "bad mark": (
        'title="t"\n[[questions]]\nid="q"\nkind="picture"\nask="?"\n'
        'choices=[{marks=["A fly x"],why="w",right=true},{marks=["A ack x"],why="w"},'
        '{marks=["A ack y"],why="w"}]',
        "a mark is",
    ),
    "answer lacks a step": (
        'title="t"\n[[questions]]\nid="q"\nkind="order"\nask="?"\nwhy="w"\nanswer=["a"]\nmistakes=[]\n'
        'steps=[{id="a",says="A"},{id="b",says="B"}]',
        "name each step once",
    ),
    "a mistake that is none": (
        'title="t"\n[[questions]]\nid="q"\nkind="order"\nask="?"\nwhy="w"\nanswer=["a","b"]\n'
        'mistakes=[{first="a",then="b",why="w"}]\nsteps=[{id="a",says="A"},{id="b",says="B"}]',
        "is no mistake",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_quiz_file_that_cannot_be_asked_says_what_to_put_right(case: str, tmp_path: Path, monkeypatch):
    body, says = BAD[case]
    (tmp_path / "vi" / "quiz").mkdir(parents=True)
    (tmp_path / "vi" / "quiz" / "bad.toml").write_text(body, encoding="utf-8")
    monkeypatch.setattr(texts, "FOLDER", tmp_path)
    texts._read.cache_clear()
    try:
        with pytest.raises(QuizError, match=says):
            read("bad")
    finally:
        texts._read.cache_clear()
