"""The mixture of exact GPs again, as pure functions in JAX, for derivatives by the inputs.

The same sums of kernels as in :mod:`aligngp.ensemble`, which stays the reference: :func:`read` compares the two at the
training rows and raises :class:`UnknownFormError` where they differ, or where a form has a flag that is not known here.
Rows of the target and of the sources are padded to few sizes, so that growing data do not compile everything again; a
padded row has weight zero. There is no factorisation in here, only products with factors that are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_triangular

from aligngp.ensemble.forms import Form, Term
from aligngp.ensemble.target import Target
from aligngp.mappings.contract import Rows

_PADDING, _SOURCE_PADDING, _BLOCK = 16, 64, 16
"""Rows of a target, of its sources, and new rows come in multiples of these."""
_KNOWN_TERM = {"linear", "calibrates", "aligned", "variance"}
_KNOWN_FORM = {"name", "transfers", "terms", "maps"}
_BOUND = 3.0
_FACTOR = {"matern12": 1.0, "matern32": 3.0, "matern52": 5.0}


class UnknownFormError(Exception):
    """The ensemble has a form that these functions do not know: differences of its own moments are to be taken."""


class Sources(NamedTuple):
    """The sources' posterior, padded."""

    rows: Any
    lengthscale: Any
    mixing: Any
    """A, (S, Q)."""
    of: Any
    """A of each row's source, (Ns, Q); zero for padding."""
    alpha: Any
    """K^-1 y (Ns,)."""
    root: Any
    """L^-1 (Ns, Ns)."""
    reach: Any


class Side(NamedTuple):
    """Rows as the forms see them; mean, gradient and whitened as in :class:`aligngp.ensemble.forms.Side`."""

    own: Any
    nominal: Any
    mean: Any
    gradient: Any
    whitened: Any


class Member(NamedTuple):
    """Hyperparameters of the P particles of a form, and its factors."""

    share: Any
    scale: Any
    variances: tuple
    widths: tuple
    map: Any
    root: Any
    """Inverse factors (P, N, N)."""
    alpha: Any
    """K^-1 y (P, N)."""
    moved: Any
    """Of a form with a map: means (P, N, S), aligned (P, N, D) and whitened (S, Ns, P, N) of the training rows."""


class Mixture(NamedTuple):
    """A target's predictive distribution."""

    kernel: str
    forms: tuple[Form, ...]
    members: tuple[Member, ...]
    sources: Sources | None
    training: Side
    offset: float


def read(target: Target) -> Mixture:
    """Return a target as functions in JAX; UnknownFormError where they are not its own."""
    if target.placement:
        raise UnknownFormError("the prior mapping is known at the training rows only")
    sources = None if target.given.sources is None else _read_sources(target.given.sources)
    size = _size_of(len(target.y), _PADDING)
    kernel = target.members[0].prior.kernel
    own, nominal = (padded(rows, (size,)) for rows in (target.own, target.nominal))
    training = jax.jit(_see, static_argnums=0)(kernel, sources, own, nominal)
    forms, members = [], []
    for share, member, h, root, alpha in target._active:
        form = member.prior.form
        _check_known(form)
        forms.append(form)
        particles = len(alpha)
        moved = None if h.map is None else jax.jit(_move, static_argnums=0)(kernel, sources, jnp.asarray(h.map), own)
        members.append(
            Member(
                jnp.asarray(share),
                jnp.asarray(h.scale),
                tuple(map(jnp.asarray, h.variances)),
                tuple(map(jnp.asarray, h.widths)),
                None if h.map is None else jnp.asarray(h.map),
                padded(root, (particles, size, size)),
                padded(alpha, (particles, size)),
                moved,
            )
        )
    result = Mixture(kernel, tuple(forms), tuple(members), sources, training, target.given.offset)
    _check_same(result, target)
    return result


