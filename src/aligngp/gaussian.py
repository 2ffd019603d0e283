"""What is known in closed form about Gaussians: divergences, expected log densities, moments of mixtures."""

import math

import jax.numpy as jnp

from aligngp.typing import Array, Float, Scalar

LOG_2PI = math.log(2.0 * math.pi)


def kl_whitened(mean: Float[Array, "M P"], scale: Float[Array, "P M M"]) -> Scalar:
    """Return ``sum_p KL[N(m_p, C_p C_p') || N(0, I)]`` (eq_kl_u_q and eq_kl_u_g^td in whitened coordinates).

    Whitening u = L v turns the paper's KL[N(m, S) || N(0, K)] into this one.
    """
    # As a masked sum, whose gradient is no scatter.
    diagonal = jnp.sum(scale * jnp.eye(scale.shape[-1], dtype=scale.dtype), axis=-1)
    return 0.5 * (jnp.sum(mean**2) + jnp.sum(scale**2) - mean.size - jnp.sum(jnp.log(diagonal**2)))


def kl_diagonal(
    mean: Float[Array, "B D"],
    variance: Float[Array, "B D"],
    prior_mean: Float[Array, "B D"],
    prior_variance: Scalar,
) -> Float[Array, " B"]:
    """Return ``KL[N(mu_i, diag nu_i) || N(mu0_i, nu0 I)]`` for every row (eq_kl_x_i^t)."""
    ratio = variance / prior_variance
    return 0.5 * jnp.sum(ratio - jnp.log(ratio) - 1.0 + (mean - prior_mean) ** 2 / prior_variance, axis=1)


def expected_log_density(
    value: Float[Array, "*N"], mean: Float[Array, "*N"], variance: Float[Array, "*N"], noise: Scalar
) -> Float[Array, "*N"]:
    """Return ``E_{f ~ N(mean, variance)} log N(value | f, noise)``, elementwise."""
    return -0.5 * (LOG_2PI + jnp.log(noise) + ((value - mean) ** 2 + variance) / noise)


def mixture_moments(
    means: Float[Array, "S N"], variances: Float[Array, "S N"]
) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """Return mean and variance of an equally weighted mixture over the leading axis."""
    return jnp.mean(means, axis=0), jnp.mean(variances, axis=0) + jnp.var(means, axis=0)
