"""``aligngp benchmark``: the repository's benchmark of every model on every case, and its tables and figures."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from aligngp.cli.options import Debug, Force, Quiet
from aligngp.errors import SettingError
from aligngp.progress import duration

_LINE_START = "\r\033[K"
"""Goes to the line's beginning and wipes it."""


class What(StrEnum):
    """What the command makes."""

    ROWS = "rows"
    TABLES = "tables"
    FIGURES = "figures"


def benchmark(
    what: Annotated[
        What | None,
        typer.Argument(help="Rows alone, or tables or figures of rows; default all three.", show_default=False),
    ] = None,
    cases: Annotated[
        list[str] | None,
        typer.Option(help="Names, 'all', 'cases' or 'studies', between commas or one an option; default all."),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(help="Names, 'all' or 'paper', likewise; a name with a comma goes alone. Default all."),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Instances of each case: seeds 0, 1, ...")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that measure at once.")] = 1,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="A limit for all models; default each model's own.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The rows; default benchmarks/results/accuracy.csv of the clone.", show_default=False),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep the rows that are there, measure the others.")] = False,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure every model on every case of the repository's benchmarks, then make tables and figures.

    A row is written when it is there: what was stopped goes on with --resume.

    Rows that are there already are replaced only with --force.

    Cases are those of benchmarks/cases and of the paper's studies, which have models of their own.
    It needs a clone of the repository.

    Example: aligngp benchmark --cases noisy,park --models paper --models auto --jobs 2 --resume
    """
    runner = _part("runner")
    rows = runner.ROWS if out is None else out
    say = _silent if quiet else _said
    if what in (None, What.ROWS):
        plan = runner.Plan.of(cases or ["all"], models or ["all"], repeats, iterations)
        _measure(runner, rows, plan, jobs, resume, force, quiet)
    elif not rows.is_file():
        raise SettingError(f"{rows}: there is no such file. Measure rows first: aligngp benchmark rows --out {rows}")
    made = []
    if what in (None, What.TABLES):
        made += _part("report").tables(rows)
    if what in (None, What.FIGURES):
        made += _part("figures").draw(rows, say, again=force)
    for file in [] if quiet else made:
        print(f"Wrote {file}")


def _measure(runner: ModuleType, rows: Path, plan: Any, jobs: int, resume: bool, force: bool, quiet: bool) -> None:
    """Measure what is not there yet; raise where rows are there and nothing says what becomes of them."""
    if rows.is_dir():
        raise SettingError(f"{rows}: this is a folder, expected a CSV file for the rows. Pass another --out.")
    if rows.exists() and not (resume or force):
        raise SettingError(
            f"{rows} has rows already. Pass --resume to keep them and measure what is missing, --force to replace "
            "them, or another --out."
        )
    say = _silent if quiet else _said
    todo = plan.rows(say)
    if force and not resume:
        rows.unlink(missing_ok=True)
    rows.parent.mkdir(parents=True, exist_ok=True)
    missing = runner.missing(rows, todo)
    say(f"{len(todo)} rows wanted, {len(todo) - len(missing)} are there")
    with _progress(quiet) as tell:
        runner.run(missing, rows, jobs, tell)
    if not quiet:
        print(f"Rows: {rows}")


def _part(name: str) -> ModuleType:
    """Return a module of the repository's benchmarks, which are no part of the installed package."""
    root = next((one for one in (Path(__file__).resolve().parents[3], Path.cwd()) if _is_root(one)), None)
    if root is None:
        raise SettingError(
            "benchmark: there is no folder benchmarks beside the installed source, nor in this folder. It is a part of "
            "the repository and not of the installed package: clone the repository, and call the command in the clone."
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module(f"benchmarks.{name}")


def _is_root(folder: Path) -> bool:
    return (folder / "benchmarks" / "runner.py").is_file()


def _said(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _silent(text: str) -> None:
    pass


@contextmanager
def _progress(quiet: bool) -> Iterator[Any]:
    """Give what is told of every row: a line that stays; on a terminal how far it is stands below."""
    terminal = sys.stderr.isatty()

    def tell(row: Mapping[str, Any], done: int, total: int, left: float | None) -> None:
        if quiet:
            return
        scores = row["note"] if not row["smse"] else f"SMSE {row['smse']}, SMLL {row['smll']}, {row['seconds']} s"
        state = f"{done}/{total}" + ("" if left is None or done == total else f", {duration(left)} left")
        line = f"{row['case']}, {row['model']}, seed {row['seed']}: {scores}"
        if not terminal:
            _said(f"[{state}] {line}")
            return
        width = shutil.get_terminal_size().columns - 1
        filled = int(20 * done / total)
        bar = f"{'━' * filled}{' ' * (20 - filled)} {state}"
        print(f"{_LINE_START}{line[:width]}\n{bar[:width]}", end="", file=sys.stderr, flush=True)

    yield tell
    if terminal and not quiet:
        print(_LINE_START, end="", file=sys.stderr, flush=True)
