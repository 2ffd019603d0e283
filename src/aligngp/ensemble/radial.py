"""Stationary ARD kernels as functions of the scaled squared distance, with what their gradients need, in NumPy.

With ``r2 = sum_d (x_d - z_d)^2 / l_d^2`` and unit variance: SE ``exp(-r2 / 2)``, Matern-1/2 ``exp(-r)``, Matern-3/2
``(1 + s) exp(-s)`` with ``s = sqrt(3) r``, Matern-5/2 ``(1 + s + s^2 / 3) exp(-s)`` with ``s = sqrt(5) r``. The slope
is the derivative by ``r2``, from which the gradients by lengthscales and by inputs follow.
"""

import numpy as np

from aligngp.errors import SettingError

KERNELS = ("se", "matern12", "matern32", "matern52")


def check_kernel(kernel: str) -> str:
    """Return the name of a kernel that this folder knows, or raise."""
    if kernel not in KERNELS:
        raise SettingError(f"kernel: the ensemble of exact GPs knows {', '.join(KERNELS)}; got {kernel!r}.")
    return kernel


def squared_distance(x: np.ndarray, z: np.ndarray, lengthscale: np.ndarray) -> np.ndarray:
    """Return ``r2`` (..., n, m) of rows x (..., n, D) and z (..., m, D) for lengthscales (..., D), never negative."""
    centre = z.mean(axis=-2, keepdims=True) if z.shape[-2] else 0.0
    x, z = ((side - centre) / lengthscale[..., None, :] for side in (x, z))
    squared = np.sum(x**2, axis=-1)[..., :, None] + np.sum(z**2, axis=-1)[..., None, :]
    squared -= 2.0 * (x @ np.swapaxes(z, -1, -2))
    return np.maximum(squared, 0.0, out=squared)


def correlation(kernel: str, squared: np.ndarray) -> np.ndarray:
    """Return the kernel of unit variance."""
    if kernel == "se":
        return np.exp(-0.5 * squared)
    root = np.sqrt(squared)
    if kernel == "matern12":
        return np.exp(-root)
    if kernel == "matern32":
        s = np.sqrt(3.0) * root
        return (1.0 + s) * np.exp(-s)
    s = np.sqrt(5.0) * root
    return (1.0 + s + s**2 / 3.0) * np.exp(-s)


def slope(kernel: str, squared: np.ndarray) -> np.ndarray:
    """Return the derivative of the correlation by ``r2``; zero where Matern-1/2 has none (distance zero)."""
    if kernel == "se":
        return -0.5 * np.exp(-0.5 * squared)
    root = np.sqrt(squared)
    if kernel == "matern12":
        return np.where(root > 1e-9, -0.5 * np.exp(-root) / np.maximum(root, 1e-9), 0.0)
    if kernel == "matern32":
        return -1.5 * np.exp(-np.sqrt(3.0) * root)
    s = np.sqrt(5.0) * root
    return -5.0 / 6.0 * (1.0 + s) * np.exp(-s)


def by_log_lengthscale(weight: np.ndarray, x: np.ndarray, z: np.ndarray, lengthscale: np.ndarray) -> np.ndarray:
    """Return ``sum_ij weight_ij d r2_ij / d log l_d`` (D,), which is ``-2 sum_ij w_ij (x_id - z_jd)^2 / l_d^2``."""
    rows, columns = weight.sum(axis=1), weight.sum(axis=0)
    centre = z.mean(axis=0)
    x, z = x - centre, z - centre
    total = rows @ x**2 + columns @ z**2 - 2.0 * np.sum(x * (weight @ z), axis=0)
    return -2.0 * total / lengthscale**2
