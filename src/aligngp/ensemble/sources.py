"""The tasks that a target may learn from: an exact LMC on the common domain, its posterior computed once.

    y^s_i = c_s + F_s(x_bar_i) + eps,   F_s = sum_q A_sq f_q,   f_q ~ GP(0, k_q),   c_s ~ N(0, 1/4),   eps ~ N(0, nu_s)

at the aligned inputs ``x_bar = g0(x)`` of every source s. Lengthscales, the mixing A and the noise are at the maximum
of evidence times priors; A, in particular, is identified up to rotations that change no prediction. A target sees the
posterior of the functions ``F_s``: mean, covariance, and the gradient of the mean (which the linearised calibration
needs). What a source's own inputs know beyond the common domain is noise here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

from aligngp.dense import negative_log_density
from aligngp.kernels.radial import by_log_lengthscale, correlation, slope, squared_distance

TRAINED_ROWS = 600
"""Most rows, over all sources, on which hyperparameters are trained."""
POSTERIOR_ROWS = 5000
"""Most rows, over all sources, on which the posterior conditions."""
SCREENED_ROWS = 300
"""Most rows, over all sources, on which starts are compared."""
_SCREENING, _FINISH = 40, 80
"""Iterations of each start, and of the best."""
_OFFSET = 0.25
_NOISE_FLOOR = 1e-6
_LARGEST_LOG = 40.0
_LATENTS = 4


STARTS = ((1e-3, 0.2, 1.0), (5e-2, 0.6, 1.0), (1e-3, 0.6, 0.3), (1e-3, 0.2, 0.1))
"""Noise, mixing with the others' latents, and lengthscale (times the middle of its prior) where a search begins."""


