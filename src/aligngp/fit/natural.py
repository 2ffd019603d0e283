r"""Stochastic variational inference with natural gradients: for data of any size, minibatch by minibatch.

The bound is a closed form of the batch's sums B, b (see :mod:`aligngp.objective.evidence`), so one pass over the batch
gives both the gradient of everything else and the natural gradient of q(u), which is a running average of the sums:

    P  <-  (1 - rate) P + rate (I + B),    shift  <-  (1 - rate) shift + rate b
    q(v_j) = N(m_j, P_jj^-1),  m solves P m = shift (a sweep of block Gauss-Seidel a step)

q(u_g) of a GP mapping takes natural gradients through its expectation parameters, with a smaller rate; an update whose
precision is not positive definite is left out. Everything else takes Adam steps. Learning rate and end follow a rule:
a window of steps whose mean bound is not above that of the window before it by more than the standard error of their
difference, or by less than a thousandth of a nat, divides Adam's rate by four; the third such window ends the training.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from aligngp.data.batches import Batches
from aligngp.errors import AligngpWarning, TrainingError
from aligngp.fit.adam import History, TrainingData, take
from aligngp.fit.diagnosis import explain
from aligngp.fit.gps import gp_of, with_gps, without_posterior
from aligngp.gp.sparse import SparseGP
from aligngp.linalg import inverse_factor
from aligngp.mappings.contract import Point
from aligngp.model import Model
from aligngp.objective.buckets import bucketed
from aligngp.objective.elbo import TaskBatch
from aligngp.objective.evidence import Statistics, covariance_factor, sizes, statistics
from aligngp.objective.prior import log_prior
from aligngp.parameters import Triangular, as_arrays, join, resolve, split
from aligngp.typing import Array, Expectation, Float, PRNGKeyArray, Progress, Scalar

_CHUNK = 50
_DROPS = 3
_DROP = 0.25
_WORTH = 1e-3
"""Gain of a window below which it is none: with all rows in every step the bound has no noise, and creeps for ever."""
_SWEEPS = 2
_FORGOTTEN = 2.0
"""Rate of q(u), in batches of an epoch: its sums remember about half an epoch ..."""
_SLOWEST = 0.05
"""... and at the most twenty batches, as the other parameters move on."""


@dataclass(frozen=True)
class NaturalSettings:
    """How long and how fast."""

    iterations: int = 5000
    learning_rate: float = 2e-2
    mapping_rate: float = 0.05
    num_samples: int = 1
    expectation: Expectation = "sampled"
    prior: bool = False
    window: int = 100


class _Mapping(eqx.Module):
    """q(v) of a mapping's GP: precision and shift = precision * mean."""

    precision: tuple[Float[Array, "M M"], ...]
    shift: Float[Array, "M P"]


class _Posterior(eqx.Module):
    """All q(v), by natural parameters; ``mean`` of the latents and residuals solves ``precision mean = shift``."""

    precision: Float[Array, "K K"]
    shift: Float[Array, " K"]
    mean: Float[Array, " K"]
    mappings: tuple[_Mapping | None, ...]


class _State(eqx.Module):
    hyper: Any
    optimiser: optax.OptState
    posterior: _Posterior
    iteration: Array


