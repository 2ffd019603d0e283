"""Answers of a fitted model to the questions of the API, one at a time."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import numpy as np

from aligngp.data.delimited import as_delimited
from aligngp.data.files import parse_csv
from aligngp.data.tables import listed
from aligngp.errors import AligngpWarning, DataError
from aligngp.estimator import AlignedGP
from aligngp.findings.view import column_of, output_name
from aligngp.prediction import Prediction
from aligngp.serve.contract import MOST_ROWS

WAIT = 20.0
"""Seconds for which a question waits while others are answered."""
MOST_COLUMNS = 1000
"""Most columns of a table that is sent."""
ADDED = ("mean", "std", "lower", "upper")


class Busy(Exception):
    """Other questions took too long."""


class Answers:
    """A fitted model behind a lock: predictions share buffers of compiled code, and memory stays that of one."""

    def __init__(self, gp: AlignedGP):
        self._gp, self._lock = gp, threading.Lock()

    @contextmanager
    def _alone(self) -> Iterator[list[str]]:
        """Give a list that has the warnings of the block once it has ended."""
        if not self._lock.acquire(timeout=WAIT):
            raise Busy
        try:
            told: list[str] = []
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", AligngpWarning)
                yield told
            told += dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, AligngpWarning))
        finally:
            self._lock.release()

    def model(self) -> dict[str, Any]:
        """Return what a page must know to ask."""
        gp = self._gp
        return {
            "aligngp": version("aligngp"),
            "common": gp.common,
            "tasks": [self._task(name) for name in gp.tasks],
            "settings": list(gp.settings.changed()),
            "note": "Units are those of the training rows; the model does not know their names.",
        }

    def predict(self, task: str, rows: Sequence[Mapping[str, float]], latent: bool, interval: float) -> dict[str, Any]:
        """Return predictions and aligned inputs at rows."""
        X = self._matrix(task, rows)
        with self._alone() as told:
            found = self._predicted(task, X, latent)
            lower, upper = found.interval(interval)
            aligned = self._aligned(task, X)
        return {
            "mean": found.mean.tolist(),
            "std": found.std.tolist(),
            "lower": lower.tolist(),
            "upper": upper.tolist(),
            "aligned": aligned,
            "warnings": told,
        }

    def slice(self, task: str, at: Mapping[str, float], column: str, points: int) -> dict[str, Any]:
        """Return predictions over one input."""
        (axis,), X = self._grid(task, at, [column], points)
        with self._alone():
            found = self._predicted(task, X, False)
        lower, upper = found.interval()
        return {
            "input": column,
            "values": axis.tolist(),
            "mean": found.mean.tolist(),
            "lower": lower.tolist(),
            "upper": upper.tolist(),
        }

    def surface(self, task: str, at: Mapping[str, float], columns: Sequence[str], points: int) -> dict[str, Any]:
        """Return predictions over two inputs."""
        if columns[0] == columns[1]:
            raise DataError(f"task {task!r}: inputs names {columns[0]!r} twice, expected two different ones.")
        axes, X = self._grid(task, at, columns, points)
        with self._alone():
            found = self._predicted(task, X, False)
        return {
            "inputs": list(columns),
            "values": [axis.tolist() for axis in axes],
            "mean": found.mean.reshape(points, points).tolist(),
            "std": found.std.reshape(points, points).tolist(),
        }

    def csv(self, task: str, content: bytes) -> tuple[bytes, list[str]]:
        """Return a table as CSV with the predictions as further columns, and warnings."""
        import pyarrow as pa

        _check_size(content)
        self._columns(task)
        with self._alone() as told:
            table = parse_csv(content, "upload.csv")
            if table.num_rows > MOST_ROWS:
                raise DataError(f"upload.csv: {table.num_rows} rows, expected at most {MOST_ROWS}. Send it in parts.")
            taken = [name for name in ADDED if name in table.column_names]
            if taken:
                raise DataError(
                    f"upload.csv: column {taken[0]!r} has the name of a column of the predictions. Rename it or leave "
                    "it out."
                )
            found = self._predicted(task, table, False)
        for name, values in zip(ADDED, (found.mean, found.std, *found.interval()), strict=True):
            table = table.append_column(name, pa.array(values))
        return as_delimited(table, ","), told

    # ---- inside -----------------------------------------------------------------------------------------------

    def _columns(self, task: str) -> tuple[str, ...]:
        part, at = self._gp._part(task)
        return part.frame.tasks[at].columns

    def _predicted(self, task: str, data: Any, latent: bool) -> Prediction:
        with np.errstate(all="ignore"):
            found = self._gp.predict(task, data, latent=latent)
        known = np.isfinite(found.mean) & np.isfinite(found.variance)
        if not known.all():
            raise DataError(
                f"task {task!r}: the prediction at row {int(np.argmin(known))} (counted from 0) is not a finite "
                "number, its inputs are too far away. Send values near the training rows."
            )
        return found

    def _aligned(self, task: str, X: np.ndarray) -> dict[str, Any]:
        part, _ = self._gp._part(task)
        with np.errstate(all="ignore"):
            mean, variance = self._gp.aligned(task, X)
            sd = np.sqrt(variance)
        if not (np.isfinite(mean).all() and np.isfinite(sd).all()):
            raise DataError(f"task {task!r}: an aligned input is not a finite number. Send values nearer to the rows.")
        return {"names": list(part.frame.common_columns), "mean": mean.tolist(), "sd": sd.tolist()}

    def _matrix(self, task: str, rows: Sequence[Mapping[str, float]]) -> np.ndarray:
        """Return rows by name as (n, Dt), or raise where a name is missing or unknown."""
        columns = self._columns(task)
        expected = set(columns)
        for number, row in enumerate(rows):
            if row.keys() != expected:
                for name in row:
                    _check_name(task, columns, name)
                missing = [name for name in columns if name not in row]
                raise DataError(
                    f"task {task!r}: row {number} (counted from 0) lacks {listed(missing)}. Send a number of every "
                    f"input: {listed(columns)}."
                )
        return np.array([[row[name] for name in columns] for row in rows], float)

    def _grid(
        self, task: str, at: Mapping[str, float], chosen: Sequence[str], points: int
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Return the values of the inputs that vary, and all inputs of every combination of them, row by row."""
        columns, (lower, upper, middle) = self._columns(task), self._ranges(task)
        for name in (*at, *chosen):
            _check_name(task, columns, name)
        held = dict(zip(columns, middle, strict=True)) | dict(at)
        places = [columns.index(name) for name in chosen]
        axes = [np.linspace(lower[place], upper[place], points) for place in places]
        mesh = np.meshgrid(*axes, indexing="ij")
        X = np.tile([held[name] for name in columns], (mesh[0].size, 1))
        for place, values in zip(places, mesh, strict=True):
            X[:, place] = values.ravel()
        return axes, X

    def _ranges(self, task: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the ends of the training rows and their middle for every input; none is without width."""
        part, at = self._gp._part(task)
        lower, upper = part.frame.spans[at]
        flat = ~(lower < upper)
        return np.where(flat, lower - 0.5, lower), np.where(flat, upper + 0.5, upper), part.frame.middle(at)

    def _task(self, name: str) -> dict[str, Any]:
        part, at = self._gp._part(name)
        lower, upper, middle = self._ranges(name)
        inputs = [
            {"name": column, "lower": float(low), "upper": float(high), "middle": float(between)}
            for column, low, high, between in zip(self._columns(name), lower, upper, middle, strict=True)
        ]
        return {
            "name": name,
            "output": output_name(self._gp, name),
            "rows": part.rows[at],
            "inputs": inputs,
            "domain": part.frame.names[part.frame.common],
        }


def _check_name(task: str, columns: tuple[str, ...], name: str) -> None:
    if name not in columns:
        column_of(task, columns, name[:100])  # what is not known is not repeated at length


def _check_size(content: bytes) -> None:
    """Raise before a table is read that is larger than any that is meant."""
    if max(content.count(b"\n"), content.count(b"\r")) > MOST_ROWS + 1000:  # a few comments may stand above
        raise DataError(f"upload.csv: more than {MOST_ROWS} lines. Send it in parts.")
    widest = max((sum(map(line.count, (b",", b";", b"\t", b"|"))) for line in content.splitlines()[:100]), default=0)
    if widest > MOST_COLUMNS:
        raise DataError(f"upload.csv: more than {MOST_COLUMNS} columns. Leave out those that are no inputs.")
