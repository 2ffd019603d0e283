"""Constrained parameters: stored unconstrained, resolved once at the door of every formula.

A model holds wrapped parameters (paramax); :func:`resolve` replaces each by its value, and the mathematics sees
plain arrays. What is wrapped by :func:`frozen` is left out of training.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
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
    above = np.maximum(np.asarray(value, dtype=float) - floor, 1e-12)
    raw = above + np.log(-np.expm1(-above))  # inverse of softplus, exact for small and for large values
    return Positive(as_array(raw), floor)


def as_array(value: ArrayLike, dtype: Any = None) -> Array:
    """Return a JAX array of numbers that are at hand; ``jnp.asarray`` compiles a copy for every shape."""
    if isinstance(value, jax.Array) and dtype in (None, value.dtype.name):
        return value
    return jax.device_put(np.array(value, dtype))


def as_arrays(tree: PyTree) -> PyTree:
    """Return a tree whose NumPy arrays are JAX arrays."""
    return jax.tree.map(lambda leaf: as_array(leaf) if isinstance(leaf, np.ndarray) else leaf, tree)


def in_precision(tree: PyTree, dtype: str) -> PyTree:
    """Return a tree whose arrays of double precision are in that one, NumPy's as NumPy's."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if getattr(leaf, "dtype", None) == np.float64 else leaf, tree)


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
