"""What an evaluation is worth, as functions in JAX of what is predicted; larger is better, logarithms throughout.

``mean`` is that of the target, in the direction in which it is to be large. An evaluation with the variance ``v`` of
the noise-free output and noise ``nu`` changes the posterior mean there by ``s z``, z ~ N(0, 1), s = v / sqrt(v + nu);
an evaluation of another task changes it by less (:mod:`aligngp.suggest.response`). With the best mean so far b,

    logei   log E max(mean + s z - b, 0) = log s + log(phi(u) + u Phi(u)),  u = (mean - b) / s  (Ament et al., 2023)
            (elsewhere: that a row turns out better than the one that is expected to be the best)
    mes     log of the mutual information of the observation and the target's maximum f* (Wang and Jegelka, 2017), with
            the correlation rho = s / sqrt(v) of the observation and the target (Takeno et al., 2020)
    ucb     mean + beta sqrt(v)
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from scipy.special import ndtr

_SMALLEST = 1e-300
_NODES = 32
_LOG_ROOT_2PI = 0.5 * np.log(2.0 * np.pi)
_TAIL = -19.9
"""Below it log_ndtr is a short series."""
_FAR = 1e6
"""Stands for infinity, whose derivatives are none."""


@jax.custom_jvp
def log_improvement(u: Any) -> Any:
    """Return ``log(phi(u) + u Phi(u))``, also far in the lower tail."""
    log_density = -0.5 * u**2 - _LOG_ROOT_2PI
    near = jnp.maximum(u, -1.0)
    direct = jnp.log(jnp.exp(-0.5 * near**2 - _LOG_ROOT_2PI) + near * jnp.exp(log_ndtr(near)))
    middle = jnp.clip(u, _TAIL, -1.0)
    ratio = jnp.exp(log_ndtr(middle) + 0.5 * middle**2 + _LOG_ROOT_2PI)
    lower = log_density + jnp.log(jnp.maximum(1.0 + middle * ratio, _SMALLEST))
    far = jnp.minimum(u, _TAIL)
    v = far**-2
    series = v * (-3.0 + v * (15.0 + v * (-105.0 + v * (945.0 - 10395.0 * v))))
    tail = log_density - 2.0 * jnp.log(-far) + jnp.log1p(series)
    return jnp.where(u > -1.0, direct, jnp.where(u > _TAIL, lower, tail))


@log_improvement.defjvp
def _log_improvement_slope(given: Any, change: Any) -> Any:
    # Phi / (phi + u Phi): the derivative of the differences above would have lost its digits.
    value = log_improvement(given[0])
    return value, jnp.exp(log_ndtr(given[0]) - value) * change[0]


def log_expected_improvement(mean: Any, change: Any, best: Any) -> Any:
    """Return ``log E max(mean + change z - best, 0)``, elementwise."""
    change = jnp.maximum(jnp.abs(change), 1e-12)
    return jnp.log(change) + log_improvement((mean - best) / change)


def log_information(mean: Any, variance: Any, change: Any, maxima: Any) -> Any:
    """Return the log of the mean over maxima (K,) of I(observation; max f), elementwise of the others."""
    deviation = jnp.sqrt(jnp.maximum(variance, 1e-18))
    rho = jnp.clip(jnp.abs(change) / deviation, 1e-9, 1.0 - 1e-9)
    gamma = jnp.clip((maxima - mean[..., None]) / deviation[..., None], -20.0, 20.0)
    log_cdf = log_ndtr(gamma)
    hazard = jnp.exp(-0.5 * gamma**2 - _LOG_ROOT_2PI - log_cdf)
    r, centre = rho[..., None, None], gamma[..., None]
    rest = jnp.sqrt(1.0 - r**2)
    # log Phi((gamma - rho y) / rest) is neither 0 nor weightless between these two ends of y
    low, high = (jnp.clip((centre + way * 8.0 * rest) / r, -7.0, 7.0) for way in (-1.0, 1.0))
    y = low + (high - low) * jnp.linspace(0.0, 1.0, _NODES)
    inner = log_ndtr((centre - r * y) / rest)
    density = jnp.exp(inner - log_cdf[..., None] - 0.5 * y**2 - _LOG_ROOT_2PI)
    expected = jnp.sum(density * inner, axis=-1) * ((high - low) / (_NODES - 1.0))[..., 0]
    gain = 0.5 * rho[..., None] ** 2 * gamma * hazard - log_cdf + expected
    return jnp.log(jnp.maximum(jnp.mean(gain, axis=-1), 1e-30))


def sampled_maxima(mean: np.ndarray, variance: np.ndarray, number: int, seed: int) -> np.ndarray:
    """Return draws (number,) of the maximum over many points, from a Gumbel law with its quartiles."""
    deviation = np.sqrt(np.maximum(variance, 1e-18))
    low, high = float(np.max(mean - 5.0 * deviation)), float(np.max(mean + 5.0 * deviation))

    def quantile(level: float) -> float:
        a, b = low, high
        for _ in range(60):
            middle = 0.5 * (a + b)
            below = np.sum(np.log(np.maximum(ndtr((middle - mean) / deviation), _SMALLEST))) < np.log(level)
            a, b = (middle, b) if below else (a, middle)
        return 0.5 * (a + b)

    q1, q2, q3 = (quantile(level) for level in (0.25, 0.5, 0.75))
    scale = max((q3 - q1) / (np.log(np.log(4.0)) - np.log(np.log(4.0 / 3.0))), 1e-9)
    centre = q2 + scale * np.log(np.log(2.0))
    uniform = (np.arange(number) + np.random.default_rng(seed).uniform()) / number
    draws = centre - scale * np.log(-np.log(np.clip(uniform, 1e-6, 1.0 - 1e-6)))
    return np.maximum(draws, float(np.max(mean)) + 1e-6)


def log_feasible(mean: Any, variance: Any, low: Any, high: Any) -> Any:
    """Return ``log P(low <= f <= high)``, elementwise; the bounds may be infinite."""
    deviation = jnp.sqrt(jnp.maximum(variance, 1e-18))
    a, b = ((jnp.clip(limit, -_FAR, _FAR) - mean) / deviation for limit in (low, high))
    flipped = a > 0.0  # both in the upper tail, where a difference of probabilities has no digits: mirror it
    a, b = jnp.where(flipped, -b, a), jnp.where(flipped, -a, b)
    upper = log_ndtr(b)
    return upper + jnp.log1p(-jnp.minimum(jnp.exp(log_ndtr(a) - upper), 1.0 - 1e-12))


@partial(jax.jit, static_argnames="kind")
def of_target(kind: str, mean: Any, variance: Any, noise: Any, best: Any, maxima: Any, beta: Any) -> Any:
    """Return values (n,) of evaluations of the target, and their derivatives by mean and variance."""

    def function(mean: Any, variance: Any) -> Any:
        variance = jnp.maximum(variance, 1e-18)
        values = _value(kind, mean, variance, variance / jnp.sqrt(variance + noise), best, maxima, beta)
        return jnp.sum(values), values

    (_, values), slopes = jax.value_and_grad(function, argnums=(0, 1), has_aux=True)(mean, variance)
    return values, *slopes


def of_source(kind: str, mean: Any, variance: Any, weight: Any, maxima: Any, change: Any) -> Any:
    """Return values (n,) of evaluations elsewhere from the changes (n, R) that they cause at target rows.

    ``mean``, ``variance`` and ``weight`` (log probability that the constraints hold) are those rows', (R,). Nothing is
    collected elsewhere, so what counts for ``"logei"`` is that another row may turn out better than the one that is
    expected to be the best now (knowledge gradient, two rows at a time).
    """
    if kind == "learn":
        return jnp.log(jnp.maximum(jnp.mean(change**2, axis=1), _SMALLEST))
    if kind == "logei":
        first = jnp.argmax(mean + 1e6 * jnp.minimum(weight - jnp.log(0.5), 0.0))
        values = log_expected_improvement(mean, change - change[:, first][:, None], mean[first])
        values = jnp.where(jnp.arange(len(mean)) == first, -jnp.inf, values)
    else:
        values = _value(kind, mean, variance, change, 0.0, maxima, 0.0)
    return jnp.max(values + weight, axis=1)


def _value(kind: str, mean: Any, variance: Any, change: Any, best: Any, maxima: Any, beta: Any) -> Any:
    mean, variance = jnp.broadcast_to(mean, change.shape), jnp.broadcast_to(variance, change.shape)
    if kind == "logei":
        return log_expected_improvement(mean, change, best)
    if kind == "mes":
        return log_information(mean, variance, change, maxima)
    if kind == "ucb":
        return mean + beta * jnp.sqrt(variance)
    return jnp.zeros_like(mean)  # "feasible": no row is known to meet the constraints, and that alone is searched for


@jax.jit
def of_constraint(mean: Any, variance: Any, low: Any, high: Any) -> Any:
    """Return the log probabilities (n,) that a constraint holds, and their derivatives by mean and variance."""

    def function(mean: Any, variance: Any) -> Any:
        values = log_feasible(mean, variance, low, high)
        return jnp.sum(values), values

    (_, values), slopes = jax.value_and_grad(function, argnums=(0, 1), has_aux=True)(mean, variance)
    return values, *slopes