def train_natural(
    model: Model,
    data: TrainingData,
    key: PRNGKeyArray,
    seed: int,
    settings: NaturalSettings,
    progress: Progress | None = None,
) -> tuple[Model, History, bool]:
    """Maximise the bound from a model's parameters; return the model, the history and whether Ctrl-C ended it.

    The history holds the bound of every step on its batch, scaled to all rows. q(u) starts from the model's own.
    """
    trainable, rest = split(model)
    batches = as_arrays(data.batches)
    rows = [batch.y.shape[0] for batch in batches]
    scales = tuple(max(1.0, n / (size or n)) for n, size in zip(rows, data.batch_sizes, strict=True))
    # The largest task's batches decide how much of the sums is remembered.
    rate = min(1.0, max(_SLOWEST, _FORGOTTEN / max(scales))) if max(scales) > 1.0 else 1.0
    hyper = _without_posterior(trainable)
    hyper = jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), hyper)
    state = _State(hyper, _OPTIMISER.init(hyper), _natural(resolve(model)), jnp.zeros((), jnp.int32))
    source = Batches(rows, data.batch_sizes, seed)
    if all(size is None for size in data.batch_sizes):  # the loop is compiled for their numbers
        batches = bucketed(model.mappings, batches)
    step = replace(settings, iterations=1, learning_rate=1.0, window=1)
    best, best_value, values, drops = state, -np.inf, np.zeros(0), 0
    seconds: list[np.ndarray] = []
    start, interrupted = time.perf_counter(), False
    try:
        while values.size < settings.iterations and drops < _DROPS:
            count = min(_CHUNK, settings.iterations - values.size)
            chosen = tuple(None if part is None else jnp.asarray(part) for part in source.draw(count))
            speed = settings.learning_rate * _DROP**drops
            began = time.perf_counter() - start
            after, found = _advance(state, trainable, rest, batches, chosen, count, scales, rate, speed, key, step)
            found = np.asarray(found)
            if not np.all(np.isfinite(found)):
                given = trainable, rest, batches, chosen, count, scales, rate, speed, key, step
                raise _failure(state, *given, data.names)
            state, values = after, np.concatenate([values, found])
            seconds.append(began + (time.perf_counter() - start - began) * np.arange(1, count + 1) / count)
            if found.mean() > best_value:
                best, best_value = state, float(found.mean())
            if progress is not None:
                progress(values.size, settings.iterations, float(found[-1]))
            if values.size % settings.window == 0 and stalled(values, settings.window):
                drops += 1
    except KeyboardInterrupt:
        if not values.size:
            raise
        warnings.warn(
            f"Training was interrupted after {values.size} of {settings.iterations} iterations; the best model so far "
            "is kept.",
            AligngpWarning,
            stacklevel=2,
        )
        state, interrupted = best, True
    model = join(_with_posterior(state.hyper, trainable, state.posterior), rest)
    all_seconds = np.concatenate(seconds) if seconds else np.zeros(0)
    return model, History(np.arange(1, values.size + 1), values, all_seconds), interrupted


def stalled(values: np.ndarray, window: int) -> bool:
    """Tell whether the last window is above the one before it by no more than their difference's error, or nothing."""
    if values.size < 2 * window:
        return False
    last, before = values[-window:], values[-2 * window : -window]
    return bool(last.mean() - before.mean() <= max(np.sqrt((last.var() + before.var()) / window), _WORTH))


_OPTIMISER = optax.scale_by_adam()


def _failure(
    state: _State, trainable, rest, batches, chosen, count, scales, rate, speed, key, settings, names
) -> TrainingError:
    """Walk through a chunk again from its first state; return the error of the step that cannot be taken."""
    at = 0
    while at < count - 1:  # if no other step fails it is the last
        rows = tuple(None if part is None else part[at : at + 1] for part in chosen)
        after, value = _advance(state, trainable, rest, batches, rows, 1, scales, rate, speed, key, settings)
        if not np.isfinite(value[0]):
            break
        state, at = after, at + 1
    moved, fixed = split(join(_with_posterior(state.hyper, trainable, state.posterior), rest))
    picked = [None if part is None else part[at] for part in chosen]
    return explain(
        moved,
        fixed,
        tuple(take(*parts) for parts in zip(batches, picked, scales, strict=True)),
        names,
        jax.random.fold_in(key, state.iteration),
        num_samples=settings.num_samples,
        expectation=settings.expectation,
        iteration=int(state.iteration) + 1,
        learning_rate=speed,
    )


@eqx.filter_jit
def _advance(state: _State, trainable, rest, batches, chosen, count, scales, rate, speed, key, settings):
    """Run ``count`` steps; return the state and the bounds."""

    def body(state: _State, at):
        step_key = jax.random.fold_in(key, state.iteration)
        rows = [None if part is None else part[at] for part in chosen]
        batch = [take(*parts) for parts in zip(batches, rows, scales, strict=True)]

        def loss(hyper, moments):
            template = _with_moments(join(_with_posterior(hyper, trainable, None), rest), state.posterior, moments)
            value, updated = _bound(resolve(template), batch, step_key, state.posterior, rate, settings)
            return -value, (value, updated)

        moments = tuple(None if one is None else _moments(one) for one in state.posterior.mappings)
        (_, (value, updated)), (gradient, slope) = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(
            state.hyper, moments
        )
        updates, memory = _OPTIMISER.update(gradient, state.optimiser)
        hyper = optax.apply_updates(state.hyper, jax.tree.map(lambda leaf: -speed * leaf, updates))
        mappings = tuple(
            None if one is None or at_moments is None else _improved(one, at_moments, slopes, settings.mapping_rate)
            for one, at_moments, slopes in zip(state.posterior.mappings, moments, slope, strict=True)
        )
        posterior = replace(updated, mappings=mappings)
        return _State(hyper, memory, posterior, state.iteration + 1), value

    return jax.lax.scan(body, state, jnp.arange(count))


