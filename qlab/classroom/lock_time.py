"""A calculator for the length of a lock: what the client may take at worst beside what the lock holds.

    LockCalculator()                  # the chapter's figures: 15 s × 3 + 2 × 5 s, under a lock of 75 s

Four numbers, typed or taken from a case; the formula, the picture and the verdict follow at once. A page that
cannot run code shows all the cases with their verdicts, and the picture of the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any

import ipywidgets as widgets

from qlab.classroom import markup
from qlab.classroom.texts import text
from qlab.postgres.idempotency import lock_seconds

LONGEST, MOST = 3600.0, 10
"""Largest number of seconds and of retries that the inputs take."""

WIDTH, LEFT, ROOM = 660, 60, 560
_BLUE, _GREEN, _RED = "#56b4e9", "#009e73", "#d55e00"


@dataclass(frozen=True)
class Plan:
    """A client's time-out, retries and longest pause, and the lock over them; seconds."""

    timeout: float
    retries: int
    backoff: float
    lock: float

    @property
    def worst(self) -> float:
        """How long the client may take before it gives up, without any margin."""
        return lock_seconds(self.timeout, self.retries, self.backoff, margin=0)

    @property
    def spare(self) -> float:
        """What the lock leaves after the worst case; negative when it is too short."""
        return self.lock - self.worst

    def spans(self) -> Iterator[tuple[str, int, float, float]]:
        """Each try and each pause: kind, number of the try (after the pause), start and end."""
        at = 0.0
        for number in range(1, self.retries + 2):
            if number > 1:
                yield "pause", number, at, at + self.backoff
                at += self.backoff
            yield "try", number, at, at + self.timeout
            at += self.timeout

    def sentences(self) -> list[str]:
        """The formula and the verdict, in the texts' own small markup."""
        figures = {"timeout": f"{self.timeout:g}", "backoff": f"{self.backoff:g}", "worst": f"{self.worst:g}"}
        formula = text("lock_time.formula", tries=self.retries + 1, retries=self.retries, **figures)
        return [formula, self._verdict()]

    def _verdict(self) -> str:
        lock = f"{self.lock:g}"
        if self.spare > 0:
            return text("lock_time.enough", lock=lock, spare=f"{self.spare:g}")
        for kind, number, start, end in self.spans():
            if start <= self.lock < end:
                key = "lock_time.trying" if kind == "try" else "lock_time.pausing"
                return text("lock_time.short", lock=lock, when=text(key, n=number))
        return text("lock_time.exact", lock=lock)


CASES = {
    "chapter": Plan(15, 2, 5, 75),
    "once": Plan(15, 0, 0, 35),
    "defaults": Plan(80, 2, 5, 75),
    "short": Plan(15, 2, 5, 30),
}
"""Cases that one button fills in. The chapter's own is the first."""


class LockCalculator(widgets.VBox):
    """Type the numbers, see whether the lock outlasts the client. ``plan`` is what is typed now."""

    def __init__(self) -> None:
        first = CASES["chapter"]
        number = partial(widgets.BoundedFloatText, min=0, max=LONGEST, step=1)
        self.timeout = _labelled(number, "timeout", first.timeout)
        self.retries = _labelled(partial(widgets.BoundedIntText, min=0, max=MOST), "retries", first.retries)
        self.backoff = _labelled(number, "backoff", first.backoff)
        self.lock = _labelled(number, "lock", first.lock)
        self.inputs = (self.timeout, self.retries, self.backoff, self.lock)
        self.cases = {name: self._case(name) for name in CASES}
        self.said, self.picture = widgets.HTML(), widgets.HTML()
        self._filling = False
        for box in self.inputs:
            box.observe(lambda _: self._draw(), "value")
        super().__init__(
            [
                widgets.HTML(markup.STYLE + _heading()),
                *self.inputs,
                widgets.HBox(list(self.cases.values()), layout={"flex_flow": "row wrap"}),
                self.said,
                self.picture,
            ]
        )
        self.add_class("ql-card").add_class("ql-lock-time")
        self._draw()

    @property
    def plan(self) -> Plan:
        """The numbers as they are typed now."""
        return Plan(self.timeout.value, self.retries.value, self.backoff.value, self.lock.value)

    def fill(self, name: str) -> None:
        """Fill in a case. Raises KeyError for one that does not exist."""
        plan = CASES[name]
        self._filling = True  # one picture for the four numbers
        for box, value in zip(
            self.inputs, (plan.timeout, plan.retries, plan.backoff, plan.lock), strict=True
        ):
            box.value = value
        self._filling = False
        self._draw()

    def _case(self, name: str) -> Any:
        button = widgets.Button(description=text(f"lock_time.cases.{name}"), layout={"width": "max-content"})
        button.on_click(lambda _: self.fill(name))
        return button

    def _draw(self) -> None:
        if not self._filling:
            self.said.value = markup.status(markup.paragraphs(*map(markup.inline, self.plan.sentences())))
            self.picture.value = draw(self.plan)

    def __repr__(self) -> str:
        lines = [f"{text('lock_time.heading')}. {markup.plain(text('lock_time.ask'))}"]
        for name, plan in CASES.items():
            said = " ".join(markup.plain(sentence) for sentence in plan.sentences())
            lines.append(f"  {text(f'lock_time.cases.{name}')}. {said}")
        return "\n".join(lines)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        still = markup.card(_heading() + _table() + draw(CASES["chapter"]))
        return super()._repr_mimebundle_(**kwargs) | {"text/plain": repr(self), "text/html": still}


