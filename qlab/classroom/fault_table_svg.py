"""Draw a fault table as SVG: a band a protocol, its effects side by side, a cell a fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from qlab.classroom import fault_symbols as signs
from qlab.classroom import svg
from qlab.classroom.fault_words import FAULTS, fault_meaning, outcome_name
from qlab.classroom.texts import text
from qlab.classroom.timeline_text import text_width, title_width

LEFT, NAMES, TOP = 16.0, 196.0, 62.0  # left edge, width of the names, top of the first line of cells
GAP, GROUP_GAP, LINE, HEADER = 3.0, 14.0, 17.0, 42.0
GROUPS = 3
"""Effects in one line of the picture; a protocol with more of them goes on below.

Three of them with five faults each still fit beside the open side bar of JupyterLab on a 1280-pixel screen,
where a cell's output is 848 pixels wide and JupyterLab does not scale a picture down.
"""

Cells = tuple[tuple[str, str | None], ...]  # each fault with its outcome
Placed = tuple[str, float]  # a piece of SVG, and where it ends


@dataclass(frozen=True)
class Group:
    """One effect of a protocol with its cells."""

    effect: str
    cells: Cells


@dataclass(frozen=True)
class Band:
    """One protocol: its name, a remark below it, and its effects in order."""

    name: str
    remark: str
    groups: tuple[Group, ...]


def draw(bands: Sequence[Band], title: str, told: str, bounds: str) -> str:
    """The whole picture; ``told`` becomes its text equivalent, ``bounds`` says what was tried."""
    faults = [char for char in FAULTS if any(char in dict(g.cells) for band in bands for g in band.groups)]
    group_width = len(faults) * (signs.CELL_WIDTH + GAP) + GROUP_GAP
    widest = max((min(len(band.groups), GROUPS) for band in bands), default=1)
    width = max(NAMES + widest * group_width + LEFT, title_width(title), 560.0)
    body, bottom = _bands(bands, group_width, width)
    below, height = _legend(bands, faults, width, bottom + 10)
    said, height = _remark(bounds, width, height)
    opening = svg.opening(title, told, svg.mark_of(title, told), width, height)
    head = (
        f"<defs><style>{signs.STYLE}</style></defs>"
        f'<rect class="ft-bg" width="{width:.0f}" height="{height:.0f}"/>'
        + _text(title, LEFT, 26, look="ink", more=' font-size="16" font-weight="600"')
        + _text(text("fault.hint"), LEFT, 45)
    )
    return f"{opening}{head}{body}{below}{said}</svg>"


def _bands(bands: Sequence[Band], group_width: float, width: float) -> Placed:
    out, y, header = "", TOP, tuple[str, ...]()
    for number, band in enumerate(bands):
        lines = [band.groups[i : i + GROUPS] for i in range(0, len(band.groups), GROUPS)] or [()]
        wanted = tuple(group.effect for group in lines[0])
        if number and (wanted != header or len(lines) > 1):
            out += f'<path class="ft-rule" d="M{LEFT} {y + 4:.1f}H{width - LEFT:.1f}"/>'
            y += 10
        start = y + (HEADER if wanted != header else 0)
        for groups in lines:
            wanted = tuple(group.effect for group in groups)
            if wanted != header:  # the same effects as above need no names of their own
                out += _header(groups, y, group_width)
                y += HEADER
            header = wanted
            out += "".join(_group(group, NAMES + i * group_width, y) for i, group in enumerate(groups))
            y += signs.CELL_HEIGHT + 8
        name, name_bottom = _name(band, start)
        out, y = out + name, max(y, name_bottom)
    return out, y


def _header(groups: Sequence[Group], y: float, group_width: float) -> str:
    out = ""
    for number, group in enumerate(groups):
        left = NAMES + number * group_width
        name = _shortened(group.effect, group_width - GROUP_GAP)
        out += _text(name, left, y + 16, look="ink", more=' font-weight="600"')
        for place, (char, _) in enumerate(group.cells):
            middle = left + place * (signs.CELL_WIDTH + GAP) + signs.CELL_WIDTH / 2
            out += _text(char, middle, y + 35, more=' text-anchor="middle" font-weight="700" font-size="14"')
    return out


def _group(group: Group, left: float, y: float) -> str:
    out = ""
    for place, (_, outcome) in enumerate(group.cells):
        x = left + place * (signs.CELL_WIDTH + GAP)
        out += signs.box(outcome, x, y, signs.CELL_WIDTH, signs.CELL_HEIGHT)
        if outcome is not None:
            middle = x + signs.CELL_WIDTH / 2
            word = _shortened(outcome_name(outcome, short=True), signs.CELL_WIDTH + 2, 10.0)
            out += signs.shape(outcome, middle, y + 14)
            out += _text(word, middle, y + 34, look="ink", more=' text-anchor="middle" font-size="10"')
    return out


def _name(band: Band, y: float) -> Placed:
    out, y = "", y + 15
    for line in _wrapped(band.name, NAMES - LEFT - 12, 13.0):
        out += _text(line, LEFT, y, look="ink", more=' font-size="13"')
        y += LINE
    for line in _wrapped(band.remark, NAMES - LEFT - 12, 11.0):
        out += _text(line, LEFT, y - 1, more=' font-size="11"')
        y += LINE - 3
    return out, y


def _legend(bands: Sequence[Band], faults: Sequence[str], width: float, y: float) -> Placed:
    """The shapes that this table uses, and below them the faults, each with its words."""
    out = ""
    for samples in (_shapes(bands), _signs(faults)):
        x = LEFT
        for sample, words in samples:
            needed = 30 + text_width(words) + 16
            if x + needed > width - 8 and x > LEFT:
                x, y = LEFT, y + 22
            out += f'<g transform="translate({x:.1f},{y:.1f})">{sample}{_text(words, 30, 13)}</g>'
            x += needed
        y += 24
    return out, y


def _remark(words: str, width: float, y: float) -> Placed:
    out, y = "", y + 16
    for line in _wrapped(words, width - 2 * LEFT, 12.0):
        out += _text(line, LEFT, y)
        y += LINE
    return out, y


def _shapes(bands: Sequence[Band]) -> Iterator[tuple[str, str]]:
    seen = {outcome for band in bands for group in band.groups for _, outcome in group.cells}
    known = [outcome for outcome in signs.KNOWN if outcome in seen]
    for outcome in known + sorted(word for word in seen if word and word not in known):
        yield signs.shape(outcome, 14, 9, 5.5), outcome_name(outcome)
    if None in seen:
        yield signs.box(None, 5, 0, 18, 18), text("fault.cannot_happen")


def _signs(faults: Sequence[str]) -> Iterator[tuple[str, str]]:
    look = ' text-anchor="middle" font-weight="700" font-size="14"'
    for char in faults:
        yield _text(char, 14, 13, more=look), fault_meaning(char)


def _text(words: str, x: float, y: float, *, look: str = "mute", more: str = "") -> str:
    return f'<text class="ft-{look}" x="{x:.1f}" y="{y:.1f}"{more}>{escape(words)}</text>'


def _shortened(words: str, width: float, size: float = 12.0) -> str:
    """Cut what does not fit; the text equivalent has all of it."""
    if text_width(words, size, strong=True) <= width:
        return words
    while words and text_width(f"{words}…", size, strong=True) > width:
        words = words[:-1]
    return f"{words.rstrip()}…"


def _wrapped(words: str, width: float, size: float) -> list[str]:
    lines: list[str] = []
    for word in words.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
