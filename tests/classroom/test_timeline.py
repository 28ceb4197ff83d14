"""The timeline: lanes, order, words, and that the same run always gives the same picture."""

import itertools
import random
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from qlab.classroom.story import BROKER, Event, fold, in_order
from qlab.classroom.timeline import Timeline, live_svg
from qlab.classroom.timeline_layout import lay_out
from qlab.classroom.timeline_text import title_width

SVG = "{http://www.w3.org/2000/svg}"

RACE = [
    Event(0.0, "added", job=1),
    Event(0.1, "started", "A"),
    Event(0.2, "taken", "A", 1, 1),
    Event(0.3, "effect", "A", note="trừ tiền"),
    Event(0.4, "died", "A", note="SIGKILL"),
    Event(0.5, "started", "B"),
    Event(1.2, "expired", "A", 1, 1),
    Event(1.4, "stalled", job=1, claim=1),
    Event(1.41, "taken", "B", 1, 2),
    Event(1.5, "effect", "B", note="trừ tiền"),
    Event(1.6, "completed", "B", 1, 2),
    Event(1.7, "stopped", "B"),
]
BLOCKED = [
    Event(0.0, "added", job=1),
    Event(0.2, "taken", "A", 1, 1),
    Event(0.7, "renewed", "A", 1, 1),
    Event(1.7, "expired", "A", 1, 1),
    Event(1.9, "stalled", job=1, claim=1),
    Event(1.9, "taken", "B", 1, 2),
    Event(2.0, "completed", "B", 1, 2),
    Event(3.0, "lock-lost", "A", 1, 1),
]


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


def test_the_ack_race_in_words() -> None:
    assert Timeline(RACE, "t").sentences == [
        "Broker ghi việc vào hàng đợi.",
        "Worker A bật.",
        "A nhận việc (lần nhận 1); từ đây A giữ khoá.",
        "A gây tác dụng phụ: trừ tiền.",
        "A chết (SIGKILL) khi đang giữ việc: ACK không bao giờ tới broker.",
        "Worker B bật.",
        "Khoá của A hết hạn vì không ai gia hạn.",
        "Broker thấy khoá hết hạn: việc bị coi là stalled, quay về hàng đợi.",
        "B nhận việc (lần nhận 2); từ đây B giữ khoá.",
        "B gây tác dụng phụ: trừ tiền.",
        "B gửi ACK, broker nhận: việc completed.",
    ]


def test_the_picture_has_its_title_and_the_whole_text_in_it() -> None:
    timeline = Timeline(RACE, "A bị giết")
    root = ET.fromstring(timeline.svg())
    title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert title.text == "A bị giết"
    assert desc is not None
    assert desc.text == " ".join(timeline.sentences)
    assert root.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}"


def test_the_broker_lies_below_the_first_worker_and_above_the_others() -> None:
    events = [*RACE, Event(2.0, "started", "C")]
    lanes = lay_out(in_order(events)).lanes
    assert list(lanes) == ["A", BROKER, "B", "C"]
    tops = [lane.top for lane in lanes.values()]
    assert tops == sorted(tops)


def test_events_lie_in_their_order_from_left_to_right() -> None:
    xs = lay_out(RACE).xs
    assert xs == sorted(xs)
    assert len(set(xs)) == len(RACE)


def test_the_story_is_folded_into_attempts_and_leases() -> None:
    story = fold(BLOCKED)
    first, second = story.attempts
    assert (first.lane, first.how, first.unlocked) == ("A", "lock-lost", 3)
    assert (second.lane, second.how, second.unlocked) == ("B", "completed", None)
    assert [(lease.owner, lease.how) for lease in story.leases] == [("A", "expired"), ("B", "completed")]


@pytest.mark.parametrize("events", [RACE, BLOCKED], ids=["race", "blocked"])
def test_the_clock_does_not_show_in_the_static_picture(events: list[Event]) -> None:
    slower = [replace(event, at=event.at * 7 + 0.123) for event in events]
    assert Timeline(slower, "t").svg() == Timeline(events, "t").svg()


