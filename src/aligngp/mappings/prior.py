"""Prior mappings: what an expert knows of how a task's inputs become inputs of the common domain, in raw units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from aligngp.data.tables import did_you_mean
from aligngp.errors import DataError, SettingError


class Columns:
    """Pick columns of the task, by name or by position, in the order of the common domain's columns."""

    def __init__(self, *columns: str | int | np.integer):
        self.columns = columns

    def __repr__(self) -> str:
        return f"Columns({', '.join(map(repr, self.columns))})"


class Affine:
    """The nominal affine map ``x_bar = A x + b`` with A of shape (D, Dt) and b of shape (D,)."""

    def __init__(self, A: ArrayLike, b: ArrayLike | float | None = None):
        self.A = np.atleast_2d(_numbers("Affine(A=...)", A))
        self.b = np.zeros(self.A.shape[0]) if b is None else np.atleast_1d(_numbers("Affine(b=...)", b))

    def __repr__(self) -> str:
        return f"Affine(A {self.A.shape}, b {self.b.shape})"


class Tabulated:
    """Aligned inputs that are known at the training rows only: X_bar of shape (N, D), in the rows' order."""

    def __init__(self, X_bar: ArrayLike):
        values = _numbers("Tabulated(X_bar)", X_bar)
        self.X_bar = values[:, None] if values.ndim == 1 else values

    def __repr__(self) -> str:
        return f"Tabulated(X_bar {self.X_bar.shape})"


class Learned:
    """No prior knowledge: an affine map that starts from the data and is trained with the model.

    ``init="supervised"`` aligns the direction in which each task's output grows (a ridge fit) and pairs the rest by
    principal components; ``init="pca"`` pairs principal components alone. ``strength`` is the weight of the
    squared distance to the start in the objective.
    """

    def __init__(self, init: Literal["supervised", "pca"] = "supervised", strength: float = 1.0):
        if init not in ("supervised", "pca"):
            raise SettingError(f"Learned(init=...): expected 'supervised' or 'pca', got {init!r}.")
        if isinstance(strength, bool) or not isinstance(strength, Real) or not 0 <= float(strength) < np.inf:
            raise SettingError(f"Learned(strength=...): expected a number >= 0, got {strength!r}.")
        self.init, self.strength = init, float(strength)

    def __repr__(self) -> str:
        return f"Learned(init={self.init!r}, strength={self.strength:g})"


@dataclass(frozen=True, eq=False)
class Prior:
    """A prior mapping that has been checked against the task's and the common domain's columns."""

    kind: Literal["identity", "columns", "affine", "callable", "tabulated", "learned"]
    dimensions: int
    positions: tuple[int, ...] = ()
    matrix: np.ndarray | None = None
    offset: np.ndarray | None = None
    function: Callable[[Any], Any] | None = None
    table: np.ndarray | None = None
    learned: Learned | None = None
    label: str = ""

    def nominal(self, X: np.ndarray, task: str, training: bool = False) -> np.ndarray:
        """Return ``g0(x)`` in the common domain's raw units, shape (n, D)."""
        if self.kind in ("identity", "columns"):
            return X[:, self.positions]
        if self.kind in ("affine", "learned"):
            assert self.matrix is not None and self.offset is not None
            return X @ self.matrix.T + self.offset
        if self.kind == "callable":
            return self._call(X, task)
        if training and self.table is not None:
            return self.table
        return np.full((X.shape[0], self.dimensions), np.nan)

    def _call(self, X: np.ndarray, task: str) -> np.ndarray:
        assert self.function is not None
        if not X.shape[0]:
            return np.zeros((0, self.dimensions))  # a formula need not know what to do with no rows
        try:
            value = np.asarray(self.function(X.copy()), float)  # a copy: the formula may work in place
        except Exception as error:
            raise DataError(
                f"task {task!r}: the prior mapping {self.label} failed on an array of shape {X.shape}: "
                f"{type(error).__name__}: {error}. It must take a row matrix (n, {X.shape[1]}) and return one of "
                f"shape (n, {self.dimensions})."
            ) from error
        if value.shape != (X.shape[0], self.dimensions):
            hint = " Keep the column's axis: x[:, [0]] instead of x[:, 0]." if value.ndim == 1 else ""
            raise DataError(
                f"task {task!r}: expected the prior mapping {self.label} to return shape "
                f"{(X.shape[0], self.dimensions)} (rows, common inputs), got {value.shape}.{hint}"
            )
        if not np.all(np.isfinite(value)):
            row = int(np.flatnonzero(~np.isfinite(value).all(axis=1))[0])
            raise DataError(
                f"task {task!r}: the prior mapping {self.label} returned {value[row]} at row {row}; expected "
                "finite numbers. Check the formula on that row."
            )
        return value


