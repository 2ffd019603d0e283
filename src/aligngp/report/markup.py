"""HTML from values: every text that a user could have written is escaped here, and only here."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(value: Any) -> Markup:
    """Return a value as HTML; what is HTML already stays."""
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def tag(name: str, *children: Any, **attributes: str) -> Markup:
    """Return an element; ``class_`` stands for class, two underscores for a hyphen."""
    opening = "".join(
        f' {key.rstrip("_").replace("__", "-")}="{html.escape(value)}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{opening}>{''.join(map(escaped, children))}</{name}>")


def joined(parts: Iterable[Any]) -> Markup:
    """Return parts one after the other."""
    return Markup("\n".join(map(escaped, parts)))


def number(value: float) -> str:
    """Return a number for people, three digits."""
    return f"{value:.3g}" if math.isfinite(value) else "\N{EN DASH}"


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "", numeric: int = 1) -> Markup:
    """Return a table that scrolls on a narrow screen; columns from ``numeric`` on stand to the right."""
    head = tag(
        "tr", *(tag("th", heading, scope="col", class_=_side(at, numeric)) for at, heading in enumerate(headings))
    )
    body = [
        tag(
            "tr",
            tag("th", cells[0], scope="row"),
            *(tag("td", cell, class_=_side(at, numeric)) for at, cell in enumerate(cells[1:], start=1)),
        )
        for cells in rows
    ]
    told = [tag("caption", caption)] if caption else []
    return tag("div", tag("table", *told, tag("thead", head), tag("tbody", *body)), class_="scroll")


def bullets(sentences: Iterable[Any]) -> Markup:
    """Return a list."""
    return tag("ul", *(tag("li", sentence) for sentence in sentences))


def section(anchor: str, title: str, *children: Any) -> Markup:
    """Return a section with its heading."""
    return tag("section", tag("h2", title), joined(children), id=anchor)


def figure(caption: str, *variants: dict[str, Any]) -> Markup:
    """Return a figure: Plotly's data and layout as JSON, of which a reader chooses one by ``name``."""
    return tag(
        "figure",
        tag("figcaption", caption),
        tag("div", class_="plot", role="img", aria__label=caption),
        Markup(f'<script type="application/json">{as_json(variants)}</script>'),
    )


def as_json(value: Any) -> str:
    """Return JSON that may stand inside of a script element: no ``<`` is in it, and no NaN."""
    return json.dumps(plain(value), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def plain(value: Any) -> Any:
    """Return arrays as lists of floats with six digits, what is not finite as None."""
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def for_plotly(text: str) -> str:
    """Return text as Plotly shows it literally: it reads a few HTML elements in every text."""
    return html.escape(text, quote=False)


def _side(at: int, numeric: int) -> str:
    return "number" if at >= numeric else "text"
