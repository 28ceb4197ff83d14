"""The outbox and the queue side by side, once or several times: which rows are marked, which have a job.

    OutboxPicture("Relay chết trước COMMIT", {"relay 1 chết": rows, "relay 2 chạy xong": later})

``rows`` come from ``await shop.rows()``. The picture shows states and no times, so it is the same each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from qlab.classroom import markup, notebook, svg
from qlab.classroom.shop import Row
from qlab.classroom.texts import text
from qlab.classroom.timeline_text import text_width

PANEL, TOP, ROW, BOX = 400.0, 92.0, 34.0, 24.0
STYLE = (
    ".qo-bg{fill:#fff}.qo-ink{fill:#1b1f24}.qo-mute{fill:#57606a}"
    ".qo-box{fill:none;stroke:#57606a;stroke-width:1.4}"
    "@media (prefers-color-scheme: dark){.qo-bg{fill:#0d1117}.qo-ink{fill:#e6edf3}.qo-mute{fill:#9aa4af}"
    ".qo-box{stroke:#9aa4af}}"
)
GREEN, BLUE, DARK = "#9ad9c3", "#a9d6f5", "#1b1f24"


class OutboxPicture:
    """Panels from left to right, a panel for each moment; shown with its text equivalent below."""

    def __init__(self, title: str, moments: Mapping[str, Sequence[Row]]) -> None:
        if not moments or not all(moments.values()):
            raise ValueError("an outbox picture needs at least one moment, each with at least one row")
        self.title, self.moments = title, {name: list(rows) for name, rows in moments.items()}

    def sentences(self) -> list[str]:
        """One sentence for each moment."""
        return [_sentence(name, rows) for name, rows in self.moments.items()]

    def svg(self) -> str:
        """The picture, with a title and a description for those who do not see it."""
        told = " ".join(self.sentences())
        width = max(PANEL * len(self.moments), text_width(self.title, 16) + 32)
        height = TOP + ROW * max(len(rows) for rows in self.moments.values()) + 10
        head = (
            svg.opening(self.title, told, svg.mark_of(self.title, told), width, height)
            + f"<style>{STYLE}</style>"
            f'<rect class="qo-bg" width="{width:.0f}" height="{height:.0f}"/>'
            f'<text class="qo-ink" x="16" y="26" font-size="16" font-weight="600">{escape(self.title)}</text>'
        )
        panels = [
            _panel(16 + PANEL * number, name, rows)
            for number, (name, rows) in enumerate(self.moments.items())
        ]
        return head + "".join(panels) + "</svg>"

    def markdown(self) -> str:
        """The text equivalent, folded under its heading."""
        lines = "\n".join(f"- {sentence}" for sentence in self.sentences())
        return markup.folded(text("lanes.in_words"), lines)

    def _ipython_display_(self) -> None:
        notebook.show_picture(self.svg(), text("timeline.not_shown", title=self.title), self.markdown())

    def __repr__(self) -> str:
        return f"OutboxPicture({self.title})"


def _sentence(name: str, rows: Sequence[Row]) -> str:
    def ids(wanted: Sequence[Row]) -> str:
        return ", ".join(str(row.id) for row in wanted) or text("outbox.none")

    marked, jobs = [row for row in rows if row.published], [row for row in rows if row.job]
    return text("outbox.moment", name=name, rows=len(rows), published=ids(marked), jobs=ids(jobs))


def _panel(x: float, name: str, rows: Sequence[Row]) -> str:
    right = x + 210
    out = (
        f'<text class="qo-ink" x="{x:.0f}" y="54" font-weight="600">{escape(name)}</text>'
        f'<text class="qo-mute" x="{x:.0f}" y="78">{escape(text("outbox.table"))}</text>'
        f'<text class="qo-mute" x="{right:.0f}" y="78">{escape(text("outbox.queue"))}</text>'
    )
    for number, row in enumerate(rows):
        y = TOP + ROW * number
        sign = text("outbox.published") if row.published else text("outbox.unpublished")
        out += _box(x, y, 170, f"{row.id} · {sign}", GREEN if row.published else None)
        if row.job:
            out += _box(right, y, 150, f"outbox-{row.id}", BLUE)
        else:
            out += f'<rect class="qo-box" x="{right}" y="{y}" width="150" height="{BOX}" rx="4" '
            out += 'stroke-dasharray="2 4" stroke-opacity=".5"/>'
    return out


def _box(x: float, y: float, width: float, word: str, paint: str | None) -> str:
    look = f'fill="{paint}" stroke="{DARK}"' if paint else 'class="qo-box"'
    ink = f'fill="{DARK}"' if paint else 'class="qo-ink"'
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{BOX}" rx="4" {look}/>'
        f'<text {ink} x="{x + 10}" y="{y + 16.5}">{escape(word)}</text>'
    )
