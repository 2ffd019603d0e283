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
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from aligngp.data.processes import check_together
from aligngp.errors import AligngpWarning, TrainingError
from aligngp.fit import posterior as q
from aligngp.fit.adam import History
from aligngp.fit.checkpoint import Checkpoints
from aligngp.fit.devices import ALONE, Devices
from aligngp.fit.diagnosis import explain
from aligngp.fit.feed import Feed, TrainingData, from_step, step_batch
from aligngp.fit.posterior import Posterior
from aligngp.mappings.contract import Point
from aligngp.model import Model
from aligngp.objective.buckets import bucketed
from aligngp.objective.elbo import TaskBatch
from aligngp.objective.evidence import sizes, statistics
from aligngp.objective.prior import log_prior
from aligngp.parameters import as_arrays, join, resolve, split
from aligngp.typing import Array, Expectation, PRNGKeyArray, Progress, Scalar

_CHUNK = 50
_DROPS = 3
_DROP = 0.25
_WORTH = 1e-3
"""Gain of a window below which it is none: with all rows in every step the bound has no noise, and creeps for ever."""
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


class _State(eqx.Module):
    hyper: Any
    optimiser: optax.OptState
    posterior: Posterior
    iteration: Array


@dataclass
class _Run:
    """How far a training is."""

    state: _State
    best: _State
    """At the end of the chunk with the best mean bound: what Ctrl-C returns."""
    best_value: float = -np.inf
    drops: int = 0
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))
    seconds: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def done(self) -> int:
        """Return the number of steps."""
        return self.values.size

    def keep(self, checkpoints: Checkpoints) -> None:
        """Write a checkpoint."""
        facts = {"best_value": self.best_value, "drops": self.drops}
        checkpoints.write(self.done, (self.state, self.best), (self.values, self.seconds), facts)

    def resumed(self, checkpoints: Checkpoints) -> _Run:
        """Return what the newest checkpoint holds, itself where there is none."""
        found = checkpoints.load((self.state, self.best))
        if found is None:
            return self
        (state, best), (values, seconds), facts = found
        return _Run(state, best, facts["best_value"], facts["drops"], values, seconds)


