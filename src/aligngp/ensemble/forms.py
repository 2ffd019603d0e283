"""The forms of one target task that compete: the covariance of its outputs, and the priors of its hyperparameters.

    y(x) = b + sum_s a_s F_s(g0(x)) + r(x) + eps,    b ~ N(0, max(1/4, 1/N)),  a_s ~ N(0, lambda_s),  eps ~ N(0, nu)

With b and a integrated out, and F ~ posterior given the sources with mean m, covariance C and gradient of the mean
grad m, the outputs are Gaussian with mean zero and the covariance

    tau [ var(b) + sum_s lambda_s (m_s(x) m_s(x') + C_s(x, x')) + R(x, x') + nu 1(x = x') ]

(a and F are independent, and the product is taken as Gaussian). The output scale is itself the estimate of N numbers,
hence tau: log tau ~ N(log(N / (N - 1)), 2 / (N - 1)), as the variance of a sample has it. One source has lambda = 1; of
several, log lambda_s ~ N(-1, 2^2), so that one which does not help is left out by itself. The forms:

    nominal            R = 0: the prior mapping g0 as it is
    residual           R = v k(x, x'), k an ARD kernel on the task's own inputs
    shifted            R = v k(g0(x), g0(x')): what no multiple of a source gives, in the common domain
    linear+residual    R = v sum_d w_d x_d x'_d / D_t + v' k(x, x')
    calibrated         R = v k(x, x') sum_s lambda_s grad m_s(x) . grad m_s(x'):  g = g0 + delta, delta a GP, linearised
    affine             the same with 1 + sum_d w_d x_d x'_d / D_t in place of k:  an affine delta
    calibrated+residual, affine+linear    sums of two
    alone              no source: var(b) + v k(x, x')
    alone+linear       no source: var(b) + v k(x, x') + v' sum_d w_d x_d x'_d / D_t

Two fidelities of one quantity have one unit, and then a source tells location and scale better than a few rows of the
target do. Each form with sources therefore has a twin, ``..., same units``, in which y is the most alike source s as it
stands, in the units of the data, up to a ~ N(1, 1/4), b ~ N(0, 1/4) in the source's standard deviations and R:

    y ~ N( shift + scale m_s(x),  tau [ 1/4 + 1/4 lambda_s (m_s m_s' + C_s) + C_s + (others) + R + nu 1(x = x') ] )

with log tau ~ N(log scale^2, 1/4^2).

Where g0 is not known (a learned prior mapping), two forms take an affine map of the inputs whose every coefficient is
a hyperparameter, g(x) = W x + w, W_dj ~ N(0, 1 / D_t), w ~ N(0, 1/4); nothing is linearised, and the columns' names and
order mean nothing:

    mapped, mapped+linear  R = 0, or the linear R, with m and C at g(x)

The linearisation holds as far as the sources are nearly linear, so delta is in units of their reach: the shortest
lengthscale of a dimension of the common domain, at most 1. (grad m stands for its product with the reach.)
Linear terms see inputs bounded smoothly, x / sqrt(1 + x^2 / 9), since they would extrapolate without bound.
Priors, for standardised inputs of dimension D: log l ~ N(log 2.5 + log(D) / 2, 1), log v ~ N(log 0.1, 1.5^2)
(alone: N(0, 1.5^2)), log w ~ N(0, 1), log nu ~ N(c, 2^2) above a floor of 1e-6. Tasks of one study are of a kind: where
the sources are noisy, or rougher than their rows can tell, the target probably is too, so c = -7 is raised half of the
way to the logarithm of the sources' noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np

from aligngp.ensemble.given import Given, Pair, Side
from aligngp.ensemble.mapped import moved_covariance, moved_variance
from aligngp.kernels.radial import by_log_lengthscale, correlation, slope, squared_distance

NOISE_FLOOR = 1e-6
_LOG_NOISE, _HEARD = -7.0, 0.5
_ALIKE = 0.25
"""Variances of a and b where a source has the target's units."""
_SHARE = -1.0, 2.0