def test_how_often_a_lease_was_renewed_does_not_show() -> None:
    often = [*BLOCKED, Event(0.8, "renewed", "A", 1, 1), Event(1.1, "renewed", "A", 1, 1)]
    assert Timeline(often, "t").svg() == Timeline(BLOCKED, "t").svg()


def test_a_renewal_that_was_on_its_way_while_the_job_ended_does_not_show() -> None:
    ended = [*BLOCKED[:3], Event(1.0, "completed", "A", 1, 1)]
    late = [*ended, Event(1.01, "renewed", "A", 1, 1)]
    assert Timeline(late, "t").svg() == Timeline(ended, "t").svg()
    assert Timeline(late, "t").sentences == Timeline(ended, "t").sentences


def test_between_which_other_events_a_lease_was_renewed_does_not_show() -> None:
    started = Event(0.5, "started", "B")
    later = Event(0.9, "started", "B")
    assert Timeline([*BLOCKED, started], "t").svg() == Timeline([*BLOCKED, later], "t").svg()


def test_whether_a_lease_ran_out_before_or_after_another_worker_came_up_does_not_show() -> None:
    early, late = (Timeline([*BLOCKED, Event(at, "started", "B")], "t") for at in (1.6, 1.8))
    assert early.svg() == late.svg()
    up = late.sentences.index("Worker B bật.")
    assert "hết hạn" in late.sentences[up + 2]
    assert "stalled" in late.sentences[up + 3]
    assert BLOCKED[3].kind == "expired"
    assert BLOCKED[3] in late.events


def test_that_a_lease_was_never_renewed_does_show() -> None:
    never = [event for event in BLOCKED if event.kind != "renewed"]
    assert "gia hạn" in texts(Timeline(BLOCKED, "t").svg())
    assert "gia hạn" not in texts(Timeline(never, "t").svg())


def test_an_effect_is_never_drawn_before_the_worker_has_the_job() -> None:
    early = [Event(0.1999, "effect", "A", note="x"), Event(0.2, "taken", "A", 1, 1)]
    assert [event.kind for event in in_order(early)] == ["taken", "effect"]


def test_the_legend_explains_what_is_drawn_and_nothing_else() -> None:
    race, blocked = texts(Timeline(RACE, "t").svg()), texts(Timeline(BLOCKED, "t").svg())
    assert {"tiến trình chết", "thông điệp không tới", "stalled"} <= set(race)
    assert {"bị từ chối", "vẫn chạy, khoá đã mất"} <= set(blocked)
    assert "bị từ chối" not in race
    assert "tiến trình chết" not in blocked


def test_a_job_given_up_has_a_sign_of_its_own_in_the_legend() -> None:
    given_up = [*BLOCKED[:5], Event(2.0, "failed", BROKER, 1, 0, "stalled too often")]
    reported = [*BLOCKED[:2], Event(2.0, "failed", "A", 1, 1, "503")]
    assert "việc bị bỏ hẳn" in texts(Timeline(given_up, "t").svg())
    assert "việc bị bỏ hẳn" not in texts(Timeline(reported, "t").svg())


def test_the_picture_is_as_wide_as_its_title_needs() -> None:
    title = "Một tiêu đề dài hơn hẳn bức tranh bên dưới nó, " * 3
    short, long = lay_out(RACE[:2], title="t"), lay_out(RACE[:2], title=title)
    assert long.width >= title_width(title) > short.width
    assert f'viewBox="0 0 {long.width:.0f} ' in Timeline(RACE[:2], title).svg()


def test_jobs_have_numbers_only_when_there_are_several() -> None:
    two = [*RACE, Event(2.0, "added", job=2)]
    assert "nhận việc" in texts(Timeline(RACE, "t").svg())
    assert "nhận việc 1" in texts(Timeline(two, "t").svg())
    assert Timeline(two, "t").sentences[0] == "Broker ghi việc 1 vào hàng đợi."


def test_a_job_that_stalled_too_often_is_given_up_with_its_reason() -> None:
    reason = "job stalled more than allowable limit"
    events = [*BLOCKED[:5], Event(2.0, "failed", BROKER, 1, 0, reason)]
    assert Timeline(events, "t").sentences[-1] == f"Broker bỏ hẳn việc: failed, lý do «{reason}»."


