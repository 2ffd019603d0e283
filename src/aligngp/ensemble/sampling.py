"""Draws from a posterior over whitened hyperparameters, and its evidence: tempering with elliptical slice moves.

The prior is N(0, I). Particles start as draws of it and follow the densities ``p(z) L(z)^beta`` from beta = 0 to 1
(a sequential Monte Carlo sampler): each beta is the largest at which the reweighted particles still count as half of
their number, they are resampled, and moved by elliptical slice sampling (Murray, Adams and MacKay, 2010), which
leaves ``p(z) L(z)^beta`` invariant and has no setting. The evidence is the product of the mean weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

LogLikelihood = Callable[[np.ndarray], np.ndarray]
"""Of whitened hyperparameters (P, H), to (P,); -inf where there is none."""


@dataclass(frozen=True, eq=False)
class Draws:
    """Equally weighted draws z (P, H) of the posterior, their log likelihoods (P,), and the log evidence."""

    z: np.ndarray
    log_likelihood: np.ndarray
    evidence: float


def sample(
    log_likelihood: LogLikelihood,
    size: int,
    rng: np.random.Generator,
    *,
    particles: int = 64,
    moves: int = 3,
    final_moves: int = 10,
) -> Draws:
    """Return draws of the posterior; ``moves`` slice moves follow every resampling, ``final_moves`` the last."""
    z = rng.standard_normal((particles, size))
    values = log_likelihood(z)
    beta, evidence = 0.0, 0.0
    while beta < 1.0:
        step = _next_step(values, 1.0 - beta)
        weights = step * values
        top = weights.max()
        weights = np.exp(weights - top)
        evidence += top + np.log(np.mean(weights))
        beta = beta + step if beta + step < 1.0 - 1e-12 else 1.0
        kept = _systematic(weights / weights.sum(), rng)
        z, values = z[kept], values[kept]
        for _ in range(final_moves if beta == 1.0 else moves):
            z, values = slice_move(log_likelihood, z, values, beta, rng)
    return Draws(z, values, float(evidence))


def slice_move(
    log_likelihood: LogLikelihood, z: np.ndarray, values: np.ndarray, beta: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return every particle after one move of elliptical slice sampling on ``L^beta``, and its log likelihood."""
    other = rng.standard_normal(z.shape)
    height = beta * values + np.log(rng.uniform(size=len(z)))
    angle = rng.uniform(0.0, 2.0 * np.pi, size=len(z))
    low, high = angle - 2.0 * np.pi, angle.copy()
    z, values, at = z.copy(), values.copy(), z
    open_ = np.arange(len(z))
    while open_.size:
        turn = angle[open_, None]
        proposed = at[open_] * np.cos(turn) + other[open_] * np.sin(turn)
        found = log_likelihood(proposed)
        taken = beta * found > height[open_]
        taken |= np.abs(angle[open_]) < 1e-8  # the bracket has closed on where it stands
        z[open_[taken]], values[open_[taken]] = proposed[taken], found[taken]
        open_ = open_[~taken]
        behind = angle[open_] < 0.0
        low[open_[behind]], high[open_[~behind]] = angle[open_[behind]], angle[open_[~behind]]
        angle[open_] = rng.uniform(low[open_], high[open_])
    return z, values


def _next_step(values: np.ndarray, most: float) -> float:
    """Return the largest step of beta after which the weights count as at least half of the particles."""

    def effective(step: float) -> float:
        weights = np.exp(step * (values - values.max()))
        return weights.sum() ** 2 / np.sum(weights**2)

    if effective(most) >= 0.5 * len(values):
        return most
    low, high = 0.0, most
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if effective(middle) >= 0.5 * len(values) else (low, middle)
    return max(low, 1e-6)


def _systematic(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return indices drawn by systematic resampling."""
    size = len(weights)
    heights = (np.arange(size) + rng.uniform()) / size
    return np.minimum(np.searchsorted(np.cumsum(weights), heights), size - 1)
