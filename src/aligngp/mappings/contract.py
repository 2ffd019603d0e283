"""What a mapping is, and what it returns.

    mapping.posterior(rows)   -> (law, penalty[B])   training rows; the penalty is scaled N_t / B_t with the batch
    mapping.predictive(rows)  -> law                 new rows
    mapping.global_penalty()  -> scalar              KL of inducing variables, regularisers: never scaled
    mapping.draw(rows, key, number) -> (S, B, D)     joint draws of the aligned inputs at new rows

A penalty is returned, never left behind as a side effect.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp

from aligngp.typing import Array, Float, Int, PRNGKeyArray, Scalar


class Rows(eqx.Module):
    """Rows of one task, as a mapping sees them (everything standardised)."""

    own: Float[Array, "B Dt"]
    """The task's own inputs."""
    nominal: Float[Array, "B D"]
    """What the prior mapping says: ``g0(x)``."""
    index: Int[Array, " B"]
    """Row number in the training data; -1 for a new row."""


class Point(eqx.Module):
    """Aligned inputs that are known."""

    value: Float[Array, "B D"]


class DiagonalGaussian(eqx.Module):
    """Aligned inputs ``N(mean_i, diag variance_i)``, independent over rows and dimensions (eq_qx)."""

    mean: Float[Array, "B D"]
    variance: Float[Array, "B D"]

    def sample(self, key: PRNGKeyArray, number: int) -> Float[Array, "S B D"]:
        """Return draws by the reparameterisation trick."""
        noise = jax.random.normal(key, (number, *self.mean.shape), self.mean.dtype)
        return self.mean + jnp.sqrt(self.variance) * noise


Law = Point | DiagonalGaussian


class AbstractMapping(eqx.Module):
    """The aligned inputs of one task: see the module's docstring."""

    @abstractmethod
    def posterior(self, rows: Rows) -> tuple[Law, Float[Array, " B"]]:
        """Return the law of the aligned inputs at training rows, and each row's penalty."""

    @abstractmethod
    def predictive(self, rows: Rows) -> Law:
        """Return the law of the aligned inputs at new rows."""

    @abstractmethod
    def global_penalty(self) -> Scalar:
        """Return what the mapping costs as a whole."""

    @abstractmethod
    def draw(self, rows: Rows, key: PRNGKeyArray, number: int) -> Float[Array, "S B D"]:
        """Return joint draws of the aligned inputs at new rows."""


def no_penalty(rows: Rows) -> Float[Array, " B"]:
    """Return a zero for every row."""
    return jnp.zeros(rows.own.shape[0], rows.own.dtype)
