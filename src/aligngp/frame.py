"""The frame of reference: how raw tables become standardised rows, and results become the user's units again.

g0 acts on raw units; then the common task's scaling applies to every task's aligned inputs, so aligned columns agree.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from aligngp.data.scaling import Scaler, fit_scaler
from aligngp.data.tables import listed
from aligngp.data.tasks import TaskData, TaskSchema, find_task
from aligngp.errors import AligngpWarning, DataError, SettingError
from aligngp.mappings.contract import Rows
from aligngp.mappings.learned import first_guess
from aligngp.mappings.prior import Affine, Prior, as_prior, identity
from aligngp.objective.elbo import TaskBatch


@dataclass(frozen=True, eq=False)
class Frame:
    """Names, prior mappings and scalers of all tasks, fitted on training rows only."""

    tasks: tuple[TaskSchema, ...]
    common: int
    priors: tuple[Prior, ...]
    inputs: tuple[Scaler, ...]
    outputs: tuple[Scaler, ...]
    training_outputs: np.ndarray
    """Mean and variance of each task's training outputs, shape (T, 2): what SMSE and SMLL compare with."""
    spans: tuple[np.ndarray, ...]
    """The lowest and the highest value of every training input of each task, shape (2, Dt)."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the tasks' names."""
        return tuple(task.name for task in self.tasks)

    @property
    def common_columns(self) -> tuple[str, ...]:
        """Return the names of the common domain's inputs."""
        return self.tasks[self.common].columns

    def aligned_scaler(self) -> Scaler:
        """Return the scaling of the common domain."""
        return self.inputs[self.common]

    def middle(self, task: int) -> np.ndarray:
        """Return the mean (Dt,) of every training input; where it is not standardised, the middle of its range."""
        scaler = self.inputs[task]
        kept = (scaler.mean == 0.0) & (scaler.scale == 1.0)
        return np.where(kept, self.spans[task].mean(axis=0), scaler.mean)

    def rows(self, task: int, X: np.ndarray, training: bool = False) -> Rows:
        """Return raw rows of a task as a mapping sees them."""
        nominal = self.priors[task].nominal(X, self.tasks[task].name, training)
        index = np.arange(X.shape[0]) if training else np.full(X.shape[0], -1)
        return Rows(
            np.asarray(self.inputs[task].transform(X)),
            np.asarray(self.aligned_scaler().transform(nominal)),
            index.astype(np.int32),
        )

    def batch(self, task: int, X: np.ndarray, y: np.ndarray) -> TaskBatch:
        """Return a task's training data, standardised."""
        scaled = self.outputs[task].transform(y[:, None])[:, 0]
        return TaskBatch(self.rows(task, X, training=True), np.asarray(scaled))


def build_frame(
    tasks: Sequence[TaskData], common: str | None, mappings: Mapping[str, object] | None, standardize: bool
) -> Frame:
    """Return the frame of training tables: the common task, a checked prior mapping a task, and scalers."""
    at = _common_task(tasks, common)
    specs = _specs(tasks, mappings, at)
    inputs = tuple(fit_scaler(task.X, standardize) for task in tasks)
    outputs = tuple(fit_scaler(task.y[:, None], standardize) for task in tasks)
    columns = tasks[at].columns
    priors = []
    for position, (task, spec) in enumerate(zip(tasks, specs, strict=True)):
        if position == at:
            priors.append(identity(columns))
            continue
        prior = as_prior(spec, task.name, task.columns, tasks[at].name, columns, task.X.shape[0])
        if spec is None and not task.named and len(task.columns) != len(columns):
            warnings.warn(
                f"task {task.name!r} came without column names, so its columns {prior.label} were taken for those of "
                f"the common task {tasks[at].name!r}. Pass AlignedGP(mappings={{{task.name!r}: [...]}}) to say which "
                "they are.",
                AligngpWarning,
                stacklevel=4,
            )
        if prior.learned is not None:
            prior = _guessed(prior, task, tasks[at], inputs[position], inputs[at], outputs[position], outputs[at])
        priors.append(prior)
    statistics = np.array([[np.mean(task.y), np.var(task.y)] for task in tasks])
    spans = tuple(task.span for task in tasks)
    return Frame(tuple(task.schema for task in tasks), at, tuple(priors), inputs, outputs, statistics, spans)


def alone(frame: Frame, task: int) -> Frame:
    """Return the frame of one task by itself, its own inputs being the common domain."""
    schema = frame.tasks[task]
    return Frame(
        (schema,),
        0,
        (identity(schema.columns),),
        (frame.inputs[task],),
        (frame.outputs[task],),
        frame.training_outputs[task : task + 1],
        (frame.spans[task],),
    )


