"""Stationary ARD kernels as functions of the scaled squared distance, with what their gradients need, in NumPy.

With ``r2 = sum_d (x_d - z_d)^2 / l_d^2`` and unit variance: SE ``exp(-r2 / 2)``, Matern-1/2 ``exp(-r)``, Matern-3/2
``(1 + s) exp(-s)`` with ``s = sqrt(3) r``, Matern-5/2 ``(1 + s + s^2 / 3) exp(-s)`` with ``s = sqrt(5) r``. The slope
is the derivative by ``r2``, from which the gradients by lengthscales and by inputs follow.
"""

import numpy as np

KERNELS = ("se", "matern12", "matern32", "matern52")
_FACTOR = {"matern12": 1.0, "matern32": 3.0, "matern52": 5.0}  # of r2 in s^2


def squared_distance(x: np.ndarray, z: np.ndarray, lengthscale: np.ndarray) -> np.ndarray:
    """Return ``r2`` (..., n, m) of rows x (..., n, D) and z (..., m, D) for lengthscales (..., D), never negative."""
    centre = z.mean(axis=-2, keepdims=True) if z.shape[-2] else 0.0
    x, z = ((side - centre) / lengthscale[..., None, :] for side in (x, z))
    squared = np.sum(x**2, axis=-1)[..., :, None] + np.sum(z**2, axis=-1)[..., None, :]
    squared -= 2.0 * (x @ np.swapaxes(z, -1, -2))
    return np.maximum(squared, 0.0, out=squared)


def decay(kernel: str, squared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``s`` and the exponential in it: what is dear, and what a kernel shares with its slope."""
    if kernel == "se":
        return squared, np.exp(-0.5 * squared)
    s = np.sqrt(_FACTOR[kernel] * squared)
    return s, np.exp(-s)


def correlation(kernel: str, squared: np.ndarray, shared: tuple[np.ndarray, np.ndarray] | None = None) -> np.ndarray:
    """Return the kernel of unit variance."""
    s, falling = decay(kernel, squared) if shared is None else shared
    if kernel == "matern32":
        return (1.0 + s) * falling
    if kernel == "matern52":
        return (1.0 + s + s**2 / 3.0) * falling
    return falling


def slope(kernel: str, squared: np.ndarray, shared: tuple[np.ndarray, np.ndarray] | None = None) -> np.ndarray:
    """Return the derivative of the correlation by ``r2``; zero where Matern-1/2 has none (distance zero)."""
    s, falling = decay(kernel, squared) if shared is None else shared
    if kernel == "se":
        return -0.5 * falling
    if kernel == "matern12":
        return np.where(s > 1e-9, -0.5 * falling / np.maximum(s, 1e-9), 0.0)
    if kernel == "matern32":
        return -1.5 * falling
    return -5.0 / 6.0 * (1.0 + s) * falling


def basis(x: np.ndarray) -> np.ndarray:
    """Return ``[x, x^2, 1]`` (n, 2D + 1): distances, and sums over them, are thin products with it."""
    return np.concatenate([x, x**2, np.ones((len(x), 1))], axis=1)


def squared_to(kernel: str, rows: np.ndarray, z: np.ndarray, lengthscale: np.ndarray) -> np.ndarray:
    """Return ``r2`` (n, m) of rows that are given by their :func:`basis` and z (m, D), both around one centre.

    The rounding of a product (1e-16 in r2) would be 1e-8 in r, and so in Matern-1/2: there it is differences.
    """
    dims = z.shape[1]
    if kernel == "matern12":
        pairs = zip(rows[:, :dims].T, z.T, lengthscale, strict=True)
        return sum((((x[:, None] - y) / length) ** 2 for x, y, length in pairs), np.zeros((len(rows), len(z))))
    precision = lengthscale**-2.0
    weights = np.empty((len(z), 2 * dims + 1))
    weights[:, :dims] = -2.0 * precision * z
    weights[:, dims:-1] = precision
    weights[:, -1] = z**2 @ precision
    squared = rows @ weights.T
    return np.maximum(squared, 0.0, out=squared)


def by_log_lengthscale(weight: np.ndarray, x: np.ndarray, z: np.ndarray, lengthscale: np.ndarray) -> np.ndarray:
    """Return ``sum_ij weight_ij d r2_ij / d log l_d`` (D,), which is ``-2 sum_ij w_ij (x_id - z_jd)^2 / l_d^2``."""
    rows, columns = weight.sum(axis=1), weight.sum(axis=0)
    centre = z.mean(axis=0)
    x, z = x - centre, z - centre
    total = rows @ x**2 + columns @ z**2 - 2.0 * np.sum(x * (weight @ z), axis=0)
    return -2.0 * total / lengthscale**2
