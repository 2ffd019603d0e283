"""``aligngp init``: a job to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from aligngp.cli.options import Debug, Force, Quiet
from aligngp.data.atomic import write_text
from aligngp.data.files import write_table
from aligngp.errors import SettingError

_JOB = """\
# A job of aligngp. Fit it:      aligngp fit job.toml
# Predict new rows with it:      aligngp predict job-run --task fine --input new.csv --output pred.csv
#
# The example: "fine" is a costly function of x1..x4 that was run 6 times, "coarse" a cheap version of it that knows
# x3 and x4 alone and was run 100 times. Put your own files in their place. Paths start at this file.

output = "zeta"          # the output column; where the tasks differ: output = { fine = "zeta", coarse = "z" }
common = "coarse"        # the task whose inputs the others map to; default the one with the fewest inputs

[tasks]                  # .csv, .tsv, .parquet, .feather, .arrow, .xlsx or .npz; all other columns are inputs
fine = "fine.csv"
coarse = "coarse.csv"
# With settings of its own: the input columns, the known standard deviation of the noise, a sheet of a workbook.
# fine = { file = "fine.xlsx", sheet = "Runs", output = "zeta", inputs = ["x1", "x2", "x3", "x4"], noise = 0.1 }

[mappings]               # how a task's inputs become those of the common task; default its columns, by name
# fine = ["x3", "x4"]                                                        # these columns
# fine = { affine = { A = [[0, 0, 1, 0], [0, 0, 0, 1]], b = [0, 0] } }       # a linear map A x + b
# fine = "learned"                                                           # unknown: learned from the data

[test]                   # rows with known outputs that are kept out of the fit, for scores
fine = "fine_test.csv"

[model]                  # every keyword of aligngp.AlignedGP; 'aligngp schema' lists them
seed = 0
"""


def init(
    folder: Annotated[Path, typer.Argument(help="The folder; made if it is not there.")] = Path("."),
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a job file with comments and small tables to start from.

    Example: aligngp init turbine
    """
    import pyarrow as pa

    from aligngp.datasets import park

    case = park(num_test=20)
    tables = {
        "fine.csv": (case.names["high"], case.tasks["high"]),
        "coarse.csv": (case.names["low"], case.tasks["low"]),
        "fine_test.csv": (case.names["high"], case.test["high"]),
        "new.csv": (case.names["high"], (case.test["high"][0][:5], None)),
    }
    there = [name for name in ("job.toml", *tables) if (folder / name).exists()]
    if there and not force:
        raise SettingError(f"{folder / there[0]} is there already. Pass --force to replace it, or another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    for name, (columns, (X, y)) in tables.items():
        values = dict(zip(columns, X.T, strict=True)) | ({} if y is None else {"zeta": y})
        rounded = {column: np.round(one, 6) for column, one in values.items()}
        write_table(pa.table(rounded), folder / name)
    write_text(folder / "job.toml", _JOB)
    if not quiet:
        print(f"Wrote {folder / 'job.toml'} and its tables {', '.join(tables)}.")
        print(f"Next:  aligngp fit {shlex.quote(str(folder / 'job.toml'))}")
