"""Evaluations that were asked for, and the Parquet file that keeps them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from aligngp.data.atomic import replacing
from aligngp.errors import DataError
from aligngp.suggest.space import Point, Space

_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("task", pa.string()),
        ("inputs", pa.string()),
        ("status", pa.string()),
        ("value", pa.float64()),
        ("constraints", pa.string()),
        ("cost", pa.float64()),
        ("seconds", pa.float64()),
        ("error", pa.string()),
    ]
)
ASKED, DONE, FAILED = "asked", "done", "failed"


@dataclass(frozen=True)
class Trial:
    """One evaluation: asked for, done, or failed."""

    id: int
    task: str
    inputs: Point
    cost: float
    status: str = ASKED
    value: float | None = None
    constraints: dict[str, float] = field(default_factory=dict)
    """Outputs of the constraints' tasks at these inputs."""
    seconds: float | None = None
    error: str | None = None


def to_table(trials: Sequence[Trial]) -> pa.Table:
    """Return trials as a table; inputs and constraints are JSON, since every task has inputs of its own."""
    rows = [
        {**asdict(trial), "inputs": json.dumps(trial.inputs), "constraints": json.dumps(trial.constraints)}
        for trial in trials
    ]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def write(path: str | os.PathLike[str], trials: Sequence[Trial], about: Mapping[str, Any]) -> None:
    """Write trials to a Parquet file, complete or not at all; ``about`` says of what search they are."""
    import pyarrow.parquet as pq

    table = to_table(trials).replace_schema_metadata({"aligngp.search": json.dumps(about, sort_keys=True)})
    with replacing(path) as file:
        pq.write_table(table, file)


def read(path: str | os.PathLike[str], about: Mapping[str, Any], spaces: Mapping[str, Space]) -> list[Trial]:
    """Return the trials in a file, none where there is no file; one of another search is an error."""
    import pyarrow.parquet as pq

    file = Path(path)
    if not file.exists():
        return []
    try:
        table = pq.read_table(file)
        theirs = json.loads((table.schema.metadata or {}).get(b"aligngp.search", b"{}"))
        rows = table.select(_SCHEMA.names).to_pylist()
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        raise DataError(f"{file}: this is not a history of agp.optimize ({error}). Name another file.") from None
    wanted = json.loads(json.dumps(about, sort_keys=True))
    for name in sorted({*wanted, *theirs}):
        if theirs.get(name) != wanted.get(name):
            raise DataError(
                f"{file}: this history is of another search: {name} was {theirs.get(name)!r} and is "
                f"{wanted.get(name)!r}. Name another file, or search as before."
            )
    trials = []
    for row in rows:
        trial = Trial(**{**row, "inputs": json.loads(row["inputs"]), "constraints": json.loads(row["constraints"])})
        spaces[trial.task].rows([trial.inputs])  # a value that cannot be is an error
        trials.append(trial)
    return [replace(trial, id=number) for number, trial in enumerate(trials)]
