"""Raw rows of measurements: appended one by one to a CSV file, so that a long run can be stopped and resumed."""

import csv
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def environment() -> dict[str, str]:
    """Versions and machine of a measurement, the same columns in every file."""
    packages = {name: version(name) for name in ("aligngp", "jax", "jaxlib", "numpy")}
    return {
        **packages,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def read(path: Path) -> list[dict[str, str]]:
    """The rows so far, none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Add one row, with the heading first; a row of other columns than the file's is refused."""
    new = not path.exists()
    if not new:
        with path.open(newline="") as file:
            heading = next(csv.reader(file))
        if heading != list(row):
            raise ValueError(f"{path} has columns {heading}, the new row {list(row)}: move the old file away first.")
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(row))
        if new:
            writer.writeheader()
        writer.writerow(row)


def missing(path: Path, wanted: Iterable[Mapping[str, Any]], keys: Sequence[str]) -> list[dict[str, Any]]:
    """What is wanted and not yet measured, compared by the named columns."""
    done = {tuple(row[key] for key in keys) for row in read(path)}
    return [dict(row) for row in wanted if tuple(str(row[key]) for key in keys) not in done]


def markdown(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(heading) + " |", "| " + " | ".join("---" for _ in heading) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"
