"""The trainable numbers of a model as one vector of NumPy, and where in it each parameter stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import paramax

from aligngp.parameters import Positive, as_array


@dataclass(frozen=True, eq=False)
class Slot:
    """One parameter: a part of the vector, or a value that is not trained."""

    part: slice | None
    shape: tuple[int, ...]
    fixed: np.ndarray | None = None

    def of(self, values: np.ndarray) -> np.ndarray:
        """Return the parameter's value among the values of all."""
        return values[self.part].reshape(self.shape) if self.fixed is None else self.fixed

    def add(self, gradient: np.ndarray, amount: Any) -> None:
        """Add what an objective gains by the parameter to the gradient by all values."""
        if self.part is not None:
            gradient[self.part] += np.ravel(amount)


class Flat:
    """A tree of trainable arrays as one vector, in the order of its leaves."""

    def __init__(self, chosen: Any) -> None:
        leaves, self._structure = jax.tree.flatten(chosen)
        self._dtypes = [leaf.dtype for leaf in leaves]
        ends = np.cumsum([0, *(leaf.size for leaf in leaves)]).tolist()
        self._slots = [
            Slot(slice(first, last), tuple(leaf.shape))
            for leaf, first, last in zip(leaves, ends[:-1], ends[1:], strict=True)
        ]
        self.start = np.concatenate([np.zeros(0), *(np.ravel(np.asarray(leaf, float)) for leaf in leaves)])
        self.places = jax.tree.unflatten(self._structure, self._slots)
        """The tree with slots for its arrays."""
        self._positive: list[np.ndarray] = []
        self._floors: list[np.ndarray] = []
        self._found: tuple[np.ndarray, np.ndarray] | None = None

    def restore(self, vector: np.ndarray) -> Any:
        """Return the tree of a vector."""
        pairs = zip(self._slots, self._dtypes, strict=True)
        return jax.tree.unflatten(self._structure, [as_array(slot.of(vector), dtype) for slot, dtype in pairs])

    def slot(self, node: Any, place: Any) -> Slot:
        """Return the slot of a model's parameter, given what stands for it in :attr:`places`."""
        if isinstance(place, Positive) and isinstance(place.raw, Slot):
            assert place.raw.part is not None
            numbers = np.arange(place.raw.part.start, place.raw.part.stop)
            self._positive.append(numbers)
            self._floors.append(np.full(numbers.size, place.floor))
            self._found = None
            return place.raw
        if isinstance(place, Slot):
            return place
        fixed = value_of(node)
        return Slot(None, fixed.shape, fixed)

    def values(self, vector: np.ndarray) -> np.ndarray:
        """Return the constrained values of the unconstrained numbers."""
        where, floors = self._constrained()
        values = vector.copy()
        values[where] = floors + np.logaddexp(vector[where], 0.0)
        return values

    def chain(self, vector: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient by the numbers, given the one by the values, which is used up."""
        where, _ = self._constrained()
        gradient[where] *= 0.5 * (1.0 + np.tanh(0.5 * vector[where]))
        return gradient

    def _constrained(self) -> tuple[np.ndarray, np.ndarray]:
        if self._found is None:
            where = np.concatenate([np.zeros(0, int), *self._positive])
            self._found = where, np.concatenate([np.zeros(0), *self._floors])
        return self._found


def is_readable(node: Any) -> bool:
    """Tell whether a parameter is one that :func:`value_of` knows."""
    if isinstance(node, paramax.NonTrainable):
        return is_readable(node.tree)
    if isinstance(node, Positive):
        return is_readable(node.raw)
    return isinstance(node, jax.Array | np.ndarray | float | int)


def value_of(node: Any) -> np.ndarray:
    """Return the value of a parameter, wrapped or not."""
    if isinstance(node, paramax.NonTrainable):
        return value_of(node.tree)
    if isinstance(node, Positive):
        return node.floor + np.logaddexp(value_of(node.raw), 0.0)
    return np.asarray(node, float)
