"""A form's covariances as functions in JAX: what :mod:`aligngp.ensemble.prior` and ``target`` compute, term by term."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from aligngp.ensemble.forms import Form, Term
from aligngp.suggest.radial import correlation, slope, squared_distance

_BOUND = 3.0


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
    """Rows as the forms see them; mean, gradient and whitened as in :mod:`aligngp.ensemble.given`."""

    own: Any
    nominal: Any
    mean: Any
    gradient: Any
    whitened: Any


class Member(NamedTuple):
    """Hyperparameters of the P particles of a form, and its factors."""

    share: Any
    scale: Any
    known: Any
    """How much the sources' known parts count, (P, S)."""
    unknown: Any
    """The same of what is not known of them."""
    shares: Any
    """Lambda (P, S)."""
    variances: tuple
    widths: tuple
    like: Any
    """The prior mean is ``shift + mean @ like``, like (S,)."""
    shift: Any
    offset: Any
    """var(b)."""
    map: Any
    root: Any
    """Inverse factors (P, N, N)."""
    alpha: Any
    """K^-1 (y - c) (P, N)."""
    moved: Any
    """Of a form with a map: aligned (P, N, D), means (P, N, S) and whitened (S, Ns, P, N) of the training rows."""


# ---- rows as the forms see them -----------------------------------------------------------------------------------


def _at_sources(kernel: str, sources: Sources, x: Any) -> tuple[Any, Any, Any]:
    """Return means (n, S), their gradients times the reach (n, S, D), and whitened rows (S, Ns, n)."""
    means, gradients, cross = 0.0, 0.0, 0.0
    for q in range(len(sources.lengthscale)):
        length = sources.lengthscale[q]
        squared, a = squared_distance(x, sources.rows, length), sources.mixing[:, q]
        k, weight = correlation(kernel, squared), sources.alpha * sources.of[:, q]
        means += (k @ weight)[:, None] * a
        rate = slope(kernel, squared) * weight
        direction = 2.0 * (x * jnp.sum(rate, axis=1)[:, None] - rate @ sources.rows) / length**2
        gradients += direction[:, None, :] * a[:, None]
        cross += a[:, None, None] * (sources.of[:, q, None] * k.T)
    return means, gradients * sources.reach, sources.root @ cross


def see(kernel: str, sources: Sources | None, own: Any, nominal: Any) -> Side:
    """Return rows with own inputs (n, Dt) and aligned ones (n, D) as the forms see them."""
    if sources is None:
        return unaided(own, nominal)
    return Side(own, nominal, *_at_sources(kernel, sources, nominal))


def unaided(own: Any, nominal: Any) -> Side:
    """Return rows as a form sees them that has no source."""
    rows = len(own)
    return Side(own, nominal, jnp.zeros((rows, 0)), jnp.zeros((rows, 0, 1)), jnp.zeros((0, 0, rows)))


def move(kernel: str, sources: Sources, maps: Any, own: Any) -> tuple[Any, Any, Any]:
    """Return aligned rows (P, n, D), means (P, n, S) and whitened rows (S, Ns, P, n) under every particle's map."""
    at = own @ jnp.swapaxes(maps[:, :, :-1], 1, 2) + maps[:, None, :, -1]
    means, _, whitened = _at_sources(kernel, sources, at.reshape(-1, at.shape[2]))
    return at, means.reshape(*at.shape[:2], -1), whitened.reshape(*whitened.shape[:2], *at.shape[:2])


# ---- covariances of a form ----------------------------------------------------------------------------------------


def _prior_covariance(kernel: str, sources: Sources, x: Any, z: Any) -> Any:
    """Return the sources' covariances (S, ..., n, m) before their rows."""
    total = 0.0
    for q in range(len(sources.lengthscale)):
        k = correlation(kernel, squared_distance(x, z, sources.lengthscale[q]))
        total += jnp.multiply.outer(sources.mixing[:, q] ** 2, k)
    return total


def _shared(kernel: str, sources: Sources | None, member: Member, x: Side, z: Side) -> Any:
    """Return ``sum_s w_s m_s(x) m_s(z) + w'_s C_s(x, z)`` (P, n, m)."""
    if sources is None:
        return 0.0
    unknown = _prior_covariance(kernel, sources, x.nominal, z.nominal) - jnp.swapaxes(x.whitened, 1, 2) @ z.whitened
    known = x.mean.T[:, :, None] * z.mean.T[:, None, :]
    return jnp.tensordot(member.known, known, axes=1) + jnp.tensordot(member.unknown, unknown, axes=1)


def _shared_moved(kernel: str, sources: Sources, member: Member, x: tuple, z: tuple) -> Any:
    """Return the same (P, n, m) of rows that every particle aligns on its own."""
    taken = jnp.einsum("snpx,snpz->spxz", x[2], z[2])
    unknown = _prior_covariance(kernel, sources, x[0], z[0]) - taken
    known = (member.known[:, None] * x[1]) @ jnp.swapaxes(z[1], 1, 2)
    return known + jnp.sum(member.unknown.T[:, :, None, None] * unknown, axis=0)


