"""How the pictures of the course begin: their size, and their words for those who do not see them."""

from __future__ import annotations

import hashlib
from html import escape


def mark_of(*words: object) -> str:
    """Eight letters for the ids of a picture, which must differ between the pictures of a page."""
    return hashlib.sha256("".join(map(str, words)).encode()).hexdigest()[:8]


def opening(title: str, told: str, mark: str, width: float, height: float, scale: float = 1.0) -> str:
    """The tag ``svg``, title and description; drawn in ``width`` by ``height``, shown at ``scale``."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'width="{width * scale:.0f}" height="{height * scale:.0f}" style="max-width:100%;height:auto" '
        f'aria-labelledby="t{mark} d{mark}" font-family="system-ui, \'DejaVu Sans\', sans-serif" '
        f'font-size="12">{words(title, told, mark)}'
    )


def words(title: str, told: str, mark: str) -> str:
    """The title and the description that ``aria-labelledby`` names."""
    return f'<title id="t{mark}">{escape(title)}</title><desc id="d{mark}">{escape(told)}</desc>'
