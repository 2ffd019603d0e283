"""Moments and joint draws at new rows, in blocks, in standardised units."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aligngp.gaussian import mixture_moments
from aligngp.gp.psi import expected_cross, expected_product, in_double
from aligngp.linalg import lower_factor
from aligngp.mappings.contract import DiagonalGaussian, Law, Point, Rows
from aligngp.model import Model
from aligngp.parameters import resolve
from aligngp.typing import Array, Float, PRNGKeyArray

_BLOCK = 2048
_SMALLEST_BLOCK = 16
_BLOCK_ENTRIES = 4_000_000
"""Most numbers in one intermediate of a block: rows are fewer where a row needs draws or psi matrices."""


def moments(
    model: Model, task: int, rows: Rows, *, analytic: bool, num_samples: int, key: PRNGKeyArray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of a task's noise-free function at every row.

    Gaussian aligned inputs are integrated out in closed form (``analytic``, SE kernels) or by ``num_samples`` draws,
    as the moments of the mixture. Blocks bound the memory, whatever the number of rows.
    """
    number = rows.own.shape[0]
    inducing = max(latent.inducing.shape[0] for latent in model.latents)
    a_row = inducing**2 if analytic else inducing * num_samples
    if model.exact is not None:
        a_row = model.exact.weights.shape[0]
    block = max(_SMALLEST_BLOCK, min(_BLOCK, _BLOCK_ENTRIES // a_row))
    mean, variance = np.empty(number), np.empty(number)
    for count, start in enumerate(range(0, number, block)):
        stop = min(start + block, number)
        part = padded(rows, start, stop, block)
        some = _moments(model, task, part, jax.random.fold_in(key, count), num_samples, analytic)
        mean[start:stop], variance[start:stop] = (np.asarray(values)[: stop - start] for values in some)
    return mean, np.maximum(variance, 0.0)


def check_shapes(model: Model, task: int, rows: Rows) -> None:
    """Raise where the shapes of a model do not fit together, by those of some rows; nothing is computed."""
    analytic = resolve(model).closed_form()
    found = eqx.filter_eval_shape(_moments, model, task, rows, jax.random.key(0), 1, analytic)
    if [part.shape for part in found] != [(rows.own.shape[0],)] * 2:
        raise ValueError(f"it predicts task {task} in the shapes {[part.shape for part in found]}")


def aligned(model: Model, task: int, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of the aligned inputs at every row, standardised, each of shape (n, D)."""
    number, dimensions = rows.nominal.shape
    mean, variance = np.empty((number, dimensions)), np.empty((number, dimensions))
    for start in range(0, number, _BLOCK):
        stop = min(start + _BLOCK, number)
        some = _aligned(model, task, padded(rows, start, stop, _BLOCK))
        mean[start:stop], variance[start:stop] = (np.asarray(values)[: stop - start] for values in some)
    return mean, variance


def joint_moments(
    model: Model, task: int, rows: Rows, *, num_samples: int, key: PRNGKeyArray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and full covariance of a task's noise-free function over the rows."""
    mean, covariance = _joint(model, task, rows, key, num_samples)
    return np.asarray(mean, float), np.asarray(covariance, float)


def joint_draws(model: Model, task: int, rows: Rows, *, number: int, key: PRNGKeyArray) -> np.ndarray:
    """Return draws of a task's noise-free function, joint over the rows, shape (number, n)."""
    return np.asarray(_draws(model, task, rows, key, number), float)


def padded(rows: Rows, start: int, stop: int, block: int) -> Rows:
    """Return a slice of rows, padded to one of few sizes so that few shapes are compiled."""
    size = _SMALLEST_BLOCK
    while size < stop - start:
        size = min(2 * size, block)
    extra = size - (stop - start)

    def pad(values):
        part = np.asarray(values)[start:stop]
        return np.concatenate([part, np.repeat(part[-1:], extra, axis=0)]) if extra else part

    return jax.tree.map(pad, rows)


@eqx.filter_jit
def _moments(model: Model, task: int, rows: Rows, key, num_samples: int, analytic: bool):
    model = resolve(model)
    law = model.mappings[task].predictive(rows)
    if model.exact is not None:
        prior = model.prior_variance(task, _known(law), rows.own)
        return model.exact.condition(_with_training_rows(model, task, _known(law), rows.own), prior)
    own_mean, own_variance = model.own_marginals(task, rows.own)
    if isinstance(law, Point):
        mean, variance = model.mix(task, *model.latent_marginals(law.value, model.factors()))
    elif analytic:
        mean, variance = _psi_moments(in_double(model), task, in_double(law))
    else:
        draws = law.sample(key, num_samples)
        mean, variance = model.latent_marginals(draws.reshape(-1, draws.shape[-1]), model.factors())
        mean, variance = model.mix(task, mean, variance)
        mean, variance = mixture_moments(mean.reshape(draws.shape[:2]), variance.reshape(draws.shape[:2]))
    return mean + own_mean, variance + own_variance


def _psi_moments(model: Model, task: int, law: DiagonalGaussian) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """Return ``E f_i`` and ``E f_i^2 - (E f_i)^2`` over f and the Gaussian aligned inputs (SE kernels)."""
    mixing, latents, kernels, factors = model.mixing[task], model.latents, model.se_kernels(), model.factors()
    weights = [factor.T @ latent.mean[:, 0] for latent, factor in zip(latents, factors, strict=True)]
    mean = jnp.zeros_like(law.mean[:, 0])
    second = jnp.zeros_like(mean)
    for q, latent in enumerate(latents):
        cross = expected_cross(kernels[q], law.mean, law.variance, latent.inducing)
        mean += mixing[q] * (cross @ weights[q])
        for r in range(q + 1):
            other = latents[r]
            product = expected_product(kernels[q], latent.inducing, kernels[r], other.inducing, law.mean, law.variance)
            middle = (1.0 if r == q else 2.0) * mixing[q] * mixing[r] * weights[q][:, None] * weights[r][None, :]
            if r == q:
                identity = jnp.eye(latent.inducing.shape[0], dtype=mean.dtype)
                left = identity - latent.scale[0] @ latent.scale[0].T
                middle -= mixing[q] ** 2 * factors[q].T @ left @ factors[q]
                second += mixing[q] ** 2 * kernels[q].variance
            second += product.reshape(product.shape[0], -1) @ middle.ravel()
    return mean, second - mean**2


def _known(law: Law) -> Float[Array, "N D"]:
    assert isinstance(law, Point)  # there is no exact posterior over uncertain inputs
    return law.value


def _with_training_rows(
    model: Model, task: int, x: Float[Array, "K D"], own: Float[Array, "K Dt"]
) -> Float[Array, "K N"]:
    """Return the prior covariance of a task's function at new rows with all training rows.

    Those of all tasks in one matrix a latent: a kernel for each of them would be compiled each time.
    """
    assert model.exact is not None
    sizes = [rows.shape[0] for rows in model.exact.aligned]
    theirs = jnp.repeat(jnp.asarray(model.mixing), jnp.asarray(sizes), axis=0, total_repeat_length=sum(sizes))
    aligned, total = jnp.concatenate(model.exact.aligned), jnp.zeros((x.shape[0], sum(sizes)), x.dtype)
    for q, latent in enumerate(model.latents):
        total = total + model.mixing[task, q] * theirs[:, q] * latent.kernel.cross(x, aligned)
    residual, start = model.residual(task), sum(sizes[:task])
    if residual is None:
        return total
    return total.at[:, start : start + sizes[task]].add(residual.kernel.cross(own, model.exact.own[task]))


@eqx.filter_jit
def _aligned(model: Model, task: int, rows: Rows):
    law = resolve(model).mappings[task].predictive(rows)
    if isinstance(law, Point):
        return law.value, jnp.zeros_like(law.value)
    return law.mean, law.variance


@eqx.filter_jit
def _joint(model: Model, task: int, rows: Rows, key, num_samples: int):
    model = resolve(model)
    factors = () if model.exact is not None else model.factors()
    law = model.mappings[task].predictive(rows)
    if isinstance(law, Point):
        return _joint_at(model, task, law.value, rows.own, factors)
    draws = model.mappings[task].draw(rows, key, num_samples)
    means, covariances = jax.lax.map(lambda x: _joint_at(model, task, x, rows.own, factors), draws)
    centred = means - jnp.mean(means, axis=0)
    return jnp.mean(means, axis=0), jnp.mean(covariances, axis=0) + centred.T @ centred / num_samples


@eqx.filter_jit
def _draws(model: Model, task: int, rows: Rows, key, number: int):
    model = resolve(model)
    factors = () if model.exact is not None else model.factors()
    align, function = jax.random.split(key)
    noise = jax.random.normal(function, (number, rows.own.shape[0]), rows.own.dtype)
    law = model.mappings[task].predictive(rows)
    if isinstance(law, Point):
        mean, covariance = _joint_at(model, task, law.value, rows.own, factors)
        return mean + noise @ lower_factor(covariance, model.prior_variance(task, law.value, rows.own)).T
    draws = model.mappings[task].draw(rows, align, number)

    def one(pair):  # lax.map runs one after the other: no batched factorisation
        x, noise = pair
        mean, covariance = _joint_at(model, task, x, rows.own, factors)
        return mean + lower_factor(covariance, model.prior_variance(task, x, rows.own)) @ noise

    return jax.lax.map(one, (draws, noise))


def _joint_at(
    model: Model, task: int, x: Float[Array, "N D"], own: Float[Array, "N Dt"], factors
) -> tuple[Float[Array, " N"], Float[Array, "N N"]]:
    if model.exact is not None:
        prior = model.prior_covariance((task, task), (x, x), (own, own))
        return model.exact.condition_jointly(_with_training_rows(model, task, x, own), prior)
    mean, covariance = jnp.zeros(x.shape[:1], x.dtype), jnp.zeros((x.shape[0], x.shape[0]), x.dtype)
    for q, (latent, factor) in enumerate(zip(model.latents, factors, strict=True)):
        m, c = latent.joint(x, factor)
        mean = mean + model.mixing[task, q] * m[:, 0]
        covariance = covariance + model.mixing[task, q] ** 2 * c[0]
    residual = model.residual(task)
    if residual is not None:
        m, c = residual.joint(own, residual.factor())
        mean, covariance = mean + m[:, 0], covariance + c[0]
    return mean, covariance
