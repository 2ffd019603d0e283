"""One table of several tasks: its rows by task, and what the inputs of each task are.

A task that does not know an input has no value (NaN, null, None) there in all of its rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from aligngp.data.tables import did_you_mean, listed, read_array
from aligngp.errors import DataError, SettingError


@dataclass(frozen=True, eq=False)
class OneTable:
    """The input columns as they came, by name, and the positions of each task's rows, tasks in sorted order."""

    columns: Mapping[str, Any]
    rows: Mapping[str, np.ndarray]

    @property
    def size(self) -> int:
        """The number of rows."""
        return sum(rows.size for rows in self.rows.values())

    def inputs(self, task: str) -> tuple[tuple[str, ...], np.ndarray]:
        """The names of the columns that a task has values in, and its rows of them."""
        if not self.columns:
            raise DataError("X has the task column alone, expected inputs beside it. Pass at least one.")
        found = {name: self._values(task, name) for name in self.columns}
        present = {name: values for name, values in found.items() if not np.isnan(values).all()}
        if not present:
            raise DataError(
                f"task {task!r}: there is no input, all of {listed(self.columns)} are missing in its "
                f"{self.rows[task].size} rows. Fill in at least one column, or leave the task out."
            )
        for name, values in present.items():
            self._check_finite(
                task,
                name,
                values,
                "Expected a task to have an input in all of its rows or in none of them. Fill in the values, drop "
                "these rows, or leave the column empty in every row of the task.",
            )
        return tuple(present), np.column_stack(list(present.values()))

    def new_rows(self, task: str, columns: Sequence[str]) -> np.ndarray:
        """A task's rows of the columns that were its inputs in the fit; whatever else is there is not read."""
        found = {name: self._values(task, name) for name in columns}
        for name, values in found.items():
            advice = f"The task was fitted with {listed(columns)}. Fill in the values or leave these rows out."
            self._check_finite(task, name, values, advice)
        return np.column_stack(list(found.values()))

    def _values(self, task: str, column: str) -> np.ndarray:
        raw = self.columns[column][self.rows[task]]
        if isinstance(raw, np.ndarray) and raw.dtype.kind == "O":
            return _from_objects(raw, task, column)
        values, _ = read_array(raw, task, column)
        return values

    def _check_finite(self, task: str, column: str, values: np.ndarray, advice: str) -> None:
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise DataError(
                f"task {task!r}: column {column!r} is missing, NaN or infinite in {bad.size} of {values.size} rows, "
                f"first in row {self.rows[task][bad[0]]} of the table (counted from 0). {advice}"
            )


def read_array_table(X: np.ndarray, task: Any, names: Sequence[str] | None = None) -> OneTable:
    """The table of an array (N, D), whose task column has a name or a position.

    Without ``names`` of all columns the inputs are x1, x2, ..., the task column not counted.
    """
    if isinstance(task, str) and names is None:
        raise SettingError(
            f"task={task!r} is the name of a column, but scikit-learn sees no column names in X. Pass a pandas "
            "DataFrame whose column names are text, or the position of the task column."
        )
    width = X.shape[1]
    at = _find_column(task, names, width)
    others = [d for d in range(width) if d != at]
    inputs = name_columns(None if names is None else [names[d] for d in others], len(others))
    rows = _by_task(X[:, at].tolist(), f"at position {at}" if names is None else repr(str(names[at])))
    return OneTable({name: X[:, d] for name, d in zip(inputs, others, strict=True)}, rows)


def read_frame_table(frame: nw.DataFrame[Any], task: Any) -> OneTable:
    """The table of an opened frame, whose task column has a name or a position."""
    at = _find_column(task, frame.columns, len(frame.columns))
    label = frame.columns[at]
    missing = np.asarray(frame[label].is_null().to_numpy(), dtype=bool)
    labels = [None if gone else value for value, gone in zip(frame[label].to_list(), missing, strict=True)]
    columns = {name: frame[name] for name in frame.columns if name != label}
    return OneTable(columns, _by_task(labels, repr(label)))


def name_columns(names: Iterable[str] | None, width: int) -> tuple[str, ...]:
    """The names of the columns of an array, x1, x2, ... where it came without."""
    return tuple(f"x{d + 1}" for d in range(width)) if names is None else tuple(str(name) for name in names)


def task_name(label: Any) -> str | None:
    """The name of the task behind a label: a string, a whole number or a boolean; None where it is none of these."""
    if isinstance(label, str):
        return label if label.strip() else None
    if isinstance(label, bool | np.bool_):
        return str(bool(label))
    if isinstance(label, int | np.integer) or (isinstance(label, float | np.floating) and label.is_integer()):
        return str(int(label))
    return None


def _by_task(labels: Iterable[Any], column: str) -> dict[str, np.ndarray]:
    """The positions of the rows of every task; ``column`` says which one the labels stand in."""
    rows: dict[str, list[int]] = {}
    for at, label in enumerate(labels):
        name = task_name(label)
        if name is None:
            raise DataError(
                f"row {at} of the table (counted from 0): the task column {column} holds {label!r}, expected a "
                "name (text or a whole number). Say which task the row belongs to, or drop it."
            )
        rows.setdefault(name, []).append(at)
    if not rows:
        raise DataError("there is no row in the table. Pass at least one.")
    return {name: np.array(rows[name]) for name in sorted(rows)}


def _find_column(task: Any, names: Sequence[str] | None, width: int) -> int:
    """The position of the task column among so many, counted from the end where a negative one came."""
    if isinstance(task, str) and names is not None:
        known = [str(name) for name in names]
        if task not in known:
            raise SettingError(
                f"task: there is no column {task!r}{did_you_mean(task, known)}. The table has {listed(known)}. Name "
                "the one that says which task a row belongs to."
            )
        return known.index(task)
    if isinstance(task, bool) or not isinstance(task, Integral):
        raise SettingError(f"task: expected the name or the position of the task column, or None, got {task!r}.")
    if not -width <= int(task) < width:
        raise SettingError(f"task: there is no column at position {task}, X has {width} columns (counted from 0).")
    return int(task) % width


def _from_objects(raw: np.ndarray, task: str, column: str) -> np.ndarray:
    """Python objects as numbers, None as NaN: an array that holds names beside numbers holds objects."""
    values = np.empty(raw.size)
    for at, value in enumerate(raw):
        try:
            # The second is pandas' NA, which no comparison finds.
            missing = value is None or type(value).__name__ == "NAType"
            values[at] = np.nan if missing else _number(value)
        except (TypeError, ValueError):
            raise DataError(
                f"task {task!r}: column {column!r} holds {value!r} ({type(value).__name__}), expected numbers, and "
                "NaN or None where the task has no such input."
            ) from None
    return values


def _number(value: Any) -> float:
    """A number as a float; text is none, even where it could be read as one: DataFrames do not take it either."""
    if isinstance(value, str | bytes):
        raise TypeError
    return float(value)