def train_natural(
    model: Model,
    data: TrainingData,
    key: PRNGKeyArray,
    seed: int,
    settings: NaturalSettings,
    progress: Progress | None = None,
    checkpoints: Checkpoints | None = None,
    devices: Devices = ALONE,
) -> tuple[Model, History, bool]:
    """Maximise the bound from a model's parameters; return the model, the history and whether Ctrl-C ended it.

    The history holds the bound of every step on its batch, scaled to all rows. q(u) starts from the model's own. The
    result does not depend on breaks between which ``checkpoints`` lead.
    """
    trainable, rest = split(model)
    batches, scales = as_arrays(data.in_memory), data.scales
    # The largest task's batches decide how much of the sums is remembered.
    rate = min(1.0, max(_SLOWEST, _FORGOTTEN / max(scales))) if max(scales) > 1.0 else 1.0
    hyper = q.without_posterior(trainable)
    hyper = jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), hyper)
    state = _State(hyper, _OPTIMISER.init(hyper), q.natural(resolve(model)), jnp.zeros((), jnp.int32))
    if all(size is None for size in data.batch_sizes):  # the loop is compiled for their numbers
        batches = bucketed(model.mappings, batches)
    run = _Run(state, state)
    if checkpoints is not None:
        run = run.resumed(checkpoints)
    check_together(run.done)
    run.state, batches, key = devices.everywhere((run.state, batches, key))
    both = devices.everywhere((trainable, rest))
    step = replace(settings, iterations=1, learning_rate=1.0, window=1)
    start, interrupted = time.perf_counter() - max(run.seconds, default=0.0), False
    with Feed(data, seed, settings.iterations, _CHUNK, devices) as feed:
        try:
            while run.done < settings.iterations and run.drops < _DROPS:
                count, chosen = feed.draw(run.done)
                speed = settings.learning_rate * _DROP**run.drops
                began = time.perf_counter() - start
                given = both[0], both[1], batches, chosen, count, scales, rate, speed, key, step
                after, found = _advance(run.state, *given)
                found = np.asarray(found)
                if not np.all(np.isfinite(found)):
                    raise _failure(run.state, *given, data.names)
                passed = time.perf_counter() - start - began
                run.state, run.values = after, np.concatenate([run.values, found])
                run.seconds = np.concatenate([run.seconds, began + passed * np.arange(1, count + 1) / count])
                if found.mean() > run.best_value:
                    run.best, run.best_value = after, float(found.mean())
                if progress is not None:
                    progress(run.done, settings.iterations, float(found[-1]))
                if run.done % settings.window == 0 and stalled(run.values, settings.window):
                    run.drops += 1
                if checkpoints is not None and checkpoints.due():
                    run.keep(checkpoints)
        except KeyboardInterrupt:
            if not run.done:
                raise
            if checkpoints is not None:
                run.keep(checkpoints)
            warnings.warn(
                f"Training was interrupted after {run.done} of {settings.iterations} iterations; the best model so far "
                "is kept.",
                AligngpWarning,
                stacklevel=2,
            )
            run.state, interrupted = run.best, True
    state = devices.local(run.state)
    model = join(q.with_posterior(state.hyper, trainable, state.posterior), rest)
    return model, History(np.arange(1, run.done + 1), run.values, run.seconds), interrupted


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
        rows = from_step(chosen, at)
        after, value = _advance(state, trainable, rest, batches, rows, 1, scales, rate, speed, key, settings)
        if not np.isfinite(value[0]):
            break
        state, at = after, at + 1
    moved, fixed = split(join(q.with_posterior(state.hyper, trainable, state.posterior), rest))
    return explain(
        moved,
        fixed,
        tuple(step_batch(batch, part, at, scale) for batch, part, scale in zip(batches, chosen, scales, strict=True)),
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
        parts = zip(batches, chosen, scales, strict=True)
        batch = [step_batch(table, part, at, scale) for table, part, scale in parts]

        def loss(hyper, moments):
            template = q.with_moments(join(q.with_posterior(hyper, trainable, None), rest), state.posterior, moments)
            value, updated = _bound(resolve(template), batch, step_key, state.posterior, rate, settings)
            return -value, (value, updated)

        moments = tuple(None if one is None else q.moments(one) for one in state.posterior.mappings)
        (_, (value, updated)), (gradient, slope) = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(
            state.hyper, moments
        )
        updates, memory = _OPTIMISER.update(gradient, state.optimiser)
        hyper = optax.apply_updates(state.hyper, jax.tree.map(lambda leaf: -speed * leaf, updates))
        mappings = tuple(
            None if one is None or at_moments is None else q.improved(one, at_moments, slopes, settings.mapping_rate)
            for one, at_moments, slopes in zip(state.posterior.mappings, moments, slope, strict=True)
        )
        posterior = replace(updated, mappings=mappings)
        return _State(hyper, memory, posterior, state.iteration + 1), value

    return jax.lax.scan(body, state, jnp.arange(count))


def _bound(
    model: Model, batches, key, posterior: Posterior, rate, settings: NaturalSettings
) -> tuple[Scalar, Posterior]:
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
    posterior = q.towards(posterior, jax.lax.stop_gradient(found), sizes(model), rate)
    mapping = sum((one.global_penalty() for one in model.mappings), jnp.zeros(()))
    prior = log_prior(model) if settings.prior else jnp.zeros(())
    value = q.value(found, posterior, sizes(model)) - mapping - sum(penalties) + prior
    return value, posterior


def _drawn(law, batch: TaskBatch, key: PRNGKeyArray, number: int) -> tuple[Point, TaskBatch]:
    """Return draws of the aligned inputs as rows of their own, each with its part of the weight."""
    draws = law.sample(key, number)
    rows = jax.tree.map(lambda leaf: jnp.concatenate([leaf] * number), batch.rows)
    counted = None if batch.counted is None else jnp.tile(batch.counted, number)
    y, scale = jnp.tile(batch.y, number), batch.scale / number
    return Point(draws.reshape(-1, draws.shape[-1])), TaskBatch(rows, y, scale, counted)
