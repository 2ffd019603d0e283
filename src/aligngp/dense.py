"""Zero-mean Gaussians in NumPy: densities with their gradient by the covariance, and factors of covariances."""

import numpy as np
from scipy.linalg import get_lapack_funcs

from aligngp.linalg import LARGEST_JITTER, ROUNDINGS

dpotrf, dpotri, dpotrs, dtrtri = get_lapack_funcs(("potrf", "potri", "potrs", "trtri"), dtype=np.float64)


def negative_log_density(covariance: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray] | None:
    """Return ``-log N(y | 0, K)`` and its derivative ``1/2 (K^-1 - alpha alpha')`` by K, alpha = K^-1 y.

    None where K has no Cholesky factor.
    """
    factor = lower_factor(covariance)
    if factor is None:
        return None
    alpha, slope = solved(factor, y), inverse_of(factor)
    value = 0.5 * y @ alpha + half_log_determinant(factor) + 0.5 * len(y) * np.log(2.0 * np.pi)
    slope -= alpha[:, None] * alpha
    slope *= 0.5
    return float(value), slope


def lower_factor(covariance: np.ndarray) -> np.ndarray | None:
    """Return the lower Cholesky factor of one covariance with zeros above, None where there is none."""
    factor, failed = dpotrf(covariance.T, lower=1)  # symmetric; the transpose is laid out as LAPACK wants it
    return None if failed or not np.isfinite(factor[-1, -1]) else factor


def half_log_determinant(factor: np.ndarray) -> float:
    """Return ``log|L|``."""
    return float(np.log(np.diagonal(factor)).sum())


def solved(factor: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return ``K^-1 y`` for ``K = L L'``."""
    return dpotrs(factor, y, lower=1)[0]


def inverse_of(factor: np.ndarray) -> np.ndarray:
    """Return ``K^-1`` for ``K = L L'``."""
    lower, _ = dpotri(factor, lower=1)  # above the diagonal it leaves the zeros of the factor
    inverse = lower + lower.T
    inverse.flat[:: len(inverse) + 1] *= 0.5
    return inverse


def inverse_of_factor(factor: np.ndarray) -> np.ndarray:
    """Return ``L^-1``."""
    return dtrtri(factor, lower=1)[0]


def jittered_factor(correlation: np.ndarray, relative: float) -> np.ndarray | None:
    """Return the lower factor of ``K + jitter I`` for a K whose diagonal is one, None where no jitter is enough.

    The jitter is the given one, or as much more as :func:`aligngp.linalg.jittered_inverse_factor` takes.
    """
    while True:
        jittered = correlation.copy()
        jittered.flat[:: len(jittered) + 1] += relative
        factor = lower_factor(jittered)
        if factor is not None or not relative < LARGEST_JITTER:
            return factor
        relative = max(10.0 * relative, ROUNDINGS * float(np.finfo(float).eps))


def covariance_factor(precision: np.ndarray) -> np.ndarray | None:
    """Return the lower factor of ``P^-1``, None where P has none."""
    # With the rows in reverse order P = U U' for an upper U, and U^-T is the lower factor of P^-1.
    factor = lower_factor(np.ascontiguousarray(precision[::-1, ::-1]))
    return None if factor is None else np.ascontiguousarray(inverse_of_factor(factor).T[::-1, ::-1])


def log_normal(y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return ``log N(y | mean, variance)``, elementwise."""
    return -0.5 * (np.log(2.0 * np.pi * variance) + (y - mean) ** 2 / variance)


def factored(matrices: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factors (P, N, N), NaN where there is none."""
    try:
        return np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        factors = np.full_like(matrices, np.nan)
        for k, matrix in enumerate(matrices):
            try:
                factors[k] = np.linalg.cholesky(matrix)
            except np.linalg.LinAlgError:
                continue
        return factors
