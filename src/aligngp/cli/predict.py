"""``aligngp predict``: new rows in, the same rows with predictions out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from aligngp.cli import blocks
from aligngp.cli.journal import journal
from aligngp.cli.options import Debug, Force, Quiet
from aligngp.cli.run import model_file
from aligngp.data.delimited import as_delimited
from aligngp.data.files import check_target, read_table, write_table
from aligngp.data.tables import listed
from aligngp.errors import DataError, SettingError

_ADDED = ("mean", "std", "lower", "upper")


def predict(
    model: Annotated[Path, typer.Argument(help="A run's folder, or a model file.", show_default=False)],
    input: Annotated[str, typer.Option("--input", "-i", help="The new rows: a file with the task's input columns.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The file for the predictions, its suffix says which kind; - prints CSV."),
    ] = Path("-"),
    task: Annotated[
        str | None, typer.Option("--task", "-t", help="The task to predict; needed where there are several.")
    ] = None,
    latent: Annotated[bool, typer.Option("--latent", help="Predict the function without the noise.")] = False,
    interval: Annotated[float, typer.Option("--interval", help="Probability of the interval.")] = 0.95,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict a task at the rows of a file: the same columns with mean, std, lower and upper beside them.

    Files: .csv, .tsv, .parquet, .feather, .arrow, .xlsx, .npz.

    From Parquet (a file, a folder, a glob or a URL) to .parquet any number of
    rows is predicted, a block at a time.

    A file that is there already is replaced only with --force.

    Example: aligngp predict turbine --task fine --input new.csv --output pred.csv
    """
    printed = str(output) == "-"
    with journal():
        if not printed:
            check_target(output)
            if output.exists() and not force:
                raise SettingError(f"{output} is there already. Pass --force to replace it, or another --output.")
        add = _adds(model_file(model), task, input, latent, interval)
        if blocks.takes(input, output):
            rows = blocks.write_in_blocks(input, output, task or "", add)
        else:
            table = add(read_table(input))
            rows = table.num_rows
            if not printed:
                write_table(table, output)
    if printed:
        sys.stdout.buffer.write(as_delimited(table, ","))
        sys.stdout.buffer.flush()
        return
    if not quiet:
        print(f"Predictions: {output} ({rows} rows; new columns {', '.join(_ADDED)})")


def _adds(file: Path, task: str | None, source: str, latent: bool, interval: float) -> Callable[[Any], Any]:
    """Return a function that gives rows with the predictions as further columns."""
    import pyarrow as pa

    import aligngp as agp

    gp = agp.load(file)
    names = list(gp.tasks)
    if task is None and len(names) > 1:
        raise SettingError(f"{file} has the tasks {listed(names)}. Pass --task with one of them.")

    def added(rows: Any) -> Any:
        taken = [name for name in _ADDED if name in rows.column_names]
        if taken:
            raise DataError(
                f"{source}: column {taken[0]!r} has the name of a column of the output. Rename it or leave it out."
            )
        found = gp.predict(names[0] if task is None else task, rows, latent=latent)
        lower, upper = found.interval(interval)
        for name, values in zip(_ADDED, (found.mean, found.std, lower, upper), strict=True):
            rows = rows.append_column(name, pa.array(values))
        return rows

    return added
