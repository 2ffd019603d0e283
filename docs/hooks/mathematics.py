r"""TeX to MathML while the site is built: a page asks for no script and no font."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

SPAN = re.compile(r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL)
NUMBER = re.compile(r"\\tag\{(?P<number>[^}]*)\}")


def with_mathml(page: str) -> str:
    """Return HTML with its marked TeX as MathML; ``\\tag{8}`` becomes the number of an equation, and its anchor."""
    return SPAN.sub(_converted, page)


def _converted(match: re.Match[str]) -> str:
    tex = html.unescape(match["tex"]).strip()
    number = NUMBER.search(tex)
    tex = NUMBER.sub("", tex).replace("{aligned}", "{align*}")
    display = "block" if match["tag"] == "div" else "inline"
    math = convert(tex, display=display)
    if display == "inline":
        return math
    if number is None:
        return f'<div class="equation">{math}</div>'
    shown = number["number"]
    return f'<div class="equation" id="eq-{shown}">{math}<span class="number">({shown})</span></div>'
