"""What the sources say where the map to the common domain is itself a hyperparameter: every draw has its own places."""

import numpy as np

from aligngp.ensemble.given import Side


def placed(maps: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return the aligned inputs (P, n, D) of own inputs (n, Dt) under maps (P, D, Dt + 1)."""
    return own @ np.swapaxes(maps[:, :, :-1], 1, 2) + maps[:, None, :, -1]


def _moved(maps: np.ndarray, side: Side) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return aligned inputs (P, n, D), the sources' means (P, n, S) there, and whitened rows (S, N, P, n)."""
    assert side.sources is not None
    at = placed(maps, side.own)
    flat = at.reshape(-1, at.shape[2])
    whitened = side.sources.whitened(flat)
    return at, side.sources.value(flat).reshape(*at.shape[:2], -1), whitened.reshape(*whitened.shape[:2], *at.shape[:2])


def moved_covariance(maps: np.ndarray, x: Side, z: Side, shares: np.ndarray) -> np.ndarray:
    """Return ``sum_s lambda_s (m_s m_s' + C_s)`` (P, n, m) at mapped rows."""
    at, mean, whitened = _moved(maps, x)
    other_at, other_mean, other_whitened = (at, mean, whitened) if x is z else _moved(maps, z)
    assert x.sources is not None
    prior = x.sources.prior_covariance(at, other_at)  # (S, P, n, m)
    taken = np.matmul(whitened.transpose(0, 2, 3, 1), other_whitened.transpose(0, 2, 1, 3))
    result = (shares[:, None] * mean) @ np.swapaxes(other_mean, 1, 2)
    return result + np.einsum("ps,spnm->pnm", shares, prior - taken)


def moved_variance(maps: np.ndarray, side: Side, shares: np.ndarray) -> np.ndarray:
    """Return the diagonal (P, n) of the covariance of mapped rows."""
    _, mean, whitened = _moved(maps, side)
    assert side.sources is not None
    variance = side.sources.variance(whitened)  # (S, P, n)
    return np.einsum("ps,pns->pn", shares, mean**2) + np.einsum("ps,spn->pn", shares, variance)
