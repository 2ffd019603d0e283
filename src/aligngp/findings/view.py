"""A fitted estimator as figures and the report see it, and its training rows."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from aligngp.data.tables import did_you_mean, listed
from aligngp.data.tasks import TaskData, read_inputs
from aligngp.errors import DataError, NotFittedError, SettingError
from aligngp.parts import Part
from aligngp.prediction import Prediction
from aligngp.settings import Settings


@runtime_checkable
class View(Protocol):
    """What of :class:`aligngp.AlignedGP` is used here."""

    settings: Settings

    @property
    def _training(self) -> tuple[TaskData, ...] | None: ...

    def predict(self, task: str, data: Any, *, latent: bool = False, num_samples: int = 100) -> Prediction:
        """Predict a task at new rows."""
        ...

    def aligned(self, task: str, data: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of the aligned inputs."""
        ...

    def nominal(self, task: str, data: Any) -> np.ndarray:
        """Return what the prior mapping says."""
        ...

    def elbo(self, tasks: Any = None) -> dict[str, float]:
        """Return the named terms of the objective."""
        ...

    def task_correlation(self) -> np.ndarray:
        """Return the correlation of the tasks' functions."""
        ...

    def _distinct(self) -> list[Part]: ...

    def _part(self, task: str) -> tuple[Part, int]: ...


def tables_of(gp: View, part: Part) -> tuple[TaskData, ...] | None:
    """Return the training tables of a part's tasks in their order, None where the model came from a file."""
    if gp._training is None:
        return None
    by_name = {table.name: table for table in gp._training}
    return tuple(by_name[name] for name in part.frame.names)


def training_rows(gp: View, task: str, instead: str) -> TaskData:
    """Return a task's training rows, or raise and say what to pass instead."""
    part, at = gp._part(task)
    tables = tables_of(gp, part)
    if tables is None:
        raise NotFittedError(f"task {task!r}: a model file holds no training rows. Pass rows: {instead}.")
    return tables[at]


def rows_of(gp: View, task: str, data: Any, instead: str) -> np.ndarray:
    """Return raw inputs (n, Dt): those passed, or the training rows."""
    part, at = gp._part(task)
    if data is None:
        return training_rows(gp, task, instead).X
    return read_inputs(part.frame.tasks[at], data)[0]


def column_of(task: str, columns: tuple[str, ...], column: str) -> int:
    """Return the position of a column, or raise."""
    if column not in columns:
        raise DataError(
            f"task {task!r}: there is no column {column!r}{did_you_mean(column, columns)}. The columns are "
            f"{listed(columns)}."
        )
    return columns.index(column)


def output_name(gp: View, task: str) -> str:
    """Return how a task's output is called, ``y`` where it has no name."""
    part, at = gp._part(task)
    return part.frame.tasks[at].output or "y"


def mapped(gp: View, task: str) -> tuple[Part, int]:
    """Return the part and place of a task that is mapped to the common domain, or raise."""
    part, at = gp._part(task)
    if at == part.frame.common:
        raise SettingError(
            f"task {task!r}: its inputs are the common domain, so it has no mapping. Name one of the mapped tasks"
            + (f": {listed(mapped_tasks(gp))}." if mapped_tasks(gp) else "; this model has none.")
        )
    return part, at


def mapped_tasks(gp: View) -> list[str]:
    """Return the tasks that are mapped to the common domain."""
    return [name for part in gp._distinct() for at, name in enumerate(part.frame.names) if at != part.frame.common]