@dataclass(frozen=True, eq=False)
class Sources:
    """The posterior of the source functions F_s, s = 1..S."""

    kernel: str
    tasks: tuple[int, ...]
    """Which task each source is."""
    rows: np.ndarray
    """Aligned inputs (N, D) of all sources."""
    of: np.ndarray
    """Source of each row (N,), 0..S-1."""
    y: np.ndarray
    lengthscale: np.ndarray
    """(Q, D)."""
    mixing: np.ndarray
    """A, (S, Q)."""
    noise: np.ndarray
    """nu, (S,)."""
    evidence: float
    """log p(y_sources) at the trained hyperparameters, on the rows they were trained on."""

    @cached_property
    def reach(self) -> np.ndarray:
        """How far an aligned input may be moved, in each dimension (D,), with the sources still nearly linear.

        That is the shortest of the lengthscales, where it is less than the inputs' own scale, 1.
        """
        return np.minimum(self.lengthscale.min(axis=0), 1.0)

    @cached_property
    def _factor(self) -> np.ndarray:
        return cholesky(self._training_covariance(), lower=True, check_finite=False)

    @cached_property
    def _alpha(self) -> np.ndarray:
        return cho_solve((self._factor, True), self.y, check_finite=False)

    def _training_covariance(self) -> np.ndarray:
        correlations = self._correlations(self.rows)
        covariance = np.sum([_mixed(a, self.of) * k for a, k in zip(self.mixing.T, correlations, strict=True)], axis=0)
        covariance += _OFFSET * (self.of[:, None] == self.of)
        covariance[np.diag_indices_from(covariance)] += self.noise[self.of]
        return covariance

    def _correlations(self, x: np.ndarray) -> list[np.ndarray]:
        return [correlation(self.kernel, squared_distance(x, self.rows, length)) for length in self.lengthscale]

    def mean(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the posterior mean (n, S) of the sources at aligned rows x (n, D), and its gradient (n, S, D)."""
        means = np.zeros((len(x), len(self.noise)))
        gradients = np.zeros((*means.shape, x.shape[1]))
        for length, a in zip(self.lengthscale, self.mixing.T, strict=True):
            squared = squared_distance(x, self.rows, length)
            weight = self._alpha * a[self.of]
            means += (correlation(self.kernel, squared) @ weight)[:, None] * a
            rate = slope(self.kernel, squared) * weight
            direction = 2.0 * (x * rate.sum(axis=1)[:, None] - rate @ self.rows) / length**2
            gradients += direction[:, None, :] * a[:, None]
        return means, gradients

    def whitened(self, x: np.ndarray) -> np.ndarray:
        """Return ``L^-1 k(rows, F_s(x))`` (S, N, n): products of two of them are what the data take off the prior."""
        correlations = self._correlations(x)
        result = []
        for own in self.mixing:
            parts = zip(own, self.mixing.T, correlations, strict=True)
            cross = np.sum([b * a[self.of][:, None] * k.T for b, a, k in parts], axis=0)
            result.append(solve_triangular(self._factor, cross, lower=True, check_finite=False))
        return np.stack(result)

    def value(self, x: np.ndarray) -> np.ndarray:
        """Return the posterior mean (n, S) alone."""
        parts = zip(self.mixing.T, self._correlations(x), strict=True)
        return np.sum([(k @ (self._alpha * a[self.of]))[:, None] * a for a, k in parts], axis=0)

    def thinned(self, most: int) -> Sources:
        """Return the posterior given no more rows than that: the first of each source, which stand in no order."""
        kept = _thinned([int(np.sum(self.of == s)) for s in range(len(self.noise))], most, None)
        rows = np.concatenate([np.flatnonzero(self.of == s)[number] for s, number in enumerate(kept)])
        return replace(self, rows=self.rows[rows], of=self.of[rows], y=self.y[rows])

    def covariance(self, x: np.ndarray, z: np.ndarray, wx: np.ndarray, wz: np.ndarray) -> np.ndarray:
        """Return ``cov[F_s(x), F_s(z)]`` (S, n, m) given the data; wx, wz are the whitened rows."""
        return self.prior_covariance(x, z) - np.swapaxes(wx, 1, 2) @ wz

    def prior_covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the same (S, ..., n, m) before the data, of rows x (..., n, D) and z (..., m, D)."""
        correlations = [correlation(self.kernel, squared_distance(x, z, length)) for length in self.lengthscale]
        parts = zip((self.mixing**2).T, correlations, strict=True)
        return np.sum([np.multiply.outer(squared, k) for squared, k in parts], axis=0)

    def variance(self, wx: np.ndarray) -> np.ndarray:
        """Return the diagonals (S, ...) of :meth:`covariance` at rows whose whitened ones (S, N, ...) are wx."""
        taken = np.einsum("sn...,sn...->s...", wx, wx)
        before = np.sum(self.mixing**2, axis=1)
        return np.maximum(before.reshape(-1, *[1] * (taken.ndim - 1)) - taken, 0.0)


def _mixed(a: np.ndarray, of: np.ndarray) -> np.ndarray:
    return a[of][:, None] * a[of]


def fit_sources(
    kernel: str,
    tasks: tuple[int, ...],
    aligned: list[np.ndarray],
    outputs: list[np.ndarray],
    known_noise: list[float | None],
    rng: np.random.Generator,
) -> Sources:
    """Return the sources' posterior, hyperparameters at their maximum a posteriori.

    ``aligned`` (N_s, D) and ``outputs`` (N_s,) are standardised; sources with many rows are thinned at random, to
    TRAINED_ROWS together for training and to POSTERIOR_ROWS together for the posterior.
    """
    size, latents = len(tasks), min(len(tasks), _LATENTS)
    chosen = _thinned([len(y) for y in outputs], POSTERIOR_ROWS, rng)
    fewer = _thinned([len(rows) for rows in chosen], TRAINED_ROWS, rng)
    few = [rows[kept] for rows, kept in zip(chosen, fewer, strict=True)]
    problem = kernel, size, latents, known_noise
    objective = _objective(_picked(few, aligned, outputs), *problem)
    screen = [rows[kept] for rows, kept in zip(few, _thinned([len(r) for r in few], SCREENED_ROWS, None), strict=True)]
    first = objective if len(few[0]) == len(screen[0]) else _objective(_picked(screen, aligned, outputs), *problem)
    found = [_search(first, start, _SCREENING) for start in objective.starts(rng)]
    best = min(found, key=lambda result: objective(result.x)[0])
    best = _search(objective, best.x, _FINISH)
    lengthscale, mixing, noise = objective.read(best.x)
    x, y, of = (np.concatenate(parts) for parts in _picked(chosen, aligned, outputs))
    return Sources(kernel, tasks, x, of, y, lengthscale, mixing, noise, -objective.loss(best.x))


def _thinned(sizes: list[int], most: int, rng: np.random.Generator | None) -> list[np.ndarray]:
    """Return row numbers of every source, no more than ``most`` together: the largest give way first.

    They are drawn at random, or the first ones.
    """
    cap = max(sizes)
    if sum(sizes) > most:
        low, high = 1, cap
        while low < high:  # the largest cap that fits
            middle = (low + high + 1) // 2
            low, high = (middle, high) if sum(min(n, middle) for n in sizes) <= most else (low, middle - 1)
        cap = low
    return [(np.arange(n) if rng is None else rng.permutation(n))[: min(n, cap)] for n in sizes]


def _objective(picked, kernel, size, latents, known_noise) -> _Objective:
    x, y, of = (np.concatenate(parts) for parts in picked)
    return _Objective(kernel, x, y, of, size, latents, known_noise)


def _search(objective: _Objective, start: np.ndarray, iterations: int):
    return minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": iterations, "maxcor": 20})


def _picked(chosen, aligned, outputs):
    yield [x[rows] for x, rows in zip(aligned, chosen, strict=True)]
    yield [y[rows] for y, rows in zip(outputs, chosen, strict=True)]
    yield [np.full(len(rows), s) for s, rows in enumerate(chosen)]


class _Objective:
    """Minus log evidence minus log prior of the LMC, with its gradient, of the vector (log l, A, log nu).

    log l ~ N(log 2 + log(D) / 2, 1.2^2), A ~ N(0, 4), log nu ~ N(-7, 2.5^2); a known noise keeps its value.
    """

    def __init__(self, kernel, x, y, of, size, latents, known_noise):
        self.kernel, self.x, self.y, self.of = kernel, x, y, of
        self.size, self.latents, self.dimensions = size, latents, x.shape[1]
        self.known = np.array([np.nan if noise is None else max(noise, _NOISE_FLOOR) for noise in known_noise])
        self.middle = np.log(2.0) + 0.5 * np.log(self.dimensions)

    def starts(self, rng):
        """Give starting vectors: wiggly and smooth, with little noise and with much.

        From a long lengthscale a wiggly function looks like noise, and the search stays there. Several sources start
        each as its own latent, and all as one.
        """
        for noise, spread, factor in STARTS:
            own = spread if self.size > 1 else 1.0
            mixing = np.full((self.size, self.latents), own)
            mixing[np.arange(self.size), np.arange(self.size) % self.latents] = 1.0
            lengths = np.full((self.latents, self.dimensions), self.middle + np.log(factor))
            lengths = lengths + 0.1 * rng.standard_normal(lengths.shape) * (self.latents > 1)
            yield np.concatenate([lengths.ravel(), mixing.ravel(), np.full(self.size, np.log(noise))])

    def _split(self, vector):
        a, b = self.latents * self.dimensions, self.latents * (self.dimensions + self.size)
        lengths = vector[:a].reshape(self.latents, self.dimensions)
        return lengths, vector[a:b].reshape(self.size, self.latents), vector[b:]

    def read(self, vector):
        """Return lengthscales (Q, D), mixing (S, Q) and noise variances (S,)."""
        lengths, mixing, log_noise = self._split(vector)
        bounded = np.clip(log_noise, -_LARGEST_LOG, _LARGEST_LOG)  # a line search may step anywhere
        noise = np.where(np.isnan(self.known), _NOISE_FLOOR + np.exp(bounded), self.known)
        return np.exp(np.clip(lengths, -_LARGEST_LOG, _LARGEST_LOG)), mixing.copy(), noise

    def loss(self, vector):
        """Return minus the log evidence alone."""
        return self._evaluated(vector)[0]

    def __call__(self, vector):
        lengths, mixing, log_noise = self._split(vector)
        loss, gradients = self._evaluated(vector)
        parts = ((lengths, self.middle, 1.2), (mixing, 0.0, 2.0), (log_noise, -7.0, 2.5))
        for (value, mean, spread), gradient in zip(parts, gradients, strict=True):
            loss += 0.5 * np.sum(((value - mean) / spread) ** 2)
            gradient += (value - mean) / spread**2
        return loss, np.concatenate([gradient.ravel() for gradient in gradients])

    def _evaluated(self, vector):
        lengths, mixing, noise = self.read(vector)
        squared = [squared_distance(self.x, self.x, length) for length in lengths]
        correlations = [correlation(self.kernel, r2) for r2 in squared]
        covariance = _OFFSET * (self.of[:, None] == self.of)
        for a, k in zip(mixing.T, correlations, strict=True):
            covariance = covariance + _mixed(a, self.of) * k
        covariance[np.diag_indices_from(covariance)] += noise[self.of]
        zeros = [np.zeros_like(lengths), np.zeros_like(mixing), np.zeros_like(noise)]
        found = negative_log_density(covariance, self.y)
        if found is None:
            return 1e25, zeros
        loss, pull = found
        members = np.eye(self.size)[self.of]  # (N, S)
        by_lengths, by_mixing, by_noise = zeros
        for q, (length, r2, k) in enumerate(zip(lengths, squared, correlations, strict=True)):
            a = mixing[self.of, q]
            by_lengths[q] = by_log_lengthscale(pull * (a[:, None] * a) * slope(self.kernel, r2), self.x, self.x, length)
            by_mixing[:, q] = 2.0 * members.T @ ((pull * k) @ a)
        free = np.isnan(self.known)
        by_noise += np.where(free, (members.T @ np.diag(pull)) * (noise - _NOISE_FLOOR), 0.0)
        return loss, [by_lengths, by_mixing, by_noise]
