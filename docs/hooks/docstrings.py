"""The package's docstrings as Markdown: sections, roles of other pages, mathematics, examples."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|attr):`~?([^`]+)`")
_MATH = re.compile(r":math:`([^`]+)`")
_DISPLAYED = re.compile(r"^\.\. math:: *(.+)$", re.MULTILINE)
_SECTION = re.compile(r"^(?P<title>[A-Z][a-z]+)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?P<names>[a-z_][\w, ]*?(?:, \.\.\.)?): ")


class AsMarkdown(griffe.Extension):
    """Rewrite each docstring before it is rendered."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object that has one."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(docstring: str) -> str:
    """Return a docstring of the house as Markdown."""
    text = _ROLE.sub(r"`\1`", docstring)
    text = _MATH.sub(r"\\(\1\\)", text)
    text = _DISPLAYED.sub(r"\\[\1\\]", text).replace("``", "`")
    pieces = _SECTION.split(text)
    parts = [pieces[0].strip()]
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        written = {"Parameters": _entries, "Attributes": _entries, "Examples": _examples}.get(title, str)(body)
        parts.append(f"**{title}**\n\n{written.strip()}")
    return "\n\n".join(parts)


def _entries(body: str) -> str:
    """Return lines ``name: text`` as a list."""
    lines = []
    for line in textwrap.dedent(body).strip().splitlines():
        entry = _ENTRY.match(line)
        if entry is None:
            lines.append(f"    {line.strip()}")
            continue
        names = ", ".join(
            f"**`{name.strip()}`**" if name.strip() != "..." else "..." for name in entry["names"].split(",")
        )
        lines.append(f"- {names}: {line[entry.end() :]}")
    return "\n".join(lines)


def _examples(body: str) -> str:
    """Return examples as fences, the words between them as text."""
    blocks = re.split(r"\n\s*\n", body.strip())
    return "\n\n".join(f"```pycon\n{block}\n```" if block.startswith(">>>") else block for block in blocks)
