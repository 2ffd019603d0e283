"""A form's covariances as functions in JAX: what :mod:`aligngp.ensemble.forms` and ``target`` compute, term by term."""

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


# ---- rows as the forms see them -----------------------------------------------------------------------------------


def _at_sources(kernel: str, sources: Sources, x: Any) -> tuple[Any, Any, Any]:
    """Return means (n, S), their gradients times the reach (n, S D), and whitened rows (S, Ns, n)."""
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
    return means, (gradients * sources.reach).reshape(len(x), -1), sources.root @ cross


def see(kernel: str, sources: Sources | None, own: Any, nominal: Any) -> Side:
    """Return rows with own inputs (n, Dt) and aligned ones (n, D) as the forms see them."""
    if sources is None:
        nothing = jnp.zeros((len(own), 1))
        return Side(own, nominal, nothing, nothing, jnp.zeros((1, 1, len(own))))
    return Side(own, nominal, *_at_sources(kernel, sources, nominal))


def _placed(maps: Any, own: Any) -> Any:
    return own @ jnp.swapaxes(maps[:, :, :-1], 1, 2) + maps[:, None, :, -1]


def move(kernel: str, sources: Sources, maps: Any, own: Any) -> tuple[Any, Any, Any]:
    """Return aligned rows (P, n, D), means (P, n, S) and whitened rows (S, Ns, P, n) under every particle's map."""
    at = _placed(maps, own)
    flat = at.reshape(-1, at.shape[2])
    means, _, whitened = _at_sources(kernel, sources, flat)
    return at, means.reshape(*at.shape[:2], -1), whitened.reshape(*whitened.shape[:2], *at.shape[:2])


def _prior_covariance(kernel: str, sources: Sources, x: Any, z: Any) -> Any:
    squared = [squared_distance(x, z, sources.lengthscale[q]) for q in range(len(sources.lengthscale))]
    return sum(jnp.sum(sources.mixing[:, q] ** 2) * correlation(kernel, r2) for q, r2 in enumerate(squared))


def shared_part(kernel: str, sources: Sources | None, x: Side, z: Side) -> Any:
    """Return ``sum_s m_s(x) m_s(z) + C_s(x, z)`` (n, m)."""
    if sources is None:
        return jnp.zeros((len(x.own), len(z.own)))
    taken = jnp.einsum("snx,snz->xz", x.whitened, z.whitened)
    return x.mean @ z.mean.T + _prior_covariance(kernel, sources, x.nominal, z.nominal) - taken


def shared_moved(kernel: str, sources: Sources, x: tuple, z: tuple) -> Any:
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


def seen(form, kernel, sources, training, member, own, nominal):
    """Return rows, their shared part with the training rows, and what moves them."""
    x = see(kernel, sources, own, nominal)
    if member.map is None:
        return x, None, shared_part(kernel, sources, x, training)
    moved = move(kernel, sources, member.map, own)
    return x, moved, shared_moved(kernel, sources, moved, member.moved)


def _second_of_sources(sources: Sources, mean: Any, whitened: Any) -> Any:
    prior = jnp.sum(sources.mixing**2)
    return jnp.sum(mean**2, axis=-1) + jnp.maximum(prior - jnp.einsum("sn...,sn...->...", whitened, whitened), 0.0)


def member_moments(form, kernel, offset, sources, training, member, own, nominal):
    """Return first and second moments (n,) of a form, times its share."""
    x, moved, shared = seen(form, kernel, sources, training, member, own, nominal)
    cross = _covariance(form, kernel, member, offset, x, training, shared)
    mean = jnp.einsum("pxn,pn->px", cross, member.alpha)
    taken = jnp.sum((cross @ jnp.swapaxes(member.root, 1, 2)) ** 2, axis=2)
    own_part: Any = 0.0
    if sources is not None:
        own_part = _second_of_sources(sources, *((x.mean, x.whitened) if moved is None else moved[1:]))
    variance = jnp.maximum(_variance(form, member, offset, x, own_part) - taken, 0.0)
    return member.share * jnp.mean(mean, axis=0), member.share * jnp.mean(variance + mean**2, axis=0)


def member_joint(form, kernel, offset, sources, training, member, own, nominal):
    """Return first moments (n,) and second moments (n, n) of a form, times its share."""
    x, moved, shared = seen(form, kernel, sources, training, member, own, nominal)
    cross = _covariance(form, kernel, member, offset, x, training, shared)
    mean = jnp.einsum("pxn,pn->px", cross, member.alpha)
    half = cross @ jnp.swapaxes(member.root, 1, 2)
    among = shared_part(kernel, sources, x, x) if moved is None else shared_moved(kernel, sources, moved, moved)
    prior = _covariance(form, kernel, member, offset, x, x, among)
    second = prior - half @ jnp.swapaxes(half, 1, 2) + mean[:, :, None] * mean[:, None, :]
    return member.share * jnp.mean(mean, axis=0), member.share * jnp.mean(second, axis=0)
