"""The bound with the best q(u) put in: deterministic, closed form, and data enter through sums over rows alone.

For the paper's factorised q(u) and a Gaussian likelihood (w_i = 1 / noise of the row's task; ``phi_i`` stacks the
whitened features of all inducing variables, ``a_q L_q^-1 k_q(Z_q, x_i)`` of the latents and ``L_h^-1 k_h(Z_h, x_i)`` of
the task's own residual, averaged over Gaussian aligned inputs by psi statistics):

    B = sum_i w_i phi_i phi_i',  P = I + B,  b = sum_i w_i phi_i y_i
    bound = sum_i log N(y_i | 0, 1 / w_i) + b' P^-1 b / 2 - sum_j log|P_jj| / 2 - (sum_i w_i k_i - tr B) / 2

with j over the latents and residuals, ``k_i`` the prior variance of row i, at ``q(v_j) = N((P^-1 b)_j, P_jj^-1)`` in
whitened coordinates: the means couple, one system in all inducing variables.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from aligngp.gaussian import LOG_2PI
from aligngp.gp.psi import expected_cross, in_double, summed_product
from aligngp.linalg import inverse_factor
from aligngp.mappings.contract import DiagonalGaussian, Law, Point
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch
from aligngp.typing import Array, Float, Scalar

BLOCK = 4096
"""Rows that are held at once: the memory is that of a block and of the system, whatever N."""


class Statistics(eqx.Module):
    """What the data are to the bound: sums over rows."""

    products: Float[Array, "K K"]
    """B, K being the number of all inducing variables."""
    linear: Float[Array, " K"]
    """b."""
    variance: Scalar
    """sum_i w_i k_i."""
    density: Scalar
    """sum_i log N(y_i | 0, 1 / w_i)."""

    def __add__(self, other: Statistics) -> Statistics:
        return jax.tree.map(jnp.add, self, other)


class Factors(eqx.Module):
    """Inverse factors of all inducing covariances."""

    latents: tuple[Float[Array, "_ _"], ...]
    residuals: tuple[Float[Array, "_ _"] | None, ...]


class CollapsedTerms(eqx.Module):
    """The collapsed bound by its parts; penalties count against it."""

    evidence: Scalar
    """E log p(y | f) - KL[q(u) || p(u)] at the best q(u)."""
    alignment_penalty: Float[Array, " T"]
    mapping_penalty: Float[Array, " T"]

    @property
    def total(self) -> Scalar:
        """Return the bound."""
        return self.evidence - jnp.sum(self.alignment_penalty) - jnp.sum(self.mapping_penalty)


def collapsed_bound(model: Model, batches: Sequence[TaskBatch]) -> CollapsedTerms:
    """Return the bound of a resolved model at its best q(u), whatever q(u) the model holds."""
    posteriors = [mapping.posterior(batch.rows) for mapping, batch in zip(model.mappings, batches, strict=True)]
    total = statistics(model, [law for law, _ in posteriors], batches)
    return CollapsedTerms(
        evidence=_evidence(total, sizes(model)),
        alignment_penalty=jnp.stack(
            [batch.sum(penalty) for (_, penalty), batch in zip(posteriors, batches, strict=True)]
        ),
        mapping_penalty=jnp.stack([mapping.global_penalty() for mapping in model.mappings]),
    )


def best_posterior(
    model: Model, batches: Sequence[TaskBatch]
) -> tuple[tuple[Float[Array, "_ 1"], ...], tuple[Float[Array, "1 _ _"], ...]]:
    """Return mean and lower factor of the best q(v) of every latent, then of every residual there is, whitened."""
    laws = [mapping.posterior(batch.rows)[0] for mapping, batch in zip(model.mappings, batches, strict=True)]
    return posterior_of(model, statistics(model, laws, batches))


def posterior_of(
    model: Model, total: Statistics
) -> tuple[tuple[Float[Array, "_ 1"], ...], tuple[Float[Array, "1 _ _"], ...]]:
    """Return the same from the sums over all rows."""
    precision = total.products + jnp.eye(total.linear.shape[0], dtype=total.linear.dtype)
    factor, _ = inverse_factor(precision)
    mean = factor.T @ (factor @ total.linear)
    means, scales, start = [], [], 0
    for size in sizes(model):
        part = slice(start, start + size)
        means.append(mean[part, None])
        scales.append(covariance_factor(precision[part, part])[None])
        start += size
    return tuple(means), tuple(scales)


def covariance_factor(precision: Float[Array, "M M"]) -> Float[Array, "M M"]:
    """Return the lower factor of ``P^-1``."""
    # With the rows in reverse order P = U U' for an upper U, and U^-T is the lower factor of P^-1.
    reversed_factor, _ = inverse_factor(precision[::-1, ::-1])
    return reversed_factor.T[::-1, ::-1]


def sizes(model: Model) -> list[int]:
    """Return the numbers of inducing inputs: of every latent, then of every residual there is."""
    residuals = [residual for residual in model.residuals if residual is not None]
    return [gp.inducing.shape[0] for gp in (*model.latents, *residuals)]


def _evidence(total: Statistics, parts: Sequence[int]) -> Scalar:
    precision = total.products + jnp.eye(total.linear.shape[0], dtype=total.linear.dtype)
    factor, half_determinant = inverse_factor(precision)
    fit = 0.5 * jnp.sum((factor @ total.linear) ** 2)
    if len(parts) > 1:
        starts = [sum(parts[:j]) for j in range(len(parts))]
        blocks = [
            precision[start : start + size, start : start + size] for start, size in zip(starts, parts, strict=True)
        ]
        half_determinant = sum((inverse_factor(block)[1] for block in blocks), jnp.zeros_like(fit))
    trace = total.variance - jnp.trace(total.products)
    return total.density + fit - half_determinant - 0.5 * trace


def statistics(model: Model, laws: Sequence[Law], batches: Sequence[TaskBatch]) -> Statistics:
    """Return the sums over all rows of all tasks; each task's count ``scale`` times."""
    factors = factors_of(model)
    pairs = enumerate(zip(laws, batches, strict=True))
    parts = [task_statistics(model, task, law, batch, factors) for task, (law, batch) in pairs]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def factors_of(model: Model) -> Factors:
    """Return the inverse factors of a model's inducing covariances."""
    residuals = tuple(None if residual is None else residual.factor() for residual in model.residuals)
    return Factors(model.factors(), residuals)