def _check_known(form: Form) -> None:
    """Raise where a form has a flag that means something we do not know."""
    for part, known in ((form, _KNOWN_FORM), *((term, _KNOWN_TERM) for term in form.terms)):
        for flag in fields(part):
            if flag.name not in known and getattr(part, flag.name) != flag.default:
                raise UnknownFormError(f"form {form.name!r} has {flag.name}={getattr(part, flag.name)!r}")


def _check_same(mixture: Mixture, target: Target) -> None:
    """Raise where the two give other moments at rows between the training rows."""
    first, last = target.own[:4], target.own[-4:]
    nominal = 0.7 * target.nominal[:4] + 0.3 * target.nominal[-4:]
    own = 0.7 * first + 0.3 * last
    mean, variance, _, _ = slopes(mixture, own, nominal)
    expected, spread = target.moments(Rows(own, nominal, np.full(len(own), -1)))
    if not (np.allclose(mean, expected, rtol=1e-5, atol=1e-5) and np.allclose(variance, spread, rtol=1e-5, atol=1e-5)):
        raise UnknownFormError("the mixture's moments are not those of its forms as they are known here")


def _read_sources(sources: Any) -> Sources:
    number = len(sources.y)
    size = _size_of(number, _SOURCE_PADDING)
    root = solve_triangular(sources._factor, np.eye(number), lower=True, check_finite=False)
    return Sources(
        padded(sources.rows, (size,)),
        jnp.asarray(sources.lengthscale),
        jnp.asarray(sources.mixing),
        padded(sources.mixing[sources.of], (size,)),
        padded(sources._alpha, (size,)),
        padded(root, (size, size)),
        jnp.asarray(sources.reach),
    )


def _size_of(number: int, step: int) -> int:
    return -(-number // step) * step


def padded(values: Any, sizes: tuple[int, ...]) -> Any:
    """Return an array with zeros behind its first axes, up to those sizes."""
    values = np.asarray(values)
    behind = [(0, size - have) for size, have in zip(sizes, values.shape, strict=False)]
    return jnp.asarray(np.pad(values, behind + [(0, 0)] * (values.ndim - len(behind))))


# ---- kernels ------------------------------------------------------------------------------------------------------


def squared_distance(x: Any, z: Any, lengthscale: Any) -> Any:
    """Return squared scaled distances (..., n, m)."""
    centre = jnp.mean(z, axis=-2, keepdims=True)
    x, z = ((side - centre) / lengthscale[..., None, :] for side in (x, z))
    product = x @ jnp.swapaxes(z, -1, -2)
    return jnp.maximum(jnp.sum(x**2, -1)[..., :, None] + jnp.sum(z**2, -1)[..., None, :] - 2.0 * product, 0.0)


def _root(values: Any) -> Any:
    """Return the square root, its derivative zero at zero."""
    positive = values > 0.0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, values, 1.0)), 0.0)


def correlation(kernel: str, squared: Any) -> Any:
    """Return the kernel of unit variance of squared scaled distances."""
    if kernel == "se":
        return jnp.exp(-0.5 * squared)
    s = _root(_FACTOR[kernel] * squared)
    if kernel == "matern12":
        return jnp.exp(-s)
    if kernel == "matern32":
        return (1.0 + s) * jnp.exp(-s)
    return (1.0 + s + s**2 / 3.0) * jnp.exp(-s)


def _slope(kernel: str, squared: Any) -> Any:
    if kernel == "se":
        return -0.5 * jnp.exp(-0.5 * squared)
    s = _root(_FACTOR[kernel] * squared)
    if kernel == "matern12":
        return jnp.where(s > 1e-9, -0.5 * jnp.exp(-s) / jnp.maximum(s, 1e-9), 0.0)
    if kernel == "matern32":
        return -1.5 * jnp.exp(-s)
    return -5.0 / 6.0 * (1.0 + s) * jnp.exp(-s)


# ---- rows as the forms see them -----------------------------------------------------------------------------------


