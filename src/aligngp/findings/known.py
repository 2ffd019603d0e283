"""Known outputs and what is predicted of them by a model that did not see them, and how well that is calibrated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import bdtrik, ndtr, ndtri

from aligngp.data.tasks import read_inputs_and_output
from aligngp.ensemble import Ensemble
from aligngp.findings.view import View, tables_of, training_rows
from aligngp.metrics import scores
from aligngp.parts import Part
from aligngp.refits import Kept, MixtureRefits, Plan, SparseRefits
from aligngp.runtime import computes


@dataclass(frozen=True, eq=False)
class Known:
    """Known outputs (n,) of a task and mean and variance of their predictions, noise included, in its units."""

    task: str
    kept: Kept
    """How the outputs were kept from the model: "left out" one by one, "held out" in parts, or "test" rows."""
    y: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    training: tuple[float, float]
    """Mean and variance of the training outputs."""

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends (n,) of the central interval of that probability."""
        half = ndtri(0.5 + level / 2) * np.sqrt(self.variance)
        return self.mean - half, self.mean + half

    @property
    def inside(self) -> int:
        """The number of outputs within their 95% intervals."""
        lower, upper = self.interval()
        return int(np.sum((self.y >= lower) & (self.y <= upper)))

    def scores(self) -> dict[str, float]:
        """Return the scores of :meth:`aligngp.AlignedGP.score`."""
        return scores(self.y, self.mean, self.variance, *self.training)

    def pit(self) -> np.ndarray:
        """Return ``Phi((y - mean) / std)`` (n,): uniform where the predictive distributions are right."""
        return ndtr((self.y - self.mean) / np.sqrt(self.variance))


@computes
def known(gp: View, task: str, data: Any = None, *, folds: int = 5, rows: int = 500) -> Known:
    """Return a task's known outputs with their predictions: of rows that are passed, or of the training rows.

    Training rows are left out one by one where that has a closed form; otherwise ``folds`` fits each hold a part out.
    At most ``rows`` of them are taken, at random.
    """
    part, at = gp._part(task)
    mean, variance = (float(value) for value in part.frame.training_outputs[at])
    if data is not None:
        X, y = read_inputs_and_output(part.frame.tasks[at], data)
        prediction = gp.predict(task, X)
        return Known(task, "test", y, prediction.mean, prediction.variance, (mean, variance))
    training_rows(gp, task, "data=, with outputs, as for gp.score")
    refits = _refits(gp, part, Plan({}, rows, folds))
    others = tuple(other for other in range(len(part.frame.names)) if other != at)
    found = refits.predictions(at, others, lambda done, total, objective: None)
    return Known(task, refits.kept(at), found.y, found.mean, found.variance, (mean, variance))


def closed_form(gp: View, task: str) -> bool:
    """Tell whether training rows can be left out without fitting again."""
    part, at = gp._part(task)
    return tables_of(gp, part) is not None and _refits(gp, part, Plan()).kept(at) == "left out"


def _refits(gp: View, part: Part, plan: Plan) -> MixtureRefits | SparseRefits:
    tables = tables_of(gp, part)
    assert tables is not None
    settings = gp.settings if gp.settings.shared else gp.settings.alone(part.frame.names[0])
    kind = MixtureRefits if isinstance(part.model, Ensemble) else SparseRefits
    return kind(part, tables, settings, plan)


LEVELS = np.arange(1, 20) / 20.0
"""The levels of a coverage curve."""


def coverage_curve(pit: np.ndarray, levels: np.ndarray = LEVELS) -> np.ndarray:
    """Return the share of outputs inside the central interval of each level."""
    distance = 2.0 * np.abs(pit - 0.5)
    return np.array([np.mean(distance <= level) for level in levels])


def binomial_interval(rows: int, levels: np.ndarray, probability: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of a central interval of the share of ``rows`` independent outputs inside each level."""
    tail = 0.5 - probability / 2.0
    ends = (np.clip(np.ceil(bdtrik(p, rows, levels)), 0, rows) / rows for p in (tail, 1.0 - tail))
    lower, upper = ends
    return lower, upper


def histogram(pit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return density (bins,) and edges (bins + 1,) of PIT values: few bins where there are few rows."""
    bins = int(np.clip(len(pit) // 5, 4, 20))
    return np.histogram(pit, bins=bins, range=(0.0, 1.0), density=True)
