"""L-BFGS on a deterministic bound: SciPy's, on the flat vector of trainable parameters."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize

from aligngp.errors import AligngpWarning, TrainingError
from aligngp.fit.adam import History
from aligngp.typing import Progress

_REFUSED = 1e25  # what a point without a finite value costs: the line search turns back


@dataclass(frozen=True)
class LbfgsSettings:
    """When to stop: after so many iterations, or when an iteration gains less than this part of the objective."""

    iterations: int = 1000
    tolerance: float = 1e-9


def maximise(
    objective: Callable[[Any], tuple[jax.Array, Any]],
    start: Any,
    settings: LbfgsSettings,
    progress: Progress | None = None,
) -> tuple[Any, History]:
    """Maximise ``objective(parameters) -> (value, gradient)`` from a start; return the best parameters and the history.

    Points whose value or gradient is not finite are refused, so the search turns back from them. Ctrl-C returns the
    best parameters so far, with a warning.
    """
    flat, restore = ravel_pytree(start)
    began = time.perf_counter()
    best: list[Any] = [np.asarray(flat, float), -np.inf]
    values: list[float] = []
    seconds: list[float] = []

    def negative(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(restore(jax.numpy.asarray(vector, flat.dtype)))
        value, gradient = float(value), np.asarray(ravel_pytree(gradient)[0], float)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return _REFUSED, np.zeros_like(vector)
        if value > best[1]:
            best[:] = [vector.copy(), value]
        return -value, -gradient

    def watch(vector: np.ndarray) -> None:
        values.append(best[1])
        seconds.append(time.perf_counter() - began)
        if progress is not None:
            progress(len(values), settings.iterations, best[1])

    options = {"maxiter": settings.iterations, "ftol": settings.tolerance, "gtol": 1e-6, "maxcor": 20}
    options["maxfun"] = 4 * settings.iterations
    try:
        minimize(negative, best[0], jac=True, method="L-BFGS-B", callback=watch, options=options)
    except KeyboardInterrupt:
        if not np.isfinite(best[1]):
            raise
        warnings.warn(
            f"Training was interrupted after {len(values)} iterations; the best model is kept.",
            AligngpWarning,
            stacklevel=2,
        )
    if not np.isfinite(best[1]):
        raise TrainingError(
            "The objective has no finite value at the start. Look for extreme values in the data; a larger "
            "initial_noise or longer initial lengthscales may help."
        )
    values.append(best[1])
    seconds.append(time.perf_counter() - began)
    history = History(np.arange(1, len(values) + 1), np.array(values), np.array(seconds))
    return restore(jax.numpy.asarray(best[0], flat.dtype)), history
