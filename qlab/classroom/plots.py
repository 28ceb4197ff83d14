"""Histograms, curves and bars of a lesson, each with its text equivalent.

    plots.histograms("Giờ thử lại", {"không jitter": a, "có jitter": b}, width=1.0, x="giây", y="số job")
    plots.curves("Cơn dồn", [plots.Panel("kết nối", {"inline": (times, counts)}, limit=5)], x="giây")
    plots.bars("Còn gì?", {"noeviction": {"còn": 300, "mất": 0}}, x="số job")

Drawn by Matplotlib on a light panel of their own, so they read the same in a light and in a dark theme.
Series differ in colour (a palette for colour-blind people), in dash and in hatch, and are named in words.
A picture shows measured values, so a cell that shows one is tagged nbval-ignore-output, beside an assertion.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from qlab.classroom import markup, notebook, svg
from qlab.classroom.texts import text

INK, PAPER, GRID = "#1a1a1a", "#fdfdfb", "#d9d9d4"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#AA3377", "#555555")
DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))
HATCHES = ("", "///", "..", "xx", "\\\\")
WIDTH = 8.0
"""Inches of every picture; a page narrower than that scales it down."""

_STYLE: dict[Any, Any] = {
    "figure.facecolor": PAPER, "axes.facecolor": PAPER, "savefig.facecolor": PAPER,
    "font.family": "DejaVu Sans", "font.size": 10.5, "axes.titlesize": 11, "axes.titlelocation": "left",
    "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.edgecolor": INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": GRID,
    "axes.axisbelow": True, "lines.linewidth": 2.0, "hatch.linewidth": 0.8, "legend.frameon": False,
    "svg.fonttype": "path", "svg.hashsalt": "qlab",
}  # fmt: skip

Series = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class Panel:
    """One pair of axes of ``curves``: the label of y, what is drawn (name → xs, ys), perhaps a limit line."""

    y: str
    series: Mapping[str, Series]
    limit: float | None = None
    limit_name: str = ""
    steps: bool = False


@dataclass(frozen=True)
class Plot:
    """A picture and what it says. ``summary`` holds the figures of the text, for assertions."""

    title: str
    sentences: tuple[str, ...]
    svg: str = field(repr=False)
    summary: dict[str, Any] = field(repr=False)

    def text(self) -> str:
        """The text equivalent, a line for each thing that is drawn."""
        return "\n".join(f"- {sentence}" for sentence in self.sentences)

    def markdown(self) -> str:
        """The text equivalent, folded under its heading, to be shown below the picture."""
        return markup.folded(text("plots.in_words"), self.text())

    def _ipython_display_(self) -> None:
        notebook.show_picture(self.svg, text("plots.not_shown", title=self.title), self.markdown())


def histograms(title: str, samples: Mapping[str, Sequence[float]], *, width: float, x: str, y: str) -> Plot:
    """One histogram above the other, with the same axes; ``width`` is that of a bin, in the unit of ``x``.

    ``summary`` maps each name to how many values it has, its highest bin (``peak``) and where that begins.
    Raises ValueError for an empty sample, and for a ``width`` that is not positive.
    """
    if width <= 0 or not samples or not all(map(len, samples.values())):
        raise ValueError("a histogram needs values in each sample and a bin width of more than 0")
    bins = {name: _bins(values, width) for name, values in samples.items()}
    low = min(min(found) for found in bins.values())
    high = max(max(found) for found in bins.values()) + 1
    top = max(max(found.values()) for found in bins.values())
    with mpl.rc_context(_STYLE):
        figure, rows = _figure(title, len(samples), 1.75)
        for number, (axes, (name, found)) in enumerate(zip(rows, bins.items(), strict=True)):
            axes.bar(
                [index * width for index in found], list(found.values()), width=width, align="edge",
                color=COLOURS[number % 5], hatch=HATCHES[number % 5], edgecolor=PAPER, linewidth=0.4,
            )  # fmt: skip
            axes.set(title=name, ylabel=y, xlim=(low * width, high * width), ylim=(0, top * 1.05))
        rows[-1].set_xlabel(x)
        summary = {name: _peak(samples[name], found, width) for name, found in bins.items()}
        says = [text("plots.histogram", name=name, x=x, **_words(facts)) for name, facts in summary.items()]
        return _plot(figure, title, says, summary)


def _bins(values: Sequence[float], width: float) -> dict[int, int]:
    found: dict[int, int] = {}
    for value in values:
        found[int(value // width)] = found.get(int(value // width), 0) + 1
    return found


def _peak(values: Sequence[float], bins: Mapping[int, int], width: float) -> dict[str, float]:
    highest = max(bins, key=lambda index: (bins[index], -index))
    return {
        "values": len(values), "least": min(values), "most": max(values), "peak": bins[highest],
        "peak_from": highest * width, "peak_to": (highest + 1) * width,
    }  # fmt: skip


def curves(title: str, panels: Sequence[Panel], *, x: str) -> Plot:
    """Curves over one x axis, a panel above the other.

    ``summary`` maps each panel's y label and each name in it to the first, highest and last value, and where
    the highest is. Raises ValueError for a series without points.
    """
    with mpl.rc_context(_STYLE):
        figure, rows = _figure(title, len(panels), 2.1)
        summary: dict[str, Any] = {}
        says: list[str] = []
        names = list(dict.fromkeys(name for panel in panels for name in panel.series))
        for axes, panel in zip(rows, panels, strict=True):
            summary[panel.y] = {}
            for name, (xs, ys) in panel.series.items():  # a name looks the same in each panel
                _curve(axes, names.index(name), name, xs, ys, panel.steps)
                facts = summary[panel.y][name] = _course(xs, ys)
                says.append(text("plots.curve", y=panel.y, name=name, x=x, **_words(facts)))
            if panel.limit is not None:
                axes.axhline(
                    panel.limit, color=INK, linewidth=1.2, linestyle=(0, (2, 2)), label=panel.limit_name
                )
                says.append(text("plots.limit", y=panel.y, name=panel.limit_name, value=_number(panel.limit)))
            axes.set(ylabel=panel.y, ylim=(0, None))
            axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)
        rows[-1].set_xlabel(x)
        return _plot(figure, title, says, summary)


def _curve(axes: Axes, number: int, name: str, xs: Sequence[float], ys: Sequence[float], steps: bool) -> None:
    if not len(xs) or len(xs) != len(ys):
        raise ValueError(f"curve {name!r} needs as many y values as x values, and at least one")
    look: dict[str, Any] = {"color": COLOURS[number % 5], "linestyle": DASHES[number % 5], "label": name}
    axes.plot(xs, ys, drawstyle="steps-post" if steps else "default", **look)


def _course(xs: Sequence[float], ys: Sequence[float]) -> dict[str, float]:
    top = max(range(len(ys)), key=lambda index: ys[index])
    return {"first": ys[0], "highest": ys[top], "at": xs[top], "last": ys[-1], "end": xs[-1]}


def bars(title: str, groups: Mapping[str, Mapping[str, float]], *, x: str) -> Plot:
    """A horizontal bar for each group, made of its parts one after the other, each with its number.

    ``summary`` is ``groups`` itself. Raises ValueError when groups have different parts, or none.
    """
    parts = list(next(iter(groups.values()), {}))
    if not parts or any(list(group) != parts for group in groups.values()):
        raise ValueError("each group of bars needs the same parts in the same order, and at least one")
    with mpl.rc_context(_STYLE):
        figure, (axes,) = _figure(title, 1, 0.9 + 0.5 * len(groups))
        most = max(sum(group.values()) for group in groups.values())
        for number, part in enumerate(parts):
            for row, group in enumerate(groups.values()):
                left = sum(list(group.values())[:number])
                axes.barh(
                    row, group[part], left=left, height=0.55, color=COLOURS[number % 5], edgecolor=PAPER,
                    hatch=HATCHES[number % 5], label=part if row == 0 else None,
                )  # fmt: skip
                if group[part] > most * 0.06:
                    label = axes.text(
                        left + group[part] / 2, row, _number(group[part]), ha="center", va="center"
                    )
                    label.set_bbox({"facecolor": PAPER, "edgecolor": "none", "pad": 1.5})
        axes.set_yticks(range(len(groups)), list(groups))
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(x)
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)
        says = [
            f"{name}: " + ", ".join(f"{part} {_number(value)}" for part, value in group.items()) + f" ({x})."
            for name, group in groups.items()
        ]
        return _plot(figure, title, says, {name: dict(group) for name, group in groups.items()})


def _figure(title: str, rows: int, height: float) -> tuple[Figure, list[Axes]]:
    """A figure without pyplot, which would keep it in memory; the axes of its rows share x."""
    figure = Figure(figsize=(WIDTH, height * rows + 0.6), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12.5, fontweight="bold")
    axes: list[Axes] = list(figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0])
    for one in axes:
        one.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
        one.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
        one.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure, axes


def _plot(figure: Figure, title: str, says: Sequence[str], summary: dict[str, Any]) -> Plot:
    return Plot(title, tuple(says), _svg(figure, title, " ".join(says)), summary)


def _svg(figure: Figure, title: str, told: str) -> str:
    """The figure as SVG with its words inside, for readers that do not see it."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    mark = svg.mark_of(title, told)
    drawn = out.getvalue()
    opening = re.search(r"<svg [^>]*>", drawn)
    assert opening is not None  # Matplotlib has just written it
    tag = opening.group()[:-1]
    tag += f' role="img" style="max-width:100%;height:auto" aria-labelledby="t{mark} d{mark}">'
    return tag + svg.words(title, told, mark) + drawn[opening.end() :].strip()


def _words(facts: Mapping[str, float]) -> dict[str, str]:
    return {name: _number(value) for name, value in facts.items()}


def _number(value: float) -> str:
    """At most three significant digits after whole thousands, with the comma of Vietnamese."""
    whole = round(value)
    if abs(value) >= 100 or abs(value - whole) < 1e-9:
        return f"{whole:,}".replace(",", ".")
    return f"{value:.3g}".replace(".", ",")
