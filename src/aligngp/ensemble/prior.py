"""A form's hyperparameters: their priors, and the covariance of the outputs given them (forms.py has the equations)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from aligngp.ensemble.forms import Form, Term
from aligngp.ensemble.given import Given, Likeness, Pair, Side
from aligngp.ensemble.mapped import given_parts, moved_covariance, moved_mean, moved_variance
from aligngp.kernels.radial import by_log_lengthscale, correlation, slope, squared_distance

NOISE_FLOOR = 1e-6
_LOG_NOISE, _HEARD = -7.0, 0.5
_ALIKE = 0.25
"""Variances of a and b where a source has the target's units."""
_SHARE = -1.0, 2.0


@dataclass(frozen=True, eq=False)
class Hyperparameters:
    """Values of P particles: tau (P,), nu (P,), lambda (P, S); of terms v (P,) and l or w (P, Dt) or (P, D)."""

    scale: np.ndarray
    noise: np.ndarray
    shares: np.ndarray
    variances: tuple[np.ndarray, ...]
    widths: tuple[np.ndarray, ...]
    map: np.ndarray | None
    """[W, w] (P, D, Dt + 1) of a form that has it, (1, D, Dt + 1) where it is given."""


@dataclass(frozen=True, eq=False)
class Prior:
    """Means and spreads of a form's hyperparameters in logarithms: tau, nu, lambda, then v and l or w of each term."""

    form: Form
    kernel: str
    mean: np.ndarray
    spread: np.ndarray
    known_noise: float | None
    dimensions: tuple[int, ...]
    """Of the inputs of each term."""
    aligned: int
    """Dimensions of the common domain where the map to it is a hyperparameter, else 0."""
    sources: int
    """S, or 0 where the form sees none."""
    likeness: Likeness | None
    """Of the source that has the target's units."""
    given_map: np.ndarray | None
    """[W, w] (1, D, Dt + 1) where the form tries one."""

    @property
    def _shared(self) -> int:
        """Where the hyperparameters of the terms begin: one source has no lambda."""
        return 2 + (self.sources if self.sources > 1 else 0)

    @property
    def _ranges(self) -> list[tuple[int, int]]:
        """Where the hyperparameters of each term stand: v first, then l or w up to the end."""
        ends = list(accumulate((1 + size for size in self.dimensions), initial=self._shared))
        return list(pairwise(ends))

    def read(self, z: np.ndarray) -> Hyperparameters:
        """Return the hyperparameters of whitened ones z (P, H)."""
        linear = self.mean + self.spread * z
        values = np.exp(np.clip(linear, -40.0, 40.0))
        scale = values[:, 0]
        noise = scale * (NOISE_FLOOR + values[:, 1])
        if self.known_noise is not None:
            noise = np.full_like(noise, max(self.known_noise, NOISE_FLOOR))
        shares = values[:, 2 : self._shared] if self.sources > 1 else np.ones((len(z), self.sources))
        ranges = self._ranges
        variances = tuple(values[:, start] for start, _ in ranges)
        widths = tuple(values[:, start + 1 : end] for start, end in ranges)
        last = ranges[-1][1] if ranges else self._shared
        tail = linear[:, last:].reshape(len(z), self.aligned, -1) if self.aligned else self.given_map
        return Hyperparameters(scale, noise, shares, variances, widths, tail)

    def weights(self, h: Hyperparameters) -> tuple[np.ndarray, np.ndarray]:
        """Return how much the sources' known and unknown parts count, (P, S) each: E a_s^2, but for known means."""
        if self.likeness is None:
            return h.shares, h.shares
        own = np.arange(self.sources) == self.likeness.source
        known = np.where(own, _ALIKE, 1.0) * h.shares
        return known, known + own

    def centre(self, side: Side) -> np.ndarray:
        """Return the prior mean (n,) of the outputs."""
        if self.likeness is None:
            return np.zeros(len(side.own))
        return self.likeness.mean(side.mean if self.given_map is None else moved_mean(self.given_map, side))

    def covariance(self, h: Hyperparameters, pair: Pair) -> np.ndarray:
        """Return the covariance (P, n, m) of noise-free outputs."""
        total = np.full((len(h.scale), len(pair.x.own), len(pair.z.own)), self._offset(pair.offset))
        if self.sources:
            weights = self.weights(h)
            if self.aligned and h.map is not None:
                total += moved_covariance(h.map, pair.x, pair.z, weights)
            else:
                parts = pair.known, pair.unknown
                known, unknown = parts if self.given_map is None else given_parts(self.given_map, pair)
                total += _summed(weights[0], known) + _summed(weights[1], unknown)
        for term, v, width in zip(self.form.terms, h.variances, h.widths, strict=True):
            part = v[:, None, None] * self._base(term, width, pair)
            total += part * _summed(h.shares, pair.gradients) if term.calibrates else part
        total *= h.scale[:, None, None]
        return total

    def _offset(self, offset: float) -> float:
        return offset if self.likeness is None else _ALIKE

    def _base(self, term: Term, width: np.ndarray, pair: Pair) -> np.ndarray:
        if not term.linear:
            x, z = (inputs(term, side) for side in (pair.x, pair.z))
            return correlation(self.kernel, squared_distance(x, z, width))
        weighted = pair.x.bounded * (width[:, None, :] / width.shape[1])
        return weighted @ pair.z.bounded.T + (1.0 if term.calibrates else 0.0)

    def variance(self, h: Hyperparameters, side: Side, unknown: np.ndarray, offset: float) -> np.ndarray:
        """Return the diagonal (P, n) of the covariance of rows with themselves; ``unknown`` is its part (S, n)."""
        total = np.full((len(h.scale), len(side.own)), self._offset(offset))
        if self.sources:
            weights = self.weights(h)
            if h.map is None:
                total += weights[0] @ side.mean.T**2 + weights[1] @ unknown
            else:
                total += moved_variance(h.map, side, weights)
        for term, v, width in zip(self.form.terms, h.variances, h.widths, strict=True):
            part = v[:, None] * np.ones(len(side.own))
            if term.linear:
                part = v[:, None] * (width @ side.bounded.T**2 / width.shape[1] + (1.0 if term.calibrates else 0.0))
            total += part * (h.shares @ np.sum(side.gradient**2, axis=2).T) if term.calibrates else part
        return total * h.scale[:, None]

    def displacement(self, h: Hyperparameters, pair: Pair) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Give the prior covariance (P, n, m) and variance (P, n) of a displacement of the aligned inputs, if any."""
        for term, v, width in zip(self.form.terms, h.variances, h.widths, strict=True):
            if term.calibrates:
                spread = np.ones((len(v), len(pair.x.own)))
                if term.linear:
                    spread += width @ pair.x.bounded.T**2 / width.shape[1]
                yield v[:, None, None] * self._base(term, width, pair), v[:, None] * spread

    def pull(self, z: np.ndarray, pair: Pair, weight: np.ndarray) -> np.ndarray:
        """Return ``sum_ij weight_ij d K_ij / d z`` (H,) for one z (H,), K with the noise on its diagonal.

        Not for forms with a map.
        """
        h = self.read(z[None])
        tau = h.scale[0]
        result = np.zeros_like(z)
        noise = h.noise[0]
        result[0] = np.sum(weight * self.covariance(h, pair)[0])
        if self.known_noise is None:
            result[0] += noise * np.trace(weight)
            result[1] = (noise - tau * NOISE_FLOOR) * np.trace(weight)
        by_share = np.zeros(self.sources)
        if self.sources > 1:
            by_share = self.weights(h)[0][0] * np.sum(weight * (pair.known + pair.unknown), axis=(1, 2))
        for term, (start, end), v, widths in zip(self.form.terms, self._ranges, h.variances, h.widths, strict=True):
            plain = v[0] * weight
            if term.calibrates:
                factor = plain * self._base(term, widths, pair)[0]
                by_share += h.shares[0] * np.sum(factor * pair.gradients, axis=(1, 2))
                plain = plain * _summed(h.shares, pair.gradients)[0]
            inner = tau * plain
            result[start] = np.sum(inner * self._base(term, widths, pair)[0])
            if term.linear:
                x, y = pair.x.bounded, pair.z.bounded
                result[start + 1 : end] = np.sum(x * (inner @ y), axis=0) * widths[0] / widths.shape[1]
            else:
                x, y = inputs(term, pair.x), inputs(term, pair.z)
                inner = inner * slope(self.kernel, squared_distance(x, y, widths[0]))
                result[start + 1 : end] = by_log_lengthscale(inner, x, y, widths[0])
        if self.sources > 1:
            result[2 : self._shared] = tau * by_share
        return result * self.spread


def inputs(term: Term, side: Side) -> np.ndarray:
    """Return the inputs that a stationary term is a function of."""
    return side.nominal if term.aligned else side.own


def _summed(weights: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Return ``sum_s weights_ps parts_s`` (P, n, m)."""
    return np.tensordot(weights, parts, axes=1)