def test_words_of_others_are_escaped() -> None:
    nasty = '<script>alert("1")</script> & </text>'
    events = [*RACE[:3], Event(0.3, "failed", "A", 1, 1, nasty), Event(0.5, "died", "A", note=nasty)]
    svg = Timeline(events, nasty).svg()
    assert "<script" not in svg
    assert nasty in texts(svg)


def test_nothing_comes_from_outside_and_dark_pages_are_thought_of() -> None:
    svg = Timeline(RACE, "t").svg()
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|href|<image|@import", svg)
    assert "prefers-color-scheme: dark" in svg


def test_ids_of_two_pictures_on_one_page_differ() -> None:
    ids = [set(re.findall(r'id="([^"]+)"', Timeline(events, "t").svg())) for events in (RACE, BLOCKED)]
    assert not ids[0] & ids[1]


def random_run(seed: int, steps: int) -> list[Event]:
    """Many jobs on four workers, with deaths, stalls and refusals in any order."""
    dice = random.Random(seed)
    kinds = ["taken", "effect", "renewed", "expired", "stalled", "completed", "failed", "lock-lost", "died"]
    kinds += ["added", "started", "paused", "resumed", "retried"]
    events = []
    for step in range(steps):
        kind, lane = dice.choice(kinds), dice.choice("ABCD")
        lane = BROKER if kind in ("added", "stalled") else lane
        events.append(Event(step / 10, kind, lane, dice.randint(1, 6), dice.randint(1, 3), "SIGKILL"))
    return events


@pytest.mark.parametrize("seed", range(20))
def test_no_two_labels_touch_however_long_the_run(seed: int) -> None:
    layout = lay_out(in_order(random_run(seed, 80)))
    rows: dict[float, list[tuple[float, float]]] = {}
    for label in layout.labels:
        if label.text:
            assert label.x >= 96
            assert label.x + label.width <= layout.width
            rows.setdefault(label.y, []).append((label.x, label.x + label.width))
    for spans in rows.values():
        spans.sort()
        assert all(left[1] <= right[0] for left, right in itertools.pairwise(spans))


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_events_can_be_drawn_and_told(seed: int) -> None:
    timeline = Timeline(random_run(seed, 60), "t")
    ET.fromstring(timeline.svg())
    ET.fromstring(timeline.live_svg())
    assert len(timeline.sentences) <= 60


def test_the_live_picture_has_seconds_and_each_renewal() -> None:
    events = [*BLOCKED, Event(1.1, "renewed", "A", 1, 1)]
    svg = live_svg(events, "t", 3.2)
    assert {"0 s", "1 s", "3 s"} <= set(texts(svg))
    assert len(lay_out(in_order(events), now=3.2).story.leases[0].renewals) == 2


def test_the_live_picture_grows_to_the_right_while_time_goes_by() -> None:
    early, late = (lay_out(BLOCKED[:2], now=now).x(None) for now in (1.0, 3.0))
    assert early < late


def test_an_unknown_kind_of_event_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown kind of event 'exploded'; known are added, completed"):
        Event(0.0, "exploded")


def test_it_is_shown_as_a_picture_and_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    timeline = Timeline(RACE, "A bị giết")
    assert repr(timeline) == "Timeline(A bị giết)"
    markdown = timeline.markdown()
    assert markdown.startswith("<details><summary>Cùng câu chuyện ấy, kể bằng lời</summary>\n\n1. Broker")
    timeline._ipython_display_()
    shown = capsys.readouterr().out
    assert "[A bị giết] Chạy ô này để thấy hình" in shown
    assert "1. Broker ghi việc vào hàng đợi." in shown


def test_a_long_run_is_scaled_down_to_what_a_notebook_shows() -> None:
    root = ET.fromstring(Timeline(random_run(1, 80), "t").svg())
    _, _, width, height = map(float, (root.get("viewBox") or "").split())
    assert width > 848
    assert root.get("width") == "848"
    assert abs(float(root.get("height") or 0) - height * 848 / width) < 1
