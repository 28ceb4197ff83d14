"""A run as a picture with its text: ``Timeline(events, title)``.

The picture is a lane for each worker and one for the broker.  Shown in a notebook it is a static SVG whose
axis is the order of events, followed by the same story in sentences; both are the same every time the same
things happen in the same order, on any machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from qlab.classroom import markup, notebook
from qlab.classroom.story import Event, in_order
from qlab.classroom.texts import text
from qlab.classroom.timeline_layout import lay_out
from qlab.classroom.timeline_svg import draw
from qlab.classroom.timeline_text import sentences


@dataclass(frozen=True)
class Timeline:
    """What happened, ready to be shown.  ``title`` is one line that says what to see."""

    events: tuple[Event, ...]
    title: str

    def __init__(self, events: Iterable[Event], title: str) -> None:
        object.__setattr__(self, "events", tuple(in_order(events)))
        object.__setattr__(self, "title", title)

    @property
    def sentences(self) -> list[str]:
        """The text equivalent: one Vietnamese sentence for each thing that is drawn, in order."""
        return sentences(list(self.events))

    def svg(self) -> str:
        """The static picture: order of events on the axis, no times, no ids."""
        layout = lay_out(self.events, title=self.title)
        return draw(layout, self.title, self.sentences, axis=text("timeline.axis_order"))

    def live_svg(self) -> str:
        """The picture with measured times on its axis, as the view that is redrawn while a run goes on."""
        return live_svg(self.events, self.title, max((event.at for event in self.events), default=0.0))

    def text(self) -> str:
        """The text equivalent as a numbered list."""
        return "\n".join(f"{number}. {sentence}" for number, sentence in enumerate(self.sentences, 1))

    def markdown(self) -> str:
        """The text equivalent, folded under its heading, to be shown below the picture."""
        return markup.folded(text("timeline.steps"), self.text())

    def __repr__(self) -> str:
        return f"Timeline({self.title})"

    def _ipython_display_(self) -> None:
        notebook.show_picture(self.svg(), text("timeline.not_shown", title=self.title), self.markdown())


def live_svg(events: Sequence[Event], title: str, now: float) -> str:
    """Draw events with the time as axis, up to ``now`` seconds; see :meth:`Timeline.live_svg`."""
    return draw(lay_out(in_order(events), now=now, title=title), title, (), axis=text("timeline.axis_time"))
