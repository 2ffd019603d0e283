"""Run the Python of a page, and put what it printed and drew below each of its fences."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```python(?P<options>[^\n]*)\n(?P<code>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
NOT_RUN = "no-run"
"""After ```` ```python ````: this fence is shown and never run."""


WIDTH = 92
"""The columns that a listing can show."""


class ExampleError(Exception):
    """An example of the documentation does not run."""


@dataclass
class Executed:
    """A page with the results of its code, and its figures (name to PNG)."""

    markdown: str
    figures: dict[str, bytes] = field(default_factory=dict)


def execute(markdown: str, page: str, stem: str, file: Path | None = None) -> Executed:
    """Run the fences of a page in one namespace and an empty folder; return it with their results.

    ``page`` is named in errors, ``stem`` begins the names of figures, ``file`` is what the code finds as ``__file__``.
    """
    result = Executed("")
    namespace: dict[str, Any] = {"__name__": "__main__", "__file__": None if file is None else str(file)}
    at = 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), _plain_figures():
        for number, fence in enumerate(FENCE.finditer(markdown), start=1):
            result.markdown += markdown[at : fence.start()] + f"```python\n{fence['code']}```"
            at = fence.end()
            if NOT_RUN in fence["options"].split():
                continue
            result.markdown += _text(_run(fence["code"], namespace, f"{page}, example {number}"))
            for alt, png in _figures():
                name = f"{stem}-{len(result.figures) + 1}.png"
                result.figures[name] = png
                result.markdown += f"\n\n![{alt}]({name})"
    result.markdown += markdown[at:]
    return result


def _run(code: str, namespace: dict[str, Any], where: str) -> str:
    """Return what the code printed, warnings of aligngp included; other warnings are errors."""
    from aligngp import AligngpWarning

    printed = io.StringIO()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        printed.write(f"{category.__name__}: {message}\n")

    with warnings.catch_warnings(), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("error")
        warnings.simplefilter("always", AligngpWarning)
        warnings.showwarning = show
        try:
            exec(compile(code, where, "exec"), namespace)
        except Exception as error:
            raise ExampleError(f"{where}: {type(error).__name__}: {error}\n\n{code}") from error
    return printed.getvalue()


def _text(printed: str) -> str:
    """Return printed lines as Markdown; long sentences are wrapped, tables are not."""
    lines = "\n".join(_wrapped(line.rstrip()) for line in printed.rstrip().splitlines())
    return f"\n\n``` {{ .text .output }}\n{lines}\n```" if lines else ""


def _wrapped(line: str) -> str:
    sentence = line.isascii() and "  " not in line
    return textwrap.fill(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False) if sentence else line


def _figures() -> Iterator[tuple[str, bytes]]:
    """Give the open figures as what they show in words and as PNG, and close them."""
    import matplotlib.pyplot as plt

    for number in plt.get_fignums():
        figure = plt.figure(number)
        titles = [ax.get_title() or f"{ax.get_ylabel()} against {ax.get_xlabel()}" for ax in figure.axes]
        png = io.BytesIO()
        figure.savefig(png, format="png", dpi=110, bbox_inches="tight", metadata={"Software": None})
        yield "Figure: " + re.sub(r"[\[\]\n]", " ", "; ".join(titles)), png.getvalue()
        plt.close(figure)


@contextlib.contextmanager
def _plain_figures() -> Iterator[None]:
    """Draw without a screen, however matplotlib was set up."""
    os.environ["MPLBACKEND"] = "agg"
    import matplotlib
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    with matplotlib.rc_context({"figure.figsize": (6.4, 4.0), "axes.grid": False}):
        yield
    plt.close("all")
