"""Mappings that place every row at one known point."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from aligngp.mappings.contract import AbstractMapping, Point, Rows, no_penalty
from aligngp.typing import Array, Float, Parameter


class Nominal(AbstractMapping):
    """The prior mapping as it is: ``Point(g0(x))`` (SOGP, HSVLMC-g0, and the common task of every model)."""

    def posterior(self, rows):
        """Return ``Point(g0(x))`` at no cost."""
        return Point(rows.nominal), no_penalty(rows)

    def predictive(self, rows):
        """Return ``Point(g0(x))``."""
        return Point(rows.nominal)

    def global_penalty(self):
        """Return zero."""
        return jnp.zeros(())

    def draw(self, rows, key, number):
        """Return the same points every time."""
        return jnp.broadcast_to(rows.nominal, (number, *rows.nominal.shape))


class AffineMap(AbstractMapping):
    """An affine mapping of the task's own inputs: ``Point(A x + b)``.

    It costs ``strength * |[A, b] - [A0, b0]|^2`` (the regulariser of IMC), so it stays near its start unless the data
    ask for more. Both IMC (frozen after its calibration) and a mapping without prior knowledge use it.
    """

    matrix: Parameter
    offset: Parameter
    start: Parameter
    """A0 (D, Dt) and b0 (D,)."""
    strength: float = eqx.field(static=True)

    def posterior(self, rows):
        """Return ``Point(A x + b)`` at no cost a row."""
        return self.predictive(rows), no_penalty(rows)

    def predictive(self, rows):
        """Return ``Point(A x + b)``."""
        return Point(affine(rows, self.matrix, self.offset))

    def global_penalty(self):
        """Return ``strength * |[A, b] - [A0, b0]|^2``."""
        return regulariser(self.matrix, self.offset, self.start[0], self.start[1], self.strength)

    def draw(self, rows, key, number):
        """Return the same points every time."""
        value = affine(rows, self.matrix, self.offset)
        return jnp.broadcast_to(value, (number, *value.shape))


def affine(rows: Rows, matrix: Float[Array, "D Dt"], offset: Float[Array, " D"]) -> Float[Array, "B D"]:
    """Return ``A x + b`` for every row."""
    return rows.own @ matrix.T + offset


def regulariser(matrix, offset, start_matrix, start_offset, strength):
    """Return ``strength * |[A, b] - [A0, b0]|^2``: R in the paper's section on IMC, as a squared Frobenius norm."""
    return strength * (jnp.sum((matrix - start_matrix) ** 2) + jnp.sum((offset - start_offset) ** 2))
