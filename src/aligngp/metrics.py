"""How good predictions are: the paper's SMSE and SMLL, and four that do not lean on the training variance.

Everywhere `y` are test outputs, `mean` and `variance` the predictive Gaussian of the *observed* output (noise
included), all of shape (n,). Lower is better, but for `coverage`, which should equal its level.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from aligngp.errors import DataError, SettingError


def _vector(name: str, values: ArrayLike) -> np.ndarray:
    """Return `values` as a float64 vector (n,), n > 0, without NaN or infinity."""
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name}: expected numbers, got {values!r:.60}. Convert them to floats.") from error
    if vector.ndim != 1 or vector.size == 0:
        hint = "drop the extra axis, for instance with .ravel()" if vector.ndim > 1 else "pass one row or more"
        raise DataError(f"{name}: expected a vector of shape (n,), n > 0, got shape {vector.shape}; {hint}.")
    wrong = np.flatnonzero(~np.isfinite(vector))
    if wrong.size:
        raise DataError(
            f"{name}: expected finite numbers, got {vector[wrong[0]]} in row {wrong[0]} "
            f"({wrong.size} such rows). Remove or repair those rows."
        )
    return vector


def _matching(**columns: ArrayLike) -> list[np.ndarray]:
    """Return the columns as vectors of one length; a column named 'variance' must be positive."""
    vectors = {name: _vector(name, values) for name, values in columns.items()}
    rows = vectors["y"].size
    for name, vector in vectors.items():
        if vector.size != rows:
            raise DataError(f"{name}: expected {rows} rows as y has, got {vector.size}. Pass the same rows.")
    if "variance" in vectors and not np.all(vectors["variance"] > 0):
        row = int(np.argmin(vectors["variance"]))
        raise DataError(
            f"variance: expected positive numbers, got {vectors['variance'][row]} in row {row}. "
            "Pass the predictive variance with the noise variance in it."
        )
    return list(vectors.values())


def _train_variance(train_variance: float) -> float:
    """Return the training outputs' variance, np.var with ddof=0: finite, zero at least."""
    if not (math.isfinite(train_variance) and train_variance >= 0):
        raise DataError(
            f"train_variance: expected a finite number >= 0, got {train_variance}. "
            "Pass np.var(y_train) of the training outputs."
        )
    return float(train_variance)


def _log_density(y: np.ndarray, mean: np.ndarray | float, variance: np.ndarray | float) -> np.ndarray:
    """Return log N(y | mean, variance) = -1/2 [log(2 pi variance) + (y - mean)^2 / variance], shape (n,)."""
    return -0.5 * (np.log(2.0 * np.pi * variance) + (y - mean) ** 2 / variance)


def _crps(y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the continuous ranked probability score of each row, shape (n,)."""
    s = np.sqrt(variance)
    w = (y - mean) / s
    density = np.exp(-0.5 * w**2) / math.sqrt(2.0 * math.pi)
    return s * (w * (2.0 * ndtr(w) - 1.0) + 2.0 * density - 1.0 / math.sqrt(math.pi))


def smse(y: ArrayLike, mean: ArrayLike, train_variance: float) -> float:
    """Standardised mean square error: sum_i (y_i - mean_i)^2 / (n train_variance).

    `train_variance` is np.var(y_train) (ddof=0), as in the paper; with it zero (one training row, or equal
    outputs) the score is undefined and NaN is returned.
    """
    y, mean = _matching(y=y, mean=mean)
    scale = _train_variance(train_variance)
    if scale == 0.0:
        return math.nan
    return float(np.mean((y - mean) ** 2) / scale)


def smll(y: ArrayLike, mean: ArrayLike, variance: ArrayLike, train_mean: float, train_variance: float) -> float:
    """Standardised mean log loss: 1/n sum_i [log N(y_i | y_mu, y_nu) - log N(y_i | mean_i, variance_i)].

    y_mu, y_nu are the training outputs' np.mean and np.var (ddof=0), as in the paper; the score is zero for a
    model that predicts just them, and NaN where y_nu is zero.
    """
    y, mean, variance = _matching(y=y, mean=mean, variance=variance)
    scale = _train_variance(train_variance)
    if not math.isfinite(train_mean):
        raise DataError(f"train_mean: expected a finite number, got {train_mean}. Pass np.mean(y_train).")
    if scale == 0.0:
        return math.nan
    return float(np.mean(_log_density(y, float(train_mean), scale) - _log_density(y, mean, variance)))


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Root mean square error, in the units of the output: sqrt(1/n sum_i (y_i - mean_i)^2)."""
    y, mean = _matching(y=y, mean=mean)
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def nlpd(y: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> float:
    """Negative log predictive density: -1/n sum_i log N(y_i | mean_i, variance_i)."""
    y, mean, variance = _matching(y=y, mean=mean, variance=variance)
    return float(-np.mean(_log_density(y, mean, variance)))


def crps(y: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> float:
    """Continuous ranked probability score of a Gaussian, mean over rows, in the units of the output.

    int (F(u) - 1[u >= y])^2 du = s [w (2 Phi(w) - 1) + 2 phi(w) - 1 / sqrt(pi)] of each row, with
    s = sqrt(variance) and w = (y - mean) / s.
    """
    y, mean, variance = _matching(y=y, mean=mean, variance=variance)
    return float(np.mean(_crps(y, mean, variance)))


def coverage(y: ArrayLike, mean: ArrayLike, variance: ArrayLike, level: float = 0.95) -> float:
    """Share of rows inside the central interval mean +- Phi^-1((1 + level) / 2) sqrt(variance)."""
    y, mean, variance = _matching(y=y, mean=mean, variance=variance)
    if not 0.0 < level < 1.0:
        raise SettingError(f"level: expected a number between 0 and 1, got {level}. Pass 0.95 for 95 %.")
    return float(np.mean(np.abs(y - mean) <= ndtri(0.5 * (1.0 + level)) * np.sqrt(variance)))


def scores(
    y: ArrayLike, mean: ArrayLike, variance: ArrayLike, train_mean: float, train_variance: float
) -> dict[str, float]:
    """Return all of them by name: "smse", "smll", "rmse", "nlpd", "crps", "coverage95"."""
    return {
        "smse": smse(y, mean, train_variance),
        "smll": smll(y, mean, variance, train_mean, train_variance),
        "rmse": rmse(y, mean),
        "nlpd": nlpd(y, mean, variance),
        "crps": crps(y, mean, variance),
        "coverage95": coverage(y, mean, variance, 0.95),
    }


def row_scores(y: ArrayLike, mean: ArrayLike, variance: ArrayLike, train_variance: float) -> dict[str, np.ndarray]:
    """Return "smse", "nlpd" and "crps" of each row, shape (n,): the scores are their means over the rows."""
    y, mean, variance = _matching(y=y, mean=mean, variance=variance)
    scale = _train_variance(train_variance) or math.nan
    return {
        "smse": (y - mean) ** 2 / scale,
        "nlpd": -_log_density(y, mean, variance),
        "crps": _crps(y, mean, variance),
    }
