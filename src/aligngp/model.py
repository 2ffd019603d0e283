"""The model: mappings align, latent GPs are shared, a mixing turns them into tasks, likelihoods meet the data.

y^t(x) = sum_q a_q^t f_q(g^t(x)) + eps^t
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp

from aligngp.errors import SettingError
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
        """Return mean and variance of a task's function: ``sum_q a_q m_q`` and ``sum_q a_q^2 v_q``."""
        return mean @ self.mixing[task], variance @ self.mixing[task] ** 2

    def closed_form(self) -> bool:
        """Tell whether expectations over Gaussian aligned inputs have a closed form (all latent kernels SE)."""
        return all(isinstance(latent.kernel, SquaredExponential) for latent in self.latents)

    def se_kernels(self) -> tuple[SquaredExponential, ...]:
        """Return the latent kernels, which must be SE for a closed form."""
        kernels = tuple(k for k in (latent.kernel for latent in self.latents) if isinstance(k, SquaredExponential))
        if len(kernels) != len(self.latents):
            raise SettingError("expectations over Gaussian aligned inputs have a closed form for SE kernels only.")
        return kernels
