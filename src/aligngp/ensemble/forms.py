"""The forms of one target task that compete: the covariance of its outputs, and the priors of its hyperparameters.

    y(x) = b + sum_s a_s F_s(g0(x)) + r(x) + eps,    b ~ N(0, max(1/4, 1/N)),  a_s ~ N(0, 1),  eps ~ N(0, nu)

With b and a integrated out, and F ~ posterior given the sources with mean m, covariance C and gradient of the mean
grad m, the outputs are Gaussian with mean zero and the covariance

    tau [ var(b) + sum_s (m_s(x) m_s(x') + C_s(x, x')) + R(x, x') + nu 1(x = x') ]

(E a_s^2 = 1; a and F are independent, and the product is taken as Gaussian). The output scale is itself the estimate
of N numbers, hence tau: log tau ~ N(log(N / (N - 1)), 2 / (N - 1)), as the variance of a sample has it. The forms:

    nominal            R = 0: the prior mapping g0 as it is
    residual           R = v k(x, x'), k an ARD kernel on the task's own inputs
    shifted            R = v k(g0(x), g0(x')): what no multiple of a source gives, in the common domain
    linear             R = v sum_d w_d x_d x'_d / D_t
    calibrated         R = v k(x, x') sum_s grad m_s(x) . grad m_s(x'):  g = g0 + delta, delta a GP, to first order
    affine             the same with 1 + sum_d w_d x_d x'_d / D_t in place of k:  an affine delta
    calibrated+residual, affine+linear    sums of two
    alone              no source: var(b) + v k(x, x')
    alone+linear       no source: var(b) + v k(x, x') + v' sum_d w_d x_d x'_d / D_t

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
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import numpy as np

from aligngp.ensemble.sources import Sources
from aligngp.kernels.radial import by_log_lengthscale, correlation, slope, squared_distance

NOISE_FLOOR = 1e-6
_LOG_NOISE, _HEARD = -7.0, 0.5
_BOUND = 3.0


@dataclass(frozen=True)
class Term:
    """A summand of R: a stationary kernel on own or aligned inputs, or a linear one; perhaps times the gradients'."""

    linear: bool = False
    calibrates: bool = False
    aligned: bool = False
    variance: float = 0.1


@dataclass(frozen=True)
class Form:
    """A form: whether it sees the sources, the summands of R, and whether the map to the common domain is in it."""

    name: str
    transfers: bool
    terms: tuple[Term, ...] = ()
    maps: bool = False


FORMS = (
    Form("nominal", True),
    Form("residual", True, (Term(),)),
    Form("shifted", True, (Term(aligned=True),)),
    Form("linear", True, (Term(linear=True),)),
    Form("calibrated", True, (Term(calibrates=True),)),
    Form("affine", True, (Term(linear=True, calibrates=True),)),
    Form("calibrated+residual", True, (Term(calibrates=True), Term())),
    Form("affine+linear", True, (Term(linear=True, calibrates=True), Term(linear=True))),
    Form("alone", False, (Term(variance=1.0),)),
    Form("alone+linear", False, (Term(variance=1.0), Term(linear=True, variance=1.0))),
)
MAPPED_FORMS = (Form("mapped", True, maps=True), Form("mapped+linear", True, (Term(linear=True),), maps=True))


@dataclass(frozen=True, eq=False)
class Side:
    """Rows of a target as the forms see them."""

    own: np.ndarray
    """(n, Dt)."""
    nominal: np.ndarray
    """(n, D)."""
    mean: np.ndarray
    """Posterior means of the sources (n, S)."""
    gradient: np.ndarray
    """Gradients of those means times the sources' reach, (n, S D)."""
    sources: Sources | None
    bounded: np.ndarray = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "bounded", self.own / np.sqrt(1.0 + self.own**2 / _BOUND**2))

    def inputs(self, term: Term) -> np.ndarray:
        """Return the inputs that a stationary term is a function of."""
        return self.nominal if term.aligned else self.own


@dataclass(frozen=True, eq=False)
class Pair:
    """Two sets of rows, and what their covariance has in every form."""

    x: Side
    z: Side
    shared: np.ndarray
    """``sum_s m_s(x) m_s(z) + C_s(x, z)``, (n, m)."""
    gradients: np.ndarray
    """``sum_s grad m_s(x) . grad m_s(z)``, (n, m)."""
    offset: float
    """var(b)."""


@dataclass(frozen=True, eq=False)
class Hyperparameters:
    """Values of P particles: tau (P,), nu (P,), and of each term its v (P,) and l or w (P, Dt), or (P, D)."""

    scale: np.ndarray
    noise: np.ndarray
    variances: tuple[np.ndarray, ...]
    widths: tuple[np.ndarray, ...]
    map: np.ndarray | None
    """[W, w] (P, D, Dt + 1) of a form that has it."""


