"""Scripts in percent format (``# %%`` cells) as Markdown."""

from __future__ import annotations

import re

CELL = re.compile(r"^# %%(?P<kind>[^\n]*)\n", re.MULTILINE)


def to_markdown(script: str) -> str:
    """Return a script as Markdown: cells marked ``[markdown]`` as text, the others as fences of Python."""
    pieces = CELL.split(script)
    blocks = [_block(kind.strip(), body) for kind, body in zip(pieces[1::2], pieces[2::2], strict=True)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _block(kind: str, body: str) -> str:
    body = body.strip("\n")
    if kind == "[markdown]":
        return "\n".join(re.sub(r"^# ?", "", line) for line in body.splitlines())
    return f"```python\n{body}\n```" if body else ""