def prior(
    form: Form,
    kernel: str,
    rows: int,
    dimensions: int,
    known_noise: float | None,
    aligned: int = 0,
    given: Given | None = None,
    rulers: np.ndarray | None = None,
) -> Prior:
    """Return the priors of a form for a target of that many rows and own inputs; ``aligned`` is D.

    ``rulers`` (D, Dt, 2) has slope and offset from every own input to every common one, for forms that choose columns.
    """
    freedom = max(rows - 1, 1)
    sources = None if given is None else given.sources
    likeness = given.likeness if given is not None and form.alike else None
    heard = 0.0 if sources is None else _HEARD * max(np.log(sources.noise.mean()) - _LOG_NOISE, 0.0)
    mean, spread = [np.log(max(rows, 2) / freedom), _LOG_NOISE + heard], [np.sqrt(2.0 / freedom), 2.0]
    if likeness is not None:
        mean[0], spread[0] = 2.0 * np.log(likeness.scale), 0.25
    number = given.number if given is not None and form.transfers else 0
    if number > 1:
        mean, spread = mean + number * [_SHARE[0]], spread + number * [_SHARE[1]]
    sizes = tuple(aligned if term.aligned else dimensions for term in form.terms)
    for term, size in zip(form.terms, sizes, strict=True):
        middle = 0.0 if term.linear else np.log(2.5) + 0.5 * np.log(size)
        mean += [np.log(term.variance), *[middle] * size]
        spread += [1.5, *[1.0] * size]
    if form.maps:
        mean += [0.0] * (aligned * (dimensions + 1))
        spread += [*[dimensions**-0.5] * dimensions, 0.5] * aligned
    mapped = aligned if form.maps else 0
    chosen = None if form.columns is None or rulers is None else _map_of(form.columns, rulers)
    return Prior(form, kernel, np.array(mean), np.array(spread), known_noise, sizes, mapped, number, likeness, chosen)


def _map_of(columns: tuple[int, ...], rulers: np.ndarray) -> np.ndarray:
    """Return [W, w] (1, D, Dt + 1) that takes those own inputs for the common ones."""
    result = np.zeros((1, len(columns), rulers.shape[1] + 1))
    for d, column in enumerate(columns):
        result[0, d, column], result[0, d, -1] = rulers[d, column]
    return result
