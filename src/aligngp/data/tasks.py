"""What a user passes as tasks, read and checked, and later the rows that belong to a task."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from aligngp.data.checks import check_names, check_noise, check_output_names, check_rows, suspicions
from aligngp.data.tables import (
    check_finite,
    did_you_mean,
    listed,
    open_frame,
    open_series,
    read_array,
    read_columns,
    read_vector,
)
from aligngp.errors import AligngpWarning, DataError

_A_TASK = "a DataFrame with the output column, a tuple (X, y), or agp.Task(X, y, ...)"


@dataclass(frozen=True, eq=False)
class Task:
    """One task with settings of its own.

    `X` is an array (N,) or (N, Dt), or a DataFrame; `y` an array or series (N,), or the name of a column of
    `X`. `names` name the columns of an array, or pick and order the input columns of a DataFrame. `mapping`
    is the task's prior domain mapping. `noise` is the known standard deviation of the observation noise, in
    the units of `y`; it is then held fixed in training.
    """

    X: Any
    y: Any = None
    names: Any = None
    mapping: Any = None
    noise: Any = None


@dataclass(frozen=True)
class TaskSchema:
    """What later tables of a task must look like: its input columns in order, its output, how it came."""

    name: str
    columns: tuple[str, ...]
    output: str | None
    kind: str
    named: bool

    def to_dict(self) -> dict[str, Any]:
        """The schema as JSON types."""
        return {**asdict(self), "columns": list(self.columns)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "TaskSchema":
        """The schema that `to_dict` wrote."""
        return cls(stored["name"], tuple(stored["columns"]), stored["output"], stored["kind"], stored["named"])


@dataclass(frozen=True, eq=False)
class TaskData:
    """A checked task: inputs `X` (N, Dt) and outputs `y` (N,), float64 and finite, in the user's units.

    `named` is False when the column names x1, x2, ... were made up; `output` is None when it has no name.
    """

    name: str
    columns: tuple[str, ...]
    output: str | None
    X: np.ndarray
    y: np.ndarray
    kind: str
    named: bool
    mapping: object | None = None
    noise: float | None = None

    @cached_property
    def span(self) -> np.ndarray:
        """The lowest and the highest value of every input, shape (2, Dt); found once."""
        return np.stack([self.X.min(axis=0), self.X.max(axis=0)])

    @property
    def schema(self) -> TaskSchema:
        """The task without its rows."""
        return TaskSchema(self.name, self.columns, self.output, self.kind, self.named)


def read_tasks(tasks: Any, output: Any = None) -> tuple[TaskData, ...]:
    """The tasks of a mapping name -> DataFrame, (X, y) or Task, checked, in their order.

    `output` names the output column of the DataFrames: one name for all tasks, or a mapping task -> name.
    What is usable but suspicious is told as AligngpWarning; what is not, as DataError.
    """
    if not isinstance(tasks, Mapping):
        raise DataError(f'tasks must be a mapping such as {{"fine": task}}, got {_came(tasks)}. A task is {_A_TASK}.')
    if not tasks:
        raise DataError(f"there is no task. Pass at least one; a task is {_A_TASK}.")
    for name in tasks:
        if not isinstance(name, str) or not name.strip():
            raise DataError(f"task names must be non-empty strings, got {name!r} ({type(name).__name__}).")
    outputs = check_output_names(tuple(tasks), output)
    read = tuple(_read_task(name, _as_task(name, value), outputs.get(name)) for name, value in tasks.items())
    for task in read:
        for message in suspicions(task.columns, task.output, task.X, task.y):
            warnings.warn(f"task {task.name!r}: {message}", AligngpWarning, stacklevel=3)
    return read


def read_inputs(schema: TaskSchema, data: Any) -> tuple[np.ndarray, str]:
    """New rows of a task as (N, Dt) in the order of the schema's columns, and the kind they came in.

    A frame is matched by column names, an array by position; a float64 array is not copied. There may be no row at all.
    """
    frame = open_frame(data, schema.name)
    if frame is not None:
        from_arrays = " The task was fitted from arrays: name the columns like this, or pass an array."
        hint = "" if schema.named else from_arrays
        table = read_columns(frame, schema.columns, schema.name, hint)
        return table.values, table.kind
    width = len(schema.columns)
    values, kind = read_array(data, schema.name, "X", copy=False)
    if values.ndim == 1 and width == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] != width:
        advice = f"Pass one row as shape (1, {width})." if values.ndim < 2 else "Pass these columns in this order."
        raise DataError(
            f"task {schema.name!r}: the inputs have shape {values.shape}, expected (n, {width}) with columns "
            f"{listed(schema.columns)}. {advice}"
        )
    check_finite(values, schema.columns, schema.name)
    return values, kind


def read_inputs_and_output(schema: TaskSchema, data: Any, y: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a task with known outputs: X (N, Dt) and y (N,).

    `data` is a frame with the output column, a pair (X, y), a Task, or X alone with `y`.
    """
    if y is not None and isinstance(data, Task | tuple):
        raise DataError(f"task {schema.name!r}: y came twice, in the {type(data).__name__} and as y=. Pass it once.")
    task = Task(data, y) if y is not None else _as_task(schema.name, data)
    frame = open_frame(task.X, schema.name)
    X, _ = read_inputs(schema, frame if frame is not None else _reordered(schema, task))
    outputs, _ = _read_output(schema.name, task.y, frame, schema.output)
    check_rows(schema.name, X, outputs)
    return X, outputs


