"""Airfoils around RAE 2822: 50 ordinates, speed and angle of attack, and their six principal components.

A side's ordinate is y(x) = C(x) (sum_i w_i B_i(x) + g(x)) + w_le x (1 - x)^8.5 with the class function
C(x) = x^0.5 (1 - x), Bernstein polynomials B of degree 7 (Kulfan, 2008) and a smooth deviation g: camber moves both
sides up, thickness moves them apart, each a Gaussian process (SE) in theta, x = (1 - cos theta)/2. So the 52 variables
are jointly normal, their correlation matrix is known, and its eigenvectors are the components:

    variables = mean + scale (sqrt(eigenvalues) inputs) directions,   inputs of mean 0 and variance 1
"""

from math import comb

import numpy as np
from numpy.typing import ArrayLike

UPPER_WEIGHTS = np.array([0.12635904, 0.1200617, 0.18855389, 0.10780742, 0.25227477, 0.1553398, 0.2053182, 0.20328018])
LOWER_WEIGHTS = np.array(
    [-0.12865197, -0.15950337, -0.0928367, -0.27489525, -0.07987394, -0.11403478, -0.05479441, 0.06279084]
)
LEADING_EDGE_WEIGHT = 0.01957149
"""RAE 2822, fitted to its published coordinates."""

STATIONS = 25
THETA = np.pi * np.arange(1, STATIONS + 1) / (STATIONS + 1)
X = 0.5 * (1.0 - np.cos(THETA))
CAMBER, THICKNESS, LENGTHSCALE = 0.03, 0.02, 1.5
"""Standard deviations of g's two parts, and their lengthscale in theta."""
SPEED, ANGLE = (100.0, 20.0), (8.0, 3.0)
"""Mean and standard deviation: m/s, degrees."""
SPEED_ANGLE = -0.3
"""Correlation: one flies faster at smaller angles."""
COMPONENTS = 6
VARIABLES = (
    *(f"upper{i}" for i in range(1, STATIONS + 1)),
    *(f"lower{i}" for i in range(1, STATIONS + 1)),
    "speed",
    "angle",
)
INPUTS = tuple(f"pc{i}" for i in range(1, COMPONENTS + 1))
LIMIT = 1.732051
"""The inputs are uniform between -LIMIT and LIMIT: variance 1."""


def bernstein(x: np.ndarray) -> np.ndarray:
    """Return C(x) B_i(x), (N, 8): a side's ordinates are linear in its eight weights."""
    shape = np.column_stack([comb(7, i) * x**i * (1.0 - x) ** (7 - i) for i in range(8)])
    return (np.sqrt(x) * (1.0 - x))[:, None] * shape


def ordinates(weights: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return a side's ordinates, (N,); both sides share the leading edge's weight."""
    return bernstein(x) @ weights + LEADING_EDGE_WEIGHT * x * (1.0 - x) ** 8.5


def population() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean (52,), scale (52,) and correlation matrix (52, 52) of the variables."""
    base = [ordinates(weights, X) for weights in (UPPER_WEIGHTS, LOWER_WEIGHTS)]
    deviation = np.sqrt(X) * (1.0 - X) * np.hypot(CAMBER, THICKNESS)
    mean = np.concatenate([*base, [SPEED[0], ANGLE[0]]])
    scale = np.concatenate([deviation, deviation, [SPEED[1], ANGLE[1]]])
    along = np.exp(-0.5 * ((THETA[:, None] - THETA) / LENGTHSCALE) ** 2)
    # upper = camber + thickness, lower = camber - thickness
    across = (CAMBER**2 - THICKNESS**2) / (CAMBER**2 + THICKNESS**2)
    correlation = np.eye(2 * STATIONS + 2)
    correlation[: 2 * STATIONS, : 2 * STATIONS] = np.kron([[1.0, across], [across, 1.0]], along)
    correlation[-1, -2] = correlation[-2, -1] = SPEED_ANGLE
    return mean, scale, correlation


def components() -> tuple[np.ndarray, np.ndarray]:
    """Return the largest eigenvalues (6,) and their directions (6, 52), the largest weight of each positive."""
    values, vectors = np.linalg.eigh(population()[2])
    values, directions = values[::-1][:COMPONENTS], vectors.T[::-1][:COMPONENTS]
    largest = np.abs(directions).argmax(axis=1)
    return values, directions * np.sign(directions[np.arange(COMPONENTS), largest])[:, None]


def variables(inputs: ArrayLike, matrix: np.ndarray) -> np.ndarray:
    """Return the 52 variables at inputs (N, 6), (N, 52); `matrix` (6, 52) has sqrt(eigenvalue) times direction."""
    mean, scale, _ = population()
    return mean + scale * (np.asarray(inputs) @ matrix)


def weights(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the upper and lower weights, each (N, 8), of variables (N, 52): least squares of the ordinates."""
    solver = np.linalg.pinv(bernstein(X))
    nose = LEADING_EDGE_WEIGHT * X * (1.0 - X) ** 8.5
    upper, lower = found[:, :STATIONS], found[:, STATIONS : 2 * STATIONS]
    return (upper - nose) @ solver.T, (lower - nose) @ solver.T
