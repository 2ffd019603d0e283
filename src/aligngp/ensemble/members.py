"""A form given a target's rows: its likelihood, its hyperparameters, and what speaks for it.

A form with hyperparameters h has outputs y ~ N(0, K_h) (from its prior mean, which h does not change), so that

    log p(y | h)  = -1/2 y' K_h^-1 y - 1/2 log|K_h| - N/2 log 2 pi
    y_i | y_-i, h ~ N(y_i - [K^-1 y]_i / [K^-1]_ii, 1 / [K^-1]_ii)             (leave one out, in closed form)

Draws of h come from their posterior; a row's leave-one-out density integrates over the posterior *without* the row,
whose draws are those at hand with weights 1 / p(y_i | y_-i, h), truncated (Ionides, 2008) at sqrt(P) times their mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from aligngp.dense import factored, log_normal, negative_log_density
from aligngp.ensemble.given import Pair
from aligngp.ensemble.prior import Prior
from aligngp.ensemble.sampling import LogLikelihood, sample

PARTICLES = 64
_CHUNK = 4_000_000
"""Most entries of the covariances that are in memory at once."""


@dataclass(frozen=True, eq=False)
class Member:
    """One form of a target: draws of its hyperparameters, and what speaks for it."""

    prior: Prior
    z: np.ndarray
    """Whitened hyperparameters (P, H), equally likely; a single row at the maximum a posteriori."""
    evidence: float
    """log p(y | sources); at the maximum a posteriori log p(y, z | sources)."""
    leave_one_out: np.ndarray
    """log p(y_i | y_-i, sources), (N,)."""
    left_out_mean: np.ndarray
    left_out_variance: np.ndarray
    """Moments (N,) of the observed rows, each without itself."""


def sampled_member(prior: Prior, pair: Pair, y: np.ndarray, rng: np.random.Generator) -> Member:
    """Return a form with its hyperparameters marginalised."""
    found = sample(log_likelihood(prior, pair, y), len(prior.mean), rng, particles=PARTICLES)
    return _member(prior, found.z, found.evidence, pair, y)


def likeliest_member(prior: Prior, pair: Pair, y: np.ndarray, rng: np.random.Generator) -> Member:
    """Return a form with the most probable of its draws alone, for forms without a gradient."""
    found = sample(log_likelihood(prior, pair, y), len(prior.mean), rng, particles=PARTICLES)
    values = found.log_likelihood - 0.5 * np.sum(found.z**2, axis=1)
    best = int(np.argmax(values))
    evidence = float(values[best]) - 0.5 * len(prior.mean) * np.log(2.0 * np.pi)
    return _member(prior, found.z[[best]], evidence, pair, y)


def map_member(
    prior: Prior,
    pair: Pair,
    y: np.ndarray,
    rng: np.random.Generator,
    starts: int = 2,
    fewer: tuple[Pair, np.ndarray] | None = None,
) -> Member:
    """Return a form with its hyperparameters at their maximum a posteriori, the best of several starts.

    They are searched for on ``fewer`` rows where some are given.
    """
    objective = _Objective(prior, *((pair, y) if fewer is None else fewer))
    found = [
        minimize(
            objective,
            0.5 * rng.standard_normal(len(prior.mean)) * (start > 0),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 100, "maxcor": 20},
        )
        for start in range(starts)
    ]
    best = min(found, key=lambda result: result.fun)
    joint = best.fun if fewer is None else _Objective(prior, pair, y)(best.x)[0]
    return _member(prior, best.x[None], -float(joint), pair, y)


def _member(prior: Prior, z: np.ndarray, evidence: float, pair: Pair, y: np.ndarray) -> Member:
    mean, variance, weight = left_out(prior, z, pair, y)
    density = log_normal(y, mean, variance) + np.log(weight)
    top = density.max(axis=0)
    average = np.sum(weight * mean, axis=0)
    spread = np.sum(weight * (variance + (mean - average) ** 2), axis=0)
    return Member(prior, z, evidence, top + np.log(np.sum(np.exp(density - top), axis=0)), average, spread)


def observed_covariance(prior: Prior, z: np.ndarray, pair: Pair) -> np.ndarray:
    """Return the covariance (P, N, N) of the observed rows."""
    h = prior.read(z)
    covariance = prior.covariance(h, pair)
    diagonal = np.arange(covariance.shape[1])
    covariance[:, diagonal, diagonal] += h.noise[:, None]
    return covariance


def log_likelihood(prior: Prior, pair: Pair, y: np.ndarray) -> LogLikelihood:
    """Return the function z (P, H) -> log p(y | z) (P,), -inf where the covariance cannot be factored."""
    size = len(y)
    y = y - prior.centre(pair.x)
    corner = 1e16 * (1.0 + y @ y)
    at_once = max(_CHUNK // (size + 1) ** 2, 1)

    def function(z: np.ndarray) -> np.ndarray:
        return np.concatenate([chunk(z[k : k + at_once]) for k in range(0, len(z), at_once)])

    def chunk(z: np.ndarray) -> np.ndarray:
        # The last row of the factor of [[K, y], [y', c]] is (L^-1 y)' for any c: one call instead of two.
        bordered = np.empty((len(z), size + 1, size + 1))
        bordered[:, :size, :size] = observed_covariance(prior, z, pair)
        bordered[:, size, :] = bordered[:, :, size] = np.append(y, corner)
        factors = factored(bordered)
        logs = np.log(np.diagonal(factors, axis1=1, axis2=2)[:, :size]).sum(axis=1)
        value = -0.5 * np.sum(factors[:, size, :size] ** 2, axis=1) - logs - 0.5 * size * np.log(2.0 * np.pi)
        return np.where(np.isfinite(value), value, -np.inf)

    return function


def left_out(prior: Prior, z: np.ndarray, pair: Pair, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return leave-one-out means and observed variances (P, N) of every draw, and the draws' weights (P, N) a row."""
    root = np.linalg.inv(factored(observed_covariance(prior, z, pair)))
    centre = prior.centre(pair.x)
    y = y - centre
    precision = np.sum(root**2, axis=1)
    mean = y - np.einsum("pij,pi->pj", root, root @ y) / precision
    variance = 1.0 / precision
    density = log_normal(y, mean, variance)
    weight = np.exp(density.min(axis=0) - density)
    weight = np.minimum(weight, weight.mean(axis=0) * np.sqrt(len(z)))
    return centre + mean, variance, weight / weight.sum(axis=0)


class _Objective:
    """Minus log p(y | z) minus log p(z), with its gradient."""

    def __init__(self, prior: Prior, pair: Pair, y: np.ndarray):
        self.prior, self.pair, self.y = prior, pair, y - prior.centre(pair.x)

    def __call__(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        found = negative_log_density(observed_covariance(self.prior, z[None], self.pair)[0], self.y)
        if found is None:
            return 1e25, np.zeros_like(z)
        loss, pull = found
        loss += 0.5 * z @ z + 0.5 * len(z) * np.log(2.0 * np.pi)
        return loss, self.prior.pull(z, self.pair, pull) + z