def identity(columns: Sequence[str]) -> Prior:
    """Return the mapping of the common task."""
    return Prior("identity", len(columns), positions=tuple(range(len(columns))), label="identity")


def as_prior(
    spec: object, task: str, columns: Sequence[str], common: str, common_columns: Sequence[str], rows: int
) -> Prior:
    """Check what a user passed as a mapping (None: by column names) against the columns of the two tasks."""
    size = len(common_columns)
    if spec is None:
        return _by_names(task, columns, common, common_columns)
    if isinstance(spec, (list, tuple, str)):
        spec = Columns(spec) if isinstance(spec, str) else Columns(*spec)
    if isinstance(spec, Columns):
        positions = tuple(_position(column, task, columns) for column in spec.columns)
        if len(positions) != size:
            raise SettingError(
                f"task {task!r}: expected a mapping to {size} columns (the common task {common!r} has "
                f"{', '.join(common_columns)}), got {len(positions)}: {spec!r}."
            )
        return Prior("columns", size, positions=positions, label=", ".join(columns[p] for p in positions))
    if isinstance(spec, Affine):
        if spec.A.shape != (size, len(columns)) or spec.b.shape != (size,):
            raise SettingError(
                f"task {task!r}: expected Affine with A of shape {(size, len(columns))} and b of shape {(size,)} "
                f"(common inputs, the task's inputs), got {spec.A.shape} and {spec.b.shape}."
            )
        if not (np.all(np.isfinite(spec.A)) and np.all(np.isfinite(spec.b))):
            raise SettingError(f"task {task!r}: expected finite numbers in Affine(A, b), got NaN or infinity.")
        return Prior("affine", size, matrix=spec.A, offset=spec.b, label="affine map")
    if isinstance(spec, Tabulated):
        if spec.X_bar.shape != (rows, size):
            raise SettingError(
                f"task {task!r}: expected Tabulated aligned inputs of shape {(rows, size)} (training rows, common "
                f"inputs), got {spec.X_bar.shape}."
            )
        if not np.all(np.isfinite(spec.X_bar)):
            raise SettingError(f"task {task!r}: expected finite aligned inputs in Tabulated, got NaN or infinity.")
        return Prior("tabulated", size, table=spec.X_bar, label="tabulated")
    if isinstance(spec, Learned):
        return Prior("learned", size, learned=spec, label="learned")
    if callable(spec) and not isinstance(spec, type):
        return Prior("callable", size, function=spec, label=getattr(spec, "__name__", type(spec).__name__))
    raise SettingError(
        f"task {task!r}: expected a mapping to be column names, agp.Columns, a callable, agp.Affine, agp.Tabulated "
        f"or agp.Learned, got {f'the class {spec.__name__}' if isinstance(spec, type) else type(spec).__name__}."
    )


def _by_names(task: str, columns: Sequence[str], common: str, common_columns: Sequence[str]) -> Prior:
    missing = [name for name in common_columns if name not in columns]
    if missing:
        raise SettingError(
            f"task {task!r} has no column{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))} of the "
            f"common task {common!r} (it has {', '.join(columns)}), so its mapping cannot follow from the names. "
            f"Three ways out: name the columns or a formula, AlignedGP(mappings={{{task!r}: [...]}}); let the model "
            f"learn it, AlignedGP(mappings={{{task!r}: agp.Learned()}}); or name another common task, "
            "AlignedGP(common=...)."
        )
    positions = tuple(list(columns).index(name) for name in common_columns)
    return Prior("columns", len(common_columns), positions=positions, label=", ".join(common_columns))


def _position(column: Any, task: str, columns: Sequence[str]) -> int:
    if isinstance(column, (int, np.integer)) and not isinstance(column, bool):
        if -len(columns) <= column < len(columns):
            return int(column) % len(columns)
        raise SettingError(
            f"task {task!r}: expected a column position below {len(columns)} ({', '.join(columns)}), got {column}."
        )
    if isinstance(column, str) and column in columns:
        return list(columns).index(column)
    hint = did_you_mean(column, columns)
    raise SettingError(f"task {task!r} has no column {column!r}{hint}; it has {', '.join(columns)}.")


def _numbers(name: str, values: Any) -> np.ndarray:
    """Return a new array of floats, or raise."""
    try:
        return np.array(values, float)
    except (TypeError, ValueError) as error:
        raise SettingError(f"{name}: expected an array of numbers ({error}).") from None