def find_task(name: Any, names: Iterable[str]) -> int:
    """The position of a task among the fitted ones."""
    known = tuple(names)
    if name not in known:
        raise DataError(
            f"there is no task {name!r}{did_you_mean(name, known)}. The tasks are {listed(known)}. Name one of them."
        )
    return known.index(name)


def _came(value: Any) -> str:
    """What came, for an error message."""
    length = f" of length {len(value)}" if isinstance(value, tuple | list) else ""
    return f"{type(value).__name__}{length}" if value is not None else "None"


def _as_task(name: str, value: Any) -> Task:
    """The three ways to write a task as one."""
    if isinstance(value, Task):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return Task(*value)
    frame = open_frame(value, name)
    if frame is not None:
        return Task(frame)
    raise DataError(f"task {name!r}: expected {_A_TASK}; got {_came(value)}.")


def _read_task(name: str, task: Task, output: str | None) -> TaskData:
    """One task, checked for everything that makes it unusable."""
    frame = open_frame(task.X, name)
    names = check_names(name, task.names)
    y, output = _read_output(name, task.y, frame, output)
    if frame is not None:
        taken = output if task.y is None or isinstance(task.y, str) else None
        columns = names or tuple(column for column in frame.columns if column != taken)
        if taken in columns:
            raise DataError(f"task {name!r}: column {taken!r} is the output, it cannot also be among names=.")
        table = read_columns(frame, columns, name)
        X, kind, named = table.values, table.kind, True
    else:
        X, kind = read_array(task.X, name, "X")
        columns, named = _array_columns(name, task, X, names)
        X = X[:, None] if X.ndim == 1 else X
        check_finite(X, columns, name)
    if not columns:
        raise DataError(f"task {name!r}: there is no input column. Pass at least one besides the output.")
    check_rows(name, X, y)
    return TaskData(name, columns, output, X, y, kind, named, task.mapping, check_noise(name, task.noise))


def _array_columns(name: str, task: Task, X: np.ndarray, names: tuple[str, ...] | None) -> tuple[tuple[str, ...], bool]:
    """The column names of an array, and whether the user gave them; x1, x2, ... when not."""
    if X.ndim not in (1, 2):
        raise DataError(f"task {name!r}: X has shape {X.shape}, expected (n,) or (n, number of inputs).")
    width = 1 if X.ndim == 1 else X.shape[1]
    if names is not None:
        if len(names) != width:
            raise DataError(f"task {name!r}: X has {width} columns but {len(names)} names came: {listed(names)}.")
        return names, True
    series = open_series(task.X)
    if series is not None and isinstance(series.name, str) and series.name:
        return (series.name,), True
    return tuple(f"x{d + 1}" for d in range(width)), False


def _read_output(name: str, y: Any, frame: Any, output: str | None) -> tuple[np.ndarray, str | None]:
    """The outputs (N,) of a task and their name, from `y` or from the frame's output column."""
    if y is not None and not isinstance(y, str):
        return read_vector(y, name, output or "y"), output
    column = output if y is None else y
    if frame is None:
        raise DataError(f"task {name!r}: the inputs are an array, so y must be numbers, got {y!r}. Pass (X, y).")
    if column is None:
        raise DataError(
            f"task {name!r}: which column is the output? Pass y, or output= with one of {listed(frame.columns)}."
        )
    if column not in frame.columns:
        raise DataError(
            f"task {name!r}: the output column {column!r} is not there{did_you_mean(column, frame.columns)}. "
            f"The frame has {listed(frame.columns)}. Name one of them."
        )
    return read_columns(frame, [column], name).values[:, 0], column


def _reordered(schema: TaskSchema, task: Task) -> Any:
    """The inputs of a task given as an array, its columns in the schema's order when they have names."""
    names = check_names(schema.name, task.names)
    if names is None:
        return task.X
    if set(names) != set(schema.columns):
        raise DataError(f"task {schema.name!r}: names are {listed(names)}, expected {listed(schema.columns)}.")
    values, _ = read_array(task.X, schema.name, "X")
    values = values[:, None] if values.ndim == 1 else values
    _array_columns(schema.name, task, values, names)
    return values[:, [names.index(column) for column in schema.columns]]
