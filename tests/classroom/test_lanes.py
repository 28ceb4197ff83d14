"""Pictures with measured times: what is drawn is said, and nothing leaves the picture."""

from xml.etree import ElementTree

import pytest

from qlab.classroom.lanes import WIDTH, Dot, Lanes, Span

THINGS = [
    Span("relay 1", 0.0, 1.25, "hold", "giữ 1–5"),
    Span("relay 2", 0.1, 1.25, "wait", "chờ"),
    Dot("A & B", 0.5, "việc 1"),
    Dot("A & B", 2.0),
]


def test_each_span_and_the_dots_of_a_lane_are_told() -> None:
    assert Lanes("Ai chờ ai", THINGS).sentences() == [
        "relay 1: từ 0 tới 1,25 giây, giữ 1–5.",
        "relay 2: từ 0,1 tới 1,25 giây, chờ.",
        "A & B: bắt đầu ở giây thứ 0,5 việc 1; 2.",
    ]


def test_the_picture_has_title_description_and_hatched_waiting() -> None:
    root = ElementTree.fromstring(Lanes("Ai <chờ> ai", THINGS).svg())
    words = [node.text for node in root.iter() if node.text]
    assert "Ai <chờ> ai" in words
    assert any("relay 2: từ 0,1" in word for word in words)
    bars = [node for node in root.iter() if node.tag.endswith("rect") and node.get("rx")]
    assert [bar.get("fill", "").startswith("url(") for bar in bars] == [False, True]
    ends = [float(bar.get("x", 0)) + float(bar.get("width", 0)) for bar in bars]
    dots = [float(node.get("cx", 0)) for node in root.iter() if node.tag.endswith("circle")]
    assert max(*ends, *dots) <= WIDTH


@pytest.mark.parametrize("last", [0.0, 0.04, 9.0, 61.0, 4000.0])
def test_the_axis_fits_any_length(last: float) -> None:
    drawn = Lanes("x", [Span("a", 0.0, last, "busy", "y")]).svg()
    assert 1 <= drawn.count(' text-anchor="middle">') <= 12


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Lanes("x", [])
    with pytest.raises(ValueError, match="hold, busy"):
        Span("a", 0, 1, "blue", "y")
