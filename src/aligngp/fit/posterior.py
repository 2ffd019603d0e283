r"""The q(u) of natural-gradient training: natural parameters, their steps, and the way from and to a model.

Latents and residuals have one precision P over all of their inducing variables and ``shift = P mean``; the GPs of
mappings have a q(u_g) of their own each.
"""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp

from aligngp.fit.gps import gp_of, with_gps
from aligngp.fit.gps import without_posterior as bare
from aligngp.gp.sparse import SparseGP
from aligngp.linalg import inverse_factor
from aligngp.model import Model
from aligngp.objective.evidence import Statistics, covariance_factor
from aligngp.parameters import Triangular
from aligngp.typing import Array, Float, Scalar

_SWEEPS = 2


class MappingPosterior(eqx.Module):
    """q(v) of a mapping's GP: precision and shift = precision * mean."""

    precision: tuple[Float[Array, "M M"], ...]
    shift: Float[Array, "M P"]


class Posterior(eqx.Module):
    """All q(v), by natural parameters; ``mean`` of the latents and residuals solves ``precision mean = shift``."""

    precision: Float[Array, "K K"]
    shift: Float[Array, " K"]
    mean: Float[Array, " K"]
    mappings: tuple[MappingPosterior | None, ...]


def towards(posterior: Posterior, found: Statistics, parts: list[int], rate) -> Posterior:
    """Return q(u) after its natural-gradient step, the means by block Gauss-Seidel."""
    identity = jnp.eye(found.linear.shape[0], dtype=found.linear.dtype)
    precision = (1.0 - rate) * posterior.precision + rate * (identity + found.products)
    shift = (1.0 - rate) * posterior.shift + rate * found.linear
    blocks = _blocks(parts)
    factors = [inverse_factor(precision[block, block])[0] for block in blocks]
    mean = jnp.asarray(posterior.mean)
    for _ in range(_SWEEPS if len(parts) > 1 else 1):
        for block, factor in zip(blocks, factors, strict=True):
            left = shift[block] - precision[block] @ mean + precision[block, block] @ mean[block]
            mean = mean.at[block].set(factor.T @ (factor @ left))
    return replace(posterior, precision=precision, shift=shift, mean=mean)


def value(found: Statistics, posterior: Posterior, parts: list[int]) -> Scalar:
    """Return ``E log p(y | f) - KL[q(u) || p(u)]`` of a batch's sums."""
    mean = posterior.mean
    trace, divergence = jnp.zeros(()), 0.5 * jnp.sum(mean**2)
    for block in _blocks(parts):
        factor, half_determinant = inverse_factor(posterior.precision[block, block])
        covariance = factor.T @ factor
        trace += jnp.sum(found.products[block, block] * covariance)
        divergence += 0.5 * (jnp.trace(covariance) - mean[block].shape[0]) + half_determinant
    fit = found.linear @ mean - 0.5 * (mean @ found.products @ mean + trace)
    return found.density + fit - 0.5 * (found.variance - jnp.trace(found.products)) - divergence


def _blocks(parts: list[int]) -> list[slice]:
    starts = [sum(parts[:j]) for j in range(len(parts))]
    return [slice(start, start + size) for start, size in zip(starts, parts, strict=True)]


# ---- GP mappings ------------------------------------------------------------------------------------------------


def moments(one: MappingPosterior) -> tuple[Float[Array, "M P"], tuple[Float[Array, "M M"], ...]]:
    """Return mean and covariances of a mapping's q(v)."""
    factors = [inverse_factor(precision)[0] for precision in one.precision]
    columns = [factor.T @ (factor @ one.shift[:, p]) for p, factor in enumerate(factors)]
    return jnp.stack(columns, axis=1), tuple(factor.T @ factor for factor in factors)


