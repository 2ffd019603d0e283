"""What must hold of the parts of a task, and what is merely suspicious about them."""

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from aligngp.data.tables import did_you_mean, listed
from aligngp.errors import DataError, SettingError


def check_output_names(tasks: Sequence[str], output: Any) -> dict[str, str]:
    """The output column named for each task, from one name or a mapping; a task may be absent."""
    if output is None:
        return {}
    if isinstance(output, str):
        return dict.fromkeys(tasks, output)
    if not isinstance(output, Mapping) or not all(isinstance(column, str) for column in output.values()):
        raise DataError(f"output must be the name of a column, or a mapping from task to column name; got {output!r}.")
    for name in output:
        if name not in tasks:
            raise DataError(
                f"output names a column for {name!r}, which is not a task{did_you_mean(name, tasks)}. "
                f"The tasks are {listed(tasks)}."
            )
    return dict(output)


def check_names(task: str, names: Any) -> tuple[str, ...] | None:
    """Column names given by the user: distinct non-empty strings, or None."""
    if names is None:
        return None
    own = () if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if not own or not all(isinstance(column, str) and column for column in own):
        raise DataError(f"task {task!r}: names must be a list of non-empty strings, got {names!r}.")
    twice = sorted({column for column in own if own.count(column) > 1})
    if twice:
        raise DataError(f"task {task!r}: names has {listed(twice)} more than once. Name every column differently.")
    return own


def check_rows(task: str, X: np.ndarray, y: np.ndarray) -> None:
    """Inputs X (N, Dt) and outputs y (N,) must have equally many rows, and at least one."""
    if len(X) != len(y):
        raise DataError(f"task {task!r}: X has {len(X)} rows but y has {len(y)}. Pass one output a row.")
    if not len(X):
        raise DataError(f"task {task!r}: there is no row. Pass at least one, or leave the task out.")


def check_noise(task: str, noise: Any) -> float | None:
    """The known noise standard deviation of a task: positive and finite, or None."""
    if noise is None:
        return None
    if isinstance(noise, bool) or not isinstance(noise, Real) or not 0 < float(noise) < np.inf:
        raise SettingError(
            f"task {task!r}: noise must be a positive number (the standard deviation, in the units of y) "
            f"or None, got {noise!r}."
        )
    return float(noise)


def suspicions(columns: Sequence[str], output: str | None, X: np.ndarray, y: np.ndarray) -> list[str]:
    """What is usable in inputs X (N, Dt) and outputs y (N,), but probably not what was meant."""
    messages = []
    if output in columns:
        messages.append(f"column {output!r} is used as an input although output= names it. Leave it out of the inputs.")
    if len(y) == 1:
        return [*messages, "there is one row only, so its inputs and output cannot be scaled. Add rows, two at least."]
    constant = (X == X[:1]).all(axis=0)
    if constant.any():
        which = listed(column for column, same in zip(columns, constant, strict=True) if same)
        messages.append(f"constant input columns tell nothing: {which}. Leave them out.")
    if (y == y[0]).all():
        messages.append(f"the output {output or 'y'!r} is constant. Check that it is the column that is meant.")
    first: dict[bytes, str] = {}
    for d in np.flatnonzero(~constant).tolist():
        values = (X[:, d] + 0.0).tobytes()  # + 0.0 makes -0.0 the same bytes as 0.0
        if values in first:
            messages.append(f"columns {first[values]!r} and {columns[d]!r} hold identical values. Leave one out.")
        first.setdefault(values, columns[d])
    return messages
