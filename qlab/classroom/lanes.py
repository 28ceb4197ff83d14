"""Measured times as a picture: a lane for each name, spans and dots over seconds, and the same in words.

    Lanes("Ai chờ ai", [Span("relay 1", 0.0, 0.6, "hold", "giữ 1–5"), Dot("A", 0.1, "việc 1")])

Spans are told apart by hatching and by the word in or above them, not by colour alone. What is measured
differs from run to run, so a cell that shows such a picture is tagged nbval-ignore-output, beside an
assertion on counts and orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from qlab.classroom import markup, notebook, svg
from qlab.classroom.texts import text
from qlab.classroom.timeline_text import text_width

WIDTH, LEFT, TOP, LANE, BAR = 848.0, 24.0, 62.0, 50.0, 22.0
PLAIN = {"hold": "#56b4e9", "window": "#f0e442", "busy": "#cccccc"}
STYLE = (
    ".ql-bg{fill:#fff}.ql-ink{fill:#1b1f24}.ql-mute{fill:#57606a}.ql-line{stroke:#8c959f}"
    "@media (prefers-color-scheme: dark){.ql-bg{fill:#0d1117}.ql-ink{fill:#e6edf3}.ql-mute{fill:#9aa4af}}"
)


@dataclass(frozen=True)
class Span:
    """From ``start`` to ``end`` seconds; ``kind`` is hold, busy, window (all filled) or wait (hatched)."""

    lane: str
    start: float
    end: float
    kind: str
    word: str

    def __post_init__(self) -> None:
        if self.kind != "wait" and self.kind not in PLAIN:
            raise ValueError(f"a span is hold, busy, window or wait, not {self.kind!r}")


@dataclass(frozen=True)
class Dot:
    """Something at one moment, such as the start of a job."""

    lane: str
    at: float
    word: str = ""


class Lanes:
    """The picture; shown in a notebook with its text equivalent below. Lanes stand in order of appearance."""

    def __init__(self, title: str, things: Sequence[Span | Dot]) -> None:
        if not things:
            raise ValueError("nothing to draw: give at least one Span or Dot")
        self.title, self.things = title, list(things)
        self.names = list(dict.fromkeys(thing.lane for thing in things))
        ends = [thing.end if isinstance(thing, Span) else thing.at for thing in things]
        self.last = max(*ends, 0.1) if len(ends) > 1 else max(ends[0], 0.1)
        self.room = LEFT + max(text_width(name) for name in self.names) + 14

    def sentences(self) -> list[str]:
        """The text equivalent: a sentence for each span, and one for all dots of a lane."""
        said = []
        for name in self.names:
            mine = [thing for thing in self.things if thing.lane == name]
            for span in (thing for thing in mine if isinstance(thing, Span)):
                fields = {"start": _seconds(span.start), "end": _seconds(span.end), "word": span.word}
                said.append(text("lanes.span", lane=name, **fields))
            dots = [thing for thing in mine if isinstance(thing, Dot)]
            if times := "; ".join(f"{_seconds(dot.at)} {dot.word}".strip() for dot in dots):
                said.append(text("lanes.dots", lane=name, times=times))
        return said

    def svg(self) -> str:
        """The picture, with a title and a description for those who do not see it."""
        told = " ".join(self.sentences())
        mark = svg.mark_of(self.title, told)
        height = TOP + LANE * len(self.names) + 26
        parts = [
            svg.opening(self.title, told, mark, WIDTH, height)
            + f"<defs><style>{STYLE}</style>{_hatch(mark)}</defs>"
            f'<rect class="ql-bg" width="{WIDTH:.0f}" height="{height:.0f}"/>'
            f'<text class="ql-ink" x="16" y="24" font-size="16" font-weight="600">{escape(self.title)}</text>'
            f'<text class="ql-mute" x="16" y="43">{escape(text("timeline.axis_time"))}</text>'
        ]
        parts += [self._lane(name) for name in self.names]
        parts += [self._span(thing, mark) for thing in self.things if isinstance(thing, Span)]
        parts += [self._dot(thing) for thing in self.things if isinstance(thing, Dot)]
        return "".join([*parts, self._axis(height), "</svg>"])

    def _x(self, at: float) -> float:
        return self.room + (WIDTH - self.room - 40) * max(at, 0.0) / self.last

    def _y(self, name: str) -> float:
        return TOP + LANE * self.names.index(name) + 20

    def _lane(self, name: str) -> str:
        y = self._y(name)
        return (
            f'<text class="ql-ink" x="{LEFT:.0f}" y="{y + 16:.1f}" font-weight="600">{escape(name)}</text>'
            f'<path class="ql-line" d="M{self.room:.1f} {y + BAR + 3:.1f}H{WIDTH - 16:.0f}"/>'
        )

    def _span(self, span: Span, mark: str) -> str:
        x, y = self._x(span.start), self._y(span.lane)
        width = max(self._x(span.end) - x, 3.0)
        paint = f"url(#wait{mark})" if span.kind == "wait" else PLAIN[span.kind]
        look = f'fill="{paint}" stroke="#57606a"' + (' stroke-dasharray="5 3"' if span.kind == "wait" else "")
        left = max(self.room, min(x, WIDTH - 12 - text_width(span.word)))
        return (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{BAR:.0f}" rx="3" {look}/>'
            f'<text class="ql-ink" x="{left:.1f}" y="{y - 5:.1f}">{escape(span.word)}</text>'
        )

    def _dot(self, dot: Dot) -> str:
        x, y = self._x(dot.at), self._y(dot.lane) + BAR / 2
        word = f'<text class="ql-ink" x="{x - 4:.1f}" y="{y - 12:.1f}">{escape(dot.word)}</text>'
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="#d55e00" stroke="#1b1f24"/>' + word

    def _axis(self, height: float) -> str:
        step = next(step for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 600) if self.last / step <= 10)
        out = ""
        for number in range(int(self.last / step + 1e-9) + 1):
            x = self._x(number * step)
            out += (
                f'<path class="ql-line" d="M{x:.1f} {height - 26:.1f}v5"/><text class="ql-mute" x="{x:.1f}" '
                f'y="{height - 8:.1f}" text-anchor="middle">{_seconds(number * step)} s</text>'
            )
        return out

    def markdown(self) -> str:
        """The text equivalent, folded under its heading."""
        lines = "\n".join(f"- {sentence}" for sentence in self.sentences())
        return markup.folded(text("lanes.in_words"), lines)

    def _ipython_display_(self) -> None:
        notebook.show_picture(self.svg(), text("timeline.not_shown", title=self.title), self.markdown())

    def __repr__(self) -> str:
        return f"Lanes({self.title})"


def _hatch(mark: str) -> str:
    return (
        f'<pattern id="wait{mark}" width="7" height="7" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="7" height="7" fill="#fff"/>'
        '<line x1="0" y1="0" x2="0" y2="7" stroke="#d55e00" stroke-width="2.4"/></pattern>'
    )


def _seconds(value: float) -> str:
    """Two digits after the comma, without zeros at the end."""
    return f"{value:.2f}".rstrip("0").rstrip(".").replace(".", ",") or "0"
