"""Progress of long work: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aligngp.typing import Progress

_SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def watched(shown: bool | None) -> Iterator[Callable[[str], Progress | None]]:
    """Give a function that opens the progress of a named stage; None shows a bar only where someone can see it."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    if shown is False or (shown is None and not terminal):
        yield lambda stage: None
    elif terminal:
        with _bars() as opened:
            yield opened
    else:
        yield _lines


@contextmanager
def _bars() -> Iterator[Callable[[str], Progress]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("objective {task.fields[objective]:.4g}"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:

        def opened(stage: str) -> Progress:
            task = bars.add_task(stage, total=None, objective=float("nan"))

            def report(done: int, total: int, objective: float) -> None:
                bars.update(task, completed=done, total=total, objective=objective)

            return report

        yield opened


def _lines(stage: str) -> Progress:
    start = time.monotonic()
    last = [start]

    def report(done: int, total: int, objective: float) -> None:
        now = time.monotonic()
        if now - last[0] >= _SECONDS_BETWEEN_LINES or done == total:
            last[0] = now
            left = f", {duration((now - start) * (total - done) / done)} left" if 0 < done < total else ""
            print(f"{stage}: {done}/{total}, objective {objective:.6g}{left}", file=sys.stderr, flush=True)

    return report


def duration(seconds: float) -> str:
    """Return a duration as one says it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
