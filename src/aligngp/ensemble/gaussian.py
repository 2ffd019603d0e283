"""Zero-mean Gaussians in NumPy: densities with their gradient by the covariance, and factors of many covariances."""

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular


def negative_log_density(covariance: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray] | None:
    """Return ``-log N(y | 0, K)`` and its derivative ``1/2 (K^-1 - alpha alpha')`` by K, alpha = K^-1 y.

    None where K has no Cholesky factor.
    """
    try:
        factor = cholesky(covariance, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    alpha = cho_solve((factor, True), y, check_finite=False)
    value = 0.5 * y @ alpha + np.log(np.diag(factor)).sum() + 0.5 * len(y) * np.log(2.0 * np.pi)
    root = solve_triangular(factor, np.eye(len(y)), lower=True, check_finite=False)
    return float(value), 0.5 * (root.T @ root - alpha[:, None] * alpha)


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
