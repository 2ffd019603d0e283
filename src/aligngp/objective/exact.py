"""The evidence of the LMC itself: no inducing inputs, every row's covariance with every other, aligned inputs known."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp

from aligngp.gp.exact import ExactPosterior, leave_one_out, log_density
from aligngp.linalg import inverse_factor
from aligngp.mappings.contract import Point
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch
from aligngp.typing import Array, Float, Scalar

JITTER = 1e-9
"""Relative to the mean of the diagonal; the noise's floor does the rest."""


def log_evidence(model: Model, batches: Sequence[TaskBatch]) -> Scalar:
    """Return ``log N(y | 0, K + noise)`` over all tasks, ``K = sum_q a_q^t a_q^s k_q(g^t(x), g^s(x')) + h``."""
    return log_density(_covariance(model, batches), _outputs(batches))


def posterior(model: Model, batches: Sequence[TaskBatch]) -> ExactPosterior:
    """Return what predictions need."""
    inverse, _ = inverse_factor(_covariance(model, batches))
    return ExactPosterior(
        tuple(_aligned(model, batches)),
        tuple(jnp.asarray(batch.rows.own) for batch in batches),
        inverse,
        inverse.T @ (inverse @ _outputs(batches)),
    )


def left_out(model: Model, batches: Sequence[TaskBatch]) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """Return mean and variance of every observation given all the others, tasks one after the other."""
    inverse, _ = inverse_factor(_covariance(model, batches))
    y = _outputs(batches)
    return leave_one_out(inverse, inverse.T @ (inverse @ y), y)


def _covariance(model: Model, batches: Sequence[TaskBatch]) -> Float[Array, "N N"]:
    sizes = [batch.y.shape[0] for batch in batches]
    aligned = jnp.concatenate(_aligned(model, batches))
    weights = jnp.repeat(jnp.asarray(model.mixing), jnp.asarray(sizes), axis=0, total_repeat_length=sum(sizes))
    covariance = jnp.zeros((sum(sizes), sum(sizes)), aligned.dtype)
    for q, latent in enumerate(model.latents):
        covariance += weights[:, q, None] * weights[None, :, q] * latent.kernel.cross(aligned, aligned)
    start = 0
    for task, (batch, size) in enumerate(zip(batches, sizes, strict=True)):
        residual, own = model.residual(task), slice(start, start + size)
        if residual is not None:
            covariance = covariance.at[own, own].add(residual.kernel.cross(batch.rows.own, batch.rows.own))
        start += size
    noise = jnp.concatenate([jnp.full(size, model.likelihoods[task].variance) for task, size in enumerate(sizes)])
    jitter = JITTER * jnp.mean(jnp.diagonal(covariance))
    return covariance + jnp.diag(noise + jitter)


def _aligned(model: Model, batches: Sequence[TaskBatch]) -> list[Float[Array, "_ D"]]:
    laws = [mapping.posterior(batch.rows)[0] for mapping, batch in zip(model.mappings, batches, strict=True)]
    return [law.value for law in laws if isinstance(law, Point)]


def _outputs(batches: Sequence[TaskBatch]) -> Float[Array, " N"]:
    return jnp.concatenate([jnp.asarray(batch.y) for batch in batches])
