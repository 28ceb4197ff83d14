"""A strip: one small picture of who did what in which order, drawn from words in a text file.

``["A take nhận", "A effect trừ tiền", "A death chết", "B take nhận lại"]`` has one column for each
mark, one lane for each letter. The shape says what happened, the word below says it again; ink is
the page's own colour, so that light and dark pages both work. It is for quiz choices and notes;
the pictures of real runs are timelines drawn from recorded events.
"""

from __future__ import annotations

from html import escape

COLUMN, LANE, LEFT, TOP = 86, 58, 58, 10

SHAPES = {
    "take": '<path d="M-9 -9L9 0L-9 9z" fill="#56b4e9" stroke="currentColor"/>',
    "effect": '<circle r="11" fill="#e69f00" stroke="currentColor"/>'
    '<text y="4.5" text-anchor="middle" font-size="12" font-weight="700" fill="#1b1f24">₫</text>',
    "ack": '<path d="M-9 0L-2 7L10 -8" fill="none" stroke="#009e73" stroke-width="4"/>',
    "death": '<path d="M-9 -9L9 9M9 -9L-9 9" stroke="#d55e00" stroke-width="4" stroke-linecap="round"/>',
    "renew": '<path d="M8 -4A9 9 0 1 0 8 5M8 -11V-4H1" fill="none" stroke="#0072b2" stroke-width="3"/>',
    "block": '<rect x="-10" y="-9" width="20" height="18" fill="#cc79a7" stroke="currentColor"/>'
    '<path d="M-4 -4V5M4 -4V5" stroke="#1b1f24" stroke-width="3"/>',
    "expire": '<path d="M0 -11L11 9H-11z" fill="#f0e442" stroke="currentColor"/>'
    '<text y="6" text-anchor="middle" font-size="13" font-weight="700" fill="#1b1f24">!</text>',
    "refuse": '<circle r="10" fill="none" stroke="#d55e00" stroke-width="3"/>'
    '<path d="M-7 7L7 -7" stroke="#d55e00" stroke-width="3"/>',
    "nothing": '<path d="M-11 0H11" stroke="currentColor" stroke-width="2" stroke-dasharray="4 3"/>',
}


def parse(marks: list[str]) -> list[tuple[str, str, str]]:
    """Split each mark into lane, shape and word. Raises ValueError for an unknown shape or no word."""
    found = []
    for mark in marks:
        lane, _, rest = mark.partition(" ")
        shape, _, word = rest.partition(" ")
        if shape not in SHAPES or not word:
            raise ValueError(f"a mark is 'lane shape word' with a shape of {sorted(SHAPES)}, not {mark!r}")
        found.append((lane, shape, word))
    return found


def words(marks: list[str]) -> str:
    """Return the strip in words, for whoever does not see the picture."""
    return " → ".join(f"{lane}: {word}" for lane, _, word in parse(marks))


def svg(marks: list[str], title: str = "") -> str:
    """Return the strip as an SVG element whose title and description say what it shows."""
    parsed = parse(marks)
    lanes = list(dict.fromkeys(lane for lane, _, _ in parsed))
    width, height = LEFT + COLUMN * len(parsed), TOP + LANE * len(lanes)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" style="max-width:100%;height:auto" font-family="sans-serif" role="img">'
    )
    parts = [head, f"<title>{escape(title or words(marks))}</title><desc>{escape(words(marks))}</desc>"]
    for row, lane in enumerate(lanes):
        y = TOP + LANE * row + 20
        name = f'<text x="6" y="{y + 4}" font-size="13" font-weight="600" fill="currentColor">{escape(lane)}'
        parts.append(f'<path d="M{LEFT - 4} {y}H{width - 6}" stroke="currentColor" stroke-opacity=".35"/>')
        parts.append(f"{name}</text>")
    for column, (lane, shape, word) in enumerate(parsed):
        x, y = LEFT + COLUMN * column + COLUMN // 2 - 8, TOP + LANE * lanes.index(lane) + 20
        parts.append(
            f'<g transform="translate({x},{y})">{SHAPES[shape]}'
            f'<text y="28" text-anchor="middle" font-size="12" fill="currentColor">{escape(word)}</text></g>'
        )
    return "".join(parts) + "</svg>"
