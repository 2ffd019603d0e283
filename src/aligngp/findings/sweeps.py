"""Predictions while one or two inputs vary: the others held, or averaged over rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aligngp.errors import DataError, SettingError
from aligngp.findings.view import View, column_of, rows_of
from aligngp.prediction import Prediction

CURVE_POINTS, GRID_POINTS, DEPENDENCE_POINTS = 200, 41, 41
DEPENDENCE_ROWS = 100
"""Most rows over which a partial dependence is averaged."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """Predictions over one input (n,) or a grid of two (n, n), row by row."""

    columns: tuple[str, ...]
    axes: tuple[np.ndarray, ...]
    """The values of each of them."""
    held: dict[str, float]
    """The values of the other inputs."""
    rows: np.ndarray
    """All inputs (n or n n, Dt) of the predictions."""
    prediction: Prediction

    def grid(self, values: np.ndarray) -> np.ndarray:
        """Return values at the rows in the shape of the axes, the first column first."""
        return values.reshape([len(axis) for axis in self.axes])


def sweep(
    gp: View,
    task: str,
    inputs: str | Sequence[str] | None,
    at: Mapping[str, Any] | None,
    span: Mapping[str, Any] | None,
    latent: bool,
) -> Sweep:
    """Return predictions over one or two inputs; see :func:`aligngp.plots.predictions`."""
    part, place = gp._part(task)
    names = part.frame.tasks[place].columns
    chosen = _chosen(task, names, inputs)
    values = dict(zip(names, map(float, _middle(gp, task)), strict=True))
    for name, value in (at or {}).items():
        column_of(task, names, name)
        if name in chosen:
            raise SettingError(f"task {task!r}: input {name!r} varies, so it cannot be held. Leave it out of at=.")
        values[name] = _number(task, name, value)
    axes = tuple(
        np.linspace(*ends, CURVE_POINTS if len(chosen) == 1 else GRID_POINTS) for ends in _ends(gp, task, chosen, span)
    )
    mesh = np.meshgrid(*axes, indexing="ij")
    rows = np.tile([values[name] for name in names], (mesh[0].size, 1))
    for name, points in zip(chosen, mesh, strict=True):
        rows[:, names.index(name)] = points.ravel()
    held = {name: value for name, value in values.items() if name not in chosen}
    return Sweep(chosen, axes, held, rows, gp.predict(task, rows, latent=latent))


@dataclass(frozen=True, eq=False)
class Dependence:
    """The prediction at each value of one input: a curve (rows, n) for every row's other inputs, and their mean."""

    column: str
    axis: np.ndarray
    curves: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """The partial dependence (n,)."""
        return self.curves.mean(axis=0)


def dependence(gp: View, task: str, column: str, data: Any = None, span: Any = None) -> Dependence:
    """Return the partial dependence of a task's noise-free mean on an input, averaged over rows.

    They are the training rows, or rows that are passed; of more than 100, as many at random.
    """
    part, place = gp._part(task)
    names = part.frame.tasks[place].columns
    at = column_of(task, names, column)
    X = rows_of(gp, task, data, "data=")
    if not len(X):
        raise DataError(f"task {task!r}: there is no row. Pass at least one.")
    if span is None:
        span = float(X[:, at].min()), float(X[:, at].max())
    axis = np.linspace(*_range(task, column, span), DEPENDENCE_POINTS)
    if len(X) > DEPENDENCE_ROWS:
        X = X[np.sort(np.random.default_rng(gp.settings.seed).permutation(len(X))[:DEPENDENCE_ROWS])]
    rows = np.repeat(X, len(axis), axis=0)
    rows[:, at] = np.tile(axis, len(X))
    return Dependence(column, axis, gp.predict(task, rows, latent=True).mean.reshape(len(X), len(axis)))


def _chosen(task: str, names: tuple[str, ...], inputs: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the inputs that vary: those named, or the first (both, where there are two)."""
    if inputs is None:
        return names[:2] if len(names) == 2 else names[:1]
    chosen = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    for name in chosen:
        column_of(task, names, name)
    if len(chosen) not in (1, 2) or len(set(chosen)) != len(chosen):
        raise SettingError(f"task {task!r}: expected one input or two different ones, got {list(chosen)!r}.")
    return chosen


def _middle(gp: View, task: str) -> np.ndarray:
    """Return the means (Dt,) of the training inputs."""
    part, place = gp._part(task)
    return part.frame.middle(place)


def _ends(gp: View, task: str, chosen: tuple[str, ...], span: Mapping[str, Any] | None) -> list[tuple[float, float]]:
    """Return the range of each input: as named, or that of the training rows."""
    part, place = gp._part(task)
    names = part.frame.tasks[place].columns
    for name in span or {}:
        column_of(task, names, name)
        if name not in chosen:
            raise SettingError(f"task {task!r}: span names {name!r}, which does not vary. Put it among the inputs.")
    result = []
    for name in chosen:
        ends = span[name] if span and name in span else part.frame.spans[place][:, names.index(name)]
        result.append(_range(task, name, ends))
    return result


def _range(task: str, name: str, ends: Any) -> tuple[float, float]:
    """Return a range as two ascending numbers; one of no width is widened, so that something varies."""
    try:
        low, high = (float(end) for end in ends)
    except (TypeError, ValueError):
        low, high = np.nan, np.nan
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise SettingError(f"task {task!r}: the span of {name!r} must be (lowest, highest), got {ends!r}.")
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _number(task: str, name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise SettingError(f"task {task!r}: at={{{name!r}: ...}} must be a finite number, got {value!r}.")
    return number