def _bound(
    model: Model, batches, key, posterior: _Posterior, rate, settings: NaturalSettings
) -> tuple[Scalar, _Posterior]:
    """Return the bound on a batch at the q(u) that the batch's natural gradient leads to, and that q(u)."""
    pairs = [mapping.posterior(batch.rows) for mapping, batch in zip(model.mappings, batches, strict=True)]
    penalties = [batch.scale * batch.sum(penalty) for (_, penalty), batch in zip(pairs, batches, strict=True)]
    laws, weighted = [], []
    for task, ((law, _), batch) in enumerate(zip(pairs, batches, strict=True)):
        if not isinstance(law, Point) and settings.expectation == "sampled":
            law, batch = _drawn(law, batch, jax.random.fold_in(key, task), settings.num_samples)
        laws.append(law)
        weighted.append(batch)
    found = statistics(model, laws, weighted)
    posterior = _towards(posterior, jax.lax.stop_gradient(found), sizes(model), rate)
    mapping = sum((one.global_penalty() for one in model.mappings), jnp.zeros(()))
    prior = log_prior(model) if settings.prior else jnp.zeros(())
    value = _value(found, posterior, sizes(model)) - mapping - sum(penalties) + prior
    return value, posterior


def _drawn(law, batch: TaskBatch, key: PRNGKeyArray, number: int) -> tuple[Point, TaskBatch]:
    """Return draws of the aligned inputs as rows of their own, each with its part of the weight."""
    draws = law.sample(key, number)
    rows = jax.tree.map(lambda leaf: jnp.concatenate([leaf] * number), batch.rows)
    counted = None if batch.counted is None else jnp.tile(batch.counted, number)
    y, scale = jnp.tile(batch.y, number), batch.scale / number
    return Point(draws.reshape(-1, draws.shape[-1])), TaskBatch(rows, y, scale, counted)


def _towards(posterior: _Posterior, found: Statistics, parts: list[int], rate) -> _Posterior:
    """Return q(u) after its natural-gradient step, the means by block Gauss-Seidel."""
    identity = jnp.eye(found.linear.shape[0], dtype=found.linear.dtype)
    precision = (1.0 - rate) * posterior.precision + rate * (identity + found.products)
    shift = (1.0 - rate) * posterior.shift + rate * found.linear
    blocks = _blocks(parts)
    factors = [inverse_factor(precision[block, block])[0] for block in blocks]
    mean = jnp.asarray(posterior.mean)
    for _ in range(_SWEEPS if len(parts) > 1 else 1):
        for block, factor in zip(blocks, factors, strict=True):
            left = shift[block] - precision[block] @ mean + precision[block, block] @ mean[block]
            mean = mean.at[block].set(factor.T @ (factor @ left))
    return replace(posterior, precision=precision, shift=shift, mean=mean)


def _value(found: Statistics, posterior: _Posterior, parts: list[int]) -> Scalar:
    """Return ``E log p(y | f) - KL[q(u) || p(u)]`` of a batch's sums."""
    mean = posterior.mean
    trace, divergence = jnp.zeros(()), 0.5 * jnp.sum(mean**2)
    for block in _blocks(parts):
        factor, half_determinant = inverse_factor(posterior.precision[block, block])
        covariance = factor.T @ factor
        trace += jnp.sum(found.products[block, block] * covariance)
        divergence += 0.5 * (jnp.trace(covariance) - mean[block].shape[0]) + half_determinant
    fit = found.linear @ mean - 0.5 * (mean @ found.products @ mean + trace)
    return found.density + fit - 0.5 * (found.variance - jnp.trace(found.products)) - divergence


def _blocks(parts: list[int]) -> list[slice]:
    starts = [sum(parts[:j]) for j in range(len(parts))]
    return [slice(start, start + size) for start, size in zip(starts, parts, strict=True)]


# ---- GP mappings ------------------------------------------------------------------------------------------------


