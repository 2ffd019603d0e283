"""The exact evidence (:mod:`aligngp.objective.exact`) with its gradient written by hand, in NumPy and LAPACK.

With ``s_i = a_q sqrt(v_q)`` of row i's task the covariance is ``sum_q s s' o C_q + residuals + noise``, C_q of unit
variance. For the derivative J of the evidence by the covariance

    ds = 2 (J o C) s,   dl_d = sum_ij (J o s s' o psi)_ij (x_id - x_jd)^2 / l_d^3

so a thin product, ``(J o psi) [s, s x]``, is all there is as large as the covariance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aligngp import dense
from aligngp.kernels import radial
from aligngp.objective.direct.hyperpriors import add_log_prior
from aligngp.objective.direct.reading import Gp, Reading
from aligngp.objective.exact import JITTER


@dataclass(frozen=True, eq=False)
class _Part:
    """One GP's kernel between rows."""

    gp: Gp
    latent: int | None
    tasks: slice
    rows: slice
    inputs: np.ndarray
    """Centred."""
    basis: np.ndarray


@dataclass(frozen=True, eq=False)
class _Kernel:
    """A part's kernel of unit variance, -2 times its slope, and the amplitudes of its tasks and its rows."""

    value: np.ndarray
    slope: np.ndarray
    amplitude: np.ndarray
    weight: np.ndarray


class Evidence:
    """The evidence as a function of one vector; and what predictions need."""

    def __init__(self, reading: Reading, prior: bool) -> None:
        self._reading, self._prior = reading, prior
        self._starts = reading.ends[:-1]
        self._parts = [
            _part(gp, q, slice(0, len(reading.counts)), slice(0, len(reading.y)), np.concatenate(reading.aligned))
            for q, gp in enumerate(reading.latents)
        ]
        self._parts += [
            _part(gp, None, slice(task, task + 1), reading.rows(task), reading.own[task])
            for task, gp in reading.residuals
        ]

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Return value and gradient, NaN where the covariance cannot be factored."""
        with np.errstate(all="ignore"):
            values = self._reading.flat.values(vector)
            covariance, kernels = self._covariance(values)
            found = dense.negative_log_density(covariance, self._reading.y)
            if found is None:
                return np.nan, np.full_like(vector, np.nan)
            value, pull = -found[0] - self._reading.penalty, np.negative(found[1], out=found[1])
            gradient = np.zeros_like(vector)
            self._add_gradient(pull, kernels, values, gradient)
            if self._prior:
                value += add_log_prior(self._reading, values, gradient)
            return value, self._reading.flat.chain(vector, gradient)

    def posterior(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ``L^-1`` and ``C^-1 y``."""
        with np.errstate(all="ignore"):
            covariance, _ = self._covariance(self._reading.flat.values(vector))
        factor, y = dense.lower_factor(covariance), self._reading.y
        if factor is None:
            return np.full_like(covariance, np.nan), np.full_like(y, np.nan)
        return np.ascontiguousarray(dense.inverse_of_factor(factor)), dense.solved(factor, y)

    def _covariance(self, values: np.ndarray) -> tuple[np.ndarray, list[_Kernel]]:
        reading, size = self._reading, len(self._reading.y)
        covariance, kernels = np.zeros((size, size)), []
        for part in self._parts:
            kernel = self._kernel(part, values)
            covariance[part.rows, part.rows] += kernel.value * (kernel.weight[:, None] * kernel.weight)
            kernels.append(kernel)
        noise = np.array([float(slot.of(values)) for slot in reading.noises])
        diagonal = np.repeat(noise, reading.counts)
        covariance.flat[:: size + 1] += diagonal + JITTER * np.trace(covariance) / size
        return covariance, kernels

    def _kernel(self, part: _Part, values: np.ndarray) -> _Kernel:
        gp, kernel = part.gp, part.gp.kernel
        squared = radial.squared_to(kernel, part.basis, part.inputs, gp.lengthscale.of(values))
        squared.flat[:: len(squared) + 1] = 0.0
        shared = radial.decay(kernel, squared)
        value = radial.correlation(kernel, squared, shared)
        slope = value if kernel == "se" else -2.0 * radial.slope(kernel, squared, shared)
        counts = self._reading.counts[part.tasks]
        amplitude = np.full(len(counts), np.sqrt(gp.variance.of(values)))
        if part.latent is not None:
            amplitude = amplitude * self._reading.mixing.of(values)[:, part.latent]
        return _Kernel(value, slope, amplitude, np.repeat(amplitude, counts))

    def _add_gradient(self, pull: np.ndarray, kernels: list[_Kernel], values, gradient: np.ndarray) -> None:
        diagonal = np.diagonal(pull).copy()
        by_noise = np.add.reduceat(diagonal, self._starts)
        for slot, amount in zip(self._reading.noises, by_noise, strict=True):
            slot.add(gradient, amount)
        # The jitter is a part of the mean of the covariance's diagonal.
        pull.flat[:: len(pull) + 1] += JITTER * np.sum(diagonal) / len(pull)
        for part, kernel in zip(self._parts, kernels, strict=True):
            self._add_part(part, kernel, pull[part.rows, part.rows], values, gradient)

    def _add_part(self, part: _Part, kernel: _Kernel, pull: np.ndarray, values, gradient: np.ndarray) -> None:
        gp, x, weight = part.gp, part.inputs, kernel.weight[:, None]
        weighted = pull * kernel.slope
        moments = weight * (weighted @ (weight * np.concatenate([x, np.ones_like(weight)], axis=1)))
        spread = 2.0 * np.sum(x * (x * moments[:, -1:] - moments[:, :-1]), axis=0)
        gp.lengthscale.add(gradient, spread / gp.lengthscale.of(values) ** 3)
        # Amplitude times its own gradient, a row: what it is without a division by it follows from the sum a task.
        straight = weighted if kernel.slope is kernel.value else pull * kernel.value
        each = 2.0 * (straight @ kernel.weight)
        starts = self._starts[part.tasks] - part.rows.start
        by_amplitude = np.add.reduceat(each, starts)
        variance = float(gp.variance.of(values))
        gp.variance.add(gradient, 0.5 * np.sum(by_amplitude * kernel.amplitude) / variance)
        if part.latent is not None:
            mixing = self._reading.mixing
            by_mixing = np.zeros(mixing.shape)
            by_mixing[:, part.latent] = np.sqrt(variance) * by_amplitude
            mixing.add(gradient, by_mixing)


def _part(gp: Gp, latent: int | None, tasks: slice, rows: slice, inputs: np.ndarray) -> _Part:
    centred = inputs - inputs.mean(axis=0)
    return _Part(gp, latent, tasks, rows, centred, radial.basis(centred))
