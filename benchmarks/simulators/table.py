"""Samples of a simulator in a CSV file: filled row by row in parallel, resumed where it stopped, failures kept as rows.

A design is a list of rows (dicts with `row`, its number, and the inputs); a simulator turns one into outputs. The work
goes through joblib, so `joblib.parallel_config` can hand it to another backend (Dask, Ray) where `jobs` is None.
"""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from benchmarks import rows
from benchmarks.cases.files import OK

DECIMALS = 6
"""Inputs are rounded to this many decimals before they are used: the file has what was computed, and is small."""
BATCH = 32

Row = dict[str, Any]
Simulator = Callable[[Row], Row]


class SimulationError(RuntimeError):
    """A run that failed as runs do: its row stays in the file, with the reason as its status."""


def design(names: Sequence[str], lower: np.ndarray, upper: np.ndarray, count: int, seed: int) -> list[Row]:
    """Return independent uniform rows; a longer design begins with the rows of a shorter one."""
    X = np.random.default_rng(seed).uniform(lower, upper, size=(count, len(names)))
    return as_rows(names, X)


def as_rows(names: Sequence[str], X: np.ndarray) -> list[Row]:
    """Return inputs (N, D) as numbered rows."""
    return [
        {"row": number, **dict(zip(names, np.round(x, DECIMALS).tolist(), strict=True))} for number, x in enumerate(X)
    ]


def attempt(simulator: Simulator, outputs: Sequence[str], row: Row) -> Row:
    """Return a row with its outputs and its status; a failed run has empty outputs and says why."""
    try:
        found = simulator(row)
    except SimulationError as error:
        found = {"status": "failed: " + " ".join(str(error).split())}
    return {**row, **{name: found.get(name, "") for name in outputs}, "status": found.get("status", OK)}


def text(value: Any) -> str:
    """Return a value as it stands in a file: floats with ten digits."""
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def write(path: Path, table: Sequence[Mapping[str, Any]]) -> None:
    """Replace a file by these rows, all at once."""
    part = path.with_suffix(".part")
    with part.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: text(value) for name, value in row.items()} for row in table)
    part.replace(path)


def done(path: Path, wanted: Sequence[Row]) -> list[dict[str, str]]:
    """Return the rows that a file has; what a killed run left of its last line is cut off.

    A file of another design is refused: its rows would stand beside ours as if they were of one sample.
    """
    if not path.exists():
        return []
    data = path.read_bytes()
    if not data.endswith(b"\n"):
        path.write_bytes(data[: data.rfind(b"\n") + 1])
    found = rows.read(path)
    inputs = {str(row["row"]): {name: text(value) for name, value in row.items()} for row in wanted}
    for row in found:
        expected = inputs.get(row["row"])
        if expected and any(row.get(name) != value for name, value in expected.items()):
            raise ValueError(f"{path}: row {row['row']} is of another design; move the file away first.")
    return found


def fill(
    path: Path,
    wanted: Sequence[Row],
    prepare: Callable[[], Simulator],
    outputs: Sequence[str],
    jobs: int | None = None,
    again: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> None:
    """Compute the rows that the file does not have yet, add each as it comes, and sort the file at the end.

    `prepare` returns the simulator; it is called once, here, if there is a row to compute. `again` computes the rows
    anew that failed or did not converge.
    """
    found = done(path, wanted)
    if again and found:
        found = [row for row in found if row["status"] == OK]
        if found:
            write(path, found)
        else:
            path.unlink()
    have = {row["row"] for row in found}
    left = [row for row in wanted if str(row["row"]) not in have]
    if not left:
        return
    for count, row in enumerate(parallel(prepare(), outputs, left, jobs), start=1):
        append(path, row)
        report(f"{path.name}: {len(have) + count} of {len(have) + len(left)}, row {row['row']} {row['status']}")
    write(path, sorted(rows.read(path), key=lambda row: int(row["row"])))


def append(path: Path, row: Row) -> None:
    """Add one row, below a heading."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow({name: text(value) for name, value in row.items()})


def parallel(simulator: Simulator, outputs: Sequence[str], left: Sequence[Row], jobs: int | None) -> Iterator[Row]:
    """Yield finished rows as they come; from a backend that only returns all results at once, in batches."""
    tasks = (delayed(attempt)(simulator, outputs, row) for row in left)
    try:
        pool = Parallel(n_jobs=jobs, return_as="generator_unordered")
    except ValueError:
        for first in range(0, len(left), BATCH):
            yield from Parallel(n_jobs=jobs)(delayed(attempt)(simulator, outputs, row) for row in left[first:][:BATCH])
    else:
        yield from pool(tasks)