def task_statistics(model: Model, task: int, law: Law, batch: TaskBatch, factors: Factors) -> Statistics:
    """Return the sums over the rows of one task, which count ``scale`` times."""
    y, own = jnp.asarray(batch.y), jnp.asarray(batch.rows.own)
    if isinstance(law, Point):
        part = _point_statistics(model, task, law.value, own, y, factors, batch.counted)
    else:
        part = _psi_statistics(model, task, law, own, y, factors, batch.counted)
    return jax.tree.map(lambda leaf: batch.scale * leaf, part)


def _point_statistics(model: Model, task: int, x, own, y, factors: Factors, counted=None) -> Statistics:
    """Return a task's sums, in blocks where there are many rows."""
    rows = x.shape[0]
    counted = jnp.ones_like(y) if counted is None else counted
    if rows <= BLOCK:
        return _block_statistics(model, task, factors, x, own, y, counted)
    blocks = -(-rows // BLOCK)
    extra = blocks * BLOCK - rows

    def cut(values):  # rows that fill the last block count with weight zero
        filled = jnp.concatenate([values, jnp.broadcast_to(values[:1], (extra, *values.shape[1:]))])
        return filled.reshape(blocks, BLOCK, *values.shape[1:])

    real = (jnp.arange(blocks * BLOCK) < rows).astype(y.dtype).reshape(blocks, BLOCK)
    data = (cut(x), cut(own), cut(y), real * cut(counted))

    @jax.checkpoint
    def add(total: Statistics, block):
        return total + _block_statistics(model, task, factors, *block), None

    first = tuple(part[0] for part in data)
    shapes = jax.eval_shape(lambda: _block_statistics(model, task, factors, *first))
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return jax.lax.scan(add, zero, data)[0]


def _block_statistics(model: Model, task: int, factors: Factors, x, own, y, counted) -> Statistics:
    precision, mixing = 1.0 / model.likelihoods[task].variance, model.mixing[task]
    features = jnp.concatenate(
        [
            mixing[q] * (factor @ latent.kernel.cross(latent.inducing, x))
            for q, (latent, factor) in enumerate(zip(model.latents, factors.latents, strict=True))
        ]
        + _own_features(model, task, own, factors)
    )
    weighted = features * (precision * counted)
    prior = jnp.sum(counted * model.prior_variance(task, x, own))
    found = Statistics(weighted @ features.T, weighted @ y, precision * prior, _density(y, precision, counted))
    return _placed(model, task, found)


def _psi_statistics(
    model: Model, task: int, law: DiagonalGaussian, own, y, factors: Factors, counted=None
) -> Statistics:
    model, law, factors = in_double(model), in_double(law), in_double(factors)
    precision, mixing = 1.0 / model.likelihoods[task].variance, model.mixing[task]
    kernels, latents = model.se_kernels(), model.latents
    features, blocks = [], [[jnp.zeros(0)] * len(latents) for _ in latents]
    for q, latent in enumerate(latents):
        cross = expected_cross(kernels[q], law.mean, law.variance, latent.inducing)
        features.append(mixing[q] * (factors.latents[q] @ cross.T))
        for r in range(q + 1):
            product = summed_product(
                kernels[q], latent.inducing, kernels[r], latents[r].inducing, law.mean, law.variance, counted
            )
            block = mixing[q] * mixing[r] * (factors.latents[q] @ product @ factors.latents[r].T)
            blocks[q][r] = 0.5 * (block + block.T) if r == q else block
            blocks[r][q] = blocks[q][r].T
    products = jnp.block(blocks)
    shared = jnp.concatenate(features)
    residual = _own_features(model, task, own, factors)
    if residual:
        weighted = residual[0] if counted is None else counted * residual[0]
        between = weighted @ shared.T
        products = jnp.block([[products, between.T], [between, weighted @ residual[0].T]])
        shared = jnp.concatenate([shared, residual[0]])
    counted = jnp.ones_like(y) if counted is None else counted
    prior = jnp.sum(counted * model.prior_variance(task, law.mean, own))
    linear, density = precision * (shared @ (counted * y)), _density(y, precision, counted)
    found = Statistics(precision * products, linear, precision * prior, density)
    return _placed(model, task, jax.tree.map(lambda leaf: leaf.astype(y.dtype), found))


def _own_features(model: Model, task: int, own, factors: Factors) -> list[Float[Array, "M N"]]:
    residual = model.residual(task)
    if residual is None:
        return []
    factor = factors.residuals[task]
    assert factor is not None
    return [factor @ residual.kernel.cross(residual.inducing, own)]


def _placed(model: Model, task: int, found: Statistics) -> Statistics:
    """Return a task's sums with zeros for the residuals of the other tasks."""
    if len([residual for residual in model.residuals if residual is not None]) == 0:
        return found
    parts, shared = sizes(model), sum(latent.inducing.shape[0] for latent in model.latents)
    products = jnp.zeros((sum(parts), sum(parts)), found.products.dtype)
    linear = jnp.zeros(sum(parts), found.linear.dtype)
    products, linear = (
        products.at[:shared, :shared].set(found.products[:shared, :shared]),
        linear.at[:shared].set(found.linear[:shared]),
    )
    residual = model.residual(task)
    if residual is not None:
        before = [other for other in model.residuals[:task] if other is not None]
        start = shared + sum(other.inducing.shape[0] for other in before)
        own = slice(start, start + residual.inducing.shape[0])
        products = products.at[:shared, own].set(found.products[:shared, shared:])
        products = products.at[own, :shared].set(found.products[shared:, :shared])
        products = products.at[own, own].set(found.products[shared:, shared:])
        linear = linear.at[own].set(found.linear[shared:])
    return Statistics(products, linear, found.variance, found.density)


def _density(y, precision, counted) -> Scalar:
    return -0.5 * jnp.sum(counted * (LOG_2PI - jnp.log(precision) + precision * y**2))
