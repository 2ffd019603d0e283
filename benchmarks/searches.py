"""Functions to be maximised, each with a cheap version of fewer inputs: what benchmarks/optimize.py searches.

park        Park's function of four inputs; the cheap one knows x3, x4 (aligngp.datasets)
borehole    flow through a borehole, eight inputs; the cheap one (Xiong et al., 2013) knows rw, Hu, Hl, L, the others
            being in the middle of their ranges
hartmann6   minus Hartmann's function of six inputs; the cheap one knows x3..x6, has x1 = x2 = 1/2 and other weights
supernova   the likelihood of benchmarks/cases/supernova.py, three inputs; the cheap one knows H0 and Omega_m
unrelated   hartmann6 with a cheap "version" of the same four inputs that has nothing to do with it
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aligngp import datasets
from benchmarks.cases import supernova

Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Search:
    """A target and its cheap version, of rows (n, D) to values (n,), to be maximised."""

    bounds: dict[str, tuple[float, float]]
    """Of the target's inputs; the cheap version's are some of them."""
    cheap_inputs: tuple[str, ...]
    target: Function
    cheap: Function
    optimum: float
    """The target's maximum."""
    initial: int
    """Rows of the target in the first design."""
    budget: float


TARGET_COST, CHEAP_COST = 10.0, 1.0

BOREHOLE = {
    "rw": (0.05, 0.15),
    "r": (100.0, 50000.0),
    "Tu": (63070.0, 115600.0),
    "Hu": (990.0, 1110.0),
    "Tl": (63.1, 116.0),
    "Hl": (700.0, 820.0),
    "L": (1120.0, 1680.0),
    "Kw": (9855.0, 12045.0),
}
ALPHA = np.array([1.0, 1.2, 3.0, 3.2])
A = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def borehole(X: np.ndarray, front: float = 2.0 * np.pi, added: float = 1.0) -> np.ndarray:
    """Return the flow (n,) at rows (n, 8) in the order of BOREHOLE."""
    rw, r, Tu, Hu, Tl, Hl, L, Kw = X.T
    log = np.log(r / rw)
    return front * Tu * (Hu - Hl) / (log * (added + 2.0 * L * Tu / (log * rw**2 * Kw) + Tu / Tl))


def borehole_cheap(X: np.ndarray) -> np.ndarray:
    """Return the cheap flow (n,) at rows (n, 4) of rw, Hu, Hl, L."""
    full = np.tile([np.mean(pair) for pair in BOREHOLE.values()], (len(X), 1))
    full[:, [list(BOREHOLE).index(name) for name in ("rw", "Hu", "Hl", "L")]] = X
    return borehole(full, 5.0, 1.5)


def hartmann6(X: np.ndarray, alpha: np.ndarray = ALPHA) -> np.ndarray:
    """Return minus Hartmann's function (n,) at rows (n, 6); its maximum is 3.32237."""
    return np.exp(-np.sum(A * (X[:, None, :] - P) ** 2, axis=2)) @ alpha


def hartmann6_cheap(X: np.ndarray) -> np.ndarray:
    """Return the cheap version (n,) at rows (n, 4) of x3..x6."""
    return hartmann6(np.column_stack([np.full((len(X), 2), 0.5), X]), ALPHA + np.array([0.1, -0.1, 0.2, -0.2]))


def unrelated(X: np.ndarray) -> np.ndarray:
    """Return values (n,) at rows (n, 4) that say nothing of hartmann6."""
    return np.sin(7.0 * X[:, 0] + 1.0) * np.cos(5.0 * X[:, 1]) + 2.0 * (X[:, 2] - 0.9) ** 2 - np.sin(9.0 * X[:, 3])


def _unit(*names: str) -> dict[str, tuple[float, float]]:
    return {name: (0.0, 1.0) for name in names}


_SIX = _unit("x1", "x2", "x3", "x4", "x5", "x6")
_SUPERNOVA = dict(zip(("H0", "Omega_m", "Omega_L"), zip(supernova.LOWER, supernova.UPPER, strict=True), strict=True))
SEARCHES = {
    "park": Search(
        _unit("x1", "x2", "x3", "x4"), ("x3", "x4"), datasets.park_high, datasets.park_low, 25.58925415, 5, 160.0
    ),
    "borehole": Search(BOREHOLE, ("rw", "Hu", "Hl", "L"), borehole, borehole_cheap, 309.5755877, 9, 250.0),
    "hartmann6": Search(_SIX, ("x3", "x4", "x5", "x6"), hartmann6, hartmann6_cheap, 3.32236801, 7, 300.0),
    "supernova": Search(
        {name: (float(a), float(b)) for name, (a, b) in _SUPERNOVA.items()},
        ("H0", "Omega_m"),
        supernova.high,
        supernova.low,
        0.0722107362,
        5,
        160.0,
    ),
    "unrelated": Search(_SIX, ("x3", "x4", "x5", "x6"), hartmann6, unrelated, 3.32236801, 7, 300.0),
}
