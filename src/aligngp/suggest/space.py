"""What inputs of a task may be: real, integer or a choice, each variable with its bounds.

A task's rows have one column for each variable; a choice between labels has one column ``name=label`` for each, 1 where
it holds and 0 elsewhere. The search goes through the unit cube of the real variables (logarithmic where asked) and
through the values of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral as AnyInteger
from numbers import Real as AnyReal
from typing import Any

import numpy as np

from aligngp.data.tables import did_you_mean, listed
from aligngp.errors import SettingError


@dataclass(frozen=True)
class Real:
    """A real variable between two bounds; ``log=True`` searches it on a logarithmic scale."""

    low: float | int
    high: float | int
    log: bool = False


@dataclass(frozen=True)
class Integer:
    """A whole number between two bounds, both of them possible."""

    low: int
    high: int


@dataclass(frozen=True, init=False)
class Choice:
    """One of several values: all of them numbers, which keep their order, or all of them labels, which have none."""

    values: tuple[float | int | str, ...]

    def __init__(self, *values: float | int | str):
        object.__setattr__(self, "values", values)

    @property
    def labelled(self) -> bool:
        """Tell whether the values are labels."""
        return any(isinstance(value, str) for value in self.values)


Variable = Real | Integer | Choice
Point = dict[str, float | int | str]
"""The inputs of one evaluation, by the variables' names."""


