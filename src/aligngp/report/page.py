"""The page: one file that asks the network for nothing, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from aligngp.data.atomic import write_text
from aligngp.errors import DataError, MissingPackageError
from aligngp.estimator import AlignedGP
from aligngp.report.content import Content, collect
from aligngp.report.markup import Markup, joined, tag
from aligngp.report.sections import sections
from aligngp.runtime import computes

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""What a browser lets the page do: run what stands in it, fetch nothing."""


def write(
    gp: AlignedGP,
    path: str | os.PathLike[str],
    *,
    test: Mapping[str, Any] | None = None,
    transfer: bool = True,
    force: bool = False,
) -> Path:
    """Write the report of a fitted model as one self-contained HTML page; return its path.

    Parameters
    ----------
    path: the file; one that is there already is left alone, unless ``force``.
    test: task name to rows with outputs, as for ``gp.score``: these are scored too.
    transfer: with ``gp.transfer_report()``, and with scores of training rows that need further fits; ``False`` leaves
        out what fits models again.
    force: overwrite.
    """
    target = Path(path)
    _check(target, force)
    script = plotly()  # before anything is computed: it may be missing
    page = html(collect(gp, test, transfer), script)
    _check(target, force)
    write_text(target, page)
    return target


@computes
def html(content: Content, script: str) -> str:
    """Return the page; ``script`` is plotly.js."""
    names = ", ".join(content.names)
    built = list(sections(content))
    links = tag("nav", *(tag("a", title, href=f"#{anchor}") for anchor, title, _ in built))
    written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    body = [
        tag("header", tag("h1", f"Model of {names}"),
            tag("p", f"aligngp {version('aligngp')}, written {written}", class_="soft"), links, class_="top"),
        tag("main", Markup("<noscript><p>The figures need JavaScript; all numbers stand in the tables.</p></noscript>"),
            joined(part for *_, part in built)),
        tag("footer", tag("p", "This page is complete in itself: it loads nothing from the network.", class_="soft")),
        _script(script),
        _script(_resource("page.js")),
    ]  # fmt: skip
    head = [
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        Markup('<link rel="icon" href="data:,">'),  # a browser would ask the host for one
        tag("title", f"aligngp: {names}"),
        Markup(f"<style>{_resource('page.css')}</style>"),
    ]
    page = tag("html", "\n", tag("head", joined(head)), "\n", tag("body", joined(body)), "\n", lang="en")
    return f"<!doctype html>\n{page}\n"


def plotly() -> str:
    """Return plotly.js, or raise and say how to install it."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "plotly":
            raise
        raise MissingPackageError(
            'the report needs plotly, which is not installed. Install it: pip install "aligngp[report]".',
            name="plotly",
        ) from None
    return get_plotlyjs()


def _check(target: Path, force: bool) -> None:
    if not target.parent.is_dir():
        raise DataError(f"{target}: cannot write, the folder {target.parent} does not exist. Make it first.")
    if target.is_dir():
        raise DataError(f"{target}: cannot write, this is a folder. Name a file.")
    if target.exists() and not force:
        raise DataError(f"{target}: there is a file already. Name another one, or pass force=True to overwrite it.")


def _script(text: str) -> Markup:
    # Inside of a string of JavaScript, the only place where it can stand, <\/script means the same.
    safe = text.replace("</script", "<\\/script")
    return Markup(f"<script>{safe}</script>")


def _resource(name: str) -> str:
    return (files("aligngp.report") / name).read_text(encoding="utf-8")
