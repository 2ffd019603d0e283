"""The log prior of hyperparameters (:mod:`aligngp.objective.prior`) and its gradient, in NumPy."""

from __future__ import annotations

import math

import numpy as np

from aligngp.objective.direct.reading import Gp, Reading
from aligngp.objective.flat import Slot
from aligngp.objective.prior import LATENT, MIXING_DEVIATION, NOISE, OWN, KernelPrior


def add_log_prior(reading: Reading, values: np.ndarray, gradient: np.ndarray) -> float:
    """Return the log density of the values, up to a constant, and add its gradient."""
    mixing = reading.mixing.of(values)
    reading.mixing.add(gradient, -mixing / MIXING_DEVIATION**2)
    total = -0.5 * float(np.sum(mixing**2)) / MIXING_DEVIATION**2
    for gp in reading.latents:
        total += _kernel(gp, LATENT, values, gradient)
    for _, gp in reading.residuals:
        total += _kernel(gp, OWN, values, gradient)
    return total + sum(_log_normal(noise, *NOISE, values, gradient) for noise in reading.noises)


def _kernel(gp: Gp, prior: KernelPrior, values: np.ndarray, gradient: np.ndarray) -> float:
    typical = math.log(prior.lengthscale) + 0.5 * math.log(gp.lengthscale.shape[0])
    lengths = _log_normal(gp.lengthscale, typical, prior.lengthscale_deviation, values, gradient)
    middle = math.log(prior.variance)
    return lengths + _log_normal(gp.variance, middle, prior.variance_deviation, values, gradient)


def _log_normal(slot: Slot, mean: float, deviation: float, values: np.ndarray, gradient: np.ndarray) -> float:
    value = slot.of(values)
    away = (np.log(value) - mean) / deviation
    slot.add(gradient, -away / (deviation * value))
    return -0.5 * float(np.sum(away**2))
