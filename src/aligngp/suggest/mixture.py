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
from aligngp.ensemble.prior import Hyperparameters, Prior
from aligngp.ensemble.target import Target
from aligngp.mappings.contract import Rows
from aligngp.suggest.covariances import Member, Side, Sources, member_joint, member_moments, move, see, unaided

_PADDING, _SOURCE_PADDING, _BLOCK = 16, 64, 16
"""Rows of a target, of its sources, and new rows come in multiples of these."""
_KNOWN = {
    Term: {"linear", "calibrates", "aligned", "variance"},
    Form: {"name", "transfers", "terms", "maps", "alike", "columns"},
    Hyperparameters: {"scale", "noise", "shares", "variances", "widths", "map"},
    Prior: {
        *("form", "kernel", "mean", "spread", "known_noise", "dimensions", "aligned", "sources", "likeness"),
        "given_map",
    },
}
"""The fields that these functions understand; another one that is set is refused."""


class UnknownFormError(Exception):
    """The ensemble has a form that these functions do not know: differences of its own moments are to be taken."""


class Mixture(NamedTuple):
    """A target's predictive distribution."""

    kernel: str
    forms: tuple[Form, ...]
    members: tuple[Member, ...]
    sources: Sources | None
    training: Side


def read(target: Target) -> Mixture:
    """Return a target as functions in JAX; UnknownFormError where they are not its own."""
    if target.placement:
        raise UnknownFormError("the prior mapping is known at the training rows only")
    sources = None if target.given.sources is None else _read_sources(target.given.sources)
    size = _size_of(len(target.y), _PADDING)
    kernel = target.members[0].prior.kernel
    own, nominal = (padded(rows, (size,)) for rows in (target.own, target.nominal))
    training = jax.jit(see, static_argnums=0)(kernel, sources, own, nominal)
    forms, members = [], []
    for share, member, h, root, alpha in target._active:
        prior, particles = member.prior, len(alpha)
        _check_known(prior.form, prior, h)
        forms.append(prior.form)
        maps = None if h.map is None else jnp.asarray(h.map)
        like = np.zeros(prior.sources)
        if prior.likeness is not None:
            like[prior.likeness.source] = prior.likeness.scale
        known, unknown = prior.weights(h)
        members.append(
            Member(
                jnp.asarray(share),
                jnp.asarray(h.scale),
                jnp.asarray(known),
                jnp.asarray(unknown),
                jnp.asarray(h.shares),
                tuple(map(jnp.asarray, h.variances)),
                tuple(map(jnp.asarray, h.widths)),
                jnp.asarray(like),
                jnp.asarray(0.0 if prior.likeness is None else prior.likeness.shift),
                jnp.asarray(prior._offset(target.given.offset)),
                maps,
                padded(root, (particles, size, size)),
                padded(alpha, (particles, size)),
                None if maps is None else jax.jit(move, static_argnums=0)(kernel, sources, maps, own),
            )
        )
    result = Mixture(kernel, tuple(forms), tuple(members), sources, training)
    _check_same(result, target)
    return result


def _check_known(*parts: Any) -> None:
    """Raise where a form, its terms, its prior or its hyperparameters have a field that is set and not known here."""
    terms = [term for part in parts if isinstance(part, Form) for term in part.terms]
    for part in (*parts, *terms):
        known = next(names for kind, names in _KNOWN.items() if isinstance(part, kind))
        for one in fields(part):
            value = getattr(part, one.name)
            if one.name not in known and value is not None and value is not one.default:
                raise UnknownFormError(f"{type(part).__name__} has {one.name}={value!r}")


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


_compiled = partial(jax.jit, static_argnames=("form", "kernel"), compiler_options={"xla_backend_optimization_level": 0})
"""Half the time of compilation, and as fast: the time is in products of matrices, which are library calls."""


@_compiled
def _slopes(form, kernel, sources, training, member, own, nominal):
    """Return both moments (n,), and their derivatives by own (n, Dt) and by nominal (n, D) inputs."""

    def function(own, nominal):
        return member_moments(form, kernel, sources, training, member, own, nominal)

    values, pull = jax.vjp(function, own, nominal)
    one, none = jnp.ones(len(own)), jnp.zeros(len(own))
    return values, pull((one, none)), pull((none, one))


@_compiled
def _joint(form, kernel, sources, training, member, own, nominal):
    def function(pair):
        return member_joint(form, kernel, sources, training, member, *pair)

    return jax.lax.map(function, (own, nominal))


@_compiled
def _pulled(form, kernel, sources, training, member, own, nominal, by_first, by_second):
    def function(given):
        def inner(own, nominal):
            return member_joint(form, kernel, sources, training, member, own, nominal)

        return jax.vjp(inner, *given[:2])[1](given[2:])

    return jax.lax.map(function, (own, nominal, by_first, by_second))


# ---- the mixture --------------------------------------------------------------------------------------------------


def _total(mixture: Mixture, function: Callable, *given: Any) -> Any:
    """Return the sum of what a function gives over the forms."""
    total = None
    for form, member in zip(mixture.forms, mixture.members, strict=True):
        sources = mixture.sources if form.transfers else None
        training = mixture.training if form.transfers else unaided(mixture.training.own, mixture.training.nominal)
        found = function(form, mixture.kernel, sources, training, member, *given)
        total = found if total is None else jax.tree.map(jnp.add, total, found)
    return jax.tree.map(np.asarray, total)


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
