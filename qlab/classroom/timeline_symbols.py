"""The signs of a timeline: palette, style sheet, and each symbol as a piece of SVG."""

from __future__ import annotations

# Okabe-Ito: told apart by people with any kind of colour vision.
WORKERS = ("#56b4e9", "#009e73", "#f0e442", "#999999")
ORANGE, VERMILION, PURPLE, DARK, GREY = "#e69f00", "#d55e00", "#cc79a7", "#1b1f24", "#8c959f"

STYLE = """
.qt-bg{fill:#fff}.qt-ink{fill:#1b1f24}.qt-mute{fill:#57606a}.qt-lane{fill:#f3f5f7}
.qt-line{stroke:#1b1f24;fill:none;stroke-width:1.6}
@media (prefers-color-scheme: dark){.qt-bg{fill:#0d1117}.qt-ink{fill:#e6edf3}.qt-mute{fill:#9aa4af}
.qt-lane{fill:#1b222b}.qt-line{stroke:#e6edf3}}
"""


def defs(mark: str) -> str:
    """Style sheet, hatchings and arrow head; ``mark`` keeps the ids of two pictures apart."""

    def hatch(name: str, colour: str, turn: int) -> str:
        return (
            f'<pattern id="{name}{mark}" width="6" height="6" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate({turn})"><line x1="0" y1="0" x2="0" y2="6" stroke="{colour}" '
            f'stroke-width="1.6"/></pattern>'
        )

    arrow = (
        f'<marker id="arrow{mark}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto"><path class="qt-ink" d="M0 0L10 5L0 10z"/></marker>'
    )
    hatches = hatch("dead", VERMILION, 45) + hatch("rest", GREY, 0)
    return f"<defs><style>{STYLE}</style>{hatches}{arrow}</defs>"


def bar(x1: float, x2: float, y: float, height: float, style: str, *, round_: float = 4) -> str:
    """A rounded rectangle from ``x1`` to ``x2``, at least two pixels wide."""
    size = f'width="{max(x2 - x1, 2):.1f}" height="{height}" rx="{round_}"'
    return f'<rect x="{x1:.1f}" y="{y:.1f}" {size} {style}/>'


def coin(x: float, y: float, radius: float = 10) -> str:
    """The symbol of an effect on the world outside."""
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{ORANGE}" stroke="{DARK}"/><text x="{x:.1f}" '
        f'y="{y + radius * 0.42:.1f}" text-anchor="middle" fill="{DARK}" font-weight="700">₫</text>'
    )


def cross(x: float, y: float, size: float = 9, width: float = 4) -> str:
    """The symbol of a process that died."""
    left, right, top, across = x - size, x + size, y - size, 2 * size
    path = f"M{left:.1f} {top:.1f}l{across} {across}M{right:.1f} {top:.1f}l{-across} {across}"
    return f'<path d="{path}" stroke="{VERMILION}" stroke-width="{width}" stroke-linecap="round"/>'


def given_up(x: float, y: float, size: float = 8) -> str:
    """The symbol of a job that the broker gives up: a crossed box, so that nobody takes it for a death."""
    box = f'x="{x - size:.1f}" y="{y - size:.1f}" width="{2 * size}" height="{2 * size}" rx="2"'
    edge = f'fill="none" stroke="{VERMILION}" stroke-width="2"'
    return f"<rect {box} {edge}/>{cross(x, y, size - 3.5, 2.5)}"


def triangle(x: float, y: float) -> str:
    """The symbol of a stalled job; ``y`` is its tip."""
    return (
        f'<path d="M{x:.1f} {y:.1f}l10 18h-20z" fill="{PURPLE}" stroke="{DARK}"/><text x="{x:.1f}" '
        f'y="{y + 15:.1f}" text-anchor="middle" font-size="11" font-weight="700" fill="{DARK}">!</text>'
    )


def styles(paint: str, mark: str) -> dict[str, str]:
    """How bars look: a lease that holds, one that nobody renews, work without a lock, death, a pause."""
    return {
        "solid": f'fill="{paint}"',
        "silent": f'fill="none" stroke="{paint}" stroke-width="2" stroke-dasharray="5 3"',
        "unlocked": f'fill="{paint}" fill-opacity="0.25" stroke="{paint}" stroke-dasharray="4 3"',
        "dead": f'fill="url(#dead{mark})" stroke="{VERMILION}"',
        "rest": f'fill="url(#rest{mark})" stroke="{GREY}"',
    }


def cut(x: float, y: float) -> str:
    """The end of a message that never arrives."""
    return f'<path class="qt-line" d="M{x:.1f} {y:.1f}l8 8m0 -8l-8 8"/>'
