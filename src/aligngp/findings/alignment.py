"""Where rows stand in the common domain: what the prior mapping says, and what the model makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from aligngp import parts
from aligngp.data.tasks import read_inputs
from aligngp.ensemble import Ensemble
from aligngp.errors import DataError, SettingError
from aligngp.findings.view import View, mapped, tables_of, training_rows
from aligngp.mappings.contract import Point
from aligngp.mappings.free import FreeRows
from aligngp.mappings.gaussian import ResidualGP
from aligngp.parameters import resolve
from aligngp.parts import Part
from aligngp.runtime import computes


@dataclass(frozen=True, eq=False)
class Alignment:
    """Rows of a task in the common domain, (n, D) each, in its units."""

    task: str
    columns: tuple[str, ...]
    """Of the common domain."""
    X: np.ndarray
    """Own inputs (n, Dt)."""
    prior: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    centre: np.ndarray
    """Means (D,) of the common task's inputs."""
    scale: np.ndarray
    """Standard deviations (D,) of the common task's inputs."""

    @property
    def standardised(self) -> np.ndarray:
        """What the prior mapping says (n, D), in standard deviations from the mean of the common task's inputs."""
        return (self.prior - self.centre) / self.scale

    @property
    def moved(self) -> np.ndarray:
        """Posterior mean minus prior (n, D), in standard deviations of the common task's inputs."""
        return (self.mean - self.prior) / self.scale

    @property
    def std(self) -> np.ndarray:
        """Standard deviations (n, D) of the aligned inputs, in the same unit."""
        return np.sqrt(self.variance) / self.scale


@computes
def alignment(gp: View, task: str, data: Any = None) -> Alignment:
    """Return prior and posterior aligned inputs of the training rows of a mapped task, or of rows that are passed."""
    part, at = mapped(gp, task)
    columns, scaler = part.frame.common_columns, part.frame.aligned_scaler()
    if data is not None:
        X, _ = read_inputs(part.frame.tasks[at], data)
        if not len(X):
            raise DataError(f"task {task!r}: there is no row. Pass at least one.")
        return Alignment(task, columns, X, gp.nominal(task, X), *gp.aligned(task, X), scaler.mean, scaler.scale)
    X = training_rows(gp, task, "data=").X
    prior = part.frame.priors[at].nominal(X, task, training=True)
    return Alignment(task, columns, X, prior, *_at_training_rows(gp, part, at), scaler.mean, scaler.scale)


def _at_training_rows(gp: View, part: Part, at: int) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance (n, D): training rows may have aligned inputs of their own (free, tabulated)."""
    tables, model, scaler = tables_of(gp, part), part.model, part.frame.aligned_scaler()
    assert tables is not None
    rows = parts.training_batches(part.frame, tables, part.dtype)[at].rows
    if isinstance(model, Ensemble):
        mean, variance = model.aligned(at, rows)
    else:
        law, _ = resolve(model.mappings[at]).posterior(rows)
        mean, variance = (law.value, 0.0 * law.value) if isinstance(law, Point) else (law.mean, law.variance)
    return scaler.inverse(np.asarray(mean, float)), scaler.inverse_variance(np.asarray(variance, float))


@computes
def nu_g0(gp: View, task: str) -> float:
    """Return a task's fitted prior variance nu_g0 of the mapping, standardised, or raise where there is none."""
    part, at = mapped(gp, task)
    model = part.model
    if not isinstance(model, Ensemble):
        mapping = model.mappings[at]
        if isinstance(mapping, ResidualGP | FreeRows):
            return float(resolve(mapping).prior_variance)
    what = "a mixture of exact GPs" if isinstance(model, Ensemble) else f"calibration={gp.settings.asked(task)!r}"
    raise SettingError(
        f"task {task!r}: {what} has no variance nu_g0 of the prior mapping. Fit with AlignedGP(calibration='bayes') "
        "or 'free'."
    )