def _labelled(make: Any, name: str, value: float) -> Any:
    return make(
        value=value,
        description=text(f"lock_time.{name}"),
        style={"description_width": "17em"},
        layout={"width": "27em", "max_width": "100%"},
    )


def _heading() -> str:
    return markup.paragraphs(
        f"<strong>{text('lock_time.heading')}</strong>", markup.inline(text("lock_time.ask"))
    )


def _table() -> str:
    heads = [text(f"lock_time.column_{name}") for name in ("case", "formula", "verdict")]
    rows = [
        [escape(text(f"lock_time.cases.{name}")), *map(markup.inline, plan.sentences())]
        for name, plan in CASES.items()
    ]
    return markup.table(heads, rows).replace("white-space:nowrap", "min-width:11em")


def draw(plan: Plan) -> str:
    """The client's slowest case above the lock, to scale, as SVG with its text equivalent."""
    scale = ROOM / max(plan.worst, plan.lock, 1e-9)
    words = {"worst": f"{plan.worst:g}", "lock": f"{plan.lock:g}"}
    told = escape("; ".join(_told(plan)))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 112" width="{WIDTH}" height="112" '
        'style="max-width:100%;height:auto" font-family="sans-serif" font-size="12" role="img">'
        f"<title>{escape(text('lock_time.picture', **words))}</title><desc>{told}</desc>"
        f'<g fill="currentColor"><text x="4" y="31">{escape(text("lock_time.bar_client"))}</text>'
        f'<text x="4" y="73">{escape(text("lock_time.bar_lock"))}</text></g>'
    ]
    for kind, number, start, end in plan.spans():
        parts.append(_span(kind, number, LEFT + start * scale, LEFT + end * scale))
    lock, worst = LEFT + plan.lock * scale, LEFT + plan.worst * scale
    parts.append(_box(LEFT, lock, 56, f'fill="{_GREEN}" stroke="currentColor"'))
    if plan.spare < 0:
        parts.append(
            _box(lock, worst, 56, f'fill="none" stroke="{_RED}" stroke-width="2" stroke-dasharray="5 3"')
        )
    if plan.spare <= 0:
        parts.append(_cross(lock, 69))
    parts.append(f'<path d="M{lock:.1f} 8V86" stroke="currentColor" stroke-dasharray="3 3"/>')
    parts += [_mark(lock, plan.lock, 100), _mark(worst, plan.worst, 10)]
    return "".join(parts) + "</svg>"


def _told(plan: Plan) -> Iterator[str]:
    for kind, number, start, end in plan.spans():
        words = {"start": f"{start:g}", "end": f"{end:g}"}
        if kind == "try":
            yield text("lock_time.said_try", n=number, **words)
        else:
            yield text("lock_time.said_pause", **words)
    yield text("lock_time.said_lock", lock=f"{plan.lock:g}")
    if plan.spare < 0:
        yield text("lock_time.said_gap", lock=f"{plan.lock:g}", worst=f"{plan.worst:g}")


def _span(kind: str, number: int, x1: float, x2: float) -> str:
    if kind == "pause":
        return _box(x1, x2, 14, 'fill="none" stroke="currentColor" stroke-dasharray="3 3"')
    box = _box(x1, x2, 14, f'fill="{_BLUE}" stroke="currentColor"')
    if x2 - x1 < 44:
        return box
    said = escape(text("lock_time.bar_try", n=number))
    return f'{box}<text x="{(x1 + x2) / 2:.1f}" y="31" text-anchor="middle" fill="#1b1f24">{said}</text>'


def _box(x1: float, x2: float, y: float, style: str) -> str:
    return f'<rect x="{x1:.1f}" y="{y}" width="{max(x2 - x1, 0):.1f}" height="26" rx="3" {style}/>'


def _cross(x: float, y: float) -> str:
    path = f"M{x - 7:.1f} {y - 7}l14 14M{x + 7:.1f} {y - 7}l-14 14"
    return f'<path d="{path}" stroke="{_RED}" stroke-width="4" stroke-linecap="round"/>'


def _mark(x: float, value: float, y: int) -> str:
    said = escape(text("lock_time.seconds", n=f"{value:g}"))
    anchor = "end" if x > WIDTH - 50 else "middle"
    return (
        f'<text x="{min(x, WIDTH - 4):.1f}" y="{y}" text-anchor="{anchor}" fill="currentColor">{said}</text>'
    )
