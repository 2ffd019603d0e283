"""Raw rows of measurements: appended one by one to a CSV file, so that a long run can be stopped and resumed."""

import csv
import io
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from aligngp.data.atomic import write_text

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
    """Add one row, with the heading first, in one write: a killed process leaves whole rows.

    Columns that the file lacks are added to it, empty in the rows before; a row that lacks a column is refused.
    """
    heading = list(row)
    if path.exists():
        heading = _heading(path)
        lacking = [name for name in heading if name not in row]
        if lacking:
            raise ValueError(f"{path} has columns {lacking} that the new row lacks: move the old file away first.")
        new = [name for name in row if name not in heading]
        if new:
            heading += new
            write_text(path, _text(heading, read(path), head=True))
    line = _text(heading, [row], head=not path.exists())
    with path.open("ab") as file:
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def mend(path: Path) -> None:
    """Take away what stands behind the last whole row: a machine that stopped may have left half of one."""
    if path.exists() and not (content := path.read_bytes()).endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)


def _heading(path: Path) -> list[str]:
    with path.open(newline="") as file:
        return next(csv.reader(file))


def _text(heading: Sequence[str], rows: Iterable[Mapping[str, Any]], head: bool) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(heading), restval="")
    if head:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def missing(path: Path, wanted: Iterable[Mapping[str, Any]], keys: Sequence[str]) -> list[dict[str, Any]]:
    """What is wanted and not yet measured, compared by the named columns."""
    done = {tuple(row[key] for key in keys) for row in read(path)}
    return [dict(row) for row in wanted if tuple(str(row[key]) for key in keys) not in done]


def markdown(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(heading) + " |", "| " + " | ".join("---" for _ in heading) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"