@dataclass(frozen=True, eq=False)
class Prior:
    """Means and spreads of a form's hyperparameters in logarithms: tau, nu, then v and l or w of each term."""

    form: Form
    kernel: str
    mean: np.ndarray
    spread: np.ndarray
    known_noise: float | None
    dimensions: tuple[int, ...]
    """Of the inputs of each term."""
    aligned: int
    """Dimensions of the common domain where the form maps to it, else 0."""

    @property
    def _ranges(self) -> list[tuple[int, int]]:
        """Where the hyperparameters of each term stand: v first, then l or w up to the end."""
        ends = list(accumulate((1 + size for size in self.dimensions), initial=2))
        return list(pairwise(ends))

    def read(self, z: np.ndarray) -> Hyperparameters:
        """Return the hyperparameters of whitened ones z (P, H)."""
        linear = self.mean + self.spread * z
        values = np.exp(np.clip(linear, -40.0, 40.0))
        scale = values[:, 0]
        noise = scale * (NOISE_FLOOR + values[:, 1])
        if self.known_noise is not None:
            noise = np.full_like(noise, max(self.known_noise, NOISE_FLOOR))
        ranges = self._ranges
        variances = tuple(values[:, start] for start, _ in ranges)
        widths = tuple(values[:, start + 1 : end] for start, end in ranges)
        last = ranges[-1][1] if ranges else 2
        tail = linear[:, last:].reshape(len(z), self.aligned, -1) if self.aligned else None
        return Hyperparameters(scale, noise, variances, widths, tail)

    def covariance(self, h: Hyperparameters, pair: Pair) -> np.ndarray:
        """Return the covariance (P, n, m) of noise-free outputs."""
        total = np.full((len(h.scale), len(pair.x.own), len(pair.z.own)), pair.offset)
        if self.form.transfers:
            total += pair.shared if h.map is None else _moved_covariance(h.map, pair.x, pair.z)
        for term, v, width in zip(self.form.terms, h.variances, h.widths, strict=True):
            part = v[:, None, None] * self._base(term, width, pair)
            total += part * pair.gradients if term.calibrates else part
        total *= h.scale[:, None, None]
        return total

    def _base(self, term: Term, width: np.ndarray, pair: Pair) -> np.ndarray:
        if not term.linear:
            return correlation(self.kernel, squared_distance(pair.x.inputs(term), pair.z.inputs(term), width))
        weighted = pair.x.bounded * (width[:, None, :] / width.shape[1])
        return weighted @ pair.z.bounded.T + (1.0 if term.calibrates else 0.0)

    def variance(self, h: Hyperparameters, side: Side, shared: np.ndarray, offset: float) -> np.ndarray:
        """Return the diagonal (P, n) of the covariance of rows with themselves; ``shared`` is its part (n,)."""
        total = np.full((len(h.scale), len(side.own)), offset)
        if self.form.transfers:
            total += shared if h.map is None else _moved_variance(h.map, side)
        for term, v, width in zip(self.form.terms, h.variances, h.widths, strict=True):
            part = v[:, None] * np.ones(len(side.own))
            if term.linear:
                part = v[:, None] * (width @ side.bounded.T**2 / width.shape[1] + (1.0 if term.calibrates else 0.0))
            total += part * np.sum(side.gradient**2, axis=1) if term.calibrates else part
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
        for term, (start, end), v, widths in zip(self.form.terms, self._ranges, h.variances, h.widths, strict=True):
            inner = tau * v[0] * weight * (pair.gradients if term.calibrates else 1.0)
            result[start] = np.sum(inner * self._base(term, widths, pair)[0])
            if term.linear:
                x, y = pair.x.bounded, pair.z.bounded
                result[start + 1 : end] = np.sum(x * (inner @ y), axis=0) * widths[0] / widths.shape[1]
            else:
                x, y = pair.x.inputs(term), pair.z.inputs(term)
                inner = inner * slope(self.kernel, squared_distance(x, y, widths[0]))
                result[start + 1 : end] = by_log_lengthscale(inner, x, y, widths[0])
        return result * self.spread


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


def _moved_covariance(maps: np.ndarray, x: Side, z: Side) -> np.ndarray:
    """Return ``sum_s m_s m_s' + C_s`` (P, n, m) at mapped rows."""
    at, mean, whitened = _moved(maps, x)
    other_at, other_mean, other_whitened = (at, mean, whitened) if x is z else _moved(maps, z)
    assert x.sources is not None
    prior = x.sources.prior_covariance(at, other_at)
    taken = np.matmul(
        whitened.transpose(2, 3, 0, 1).reshape(*at.shape[:2], -1),
        other_whitened.transpose(2, 0, 1, 3).reshape(len(at), -1, other_at.shape[1]),
    )
    return mean @ np.swapaxes(other_mean, 1, 2) + prior - taken


def _moved_variance(maps: np.ndarray, side: Side) -> np.ndarray:
    """Return the diagonal (P, n) of the covariance of mapped rows."""
    _, mean, whitened = _moved(maps, side)
    assert side.sources is not None
    return np.sum(mean**2, axis=2) + side.sources.variance(whitened)


def prior(
    form: Form,
    kernel: str,
    rows: int,
    dimensions: int,
    known_noise: float | None,
    aligned: int = 0,
    source_noise: float | None = None,
) -> Prior:
    """Return the priors of a form for a target of that many rows and own inputs; ``aligned`` is D."""
    freedom = max(rows - 1, 1)
    heard = 0.0 if source_noise is None else _HEARD * max(np.log(source_noise) - _LOG_NOISE, 0.0)
    mean, spread = [np.log(max(rows, 2) / freedom), _LOG_NOISE + heard], [np.sqrt(2.0 / freedom), 2.0]
    sizes = tuple(aligned if term.aligned else dimensions for term in form.terms)
    for term, size in zip(form.terms, sizes, strict=True):
        middle = 0.0 if term.linear else np.log(2.5) + 0.5 * np.log(size)
        mean += [np.log(term.variance), *[middle] * size]
        spread += [1.5, *[1.0] * size]
    if form.maps:
        mean += [0.0] * (aligned * (dimensions + 1))
        spread += [*[dimensions**-0.5] * dimensions, 0.5] * aligned
    return Prior(form, kernel, np.array(mean), np.array(spread), known_noise, sizes, aligned if form.maps else 0)
