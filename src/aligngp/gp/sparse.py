"""The sparse GP: one class for the latent functions (one output) and for the mappings (D outputs)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from aligngp.gaussian import kl_whitened
from aligngp.kernels.contract import AbstractKernel
from aligngp.linalg import DEFAULT_JITTER, add_jitter, inverse_factor
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
        return inverse_factor(add_jitter(self.kernel.cross(self.inducing, self.inducing), self.jitter))[0]

    def marginals(
        self, x: Float[Array, "N D"], factor: Float[Array, "M M"]
    ) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
        """Return mean and variance of every output at every row."""
        projected = factor @ self.kernel.cross(self.inducing, x)
        reduction = jnp.stack([explained(projected, middle) for middle in self._middle()], axis=1)
        return projected.T @ self.mean, self.kernel.diagonal(x)[:, None] - reduction

    def joint(
        self, x: Float[Array, "N D"], factor: Float[Array, "M M"]
    ) -> tuple[Float[Array, "N P"], Float[Array, "P N N"]]:
        """Return mean and full covariance over the rows, for every output."""
        projected = factor @ self.kernel.cross(self.inducing, x)
        prior = self.kernel.cross(x, x)
        covariance = jnp.stack([prior - projected.T @ middle @ projected for middle in self._middle()])
        return projected.T @ self.mean, covariance

    def kl(self) -> Scalar:
        """Return ``sum_p KL[q(u_p) || p(u_p)]``."""
        return kl_whitened(self.mean, self.scale)

    def _middle(self) -> list[Float[Array, "M M"]]:
        identity = jnp.eye(self.inducing.shape[0], dtype=self.inducing.dtype)
        return [identity - scale @ scale.T for scale in self.scale]


@jax.custom_vjp
def explained(projected: Float[Array, "M N"], middle: Float[Array, "M M"]) -> Float[Array, " N"]:
    """Return ``diag(A' B A)`` for a symmetric B.

    The hand-written gradient reuses ``B A``: two wide products instead of the four of automatic differentiation.
    """
    return jnp.sum(projected * (middle @ projected), axis=0)


def _explained_forward(projected, middle):
    product = middle @ projected
    return jnp.sum(projected * product, axis=0), (projected, product)


def _explained_backward(residuals, cotangent):
    projected, product = residuals
    weighted = projected * cotangent
    return 2.0 * product * cotangent, weighted @ projected.T


explained.defvjp(_explained_forward, _explained_backward)
