"""Constrained parameters: stored unconstrained, resolved once at the door of every formula.

A model holds wrapped parameters (paramax); :func:`resolve` replaces each by its value, and the mathematics sees
plain arrays. What is wrapped by :func:`frozen` is left out of training.
"""

import equinox as eqx
import jax.numpy as jnp
import paramax
from jax.nn import softplus
from jaxtyping import Array, ArrayLike, Float, PyTree


class Positive(paramax.AbstractUnwrappable[Array]):
    """A positive parameter: ``floor + softplus(raw)``."""

    raw: Float[Array, "..."]
    floor: float = eqx.field(static=True, default=0.0)

    def unwrap(self) -> Array:
        """Return the positive value."""
        return self.floor + softplus(self.raw)


class Triangular(paramax.AbstractUnwrappable[Array]):
    """A lower-triangular factor (or a stack of them); what stands above the diagonal is ignored."""

    raw: Float[Array, "*P M M"]

    def unwrap(self) -> Array:
        """Return the lower triangle."""
        return jnp.tril(self.raw)


def positive(value: ArrayLike, floor: float = 0.0) -> Positive:
    """Wrap a positive value; values at or below the floor start just above it."""
    above = jnp.maximum(jnp.asarray(value, dtype=float) - floor, 1e-12)
    raw = above + jnp.log(-jnp.expm1(-above))  # inverse of softplus, exact for small and for large values
    return Positive(raw, floor)


def frozen(tree: PyTree) -> PyTree:
    """Leave every array of the tree out of training."""
    return paramax.non_trainable(tree)


def is_frozen(node: object) -> bool:
    """Tell a frozen node, for use as ``is_leaf``."""
    return isinstance(node, paramax.NonTrainable)


def split(model: PyTree) -> tuple[PyTree, PyTree]:
    """Split a model into its trainable arrays and all the rest."""
    return eqx.partition(model, eqx.is_inexact_array, is_leaf=is_frozen)


def join(trainable: PyTree, rest: PyTree) -> PyTree:
    """Undo :func:`split`."""
    return eqx.combine(trainable, rest, is_leaf=is_frozen)


def resolve(model: PyTree) -> PyTree:
    """Replace every wrapped parameter by its value."""
    return paramax.unwrap(model)