@dataclass(frozen=True)
class Term:
    """A summand of R: a stationary kernel on own or aligned inputs, or a linear one; perhaps times the gradients'."""

    linear: bool = False
    calibrates: bool = False
    aligned: bool = False
    variance: float = 0.1


@dataclass(frozen=True)
class Form:
    """A form: whether it sees the sources, the summands of R, whether the map to the common domain is in it.

    And whether it takes a source for the same quantity in the same units.
    """

    name: str
    transfers: bool
    terms: tuple[Term, ...] = ()
    maps: bool = False
    alike: bool = False


_TRANSFERRING = (
    Form("nominal", True),
    Form("residual", True, (Term(),)),
    Form("shifted", True, (Term(aligned=True),)),
    Form("linear+residual", True, (Term(linear=True), Term())),
    Form("calibrated", True, (Term(calibrates=True),)),
    Form("affine", True, (Term(linear=True, calibrates=True),)),
    Form("calibrated+residual", True, (Term(calibrates=True), Term())),
    Form("affine+linear", True, (Term(linear=True, calibrates=True), Term(linear=True))),
)
FORMS = (
    *_TRANSFERRING,
    *(replace(form, name=f"{form.name}, same units", alike=True) for form in _TRANSFERRING),
    Form("alone", False, (Term(variance=1.0),)),
    Form("alone+linear", False, (Term(variance=1.0), Term(linear=True, variance=1.0))),
)
MAPPED_FORMS = (Form("mapped", True, maps=True), Form("mapped+linear", True, (Term(linear=True),), maps=True))


@dataclass(frozen=True, eq=False)
class Hyperparameters:
    """Values of P particles: tau (P,), nu (P,), lambda (P, S); of terms v (P,) and l or w (P, Dt) or (P, D)."""

    scale: np.ndarray
    noise: np.ndarray
    shares: np.ndarray
    variances: tuple[np.ndarray, ...]
    widths: tuple[np.ndarray, ...]
    map: np.ndarray | None
    """[W, w] (P, D, Dt + 1) of a form that has it."""


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
    """Dimensions of the common domain where the form maps to it, else 0."""
    sources: int
    """S, or 0 where the form sees none."""
    alike: int | None
    """The source that has the target's units."""

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
        tail = linear[:, last:].reshape(len(z), self.aligned, -1) if self.aligned else None
        return Hyperparameters(scale, noise, shares, variances, widths, tail)

    def weights(self, h: Hyperparameters) -> tuple[np.ndarray, np.ndarray]:
        """Return how much the sources' known and unknown parts count, (P, S) each: E a_s^2, but for known means."""
        if self.alike is None:
            return h.shares, h.shares
        own = np.arange(self.sources) == self.alike
        known = np.where(own, _ALIKE, 1.0) * h.shares
        return known, known + own

    def centre(self, side: Side) -> np.ndarray:
        """Return the prior mean (n,) of the outputs."""
        return np.zeros(len(side.own)) if self.alike is None else side.alike

    def covariance(self, h: Hyperparameters, pair: Pair) -> np.ndarray:
        """Return the covariance (P, n, m) of noise-free outputs."""
        total = np.full((len(h.scale), len(pair.x.own), len(pair.z.own)), self._offset(pair.offset))
        if self.sources:
            known, unknown = self.weights(h)
            if h.map is None:
                total += _summed(known, pair.known) + _summed(unknown, pair.unknown)
            else:
                total += moved_covariance(h.map, pair.x, pair.z, h.shares)
        for term, v, width in zip(self.form.terms, h.variances, h.widths, strict=True):
            part = v[:, None, None] * self._base(term, width, pair)
            total += part * _summed(h.shares, pair.gradients) if term.calibrates else part
        total *= h.scale[:, None, None]
        return total

    def _offset(self, offset: float) -> float:
        return offset if self.alike is None else _ALIKE

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
                total += moved_variance(h.map, side, h.shares)
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
) -> Prior:
    """Return the priors of a form for a target of that many rows and own inputs; ``aligned`` is D."""
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
    alike = None if likeness is None else likeness.source
    mapped = aligned if form.maps else 0
    return Prior(form, kernel, np.array(mean), np.array(spread), known_noise, sizes, mapped, number, alike)
