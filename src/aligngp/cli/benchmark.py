"""``aligngp benchmark``: the repository's benchmark of every model on every case, and its tables and figures."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from aligngp.cli.options import Debug, Force, Quiet
from aligngp.errors import SettingError
from aligngp.progress import duration

benchmark = typer.Typer(invoke_without_command=True)

Rows = Annotated[
    Path | None,
    typer.Option(help="The rows; default benchmarks/results/accuracy.csv of the repository.", show_default=False),
]


@benchmark.callback()
def measure(
    context: typer.Context,
    cases: Annotated[
        list[str], typer.Option(help="Cases, between commas or one an option: names, 'all', 'cases', 'studies'.")
    ] = ["all"],  # noqa: B006  (typer reads it)
    models: Annotated[
        list[str], typer.Option(help="Models, likewise: names, 'all', 'paper'. A name with a comma goes alone.")
    ] = ["all"],  # noqa: B006
    repeats: Annotated[int, typer.Option(min=1, help="Instances of each case: seeds 0, 1, ...")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that measure at once.")] = 1,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="A limit for all models; default each model's own.", show_default=False)
    ] = None,
    out: Rows = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep the rows that are there, measure the others.")] = False,
    force: Force = False,
    rows_only: Annotated[bool, typer.Option("--rows-only", help="Make no tables and figures at the end.")] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure every model on every case of the repository's benchmarks, then make tables and figures.

    A row is written when it is there: what was stopped goes on with --resume. Rows that are there
    already are replaced only with --force.

    Cases: those of benchmarks/cases and the paper's studies, which have models of their own. It needs a
    clone of the repository.

    Example: aligngp benchmark --cases noisy,park --models paper --models auto --repeats 10 --jobs 2 --resume
    """
    if context.invoked_subcommand is not None:
        return
    runner = _part("runner")
    rows = runner.ROWS if out is None else out
    if rows.is_dir():
        raise SettingError(f"{rows}: this is a folder, expected a CSV file for the rows. Pass another --out.")
    if rows.exists() and not (resume or force):
        raise SettingError(
            f"{rows} has rows already. Pass --resume to keep them and measure what is missing, --force to replace "
            "them, or another --out."
        )
    say = _silent if quiet else _said
    todo = runner.planned(cases, models, repeats, iterations, say)
    if force and not resume:
        rows.unlink(missing_ok=True)
    rows.parent.mkdir(parents=True, exist_ok=True)
    missing = runner.missing(rows, todo)
    say(f"{len(todo)} rows wanted, {len(todo) - len(missing)} are there")
    with _progress(quiet) as tell:
        runner.run(missing, rows, jobs, tell)
    say(f"Rows: {rows}")
    if not rows_only:
        _written(_part("report").tables(rows), quiet)
        _written(_part("figures").draw(rows, say), quiet)


@benchmark.command()
def tables(out: Rows = None, quiet: Quiet = False, debug: Debug = False) -> None:
    """Make the tables of the rows: Markdown and LaTeX, with paired tests and the paper's numbers.

    Example: aligngp benchmark tables --out benchmarks/results/accuracy.csv
    """
    _written(_part("report").tables(_there(out)), quiet)


@benchmark.command()
def figures(
    out: Rows = None,
    again: Annotated[bool, typer.Option("--again", help="Fit anew what is drawn of single fits.")] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw the paper's figures from the rows, and from single fits that are made once and kept in a file.

    Example: aligngp benchmark figures --out benchmarks/results/accuracy.csv
    """
    rows = _there(out)
    _written(_part("figures").draw(rows, _silent if quiet else _said, again=again), quiet)


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


def _there(out: Path | None) -> Path:
    rows = _part("runner").ROWS if out is None else out
    if not rows.is_file():
        raise SettingError(f"{rows}: there is no such file. Measure rows first: aligngp benchmark --out {rows}")
    return rows


def _said(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _silent(text: str) -> None:
    pass


def _written(files: list[Path], quiet: bool) -> None:
    if not quiet:
        for file in files:
            print(f"Wrote {file}")


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
        print(
            f"\r\033[K{line[:width]}\n{'━' * filled}{' ' * (20 - filled)} {state}"[: 2 * width], end="", file=sys.stderr
        )
        sys.stderr.flush()

    yield tell
    if terminal and not quiet:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