def check_same_rows(frame: Frame, task: int, table: TaskData, rows: int) -> None:
    """Raise where a table does not hold the training rows of a task, as far as number, means and deviations tell."""
    schema, start = frame.tasks[task], f"task {table.name!r}:"
    if table.columns != schema.columns:
        raise DataError(
            f"{start} the model was fitted to the inputs {listed(schema.columns)}, in this order, and the rows have "
            f"{listed(table.columns)}. Pass the rows of the fit."
        )
    if schema.output is not None and table.output not in (None, schema.output):
        raise DataError(
            f"{start} the model was fitted to the output {schema.output!r}, and this is {table.output!r}. Pass "
            f"output={schema.output!r}."
        )
    if table.y.size != rows:
        raise DataError(f"{start} the model was fitted to {rows} rows, got {table.y.size}. Pass the rows of the fit.")
    standardized = not np.array_equal(frame.outputs[task].transform(np.ones(1)), np.ones(1))
    own = fit_scaler(table.X, standardized)
    for column, *values in zip(
        (*schema.columns, schema.output or "y"),
        (*own.mean, np.mean(table.y)),
        (*frame.inputs[task].mean, frame.training_outputs[task, 0]),
        (*own.scale, np.sqrt(np.var(table.y))),
        (*frame.inputs[task].scale, np.sqrt(frame.training_outputs[task, 1])),
        strict=True,
    ):
        mean, expected, deviation, wanted = map(float, values)
        close = 1e-9 * max(abs(expected), abs(wanted))
        if abs(mean - expected) > close or abs(deviation - wanted) > close:
            raise DataError(
                f"{start} column {column!r} has mean {mean:.6g} and deviation {deviation:.6g}, in the rows of the fit "
                f"they were {expected:.6g} and {wanted:.6g}. Pass the rows of the fit."
            )


def affine_in_frame(frame: Frame, task: int, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return A0 (D, Dt) and b0 (D,) of a prior mapping that is affine, in standardised units on both sides.

    They are read off the mapping at the origin and the unit vectors, then checked at the rows X.
    """
    size = len(frame.tasks[task].columns)
    corners = np.concatenate([np.zeros((1, size)), np.eye(size)])
    not_affine = SettingError(
        f"task {frame.tasks[task].name!r}: calibration='linear' (IMC) needs a prior mapping that is affine, and "
        f"{frame.priors[task].label} is not. Pass agp.Affine(A, b) or column names, or another calibration."
    )
    try:
        values = np.asarray(frame.rows(task, frame.inputs[task].inverse(corners)).nominal)
    except DataError as error:  # a formula that is not defined everywhere, such as a logarithm
        raise not_affine from error
    matrix, offset = (values[1:] - values[0]).T, values[0]
    rows = frame.rows(task, X, training=True)
    if not np.allclose(rows.own @ matrix.T + offset, rows.nominal, rtol=1e-6, atol=1e-6):
        raise not_affine
    return matrix, offset


def _common_task(tasks: Sequence[TaskData], common: str | None) -> int:
    names = [task.name for task in tasks]
    if common is not None:
        return find_task(common, names)
    fewest = min(len(task.columns) for task in tasks)
    candidates = [task.name for task in tasks if len(task.columns) == fewest]
    if len(candidates) > 1:
        raise SettingError(
            f"tasks {', '.join(map(repr, candidates))} all have {fewest} inputs, so the common domain does not follow "
            f"from the data. Pass AlignedGP(common=...) with the task whose inputs the others map to, for example "
            f"common={candidates[-1]!r}."
        )
    return names.index(candidates[0])


def _specs(tasks: Sequence[TaskData], mappings: Mapping[str, object] | None, common: int) -> list[object]:
    mappings = dict(mappings or {})
    names = [task.name for task in tasks]
    for name in mappings:
        find_task(name, names)
    specs = []
    for position, task in enumerate(tasks):
        given = [spec for spec in (mappings.get(task.name), task.mapping) if spec is not None]
        if len(given) > 1:
            raise SettingError(
                f"task {task.name!r} has two mappings, in AlignedGP(mappings=...) and in its agp.Task; pass one."
            )
        if given and position == common:
            raise SettingError(
                f"task {task.name!r} is the common task: its inputs are the common domain, so it has no mapping. "
                "Remove the mapping or name another common task."
            )
        specs.append(given[0] if given else None)
    return specs


def _guessed(prior, task, common, own_scaler, common_scaler, y_scaler, common_y_scaler) -> Prior:
    """Return a learned prior with its first guess, an affine map in raw units."""
    own, shared = own_scaler.transform(task.X), common_scaler.transform(common.X)
    y = y_scaler.transform(task.y[:, None])[:, 0]
    common_y = common_y_scaler.transform(common.y[:, None])[:, 0]
    matrix, offset = first_guess(own, y, shared, common_y, prior.learned.init)
    raw = common_scaler.scale[:, None] * matrix / own_scaler.scale
    affine = Affine(raw, common_scaler.mean + common_scaler.scale * offset - raw @ own_scaler.mean)
    return replace(prior, matrix=affine.A, offset=affine.b)