def _at_sources(kernel: str, sources: Sources, x: Any) -> tuple[Any, Any, Any]:
    """Return means (n, S), their gradients times the reach (n, S D), and whitened rows (S, Ns, n)."""
    means, gradients, cross = 0.0, 0.0, 0.0
    for q in range(len(sources.lengthscale)):
        length = sources.lengthscale[q]
        squared, a = squared_distance(x, sources.rows, length), sources.mixing[:, q]
        k, weight = correlation(kernel, squared), sources.alpha * sources.of[:, q]
        means += (k @ weight)[:, None] * a
        rate = _slope(kernel, squared) * weight
        direction = 2.0 * (x * jnp.sum(rate, axis=1)[:, None] - rate @ sources.rows) / length**2
        gradients += direction[:, None, :] * a[:, None]
        cross += a[:, None, None] * (sources.of[:, q, None] * k.T)
    return means, (gradients * sources.reach).reshape(len(x), -1), sources.root @ cross


def _see(kernel: str, sources: Sources | None, own: Any, nominal: Any) -> Side:
    if sources is None:
        nothing = jnp.zeros((len(own), 1))
        return Side(own, nominal, nothing, nothing, jnp.zeros((1, 1, len(own))))
    return Side(own, nominal, *_at_sources(kernel, sources, nominal))


def _placed(maps: Any, own: Any) -> Any:
    return own @ jnp.swapaxes(maps[:, :, :-1], 1, 2) + maps[:, None, :, -1]


def _move(kernel: str, sources: Sources, maps: Any, own: Any) -> tuple[Any, Any, Any]:
    """Return aligned rows (P, n, D), means (P, n, S) and whitened rows (S, Ns, P, n) under every particle's map."""
    at = _placed(maps, own)
    flat = at.reshape(-1, at.shape[2])
    means, _, whitened = _at_sources(kernel, sources, flat)
    return at, means.reshape(*at.shape[:2], -1), whitened.reshape(*whitened.shape[:2], *at.shape[:2])


def _prior_covariance(kernel: str, sources: Sources, x: Any, z: Any) -> Any:
    squared = [squared_distance(x, z, sources.lengthscale[q]) for q in range(len(sources.lengthscale))]
    return sum(jnp.sum(sources.mixing[:, q] ** 2) * correlation(kernel, r2) for q, r2 in enumerate(squared))


def _shared(kernel: str, sources: Sources | None, x: Side, z: Side) -> Any:
    """Return ``sum_s m_s(x) m_s(z) + C_s(x, z)`` (n, m)."""
    if sources is None:
        return jnp.zeros((len(x.own), len(z.own)))
    taken = jnp.einsum("snx,snz->xz", x.whitened, z.whitened)
    return x.mean @ z.mean.T + _prior_covariance(kernel, sources, x.nominal, z.nominal) - taken


def _shared_moved(kernel: str, sources: Sources, x: tuple, z: tuple) -> Any:
    """Return the same (P, n, m) of rows that every particle aligns on its own."""
    taken = jnp.einsum("snpx,snpz->pxz", x[2], z[2])
    return x[1] @ jnp.swapaxes(z[1], 1, 2) + _prior_covariance(kernel, sources, x[0], z[0]) - taken


# ---- covariances of a form ----------------------------------------------------------------------------------------


def _bounded(own: Any) -> Any:
    return own / jnp.sqrt(1.0 + own**2 / _BOUND**2)


def _base(kernel: str, term: Term, width: Any, x: Side, z: Side) -> Any:
    if not term.linear:
        a, b = (x.nominal, z.nominal) if term.aligned else (x.own, z.own)
        return correlation(kernel, squared_distance(a, b, width))
    weighted = _bounded(x.own) * (width[:, None, :] / width.shape[1])
    return weighted @ _bounded(z.own).T + (1.0 if term.calibrates else 0.0)


