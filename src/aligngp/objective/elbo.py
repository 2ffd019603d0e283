"""The evidence lower bound of every model of the paper, as named terms.

    total = sum_t scale_t sum_{i in B_t} E log p(y_i | f_i)  -  sum_q KL[q(u_q) || p(u_q)]
            - sum_t KL[q(u_h^t) || p(u_h^t)]  -  sum_t mapping_penalty_t
            - sum_t scale_t sum_{i in B_t} alignment_penalty_i

With Point laws this is eq_elbo_hsvlmc_g0 (and eq_elbo_hsvlmc_g0_B on batches), with a residual GP
eq_elbo_hsvlmc_final, with an embedded one eq_elbo_hsvlmc_em: the mapping's contract decides.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from aligngp.gp.psi import expected_cross, in_double, summed_product
from aligngp.gp.sparse import SparseGP
from aligngp.mappings.contract import DiagonalGaussian, Point, Rows
from aligngp.model import Model
from aligngp.typing import Array, Expectation, Float, PRNGKeyArray, Scalar


class TaskBatch(eqx.Module):
    """Rows and outputs of one task; ``scale`` is N_t / B_t, which keeps the bound unbiased on batches."""

    rows: Rows
    y: Float[Array, " B"]
    scale: float | Scalar = 1.0
    counted: Float[Array, " B"] | None = None
    """1 for a row, 0 for a padded one; None: all are rows. The exact evidence takes no padded rows."""

    def sum(self, values: Float[Array, "*S B"]) -> Scalar:
        """Return the sum of a value a row, without those of padded rows."""
        return jnp.sum(values if self.counted is None else self.counted * values)

    def number(self) -> int | Scalar:
        """Return how many rows there are, without padded ones."""
        return self.y.shape[0] if self.counted is None else jnp.sum(self.counted)


TERMS = ("expected_log_likelihood", "alignment_penalty", "mapping_penalty", "latent_kl", "residual_kl")
"""The terms of the bound in the order of ``Terms.contributions``; all but the first count against it."""


class Terms(eqx.Module):
    """The bound by its parts; penalties and divergences are positive and count against it."""

    expected_log_likelihood: Float[Array, " T"]
    alignment_penalty: Float[Array, " T"]
    mapping_penalty: Float[Array, " T"]
    latent_kl: Float[Array, " Q"]
    residual_kl: Float[Array, " T"]

    @property
    def contributions(self) -> Float[Array, " 5"]:
        """Return what each of TERMS adds to the bound, summed over tasks or latents."""
        sums = [jnp.sum(getattr(self, name)) for name in TERMS]
        return jnp.stack([sums[0], *(-value for value in sums[1:])])

    @property
    def total(self) -> Scalar:
        """Return the bound."""
        costs = jnp.sum(self.alignment_penalty) + jnp.sum(self.mapping_penalty) + jnp.sum(self.latent_kl)
        return jnp.sum(self.expected_log_likelihood) - costs - jnp.sum(self.residual_kl)


def elbo(
    model: Model,
    batches: Sequence[TaskBatch],
    key: PRNGKeyArray,
    *,
    num_samples: int = 1,
    expectation: Expectation = "sampled",
) -> Terms:
    """Return the terms of the bound of a resolved model.

    ``expectation`` says how the expectation over Gaussian aligned inputs is taken: by ``num_samples`` draws of the
    reparameterisation trick, or in closed form (SE kernels only).
    """
    posteriors = [mapping.posterior(batch.rows) for mapping, batch in zip(model.mappings, batches, strict=True)]
    laws = [law for law, _ in posteriors]
    if expectation == "analytic":
        log_likelihoods = _analytic(model, laws, batches)
    else:
        log_likelihoods = _sampled(model, laws, batches, key, num_samples)
    penalties = [batch.scale * batch.sum(penalty) for (_, penalty), batch in zip(posteriors, batches, strict=True)]
    return Terms(
        expected_log_likelihood=jnp.stack(log_likelihoods),
        alignment_penalty=jnp.stack(penalties),
        mapping_penalty=jnp.stack([mapping.global_penalty() for mapping in model.mappings]),
        latent_kl=jnp.stack([latent.kl() for latent in model.latents]),
        residual_kl=jnp.stack([_kl(model.residual(task)) for task in range(len(batches))]),
    )


def _kl(residual: SparseGP | None) -> Scalar:
    return jnp.zeros(()) if residual is None else residual.kl()


def _sampled(model: Model, laws, batches, key: PRNGKeyArray, num_samples: int) -> list[Scalar]:
    """Average the log likelihood over draws of the aligned inputs; all tasks share one pass through the latents."""
    draws = [
        law.value[None] if isinstance(law, Point) else law.sample(jax.random.fold_in(key, task), num_samples)
        for task, law in enumerate(laws)
    ]
    flat = [draw.reshape(-1, draw.shape[-1]) for draw in draws]
    means, variances = model.latent_marginals(jnp.concatenate(flat), model.factors())
    result, start = [], 0
    for task, (batch, draw, rows) in enumerate(zip(batches, draws, flat, strict=True)):
        stop = start + rows.shape[0]
        mean, variance = model.mix(task, means[start:stop], variances[start:stop])
        shape = draw.shape[:2]
        own_mean, own_variance = model.own_marginals(task, batch.rows.own)
        mean, variance = mean.reshape(shape) + own_mean, variance.reshape(shape) + own_variance
        y = jnp.broadcast_to(batch.y, shape)
        densities = model.likelihoods[task].expected_log_density(y, mean, variance)
        result.append(batch.scale * batch.sum(densities) / shape[0])
        start = stop
    return result


def _analytic(model: Model, laws, batches) -> list[Scalar]:
    """Take the expectation in closed form: psi statistics where a law is Gaussian."""
    precise = in_double(model)
    factors = precise.factors()
    points = [task for task, law in enumerate(laws) if isinstance(law, Point)]
    marginals = ()
    if points:
        values = jnp.concatenate([laws[task].value for task in points])
        marginals = model.latent_marginals(values, [factor.astype(values.dtype) for factor in factors])
    result, start = [], 0
    for task, (law, batch) in enumerate(zip(laws, batches, strict=True)):
        if isinstance(law, Point):
            stop = start + batch.y.shape[0]
            mean, variance = model.mix(task, *(part[start:stop] for part in marginals))
            own_mean, own_variance = model.own_marginals(task, batch.rows.own)
            densities = model.likelihoods[task].expected_log_density(batch.y, mean + own_mean, variance + own_variance)
            density = batch.sum(densities)
            start = stop
        else:
            density = _psi_log_likelihood(precise, task, in_double(law), in_double(batch), factors)
            density = density.astype(batch.y.dtype)
        result.append(batch.scale * density)
    return result


def _psi_log_likelihood(model: Model, task: int, law: DiagonalGaussian, batch: TaskBatch, factors) -> Scalar:
    """Return ``sum_i E log N(y_i | f(x_bar_i), noise)`` over f and the Gaussian aligned inputs.

    In whitened coordinates, with ``W_qr = sum_i L_q^-1 E[k_q(Z_q, x) k_r(x, Z_r)] L_r^-T``:
    ``sum_i E f_i^2 = sum_qr a_q a_r m_q' W_qr m_r + sum_q a_q^2 (sum_i k_q(x, x) - tr[(I - S_q) W_qq])``.
    """
    mixing, latents, kernels = model.mixing[task], model.latents, model.se_kernels()
    own_mean, own_variance = model.own_marginals(task, batch.rows.own)
    y = batch.y - own_mean
    mean = jnp.zeros_like(y)
    second = jnp.zeros((), y.dtype)
    for q, (latent, factor) in enumerate(zip(latents, factors, strict=True)):
        cross = expected_cross(kernels[q], law.mean, law.variance, latent.inducing)
        mean += mixing[q] * (cross @ (factor.T @ latent.mean[:, 0]))
        second += mixing[q] ** 2 * batch.number() * kernels[q].variance
        for r in range(q + 1):
            other = latents[r]
            product = summed_product(
                kernels[q], latent.inducing, kernels[r], other.inducing, law.mean, law.variance, batch.counted
            )
            product = factor @ product @ factors[r].T
            quadratic = latent.mean[:, 0] @ product @ other.mean[:, 0]
            second += (1.0 if r == q else 2.0) * mixing[q] * mixing[r] * quadratic
            if r == q:
                scaled = latent.scale[0].T @ product @ latent.scale[0]
                second -= mixing[q] ** 2 * (jnp.trace(product) - jnp.trace(scaled))
    # The density is quadratic in f, so the sum over rows needs the second moment only as a sum; it is handed over as
    # the variance of rows whose mean is exact.
    spread = second - batch.sum(mean**2)
    per_row = spread / batch.number() + jnp.broadcast_to(own_variance, y.shape)
    return batch.sum(model.likelihoods[task].expected_log_density(y, mean, per_row))
