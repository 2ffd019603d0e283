"""The sparse GP: one class for the latent functions (one output) and for the mappings (D outputs)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from aligngp.gaussian import kl_whitened
from aligngp.kernels.contract import AbstractKernel
from aligngp.linalg import DEFAULT_JITTER, jitter_needed, jittered_inverse_factor, transposed
from aligngp.typing import Array, Float, Parameter, Scalar


class SparseGP(eqx.Module):
    """P functions with one kernel and one set of inducing inputs, and a Gaussian ``q(u_p)`` each.

    Whitened: ``u_p = L v_p`` with ``K_zz = L L'`` and ``q(v_p) = N(m_p, C_p C_p')``. With ``A = L^-1 K_zx``

        mean_p(x) = A' m_p                                             (eq_mu_qi^t)
        variance_p(x) = k(x, x) - A' (I - C_p C_p') A                  (eq_nu_qi^t)
    """

    kernel: AbstractKernel
    inducing: Float[Array, "M D"]
    mean: Float[Array, "M P"]
    scale: Parameter
    jitter: float = eqx.field(static=True, default=DEFAULT_JITTER)

    def factor(self) -> Float[Array, "M M"]:
        """Return ``L^-1``: once a step, however many rows are asked for."""
        return jittered_inverse_factor(*self._covariance())[0]

    def jitter_needed(self) -> Scalar:
        """Return the relative jitter with which K_zz could be factored: ``jitter``, or more where it is singular."""
        return jitter_needed(*self._covariance())

    def marginals(
        self, x: Float[Array, "N D"], factor: Float[Array, "M M"]
    ) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
        """Return mean and variance of every output at every row."""
        mean, reduction = projected_moments(self.kernel.cross(self.inducing, x), factor, self.mean, self.scale)
        return mean, self.kernel.diagonal(x)[:, None] - reduction

    def joint(
        self, x: Float[Array, "N D"], factor: Float[Array, "M M"]
    ) -> tuple[Float[Array, "N P"], Float[Array, "P N N"]]:
        """Return mean and full covariance over the rows, for every output."""
        projected = factor @ self.kernel.cross(self.inducing, x)
        prior = self.kernel.cross(x, x)
        covariance = jnp.stack([prior - projected.T @ middle @ projected for middle in _middle(self.scale)])
        return projected.T @ self.mean, covariance

    def kl(self) -> Scalar:
        """Return ``sum_p KL[q(u_p) || p(u_p)]``."""
        return kl_whitened(self.mean, self.scale)

    def _covariance(self) -> tuple[Float[Array, "M M"], Scalar, float]:
        """Return K_zz, the level that its jitter is relative to, and that jitter."""
        level = jnp.mean(self.kernel.diagonal(self.inducing))
        return self.kernel.gram(self.inducing), level, self.jitter


@jax.custom_vjp
def projected_moments(
    cross: Float[Array, "M N"],
    factor: Float[Array, "M M"],
    mean: Float[Array, "M P"],
    scale: Float[Array, "P M M"],
) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
    """Return ``A' m_p`` and ``diag(A' (I - C_p C_p') A)`` for ``A = R K``.

    With ``U_p = R' (I - C_p C_p') A`` the second is the column sum of ``K o U_p``; for cotangents a and b

        dK = 2 U diag(b) + R' m a',   W = A (K diag(b))',   dR = 2 (I - C C') W + m (K a)',   dC = -2 W R' C.

    These are three products as wide as the data, where automatic differentiation takes five to eight. U is as large as
    R, but it meets K = L A here, so the digits that R costs are not lost twice.
    """
    return _moments_forward(cross, factor, mean, scale)[0]


def _moments_forward(cross, factor, mean, scale):
    outputs, (size, number) = mean.shape[1], cross.shape
    middle = _middle(scale)
    projected = factor @ cross
    lifted = jnp.einsum("ab,pbc->pac", transposed(factor), middle).reshape(-1, size) @ projected
    lifted = lifted.reshape(outputs, size, number)
    explained = jnp.sum(cross * lifted, axis=1).T
    # Rows times a wide matrix are slow as a product of their own; the other way round they are not.
    return ((mean.T @ projected).T, explained), (cross, factor, mean, scale, middle, projected, lifted)


def _moments_backward(kept, cotangents):
    cross, factor, mean, scale, middle, projected, lifted = kept
    d_mean, d_explained = cotangents
    size = cross.shape[0]
    back = transposed(factor)
    d_cross = jnp.sum(2.0 * lifted * d_explained.T[:, None, :], axis=0) + (back @ mean) @ d_mean.T
    weighted = (cross * d_explained.T[:, None, :]).reshape(-1, cross.shape[1])
    moments = (weighted @ projected.T).reshape(-1, size, size)  # W'
    sums = projected @ d_mean
    crossed = cross @ d_mean
    d_factor = 2.0 * jnp.einsum("pab,pbc->ac", middle, jnp.swapaxes(moments, 1, 2)) + mean @ crossed.T
    inner = jnp.einsum("ab,pbc->pac", factor, moments)
    return d_cross, d_factor, sums, -2.0 * jnp.einsum("pab,pbc->pac", inner, scale)


projected_moments.defvjp(_moments_forward, _moments_backward)


def _middle(scale: Float[Array, "P M M"]) -> Float[Array, "P M M"]:
    """Return ``I - C_p C_p'``."""
    return jnp.eye(scale.shape[1], dtype=scale.dtype) - scale @ transposed(scale)
