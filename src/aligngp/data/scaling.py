"""Columns to zero mean and unit standard deviation, and back; fitted on training rows only."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from aligngp.errors import DataError

_NOISE = 64 * np.finfo(np.float64).eps
"""A standard deviation below this part of |mean| is what rounding leaves of a constant."""


@dataclass(frozen=True, eq=False)
class Scaler:
    """The affine map x -> (x - mean) / scale of each column; `mean` and `scale` (D,).

    The methods use arithmetic only, so JAX arrays (also traced ones) come back as JAX arrays.
    """

    mean: np.ndarray
    scale: np.ndarray

    def transform(self, X: Any) -> Any:
        """(X - mean) / scale for X (..., D)."""
        return (X - self.mean) / self.scale

    def inverse(self, Z: Any) -> Any:
        """Z scale + mean for Z (..., D)."""
        return Z * self.scale + self.mean

    def inverse_variance(self, V: Any) -> Any:
        """V scale^2 for variances V (..., D) of scaled columns."""
        return (V * self.scale) * self.scale  # in this order scale^2 alone cannot overflow


def fit_scaler(X: Any, standardize: bool = True) -> Scaler:
    """The mean and standard deviation (dividing by N) of the columns of X (N, D).

    A column that is constant up to rounding gets scale 1, and so does a single row. With `standardize` False
    the scaler changes nothing.
    """
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or not len(X):
        raise DataError(f"a scaler needs rows of shape (N, D) with N >= 1, got shape {X.shape}.")
    if not standardize:
        return Scaler(np.zeros(X.shape[1]), np.ones(X.shape[1]))
    return scaler_of(*moments(X))


def moments(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean and standard deviation (dividing by N) of the columns of X (N, D), of any magnitude."""
    # Powers of two bring every column below 1, exactly, so that no square or sum leaves the range of float64.
    _, exponent = np.frexp(np.abs(X).max(axis=0))
    rows = np.ldexp(X, -exponent)
    # Deviations from the first row keep the digits of a column far from zero, and are zeros for a constant.
    deviations = rows - rows[0]
    center = rows[0] + deviations.mean(axis=0)
    return np.ldexp(center, exponent), np.ldexp(deviations.std(axis=0), exponent)


def scaler_of(mean: np.ndarray, spread: np.ndarray) -> Scaler:
    """The scaler of columns with that mean and standard deviation; what is constant up to rounding gets scale 1."""
    constant = (spread <= _NOISE * np.abs(mean)) | (spread < np.finfo(np.float64).tiny)
    return Scaler(mean, np.where(constant, 1.0, spread))
