"""Adam as in the paper's appendix, compiled in chunks, watched from outside.

The loop runs on the device in chunks of a fraction of a second; between two chunks the progress is shown, Ctrl-C is
heard, and a stopping rule may end the run. The result does not depend on where the chunks end.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from aligngp.data.batches import Batches
from aligngp.errors import AligngpWarning, TrainingError
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch, Terms, elbo
from aligngp.parameters import join, resolve, split
from aligngp.typing import Array, Expectation, Float, PRNGKeyArray, Progress

_CHUNK = 200
_SECONDS_A_CHUNK = 0.5


@dataclass(frozen=True)
class History:
    """The objective while training: iteration numbers, values of the bound, seconds since the start."""

    iteration: np.ndarray
    objective: np.ndarray
    seconds: np.ndarray


@dataclass(frozen=True)
class AdamSettings:
    """How long and how fast; the defaults are the paper's appendix, early stopping is off."""

    iterations: int = 5000
    learning_rate: float = 5e-3
    num_samples: int = 1
    expectation: Expectation = "sampled"
    patience: int | None = None
    """Stop when the mean bound of that many iterations is no better than that of the same number before."""


@dataclass(frozen=True)
class TrainingData:
    """All training rows of all tasks and how they are drawn into batches."""

    batches: tuple[TaskBatch, ...]
    batch_sizes: tuple[int | None, ...]
    names: tuple[str, ...]


class _State(eqx.Module):
    trainable: Any
    optimiser: optax.OptState
    iteration: Array


class _Chunk(eqx.Module):
    """Row numbers of the batches of a chunk (None: the whole task) and the factor that keeps sums unbiased."""

    rows: tuple[Array | None, ...]
    scales: tuple[float, ...] = eqx.field(static=True)


