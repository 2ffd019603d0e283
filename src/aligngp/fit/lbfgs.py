"""L-BFGS on a deterministic objective: SciPy's, on a flat vector of parameters."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aligngp.errors import AligngpWarning, TrainingError
from aligngp.fit.adam import History
from aligngp.typing import Progress

_REFUSED = 1e25  # what a point without a finite value costs: the line search turns back


@dataclass(frozen=True)
class LbfgsSettings:
    """When to stop: after so many iterations, or when an iteration gains less than this part of the objective."""

    iterations: int = 1000
    tolerance: float = 1e-9


@dataclass(frozen=True, eq=False)
class Optimum:
    """What a search found: the best parameters, how it got there, and whether Ctrl-C ended it."""

    parameters: np.ndarray
    history: History
    interrupted: bool

    @property
    def value(self) -> float:
        """Return the best objective."""
        return float(self.history.objective[-1])


def maximise(
    objective: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    settings: LbfgsSettings,
    progress: Progress | None = None,
) -> Optimum:
    """Maximise ``objective(parameters) -> (value, gradient)`` from a start.

    Points whose value or gradient is not finite are refused, so the search turns back from them. Ctrl-C returns the
    best parameters so far, with a warning. The history has a value an iteration, the best so far.
    """
    from scipy.optimize import minimize

    began = time.perf_counter()
    best, best_value = start, -np.inf
    values: list[float] = []
    seconds: list[float] = []
    interrupted = False

    def negative(vector: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, best_value
        value, gradient = objective(vector)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return _REFUSED, np.zeros_like(vector)
        if value > best_value:
            best, best_value = vector.copy(), value
        return -value, -gradient

    def watch(vector: np.ndarray) -> None:
        values.append(best_value)
        seconds.append(time.perf_counter() - began)
        if progress is not None:
            progress(len(values), settings.iterations, best_value)

    options = {"maxiter": settings.iterations, "ftol": settings.tolerance, "gtol": 1e-6, "maxcor": 20}
    options["maxfun"] = 4 * settings.iterations
    try:
        minimize(negative, start, jac=True, method="L-BFGS-B", callback=watch, options=options)
    except KeyboardInterrupt:
        if not np.isfinite(best_value):
            raise
        interrupted = True
        warnings.warn(
            f"Training was interrupted after {len(values)} iterations; the best model so far is kept.",
            AligngpWarning,
            stacklevel=2,
        )
    if not np.isfinite(best_value):
        raise TrainingError(
            "The objective has no finite value at the start. Look for extreme values in the data; a larger "
            "initial_noise or longer initial lengthscales may help."
        )
    if not values:
        values.append(best_value)
        seconds.append(time.perf_counter() - began)
    history = History(np.arange(1, len(values) + 1), np.array(values), np.array(seconds))
    return Optimum(best, history, interrupted)