def _bounded(own: Any) -> Any:
    return own / jnp.sqrt(1.0 + own**2 / _BOUND**2)


def _base(kernel: str, term: Term, width: Any, x: Side, z: Side) -> Any:
    if not term.linear:
        a, b = (x.nominal, z.nominal) if term.aligned else (x.own, z.own)
        return correlation(kernel, squared_distance(a, b, width))
    weighted = _bounded(x.own) * (width[:, None, :] / width.shape[1])
    return weighted @ _bounded(z.own).T + (1.0 if term.calibrates else 0.0)


def _covariance(form: Form, kernel: str, member: Member, x: Side, z: Side, shared: Any) -> Any:
    """Return the covariance (P, n, m) of noise-free outputs."""
    total = jnp.full((len(member.scale), len(x.own), len(z.own)), member.offset) + shared
    for term, v, width in zip(form.terms, member.variances, member.widths, strict=True):
        part = v[:, None, None] * _base(kernel, term, width, x, z)
        if term.calibrates:
            part *= jnp.tensordot(member.shares, jnp.einsum("nsd,msd->snm", x.gradient, z.gradient), axes=1)
        total += part
    return total * member.scale[:, None, None]


def _variance(form: Form, member: Member, x: Side, shared: Any) -> Any:
    """Return the diagonal (P, n) of the covariance of rows with themselves."""
    total = jnp.full((len(member.scale), len(x.own)), member.offset) + shared
    for term, v, width in zip(form.terms, member.variances, member.widths, strict=True):
        part = v[:, None] * jnp.ones(len(x.own))
        if term.linear:
            part = v[:, None] * (width @ _bounded(x.own).T ** 2 / width.shape[1] + (1.0 if term.calibrates else 0.0))
        if term.calibrates:
            part *= member.shares @ jnp.sum(x.gradient**2, axis=2).T
        total += part
    return total * member.scale[:, None]


def _own_part(sources: Sources | None, member: Member, x: Side, moved: tuple | None) -> Any:
    """Return what :func:`_shared` is of rows with themselves, (P, n)."""
    if sources is None:
        return 0.0
    mean, whitened = (x.mean[None], x.whitened[:, :, None]) if moved is None else moved[1:]
    before = jnp.sum(sources.mixing**2, axis=1)[:, None, None]
    unknown = jnp.maximum(before - jnp.einsum("snpx,snpx->spx", whitened, whitened), 0.0)
    known = jnp.sum(member.known[:, None] * mean**2, axis=2)
    return known + jnp.sum(member.unknown.T[:, :, None] * unknown, axis=0)


def _seen(form: Form, kernel: str, sources: Sources | None, training: Side, member: Member, own: Any, nominal: Any):
    """Return rows, what moves them, their prior mean (n,), and their covariance (P, n, N) with the training rows."""
    x = see(kernel, sources, own, nominal)
    if member.map is None or sources is None:
        moved, shared, mean = None, _shared(kernel, sources, member, x, training), x.mean
    else:
        moved = move(kernel, sources, member.map, own)
        shared, mean = _shared_moved(kernel, sources, member, moved, member.moved), moved[1][0]
    centre = member.shift + mean @ member.like
    return x, moved, centre, _covariance(form, kernel, member, x, training, shared)


def member_moments(form, kernel, sources, training, member, own, nominal):
    """Return first and second moments (n,) of a form, times its share."""
    x, moved, centre, cross = _seen(form, kernel, sources, training, member, own, nominal)
    mean = centre + jnp.einsum("pxn,pn->px", cross, member.alpha)
    taken = jnp.sum((cross @ jnp.swapaxes(member.root, 1, 2)) ** 2, axis=2)
    variance = jnp.maximum(_variance(form, member, x, _own_part(sources, member, x, moved)) - taken, 0.0)
    return member.share * jnp.mean(mean, axis=0), member.share * jnp.mean(variance + mean**2, axis=0)


def member_joint(form, kernel, sources, training, member, own, nominal):
    """Return first moments (n,) and second moments (n, n) of a form, times its share."""
    x, moved, centre, cross = _seen(form, kernel, sources, training, member, own, nominal)
    mean = centre + jnp.einsum("pxn,pn->px", cross, member.alpha)
    half = cross @ jnp.swapaxes(member.root, 1, 2)
    if moved is None or sources is None:
        among = _shared(kernel, sources, member, x, x)
    else:
        among = _shared_moved(kernel, sources, member, moved, moved)
    prior = _covariance(form, kernel, member, x, x, among)
    second = prior - half @ jnp.swapaxes(half, 1, 2) + mean[:, :, None] * mean[:, None, :]
    return member.share * jnp.mean(mean, axis=0), member.share * jnp.mean(second, axis=0)