def improved(one: MappingPosterior, moments, slopes, rate: float) -> MappingPosterior:
    """Return a mapping's q(v) after a natural-gradient step; ``slopes`` are those of the negative bound."""
    mean, _ = moments
    mean_slope, slopes = -slopes[0], [-0.5 * (slope + slope.T) for slope in slopes[1]]
    precisions = [old - 2.0 * rate * slope for old, slope in zip(one.precision, slopes, strict=True)]
    moved = jnp.stack([slope @ mean[:, p] for p, slope in enumerate(slopes)], axis=1)
    shift = one.shift + rate * (mean_slope - 2.0 * moved)
    fine = jnp.all(jnp.stack([jnp.all(jnp.isfinite(jnp.linalg.cholesky(precision))) for precision in precisions]))
    fine &= jnp.all(jnp.isfinite(shift))
    kept = [jnp.where(fine, new, old) for new, old in zip(precisions, one.precision, strict=True)]
    return MappingPosterior(tuple(kept), jnp.where(fine, shift, one.shift))


# ---- between a model and the natural parameters of its q(u) -------------------------------------------------------


def natural(model: Model) -> Posterior:
    """Return the natural parameters of a resolved model's q(u)."""
    gps = [*model.latents, *(residual for residual in model.residuals if residual is not None)]
    precisions = [_precision(gp.scale[0]) for gp in gps]
    means = [gp.mean[:, 0] for gp in gps]
    size = sum(mean.shape[0] for mean in means)
    precision, start = jnp.zeros((size, size), means[0].dtype), 0
    for part in precisions:
        block = slice(start, start + part.shape[0])
        precision, start = precision.at[block, block].set(part), block.stop
    mean = jnp.concatenate(means)
    mappings = tuple(None if gp is None else _natural_mapping(gp) for gp in map(gp_of, model.mappings))
    return Posterior(precision, precision @ mean, mean, mappings)


def _natural_mapping(gp: SparseGP) -> MappingPosterior:
    precisions = tuple(_precision(scale) for scale in gp.scale)
    return MappingPosterior(precisions, jnp.stack([p @ gp.mean[:, d] for d, p in enumerate(precisions)], axis=1))


def _precision(scale: Float[Array, "M M"]) -> Float[Array, "M M"]:
    inverse, _ = inverse_factor(scale @ scale.T)
    return inverse.T @ inverse


def without_posterior(trainable: Model) -> Model:
    """Leave the q(u) of all GPs out of what Adam trains."""
    return with_gps(trainable, bare, bare)


def with_posterior(hyper: Model, trainable: Model, posterior: Posterior | None) -> Model:
    """Put q(u) back: that of the natural parameters, or as it was in the trainable arrays."""
    full = eqx.combine(hyper, trainable)
    if posterior is None:
        return full
    parts = [gp.inducing.shape[0] for gp in (*full.latents, *(gp for gp in full.residuals if gp is not None))]
    blocks = iter(_blocks(parts))

    def with_block(gp: SparseGP) -> SparseGP:
        block = next(blocks)
        scale = jnp.asarray(covariance_factor(posterior.precision[block, block]))[None]
        return replace(gp, mean=posterior.mean[block, None], scale=Triangular(scale))

    mappings = iter(one for one in posterior.mappings if one is not None)

    def with_moments(gp: SparseGP) -> SparseGP:
        one = next(mappings)
        scale = jnp.stack([covariance_factor(precision) for precision in one.precision])
        return replace(gp, mean=moments(one)[0], scale=Triangular(scale))

    return with_gps(full, with_block, with_moments)


def with_moments(model: Model, posterior: Posterior, moments) -> Model:
    """Put the moments of the mappings' q(v) into a model, as arrays that can be differentiated."""
    given = iter(one for one in moments if one is not None)

    def place(gp: SparseGP) -> SparseGP:
        mean, covariances = next(given)
        return replace(gp, mean=mean, scale=jnp.stack([jnp.linalg.cholesky(one) for one in covariances]))

    return with_gps(model, lambda gp: gp, place)
