"""supernova: mean log likelihood of three cosmological parameters on 192 supernovae; fidelity is an integral's grid.

Inputs H0 in [60, 80], Omega_m in [0, 1], Omega_L in [0, 1], uniform. The high fidelity integrates on 1000 grid points
(10^5 agree with it to 3e-6). The low one knows H0 and Omega_m alone, takes Omega_L at 0.5, the middle of its range, and
integrates on 2 grid points. The grids of the paper's variant are not published, so its numbers are of a problem that
is only like this one. The table is data/davis2007_snia.csv.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.cases.instance import Instance, streams

TABLE = Path(__file__).with_name("data") / "davis2007_snia.csv"
LOWER, UPPER = np.array([60.0, 0.0, 0.0]), np.array([80.0, 1.0, 1.0])
SPEED_OF_LIGHT = 299792.48
HIGH_GRID, LOW_GRID = 1000, 2
NOMINAL_OMEGA_L = 0.5
SMALLEST_TERM = -1000.0
HIGH_ROWS, LOW_ROWS, TEST_ROWS = 5, 1000, 499


@lru_cache
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return redshift, distance modulus and its standard error, each (192,)."""
    redshift, modulus, sigma = np.loadtxt(TABLE, delimiter=",", skiprows=1).T
    return redshift, modulus, sigma


def log_likelihood(X: np.ndarray, grid: int) -> np.ndarray:
    """Return the mean over the supernovae of log N(modulus; mu(z), sigma) at rows (H0, Omega_m, Omega_L), (N,).

    mu(z) = 5 log10(c (1 + z) / H0 I(z)) + 25 with I the integral from 0 to z of (Omega_r (1+t)^4 + Omega_m (1+t)^3 +
    Omega_L)^(-1/2) by the trapezoid rule on `grid` points, Omega_r = max(0, 1 - Omega_m - Omega_L).
    """
    redshift, modulus, sigma = table()
    one = 1.0 + redshift[:, None] * np.linspace(0.0, 1.0, grid)
    third, fourth = one**3, one**4
    weights = np.full(grid, 1.0 / (grid - 1))
    weights[[0, -1]] *= 0.5
    constant = np.log(2.0 * np.pi * sigma**2)
    values = np.empty(X.shape[0])
    for row, (hubble, matter, dark) in enumerate(X):
        radiation = max(0.0, 1.0 - matter - dark)
        integrand = 1.0 / np.sqrt(radiation * fourth + matter * third + dark)
        integral = redshift * (integrand @ weights)
        mu = 5.0 * np.log10(SPEED_OF_LIGHT * (1.0 + redshift) / hubble * integral) + 25.0
        terms = -0.5 * (constant + ((modulus - mu) / sigma) ** 2)
        values[row] = np.maximum(terms, SMALLEST_TERM).mean()
    return values


def high(X: np.ndarray) -> np.ndarray:
    """Return the high fidelity of rows (N, 3)."""
    return log_likelihood(X, HIGH_GRID)


def low(X: np.ndarray) -> np.ndarray:
    """Return the low fidelity of rows (H0, Omega_m), (N, 2)."""
    return log_likelihood(np.column_stack([X, np.full(X.shape[0], NOMINAL_OMEGA_L)]), LOW_GRID)


def draw(seed: int) -> Instance:
    """Return the instance of a seed: N1=5, N2=1000, 499 test rows of each task."""
    draws = []
    sizes = ((HIGH_ROWS, 3, high), (LOW_ROWS, 2, low), (TEST_ROWS, 3, high), (TEST_ROWS, 2, low))
    for stream, (rows, dims, function) in zip(streams(seed, 4), sizes, strict=True):
        X = stream.uniform(LOWER[:dims], UPPER[:dims], size=(rows, dims))
        draws.append((X, function(X)))
    return Instance(
        name="supernova",
        tasks={"high": draws[0], "low": draws[1]},
        test={"high": draws[2], "low": draws[3]},
        names={"high": ("H0", "Omega_m", "Omega_L"), "low": ("H0", "Omega_m")},
        common="low",
        targets=("high",),
        mappings={"high": ["H0", "Omega_m"]},
        description="Log likelihood of cosmological parameters; the low fidelity has 2 grid points and Omega_L = 0.5.",
        paper={"num_inducing": 100, "initial_lengthscale": 0.1},
    )