@dataclass(frozen=True)
class Space:
    """The variables of a task by name, in the order of its columns."""

    task: str
    variables: dict[str, Variable]
    columns: tuple[str, ...] = field(init=False)
    """Of the task's rows."""

    def __post_init__(self):
        object.__setattr__(self, "columns", tuple(c for name in self.variables for c in self.columns_of(name)))

    def columns_of(self, name: str) -> tuple[str, ...]:
        """Return the columns that a variable has in a row."""
        variable = self.variables[name]
        if isinstance(variable, Choice) and variable.labelled:
            return tuple(f"{name}={label}" for label in variable.values)
        return (name,)

    @property
    def size(self) -> int:
        """Number of variables."""
        return len(self.variables)

    def sample(self, number: int, seed: int) -> np.ndarray:
        """Return scrambled Sobol rows (number, columns)."""
        from scipy.stats import qmc  # half a second that importing the package need not take

        exponent = int(np.ceil(np.log2(max(number, 1))))
        cube = qmc.Sobol(self.size, rng=np.random.default_rng(seed)).random_base2(exponent)[:number]
        return self.rows_of_cube(cube)

    def rows_of_cube(self, cube: np.ndarray) -> np.ndarray:
        """Return the rows (n, columns) of points of the unit cube (n, variables)."""
        columns = []
        for at, variable in zip(cube.T, self.variables.values(), strict=True):
            if isinstance(variable, Real):
                columns.append(_from_unit(variable, at))
            elif isinstance(variable, Integer):
                steps = variable.high - variable.low + 1
                columns.append(variable.low + np.minimum(np.floor(at * steps), steps - 1.0))
            else:
                chosen = np.minimum((at * len(variable.values)).astype(int), len(variable.values) - 1)
                columns += list(_choice_columns(variable, chosen))
        return np.column_stack(columns) if columns else np.zeros((len(cube), 0))

    def rows(self, points: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """Return the rows (n, columns) of points by name; a value that cannot be is an error."""
        result = np.empty((len(points), len(self.columns)))
        for row, point in zip(result, points, strict=True):
            if set(point) != set(self.variables):
                raise SettingError(
                    f"task {self.task!r}: expected a point with {listed(self.variables)}, got {listed(point)}."
                )
            row[:] = np.concatenate([self._values(name, point[name]) for name in self.variables])
        return result

    def _values(self, name: str, value: Any) -> np.ndarray:
        variable = self.variables[name]
        if isinstance(variable, Choice):
            if value not in variable.values:
                raise SettingError(
                    f"task {self.task!r}: {name!r} is one of {listed(map(repr, variable.values))}, got {value!r}."
                )
            return np.concatenate(_choice_columns(variable, np.array([variable.values.index(value)])))
        if isinstance(value, bool) or not isinstance(value, AnyReal | np.number) or not np.isfinite(float(value)):
            raise SettingError(f"task {self.task!r}: expected a number for {name!r}, got {value!r}.")
        return np.array([float(value)])

    def points(self, rows: np.ndarray) -> list[Point]:
        """Return rows as points by name: floats, whole numbers and labels."""
        result: list[Point] = [{} for _ in rows]
        for name, variable in self.variables.items():
            at = [self.columns.index(column) for column in self.columns_of(name)]
            for point, row in zip(result, rows, strict=True):
                if isinstance(variable, Choice) and variable.labelled:
                    point[name] = variable.values[int(np.argmax(row[at]))]
                elif isinstance(variable, Choice):
                    values = np.array(variable.values, float)
                    point[name] = variable.values[int(np.argmin(np.abs(values - row[at[0]])))]
                else:
                    point[name] = round(row[at[0]]) if isinstance(variable, Integer) else float(row[at[0]])
        return result

    @property
    def reals(self) -> np.ndarray:
        """Positions (R,) of the real variables' columns."""
        names = [name for name, variable in self.variables.items() if isinstance(variable, Real)]
        return np.array([self.columns.index(name) for name in names], int)

    def to_unit(self, rows: np.ndarray) -> np.ndarray:
        """Return the real columns (n, R) in the unit cube."""
        reals = [v for v in self.variables.values() if isinstance(v, Real)]
        columns = [_to_unit(v, rows[:, at]) for v, at in zip(reals, self.reals, strict=True)]
        return np.clip(np.column_stack(columns), 0.0, 1.0) if columns else np.zeros((len(rows), 0))

    def with_unit(self, rows: np.ndarray, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rows whose real columns are those of the unit cube (n, R), and the columns' derivatives (n, R)."""
        rows, slopes = rows.copy(), np.empty_like(unit)
        reals = [v for v in self.variables.values() if isinstance(v, Real)]
        for d, (variable, at) in enumerate(zip(reals, self.reals, strict=True)):
            rows[:, at] = _from_unit(variable, unit[:, d])
            slopes[:, d] = rows[:, at] * np.log(variable.high / variable.low) if variable.log else _width(variable)
        return rows, slopes

    def neighbours(self, row: np.ndarray) -> np.ndarray:
        """Return the rows (k, columns) that differ from a row in one variable that is not real.

        A whole number has those 1, 2, 4, 8, ... away; a choice all other values.
        """
        result = []
        for name, variable in self.variables.items():
            at = [self.columns.index(column) for column in self.columns_of(name)]
            if isinstance(variable, Integer):
                steps = 2.0 ** np.arange(np.ceil(np.log2(variable.high - variable.low + 1)))
                near = row[at[0]] + np.concatenate([-steps, steps])
                values = [np.array([v]) for v in near if variable.low <= v <= variable.high]
            elif isinstance(variable, Choice):
                every = np.column_stack(_choice_columns(variable, np.arange(len(variable.values))))
                values = [v for v in every if not np.allclose(v, row[at])]
            else:
                continue
            for value in values:
                other = row.copy()
                other[at] = value
                result.append(other)
        return np.array(result).reshape(-1, len(row))

    def nearest(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows of the space that are nearest to any rows (n, columns)."""
        result = rows.copy()
        for name, variable in self.variables.items():
            at = [self.columns.index(column) for column in self.columns_of(name)]
            if isinstance(variable, Choice) and variable.labelled:
                result[:, at] = np.eye(len(at))[np.argmax(rows[:, at], axis=1)]
            elif isinstance(variable, Choice):
                values = np.array(variable.values, float)
                result[:, at[0]] = values[np.argmin(np.abs(rows[:, at] - values), axis=1)]
            else:
                inside = np.clip(rows[:, at[0]], variable.low, variable.high)
                result[:, at[0]] = np.round(inside) if isinstance(variable, Integer) else inside
        return result

    def around(self, rows: np.ndarray, number: int, seed: int, spread: float = 0.05) -> np.ndarray:
        """Return rows (number, columns) near some rows (n, columns): normal steps of what is real."""
        rng = np.random.default_rng(seed)
        chosen = rows[rng.integers(len(rows), size=number)]
        unit = self.to_unit(chosen)
        return self.with_unit(chosen, np.clip(unit + spread * rng.standard_normal(unit.shape), 0.0, 1.0))[0]


def make_space(task: str, columns: Sequence[str], given: Mapping[str, Any] | None, span: Any = None) -> Space:
    """Return the space of a task with those columns.

    ``given`` has a :class:`Real`, an :class:`Integer`, a :class:`Choice` or a pair (low, high) for each variable;
    a column that is not named has the span (lowest (Dt,), highest (Dt,)) of its training rows.
    """
    given = dict(given or {})
    variables: dict[str, Variable] = {}
    for at, column in enumerate(columns):
        name = column if column in given else column.split("=")[0]
        if name in variables:
            continue
        if name in given:
            variables[name] = as_variable(given[name], task, name)
        elif span is None:
            raise SettingError(f"task {task!r}: expected bounds of {column!r}: a pair (low, high).")
        else:
            variables[column] = as_variable((float(span[0][at]), float(span[1][at])), task, column)
    for name in given:
        if name not in variables:
            raise SettingError(
                f"task {task!r}: bounds of {name!r}{did_you_mean(name, columns)}, but the inputs are {listed(columns)}."
            )
    space = Space(task, variables)
    if space.columns != tuple(columns):
        raise SettingError(
            f"task {task!r}: the bounds make the columns {listed(space.columns)}, and the task has {listed(columns)}."
        )
    return space


def as_variable(given: Any, task: str, name: str) -> Variable:
    """Return what bounds stand for, checked."""
    where = f"task {task!r}, {name!r}:"
    if isinstance(given, tuple | list) and len(given) == 2 and all(isinstance(v, AnyReal) for v in given):
        given = Real(float(given[0]), float(given[1]))
    if isinstance(given, Real | Integer):
        whole = isinstance(given, Integer)
        kind = AnyInteger if whole else AnyReal
        sound = all(isinstance(v, kind) and not isinstance(v, bool) for v in (given.low, given.high))
        if not sound or not np.isfinite([given.low, given.high]).all() or not given.low < given.high:
            expected = "two whole numbers" if whole else "two finite numbers"
            raise SettingError(f"{where} expected {expected}, low < high, got {given!r}.")
        if isinstance(given, Real) and given.log and given.low <= 0.0:
            raise SettingError(f"{where} log=True needs a lower bound above zero, got {given.low!r}.")
        return given
    if isinstance(given, Choice):
        labels = [isinstance(value, str) for value in given.values]
        sound = all(labels) or all(isinstance(v, AnyReal) and not isinstance(v, bool) for v in given.values)
        if len(set(given.values)) < 2 or len(set(given.values)) < len(given.values) or not sound:
            raise SettingError(f"{where} expected two or more different numbers or labels, got {given!r}.")
        return given
    raise SettingError(f"{where} expected (low, high), agp.Real, agp.Integer or agp.Choice, got {given!r}.")


def _choice_columns(variable: Choice, chosen: np.ndarray) -> list[np.ndarray]:
    if variable.labelled:
        return [(chosen == k).astype(float) for k in range(len(variable.values))]
    return [np.array(variable.values, float)[chosen]]


def _width(variable: Real) -> float:
    return variable.high - variable.low


def _from_unit(variable: Real, at: np.ndarray) -> np.ndarray:
    if variable.log:
        return np.clip(variable.low * (variable.high / variable.low) ** at, variable.low, variable.high)
    return np.clip(variable.low + at * _width(variable), variable.low, variable.high)


def _to_unit(variable: Real, values: np.ndarray) -> np.ndarray:
    if variable.log:
        return np.log(np.maximum(values, variable.low) / variable.low) / np.log(variable.high / variable.low)
    return (values - variable.low) / _width(variable)