def _moments(one: _Mapping) -> tuple[Float[Array, "M P"], tuple[Float[Array, "M M"], ...]]:
    """Return mean and covariances of a mapping's q(v)."""
    factors = [inverse_factor(precision)[0] for precision in one.precision]
    columns = [factor.T @ (factor @ one.shift[:, p]) for p, factor in enumerate(factors)]
    return jnp.stack(columns, axis=1), tuple(factor.T @ factor for factor in factors)


def _improved(one: _Mapping, moments, slopes, rate: float) -> _Mapping:
    """Return a mapping's q(v) after a natural-gradient step; ``slopes`` are those of the negative bound."""
    mean, _ = moments
    mean_slope, slopes = -slopes[0], [-0.5 * (slope + slope.T) for slope in slopes[1]]
    precisions = [old - 2.0 * rate * slope for old, slope in zip(one.precision, slopes, strict=True)]
    moved = jnp.stack([slope @ mean[:, p] for p, slope in enumerate(slopes)], axis=1)
    shift = one.shift + rate * (mean_slope - 2.0 * moved)
    fine = jnp.all(jnp.stack([jnp.all(jnp.isfinite(jnp.linalg.cholesky(precision))) for precision in precisions]))
    fine &= jnp.all(jnp.isfinite(shift))
    kept = [jnp.where(fine, new, old) for new, old in zip(precisions, one.precision, strict=True)]
    return _Mapping(tuple(kept), jnp.where(fine, shift, one.shift))


# ---- between a model and the natural parameters of its q(u) -------------------------------------------------------


def _natural(model: Model) -> _Posterior:
    """Return the natural parameters of a resolved model's q(u)."""
    gps = [*model.latents, *(residual for residual in model.residuals if residual is not None)]
    precisions = [_precision(gp.scale[0]) for gp in gps]
    means = [gp.mean[:, 0] for gp in gps]
    size = sum(mean.shape[0] for mean in means)
    precision, start = jnp.zeros((size, size), means[0].dtype), 0
    for part in precisions:
        block = slice(start, start + part.shape[0])
        precision, start = precision.at[block, block].set(part), block.stop
    mean = jnp.concatenate(means)
    mappings = tuple(None if gp is None else _natural_mapping(gp) for gp in map(gp_of, model.mappings))
    return _Posterior(precision, precision @ mean, mean, mappings)


def _natural_mapping(gp: SparseGP) -> _Mapping:
    precisions = tuple(_precision(scale) for scale in gp.scale)
    return _Mapping(precisions, jnp.stack([p @ gp.mean[:, d] for d, p in enumerate(precisions)], axis=1))


def _precision(scale: Float[Array, "M M"]) -> Float[Array, "M M"]:
    inverse, _ = inverse_factor(scale @ scale.T)
    return inverse.T @ inverse


def _without_posterior(trainable: Model) -> Model:
    """Leave the q(u) of all GPs out of what Adam trains."""
    return with_gps(trainable, without_posterior, without_posterior)


def _with_posterior(hyper: Model, trainable: Model, posterior: _Posterior | None) -> Model:
    """Put q(u) back: that of the natural parameters, or as it was in the trainable arrays."""
    full = eqx.combine(hyper, trainable)
    if posterior is None:
        return full
    parts = [gp.inducing.shape[0] for gp in (*full.latents, *(gp for gp in full.residuals if gp is not None))]
    blocks = iter(_blocks(parts))

    def with_block(gp: SparseGP) -> SparseGP:
        block = next(blocks)
        scale = jnp.asarray(covariance_factor(posterior.precision[block, block]))[None]
        return replace(gp, mean=posterior.mean[block, None], scale=Triangular(scale))

    mappings = iter(one for one in posterior.mappings if one is not None)

    def with_moments(gp: SparseGP) -> SparseGP:
        one = next(mappings)
        scale = jnp.stack([covariance_factor(precision) for precision in one.precision])
        return replace(gp, mean=_moments(one)[0], scale=Triangular(scale))

    return with_gps(full, with_block, with_moments)


def _with_moments(model: Model, posterior: _Posterior, moments) -> Model:
    """Put the moments of the mappings' q(v) into a model, as arrays that can be differentiated."""
    given = iter(one for one in moments if one is not None)

    def place(gp: SparseGP) -> SparseGP:
        mean, covariances = next(given)
        return replace(gp, mean=mean, scale=jnp.stack([jnp.linalg.cholesky(one) for one in covariances]))

    return with_gps(model, lambda gp: gp, place)