def _covariance(form: Form, kernel: str, member: Member, offset: Any, x: Side, z: Side, shared: Any) -> Any:
    """Return the covariance (P, n, m) of noise-free outputs."""
    total = jnp.full((len(member.scale), len(x.own), len(z.own)), offset)
    if form.transfers:
        total += shared
    for term, v, width in zip(form.terms, member.variances, member.widths, strict=True):
        part = v[:, None, None] * _base(kernel, term, width, x, z)
        total += part * (x.gradient @ z.gradient.T) if term.calibrates else part
    return total * member.scale[:, None, None]


def _variance(form: Form, member: Member, offset: Any, x: Side, shared: Any) -> Any:
    """Return the diagonal (P, n) of the covariance of rows with themselves."""
    total = jnp.full((len(member.scale), len(x.own)), offset)
    if form.transfers:
        total += shared
    for term, v, width in zip(form.terms, member.variances, member.widths, strict=True):
        part = v[:, None] * jnp.ones(len(x.own))
        if term.linear:
            part = v[:, None] * (width @ _bounded(x.own).T ** 2 / width.shape[1] + (1.0 if term.calibrates else 0.0))
        total += part * jnp.sum(x.gradient**2, axis=1) if term.calibrates else part
    return total * member.scale[:, None]


def _seen(form, kernel, sources, training, member, own, nominal):
    """Return rows, their shared part with the training rows, and what moves them."""
    x = _see(kernel, sources, own, nominal)
    if member.map is None:
        return x, None, _shared(kernel, sources, x, training)
    moved = _move(kernel, sources, member.map, own)
    return x, moved, _shared_moved(kernel, sources, moved, member.moved)


def _second_of_sources(sources: Sources, mean: Any, whitened: Any) -> Any:
    prior = jnp.sum(sources.mixing**2)
    return jnp.sum(mean**2, axis=-1) + jnp.maximum(prior - jnp.einsum("sn...,sn...->...", whitened, whitened), 0.0)


def _member_moments(form, kernel, offset, sources, training, member, own, nominal):
    """Return first and second moments (n,) of a form, times its share."""
    x, moved, shared = _seen(form, kernel, sources, training, member, own, nominal)
    cross = _covariance(form, kernel, member, offset, x, training, shared)
    mean = jnp.einsum("pxn,pn->px", cross, member.alpha)
    taken = jnp.sum((cross @ jnp.swapaxes(member.root, 1, 2)) ** 2, axis=2)
    own_part: Any = 0.0
    if sources is not None:
        own_part = _second_of_sources(sources, *((x.mean, x.whitened) if moved is None else moved[1:]))
    variance = jnp.maximum(_variance(form, member, offset, x, own_part) - taken, 0.0)
    return member.share * jnp.mean(mean, axis=0), member.share * jnp.mean(variance + mean**2, axis=0)


def _member_joint(form, kernel, offset, sources, training, member, own, nominal):
    """Return first moments (n,) and second moments (n, n) of a form, times its share."""
    x, moved, shared = _seen(form, kernel, sources, training, member, own, nominal)
    cross = _covariance(form, kernel, member, offset, x, training, shared)
    mean = jnp.einsum("pxn,pn->px", cross, member.alpha)
    half = cross @ jnp.swapaxes(member.root, 1, 2)
    among = _shared(kernel, sources, x, x) if moved is None else _shared_moved(kernel, sources, moved, moved)
    prior = _covariance(form, kernel, member, offset, x, x, among)
    second = prior - half @ jnp.swapaxes(half, 1, 2) + mean[:, :, None] * mean[:, None, :]
    return member.share * jnp.mean(mean, axis=0), member.share * jnp.mean(second, axis=0)


_compiled = partial(jax.jit, static_argnames=("form", "kernel"), compiler_options={"xla_backend_optimization_level": 0})
"""Half the time of compilation, and as fast: the time is in products of matrices, which are library calls."""


