"""The little HTML that widgets and static pages share: safe text, one style sheet, one live region.

Colours are the page's own (JupyterLab's variables, else the inherited ones), so light and dark
themes both work; meaning is carried by a sign and a word, never by colour alone.
"""

from __future__ import annotations

import re
from html import escape

CARD = "border:1px solid currentColor;border-radius:6px;padding:.6em 1em;margin:.4em 0;max-width:46em"

STYLE = """<style>
.ql-card { border: 1px solid var(--jp-border-color1, #888);
  border-left: 4px solid var(--jp-brand-color1, #1976d2);
  border-radius: 6px; padding: 10px 14px; max-width: 760px; overflow: visible; }
.ql-card .widget-html-content { line-height: 1.5; white-space: normal; }
.ql-card p { margin: 0 0 .4em; }
.ql-card .ql-question { margin-top: 10px; }
.ql-card .widget-html, .ql-card .widget-html-content { height: auto; overflow: visible; }
.ql-card button.ql-choice { height: auto; min-height: 32px; width: 100%; max-width: 100%; margin: 3px 0;
  text-align: left; white-space: normal; line-height: 1.45; padding: 6px 12px;
  border: 1px solid var(--jp-border-color1, #888); border-radius: 4px;
  color: var(--jp-ui-font-color1, inherit); background: var(--jp-layout-color1, transparent); }
.ql-card button.ql-choice:hover { background: var(--jp-layout-color2, #eee); }
.ql-card button.ql-choice.ql-right { border: 2px solid var(--jp-success-color1, #2e7d32); }
.ql-card button.ql-choice.ql-wrong { border: 2px dashed var(--jp-error-color1, #c62828); }
.ql-card button:focus-visible, .ql-card input:focus-visible {
  outline: 3px solid var(--jp-brand-color1, #1976d2); outline-offset: 2px; }
.ql-card .ql-feedback { margin: 2px 0 8px 14px; }
.ql-card button.ql-choice:disabled { opacity: .75; }
</style>"""


def inline(sentence: str) -> str:
    """Return a sentence as safe HTML: `code` and **strong** are kept, everything else is escaped."""
    safe = escape(sentence.strip(), quote=False)
    safe = re.sub(r"`([^`]+)`", r"<code>\1</code>", safe)
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", safe)


def plain(sentence: str) -> str:
    """Return a sentence without markup, for button labels and for text equivalents."""
    return re.sub(r"\*\*(.+?)\*\*", r"\1", sentence.strip()).replace("`", "")


def status(html: str) -> str:
    """Wrap HTML so that a screen reader speaks it when it changes."""
    return f'<div role="status" aria-live="polite">{html}</div>' if html else ""


def paragraphs(*lines: str) -> str:
    """Return the lines that are not empty as paragraphs."""
    return "".join(f"<p>{line}</p>" for line in lines if line)


def card(inner: str) -> str:
    """Return a frame for a static page; inline style only, because hosts strip style sheets."""
    return f'<div style="{CARD}">{inner}</div>'


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return an HTML table of cells that are HTML already; the first column (a state) never wraps."""
    cell = "text-align:left;vertical-align:top"
    head = "".join(f'<th scope="col" style="{cell}">{name}</th>' for name in heads)
    lines = []
    for first, *others in rows:
        start = f'<td style="{cell};white-space:nowrap">{first}</td>'
        lines.append(f"<tr>{start}{''.join(f'<td style={cell!r}>{other}</td>' for other in others)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def folded(heading: str, markdown: str) -> str:
    """Markdown that is folded under a heading until it is clicked."""
    return f"<details><summary>{heading}</summary>\n\n{markdown}\n\n</details>"
