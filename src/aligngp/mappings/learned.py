"""A first guess of the mapping where nothing is known: from principal components and linear fits."""

import numpy as np

_RIDGE = 1e-2
_SMALLEST_SPREAD = 1e-3


def first_guess(
    own: np.ndarray, y: np.ndarray, common: np.ndarray, common_y: np.ndarray, init: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return A (D, Dt) and b (D,) that map standardised inputs of a task to standardised common inputs.

    Both domains get an orthogonal basis of directions, ordered by importance; direction k of the task becomes
    direction k of the common domain, rescaled to its spread there and oriented so that the output grows the same
    way. The rows of the two tasks are not paired, so nothing finer can be read off the inputs alone.
    """
    own_basis = _directions(own, y, init == "supervised")
    common_basis = _directions(common, common_y, init == "supervised")
    matrix = np.zeros((common.shape[1], own.shape[1]))
    for source, target in zip(own_basis.T, common_basis.T, strict=False):
        width = float(np.std(own @ source))
        if width < _SMALLEST_SPREAD:  # inputs that move together: nothing is known of this direction
            continue
        spread = np.std(common @ target) / width
        sign = np.sign(_slope(own @ source, y) * _slope(common @ target, common_y)) or 1.0
        matrix += sign * spread * np.outer(target, source)
    return matrix, common.mean(axis=0) - matrix @ own.mean(axis=0)


def _directions(X: np.ndarray, y: np.ndarray, supervised: bool) -> np.ndarray:
    """Return orthonormal directions (D, D) as columns: the ridge fit's first if supervised, then by variance."""
    size = X.shape[1]
    centred = X - X.mean(axis=0)
    covariance = centred.T @ centred / X.shape[0] + _RIDGE * np.eye(size)
    if not supervised:
        return np.linalg.eigh(covariance)[1][:, ::-1]
    slope = np.linalg.solve(covariance, centred.T @ (y - y.mean()) / X.shape[0])
    length = np.linalg.norm(slope)
    if length < 1e-12:
        return np.linalg.eigh(covariance)[1][:, ::-1]
    first = slope / length
    complement = np.linalg.svd(first[:, None], full_matrices=True)[0][:, 1:]
    inner = complement.T @ covariance @ complement
    rest = complement @ np.linalg.eigh(inner)[1][:, ::-1] if size > 1 else complement
    return np.column_stack([first, rest])


def _slope(x: np.ndarray, y: np.ndarray) -> float:
    return float((x - x.mean()) @ (y - y.mean()))