@_compiled
def _slopes(form, kernel, offset, sources, training, member, own, nominal):
    """Return both moments (n,), and their derivatives by own (n, Dt) and by nominal (n, D) inputs."""

    def function(own, nominal):
        return _member_moments(form, kernel, offset, sources, training, member, own, nominal)

    values, pull = jax.vjp(function, own, nominal)
    one, none = jnp.ones(len(own)), jnp.zeros(len(own))
    return values, pull((one, none)), pull((none, one))


@_compiled
def _joint(form, kernel, offset, sources, training, member, own, nominal):
    def function(pair):
        return _member_joint(form, kernel, offset, sources, training, member, *pair)

    return jax.lax.map(function, (own, nominal))


@_compiled
def _pulled(form, kernel, offset, sources, training, member, own, nominal, by_first, by_second):
    def function(given):
        def inner(own, nominal):
            return _member_joint(form, kernel, offset, sources, training, member, own, nominal)

        return jax.vjp(inner, *given[:2])[1](given[2:])

    return jax.lax.map(function, (own, nominal, by_first, by_second))


# ---- the mixture --------------------------------------------------------------------------------------------------


def _total(mixture: Mixture, function: Callable, *given: Any) -> Any:
    """Return the sum of what a function gives over the forms."""
    total = None
    for form, member in zip(mixture.forms, mixture.members, strict=True):
        sources = mixture.sources if form.transfers else None
        training = mixture.training if form.transfers else _unaided(mixture.training)
        found = function(form, mixture.kernel, mixture.offset, sources, training, member, *given)
        total = found if total is None else jax.tree.map(jnp.add, total, found)
    return jax.tree.map(np.asarray, total)


def _unaided(side: Side) -> Side:
    """Return rows as a form sees them that has no source."""
    nothing = jnp.zeros((len(side.own), 1))
    return Side(side.own, side.nominal, nothing, nothing, jnp.zeros((1, 1, len(side.own))))


def slopes(
    mixture: Mixture, own: np.ndarray, nominal: np.ndarray
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return mean, variance (n,), and the derivatives of each by own (n, Dt) and nominal (n, D) inputs."""
    values, by_first, by_second = _in_blocks(lambda *rows: _total(mixture, _slopes, *rows), own, nominal)
    first, second = values
    by_variance = tuple(s - 2.0 * first[:, None] * f for f, s in zip(by_first, by_second, strict=True))
    return first, np.maximum(second - first**2, 0.0), by_first, by_variance  # type: ignore[return-value]


def joint(mixture: Mixture, own: np.ndarray, nominal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means (b, q) and covariances (b, q, q) of rows (b, q, Dt) and (b, q, D), each b on its own."""
    first, second = _total(mixture, _joint, own, nominal)
    return first, second - first[:, :, None] * first[:, None, :]


def pulled(
    mixture: Mixture, own: np.ndarray, nominal: np.ndarray, by_mean: np.ndarray, by_covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the derivatives by own and nominal inputs of what has those derivatives by :func:`joint`'s results."""
    first, _ = _total(mixture, _joint, own, nominal)
    symmetric = by_covariance + np.swapaxes(by_covariance, 1, 2)
    by_first = by_mean - np.einsum("bqr,br->bq", symmetric, first)
    return _total(mixture, _pulled, own, nominal, by_first, by_covariance)


def _in_blocks(function: Callable, own: np.ndarray, nominal: np.ndarray) -> Any:
    number, extra = len(own), -len(own) % _BLOCK
    own, nominal = (np.pad(np.asarray(rows, float), ((0, extra), (0, 0)), mode="edge") for rows in (own, nominal))
    parts = [function(own[k : k + _BLOCK], nominal[k : k + _BLOCK]) for k in range(0, len(own), _BLOCK)]
    return jax.tree.map(lambda *found: np.concatenate(found)[:number], *parts)
