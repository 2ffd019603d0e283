"""The model: mappings align, latent GPs are shared, a mixing turns them into tasks, likelihoods meet the data.

y^t(x) = sum_q a_q^t f_q(g^t(x)) + h^t(x) + eps^t
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp

from aligngp.errors import SettingError
from aligngp.gp.exact import ExactPosterior
from aligngp.gp.sparse import SparseGP
from aligngp.kernels import SquaredExponential
from aligngp.likelihoods import Gaussian
from aligngp.mappings.contract import AbstractMapping
from aligngp.typing import Array, Float, Parameter


class Model(eqx.Module):
    """Every model of the paper: they differ in the mappings alone. Immutable; parameters stand wrapped in it.

    Functions of a model want it resolved (:func:`aligngp.parameters.resolve`).
    """

    mappings: tuple[AbstractMapping, ...]
    latents: tuple[SparseGP, ...]
    mixing: Parameter
    likelihoods: tuple[Gaussian, ...]
    residuals: tuple[SparseGP | None, ...] = ()
    """h^t, a GP on each task's own inputs; empty where no task has one."""
    exact: ExactPosterior | None = None
    """Where it is there, it is what the data say, and the q(u) of latents and residuals play no part."""

    def residual(self, task: int) -> SparseGP | None:
        """Return the GP on a task's own inputs, None where it has none."""
        return self.residuals[task] if self.residuals else None

    def factors(self) -> tuple[Float[Array, "_ _"], ...]:
        """Return each latent GP's inverse factor, (M, M) with its own M."""
        return tuple(latent.factor() for latent in self.latents)

    def latent_marginals(
        self, x: Float[Array, "N D"], factors: Sequence[Float[Array, "_ _"]]
    ) -> tuple[Float[Array, "N Q"], Float[Array, "N Q"]]:
        """Return mean and variance of every latent function at aligned inputs."""
        pairs = [latent.marginals(x, factor) for latent, factor in zip(self.latents, factors, strict=True)]
        return jnp.concatenate([m for m, _ in pairs], axis=1), jnp.concatenate([v for _, v in pairs], axis=1)

    def mix(
        self, task: int, mean: Float[Array, "*N Q"], variance: Float[Array, "*N Q"]
    ) -> tuple[Float[Array, "*N"], Float[Array, "*N"]]:
        """Return mean and variance of what a task shares: ``sum_q a_q m_q`` and ``sum_q a_q^2 v_q``."""
        return mean @ self.mixing[task], variance @ self.mixing[task] ** 2

    def own_marginals(
        self, task: int, own: Float[Array, "N Dt"]
    ) -> tuple[Float[Array, " N"], Float[Array, " N"]] | tuple[float, float]:
        """Return mean and variance of ``h^t`` at a task's own inputs, zeros where it has none."""
        residual = self.residual(task)
        if residual is None:
            return 0.0, 0.0
        mean, variance = residual.marginals(own, residual.factor())
        return mean[:, 0], variance[:, 0]

    def prior_variance(self, task: int, x: Float[Array, "N D"], own: Float[Array, "N Dt"]) -> Float[Array, " N"]:
        """Return the variance of a task's function before any data."""
        pairs = zip(self.mixing[task], self.latents, strict=True)
        total = sum((weight**2 * latent.kernel.diagonal(x) for weight, latent in pairs), jnp.zeros_like(x[:, 0]))
        residual = self.residual(task)
        return total if residual is None else total + residual.kernel.diagonal(own)

    def prior_covariance(
        self,
        tasks: tuple[int, int],
        x: tuple[Float[Array, "N D"], Float[Array, "K D"]],
        own: tuple[Float[Array, "N _"], Float[Array, "K _"]],
    ) -> Float[Array, "N K"]:
        """Return the covariance of two tasks' functions before any data, at pairs of rows."""
        first, second = tasks
        total = sum(
            (
                self.mixing[first, q] * self.mixing[second, q] * latent.kernel.cross(*x)
                for q, latent in enumerate(self.latents)
            ),
            jnp.zeros((x[0].shape[0], x[1].shape[0]), x[0].dtype),
        )
        residual = self.residual(first)
        return total if residual is None or first != second else total + residual.kernel.cross(*own)

    def closed_form(self) -> bool:
        """Tell whether expectations over Gaussian aligned inputs have a closed form (all latent kernels SE)."""
        return all(isinstance(latent.kernel, SquaredExponential) for latent in self.latents)

    def se_kernels(self) -> tuple[SquaredExponential, ...]:
        """Return the latent kernels, which must be SE for a closed form."""
        kernels = tuple(k for k in (latent.kernel for latent in self.latents) if isinstance(k, SquaredExponential))
        if len(kernels) != len(self.latents):
            raise SettingError("expectations over Gaussian aligned inputs have a closed form for SE kernels only.")
        return kernels