def train(
    model: Model,
    data: TrainingData,
    key: PRNGKeyArray,
    seed: int,
    settings: AdamSettings,
    progress: Progress | None = None,
) -> tuple[Model, History]:
    """Maximise the bound by Adam; return the model and the history.

    Ctrl-C returns the best model so far, with a warning. Raises TrainingError when the bound stops being finite.
    """
    trainable, rest = split(model)
    optimiser = optax.adam(settings.learning_rate)
    state = _State(trainable, optimiser.init(trainable), jnp.zeros((), jnp.int32))
    source = Batches([batch.y.shape[0] for batch in data.batches], data.batch_sizes, seed)
    scales = tuple(
        1.0 if size is None or size >= batch.y.shape[0] else batch.y.shape[0] / size
        for batch, size in zip(data.batches, data.batch_sizes, strict=True)
    )
    best, best_value = trainable, -np.inf
    objectives: list[np.ndarray] = []
    seconds: list[np.ndarray] = []
    start, done, size = time.perf_counter(), 0, 1
    try:
        while done < settings.iterations:
            count = min(size, _CHUNK, settings.iterations - done)
            if settings.patience is not None:  # the rule looks at fixed iterations, so that it is repeatable
                count = min(count, settings.patience - done % settings.patience)
            began = time.perf_counter()
            chunk = _Chunk(tuple(_padded(rows) for rows in source.draw(count)), scales)
            state, values = _advance(state, rest, data.batches, chunk, jnp.int32(count), key, settings)
            values = np.asarray(values)[:count]
            elapsed = time.perf_counter() - began
            if not np.all(np.isfinite(values)):
                _explain(state, rest, data, chunk, values, done, key, settings)
            objectives.append(values)
            seconds.append(np.linspace(began - start, began - start + elapsed, count + 1)[1:])
            done += count
            # The first call compiles, so it says nothing about speed; then chunks grow to their time.
            size = size * 2 if elapsed < _SECONDS_A_CHUNK or done == 1 else max(1, size // 2)
            if values.mean() > best_value:
                best, best_value = state.trainable, values.mean()
            if progress is not None:
                progress(done, settings.iterations, float(values[-1]))
            if (
                settings.patience is not None
                and done % settings.patience == 0
                and _stalled(objectives, settings.patience)
            ):
                break
        final = state.trainable
    except KeyboardInterrupt:
        if not objectives:
            raise
        warnings.warn(
            f"Training was interrupted after {done} of {settings.iterations} iterations; the best model is kept.",
            AligngpWarning,
            stacklevel=2,
        )
        final = best
    values = np.concatenate(objectives) if objectives else np.zeros(0)
    history = History(np.arange(1, values.size + 1), values, np.concatenate(seconds) if seconds else np.zeros(0))
    return join(final, rest), history


def bound(
    model: Model,
    batches: Sequence[TaskBatch],
    key: PRNGKeyArray,
    settings: AdamSettings,
) -> Terms:
    """Return the terms of the bound at a model's parameters, on all rows."""
    return _bound(model, tuple(batches), key, settings.num_samples, settings.expectation)


@eqx.filter_jit
def _bound(model, batches, key, num_samples, expectation):
    return elbo(resolve(model), batches, key, num_samples=num_samples, expectation=expectation)


def step_function(rest: Model, batches, scales, key: PRNGKeyArray, settings: AdamSettings) -> Callable:
    """Return one Adam step ``(state, rows) -> (state, bound)``, a pure function for the loop and the benchmarks."""
    optimiser = optax.adam(settings.learning_rate)

    def loss(trainable, rows, step_key):
        model = resolve(join(trainable, rest))
        chosen = [take(batch, index, scale) for batch, index, scale in zip(batches, rows, scales, strict=True)]
        terms = elbo(model, chosen, step_key, num_samples=settings.num_samples, expectation=settings.expectation)
        return -terms.total

    def step(state: _State, rows) -> tuple[_State, Float[Array, ""]]:
        step_key = jax.random.fold_in(key, state.iteration)
        value, gradient = jax.value_and_grad(loss)(state.trainable, rows, step_key)
        updates, memory = optimiser.update(gradient, state.optimiser)
        return _State(optax.apply_updates(state.trainable, updates), memory, state.iteration + 1), -value

    return step


def take(batch: TaskBatch, index: Array | None, scale: float) -> TaskBatch:
    """Return the rows of a batch by number, all of them where there is no number."""
    if index is None:
        return batch
    return TaskBatch(jax.tree.map(lambda leaf: leaf[index], batch.rows), batch.y[index], scale)


@eqx.filter_jit
def _advance(state, rest, batches, chunk: _Chunk, count, key, settings: AdamSettings):
    """Run up to ``count`` steps; stop in front of the first update whose bound is not finite."""
    step = step_function(rest, batches, chunk.scales, key, settings)

    def unfinished(carry):
        _, done, values = carry
        return (done < count) & ((done == 0) | jnp.isfinite(values[jnp.maximum(done - 1, 0)]))

    def body(carry):
        state, done, values = carry
        rows = tuple(None if part is None else part[done] for part in chunk.rows)
        new, value = step(state, rows)
        state = jax.tree.map(lambda old, fresh: jnp.where(jnp.isfinite(value), fresh, old), state, new)
        return state, done + 1, values.at[done].set(value)

    values = jnp.full((_CHUNK,), jnp.nan)
    state, _, values = jax.lax.while_loop(unfinished, body, (state, jnp.zeros((), jnp.int32), values))
    return state, values


def _padded(rows: np.ndarray | None) -> jax.Array | None:
    """Pad the row numbers of a chunk to one length, so that every chunk runs the same compiled loop."""
    if rows is None:
        return None
    return jnp.asarray(np.concatenate([rows, np.zeros((_CHUNK - rows.shape[0], rows.shape[1]), rows.dtype)]))


def _stalled(objectives: list[np.ndarray], patience: int) -> bool:
    """Tell whether the last ``patience`` iterations were on average no better than as many before them."""
    values = np.concatenate(objectives)
    if values.size < 2 * patience:
        return False
    return bool(values[-patience:].mean() <= values[-2 * patience : -patience].mean())


def _explain(state, rest, data: TrainingData, chunk: _Chunk, values, done: int, key, settings) -> None:
    """Raise an error that names the term and the task whose value is not finite, and says what to try."""
    failed = int(np.flatnonzero(~np.isfinite(values))[0])
    rows = [None if part is None else part[failed] for part in chunk.rows]
    batches = tuple(take(b, i, s) for b, i, s in zip(data.batches, rows, chunk.scales, strict=True))
    terms = bound(join(state.trainable, rest), batches, jax.random.fold_in(key, state.iteration), settings)
    wrong = []
    for name in ("expected_log_likelihood", "alignment_penalty", "mapping_penalty"):
        per_task = np.asarray(getattr(terms, name))
        wrong += [f"{name} of task {data.names[t]!r}" for t in np.flatnonzero(~np.isfinite(per_task))]
    wrong += [f"latent_kl of latent GP {q + 1}" for q in np.flatnonzero(~np.isfinite(np.asarray(terms.latent_kl)))]
    bad = [
        jax.tree_util.keystr(path)
        for path, leaf in jax.tree_util.tree_leaves_with_path(state.trainable)
        if not np.all(np.isfinite(np.asarray(leaf)))
    ]
    where = "; ".join(wrong) if wrong else "the gradient"
    broken = f" Parameters that are not finite: {', '.join(bad)}." if bad else ""
    raise TrainingError(
        f"The objective became {values[failed]} at iteration {done + failed + 1}: {where}.{broken} Try a smaller "
        f"learning_rate (now {settings.learning_rate:g}), longer initial lengthscales, a larger initial_noise, or "
        "fewer num_inducing; look for extreme values in the data of the task named."
    )
