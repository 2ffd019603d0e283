"""The bound with the best q(u) put in: deterministic, closed form, and data enter through sums over rows alone.

For the paper's factorised q(u) and a Gaussian likelihood (w_i = 1 / noise of the row's task, ``phi_qi = a_q L_q^-1
k_q(Z, x_i)``, everything averaged over Gaussian aligned inputs by psi statistics):

    B_qr = sum_i w_i phi_qi phi_ri',  P = I + B,  b_q = sum_i w_i phi_qi y_i
    bound = sum_i log N(y_i | 0, 1 / w_i) + b' P^-1 b / 2 - sum_q log|P_qq| / 2
            - sum_q (sum_i w_i a_q^2 k_q(x_i, x_i) - tr B_qq) / 2

at q(v_q) = N((P^-1 b)_q, P_qq^-1) in whitened coordinates: the means couple over the latents, one QM x QM system.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from aligngp.gaussian import LOG_2PI
from aligngp.gp.psi import expected_cross, summed_product
from aligngp.linalg import inverse_factor
from aligngp.mappings.contract import DiagonalGaussian, Law, Point
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch
from aligngp.typing import Array, Float, Scalar

_BLOCK = 4096
"""Rows that are held at once: the memory is that of a block and of the QM x QM system, whatever N."""


class Statistics(eqx.Module):
    """What the data are to the bound: sums over rows."""

    products: Float[Array, "K K"]
    """B, K = sum_q M_q."""
    linear: Float[Array, " K"]
    """b."""
    variance: Scalar
    """sum_q sum_i w_i a_q^2 k_q(x_i, x_i)."""
    density: Scalar
    """sum_i log N(y_i | 0, 1 / w_i)."""

    def __add__(self, other: Statistics) -> Statistics:
        return jax.tree.map(jnp.add, self, other)


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
    statistics = _statistics(model, [law for law, _ in posteriors], batches)
    return CollapsedTerms(
        evidence=_evidence(statistics, _sizes(model)),
        alignment_penalty=jnp.stack([jnp.sum(penalty) for _, penalty in posteriors]),
        mapping_penalty=jnp.stack([mapping.global_penalty() for mapping in model.mappings]),
    )


def best_posterior(
    model: Model, batches: Sequence[TaskBatch]
) -> tuple[tuple[Float[Array, "M 1"], ...], tuple[Float[Array, "1 M M"], ...]]:
    """Return mean and lower factor of the best q(v_q) of every latent, whitened."""
    laws = [mapping.posterior(batch.rows)[0] for mapping, batch in zip(model.mappings, batches, strict=True)]
    statistics = _statistics(model, laws, batches)
    precision = statistics.products + jnp.eye(statistics.linear.shape[0], dtype=statistics.linear.dtype)
    factor, _ = inverse_factor(precision)
    mean = factor.T @ (factor @ statistics.linear)
    means, scales, start = [], [], 0
    for size in _sizes(model):
        part = slice(start, start + size)
        means.append(mean[part, None])
        # With the rows in reverse order P = U U' for an upper U, and U^-T is the lower factor of P^-1.
        reversed_factor, _ = inverse_factor(precision[part, part][::-1, ::-1])
        scales.append(reversed_factor.T[None, ::-1, ::-1])
        start += size
    return tuple(means), tuple(scales)


def _sizes(model: Model) -> list[int]:
    return [latent.inducing.shape[0] for latent in model.latents]


def _evidence(statistics: Statistics, sizes: Sequence[int]) -> Scalar:
    precision = statistics.products + jnp.eye(statistics.linear.shape[0], dtype=statistics.linear.dtype)
    factor, half_determinant = inverse_factor(precision)
    fit = 0.5 * jnp.sum((factor @ statistics.linear) ** 2)
    if len(sizes) > 1:
        starts = [sum(sizes[:q]) for q in range(len(sizes))]
        blocks = [
            precision[start : start + size, start : start + size] for start, size in zip(starts, sizes, strict=True)
        ]
        half_determinant = sum((inverse_factor(block)[1] for block in blocks), jnp.zeros_like(fit))
    trace = statistics.variance - jnp.trace(statistics.products)
    return statistics.density + fit - half_determinant - 0.5 * trace


def _statistics(model: Model, laws: Sequence[Law], batches: Sequence[TaskBatch]) -> Statistics:
    factors = model.factors()
    parts = []
    for task, (law, batch) in enumerate(zip(laws, batches, strict=True)):
        if isinstance(law, Point):
            parts.append(_point_statistics(model, task, law.value, jnp.asarray(batch.y), factors))
        else:
            parts.append(_psi_statistics(model, task, law, jnp.asarray(batch.y), factors))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _point_statistics(model: Model, task: int, x: Float[Array, "N D"], y: Float[Array, " N"], factors) -> Statistics:
    """Return a task's sums, in blocks where there are many rows."""
    rows = x.shape[0]
    if rows <= _BLOCK:
        return _block_statistics(model, task, x, y, jnp.ones_like(y), factors)
    blocks = -(-rows // _BLOCK)
    extra = blocks * _BLOCK - rows
    # Rows that fill the last block count with weight zero.
    padded = jnp.concatenate([x, jnp.broadcast_to(x[:1], (extra, x.shape[1]))]).reshape(blocks, _BLOCK, -1)
    outputs = jnp.concatenate([y, jnp.zeros(extra, y.dtype)]).reshape(blocks, _BLOCK)
    counted = (jnp.arange(blocks * _BLOCK) < rows).astype(y.dtype).reshape(blocks, _BLOCK)

    @jax.checkpoint
    def add(total: Statistics, block):
        return total + _block_statistics(model, task, *block, factors), None

    shapes = jax.eval_shape(lambda: _block_statistics(model, task, padded[0], outputs[0], counted[0], factors))
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return jax.lax.scan(add, zero, (padded, outputs, counted))[0]


def _block_statistics(model: Model, task: int, x, y, counted, factors) -> Statistics:
    precision, mixing = 1.0 / model.likelihoods[task].variance, model.mixing[task]
    projected = jnp.concatenate(
        [
            mixing[q] * (factor @ latent.kernel.cross(latent.inducing, x))
            for q, (latent, factor) in enumerate(zip(model.latents, factors, strict=True))
        ]
    )
    weighted = projected * (precision * counted)
    prior = sum(mixing[q] ** 2 * jnp.sum(counted * latent.kernel.diagonal(x)) for q, latent in enumerate(model.latents))
    return Statistics(weighted @ projected.T, weighted @ y, precision * prior, _density(y, precision, counted))


def _psi_statistics(model: Model, task: int, law: DiagonalGaussian, y: Float[Array, " N"], factors) -> Statistics:
    precision, mixing = 1.0 / model.likelihoods[task].variance, model.mixing[task]
    kernels, latents = model.se_kernels(), model.latents
    linear, blocks = [], [[jnp.zeros(0)] * len(latents) for _ in latents]
    for q, latent in enumerate(latents):
        cross = expected_cross(kernels[q], law.mean, law.variance, latent.inducing)
        linear.append(precision * mixing[q] * (factors[q] @ (cross.T @ y)))
        for r in range(q + 1):
            product = summed_product(
                kernels[q], latent.inducing, kernels[r], latents[r].inducing, law.mean, law.variance
            )
            block = precision * mixing[q] * mixing[r] * (factors[q] @ product @ factors[r].T)
            blocks[q][r] = 0.5 * (block + block.T) if r == q else block
            blocks[r][q] = blocks[q][r].T
    prior = sum(mixing[q] ** 2 * kernel.variance for q, kernel in enumerate(kernels)) * y.shape[0]
    ones = jnp.ones_like(y)
    return Statistics(jnp.block(blocks), jnp.concatenate(linear), precision * prior, _density(y, precision, ones))


def _density(y, precision, counted) -> Scalar:
    return -0.5 * jnp.sum(counted * (LOG_2PI - jnp.log(precision) + precision * y**2))
