"""What the sources say where rows are placed by an affine map of a form's own: one for all draws, or one a draw."""

import numpy as np

from aligngp.ensemble.given import Pair, Side


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


def moved_mean(map_: np.ndarray, side: Side) -> np.ndarray:
    """Return the sources' posterior means (n, S) at rows mapped by one map (1, D, Dt + 1)."""
    assert side.sources is not None
    return side.sources.value(placed(map_, side.own)[0])


def given_parts(map_: np.ndarray, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    """Return ``m_s m_s'`` and ``C_s`` (S, n, m) each at rows mapped by one map (1, D, Dt + 1), computed once a pair."""
    key = map_.tobytes()
    if key not in pair.placed:
        sides = [_moved(map_, side) for side in ((pair.x,) if pair.x is pair.z else (pair.x, pair.z))]
        (at, mean, whitened), (other_at, other_mean, other_whitened) = sides[0], sides[-1]
        assert pair.x.sources is not None
        known = mean[0].T[:, :, None] * other_mean[0].T[:, None, :]
        wx, wz = whitened[:, :, 0], other_whitened[:, :, 0]
        pair.placed[key] = known, pair.x.sources.covariance(at[0], other_at[0], wx, wz)
    return pair.placed[key]


def moved_covariance(maps: np.ndarray, x: Side, z: Side, weights: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return ``sum_s w_s m_s m_s' + w'_s C_s`` (P, n, m) at mapped rows; the weights w, w' are (P, S) each."""
    at, mean, whitened = _moved(maps, x)
    other_at, other_mean, other_whitened = (at, mean, whitened) if x is z else _moved(maps, z)
    assert x.sources is not None
    prior = x.sources.prior_covariance(at, other_at)  # (S, P, n, m)
    taken = np.matmul(whitened.transpose(0, 2, 3, 1), other_whitened.transpose(0, 2, 1, 3))
    known, unknown = weights
    return (known[:, None] * mean) @ np.swapaxes(other_mean, 1, 2) + _over_sources(unknown, prior - taken)


def moved_variance(maps: np.ndarray, side: Side, weights: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the diagonal (P, n) of the covariance of mapped rows."""
    _, mean, whitened = _moved(maps, side)
    assert side.sources is not None
    known, unknown = weights
    return np.sum(known[:, None] * mean**2, axis=2) + _over_sources(unknown, side.sources.variance(whitened))


def _over_sources(weights: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Return ``sum_s w_ps parts_sp`` (P, ...) of weights (P, S) and parts (S, P or 1, ...)."""
    shape = (*weights.T.shape, *[1] * (parts.ndim - 2))
    return np.sum(weights.T.reshape(shape) * parts, axis=0)
