"""The signs of a fault table: a shape for each outcome, so that nobody needs the colours."""

from __future__ import annotations

CELL_WIDTH, CELL_HEIGHT = 36.0, 40.0

# Fills are light tints of Okabe-Ito colours on a light page, dark shades of them on a dark one.
STYLE = """
.ft-bg{fill:#fff}.ft-ink{fill:#1b1f24}.ft-mute{fill:#57606a}.ft-rule{stroke:#d0d7de}
.ft-shape{fill:#1b1f24;stroke:#1b1f24}.ft-open{fill:none;stroke:#1b1f24;stroke-width:2}
.ft-once{fill:#e2f3ec;stroke:#009e73}.ft-lost{fill:#fbe3d5;stroke:#d55e00}
.ft-twice{fill:#fcecc6;stroke:#b97f00}.ft-stuck{fill:#f2deeb;stroke:#a14f83}
.ft-ghost{fill:#dcebf7;stroke:#0072b2}.ft-half{fill:#eceff2;stroke:#57606a}
.ft-none{fill:none;stroke:#d0d7de;stroke-dasharray:2 3}
@media (prefers-color-scheme: dark){.ft-bg{fill:#0d1117}.ft-ink{fill:#e6edf3}.ft-mute{fill:#9aa4af}
.ft-rule{stroke:#30363d}.ft-shape{fill:#e6edf3;stroke:#e6edf3}.ft-open{stroke:#e6edf3}
.ft-once{fill:#0f2a22}.ft-lost{fill:#3a1b0b}.ft-twice{fill:#38290a}.ft-stuck{fill:#33192a}
.ft-ghost{fill:#0b2436}.ft-half{fill:#21262d}.ft-none{stroke:#30363d}}
"""
KNOWN = ("once", "lost", "twice", "stuck", "ghost", "half")


def shape(outcome: str, x: float, y: float, size: float = 6.0) -> str:
    """The shape of an outcome with its middle at ``x``, ``y``; a diamond for words of your own."""
    match outcome:
        case "once":
            return _disc(x, y, size, "ft-shape")
        case "lost":
            return _disc(x, y, size, "ft-open")
        case "twice":
            return _disc(x - size, y, size - 1, "ft-shape") + _disc(x + size, y, size - 1, "ft-shape")
        case "ghost":
            return _disc(x, y, size, "ft-open", ' stroke-dasharray="2.5 2"')
        case "half":
            filled = f"M{x:.1f} {y - size:.1f}a{size} {size} 0 0 0 0 {2 * size}z"
            return _disc(x, y, size, "ft-open") + f'<path class="ft-shape" d="{filled}"/>'
        case "stuck":
            left, top, across = x - size, y - size, 2 * size
            bars = "".join(f"M{left + step:.1f} {top:.1f}v{across}" for step in (across / 3, 2 * across / 3))
            box = f'<rect class="ft-open" x="{left:.1f}" y="{top:.1f}" width="{across}" height="{across}"/>'
            return box + f'<path class="ft-open" d="{bars}"/>'
    return (
        f'<path class="ft-open" d="M{x:.1f} {y - size:.1f}l{size} {size}l-{size} {size}l-{size} -{size}z"/>'
    )


def box(outcome: str | None, x: float, y: float, width: float, height: float) -> str:
    """The frame of a cell: thicker where something goes wrong, dotted where the fault cannot happen."""
    look = "none" if outcome is None else outcome if outcome in KNOWN else "half"
    edge = "1.2" if outcome in (None, "once") else "2.2"
    size = f'width="{width}" height="{height}" rx="4" stroke-width="{edge}"'
    return f'<rect class="ft-{look}" x="{x:.1f}" y="{y:.1f}" {size}/>'


def _disc(x: float, y: float, radius: float, look: str, more: str = "") -> str:
    return f'<circle class="{look}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"{more}/>'
