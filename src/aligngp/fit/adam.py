"""Adam as in the paper's appendix, compiled in chunks, watched from outside.

The loop runs on the device in chunks of a fraction of a second; between two chunks the progress is shown, Ctrl-C is
heard, and a stopping rule may end the run. The result does not depend on where the chunks end.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from aligngp.data.batches import Batches
from aligngp.errors import AligngpWarning, TrainingError
from aligngp.fit.checkpoint import Checkpoints
from aligngp.fit.diagnosis import explain
from aligngp.fit.feed import TrainingData, take
from aligngp.model import Model
from aligngp.objective.elbo import TERMS, TaskBatch, Terms, elbo
from aligngp.parameters import as_arrays, join, resolve, split
from aligngp.typing import Array, Expectation, PRNGKeyArray, Progress

_CHUNK = 200
_SECONDS_A_CHUNK = 0.5


@dataclass(frozen=True, eq=False)
class History:
    """The objective while training: iteration numbers from 1, values of the bound, seconds since the start.

    A value is the bound in front of the iteration's update, on its batch and draws, scaled to all rows.
    """

    iteration: np.ndarray
    objective: np.ndarray
    seconds: np.ndarray
    terms: np.ndarray = field(default_factory=lambda: np.zeros((0, len(TERMS))))
    """What each of TERMS adds to the objective, (iterations, terms); no row where only the total is followed."""


@dataclass(frozen=True)
class AdamSettings:
    """How long and how fast; the defaults are the paper's appendix, early stopping is off."""

    iterations: int = 5000
    learning_rate: float = 5e-3
    num_samples: int = 1
    expectation: Expectation = "sampled"
    patience: int | None = None
    """After every ``patience`` iterations: stop if their mean bound is not above that of as many before them."""


class _State(eqx.Module):
    trainable: Any
    optimiser: optax.OptState
    iteration: Array


class _Chunk(eqx.Module):
    """Row numbers of the batches of a chunk (None: the whole task) and the factor that keeps sums unbiased."""

    rows: tuple[Array | None, ...]
    scales: tuple[float, ...] = eqx.field(static=True)
    room: int = eqx.field(static=True, default=_CHUNK)
    """Most steps in a chunk: one size for all, so that they run the same compiled loop."""


def train(
    model: Model,
    data: TrainingData,
    key: PRNGKeyArray,
    seed: int,
    settings: AdamSettings,
    progress: Progress | None = None,
    checkpoints: Checkpoints | None = None,
) -> tuple[Model, History]:
    """Maximise the bound by Adam; return the model and the history.

    Iteration k draws its aligned inputs by ``fold_in(key, k)`` and takes the k-th batch of ``Batches(..., seed)``.
    Ctrl-C returns the model at the end of the chunk with the best mean bound, with a warning; before the first chunk
    has ended there is none, and it goes through. Raises TrainingError when the bound or an update is not finite.
    """
    trainable, rest = split(model)
    # Weak types would become strong in the first update, and the loop would be compiled a second time.
    trainable = jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), trainable)
    state = _State(trainable, optax.adam(settings.learning_rate).init(trainable), jnp.zeros((), jnp.int32))
    batches = as_arrays(data.batches)
    rows = [batch.y.shape[0] for batch in batches]
    source = Batches(rows, data.batch_sizes, seed)
    scales = tuple(max(1.0, n / (size or n)) for n, size in zip(rows, data.batch_sizes, strict=True))
    step = replace(settings, iterations=1, patience=None)  # how long it goes on is no reason to compile it anew
    best, best_value = trainable, -np.inf
    record: list[tuple[np.ndarray, np.ndarray]] = []  # terms of the bound and seconds of every chunk
    done, size = 0, 1
    if checkpoints is not None and (found := checkpoints.load((state, best))) is not None:
        (state, best), (values, seconds), facts = found
        record, done, best_value = [(values, seconds)], len(values), facts["best_value"]
        source.skip(done)
    start = time.perf_counter() - max((float(chunk[-1]) for _, chunk in record), default=0.0)

    def keep(checkpoints: Checkpoints) -> None:
        records = [np.concatenate([chunk[part] for chunk in record]) for part in (0, 1)]
        checkpoints.write(done, (state, best), records, {"best_value": float(best_value)})

    try:
        while done < settings.iterations:
            count = min(size, settings.iterations - done)
            if settings.patience is not None:  # the rule looks at fixed iterations, so that it is repeatable
                count = min(count, settings.patience - done % settings.patience)
            began = time.perf_counter()
            chunk = _Chunk(tuple(_padded(part) for part in source.draw(count)), scales, _CHUNK)
            before = state
            state, values = _advance(state, rest, batches, chunk, jnp.int32(count), key, step)
            values = np.asarray(values)[:count]
            elapsed = time.perf_counter() - began
            bounds = values.sum(axis=1)
            if not (np.isfinite(bounds[-1]) and _fine(state)):
                raise _failure(before, rest, batches, chunk, count, data.names, key, step)
            record.append((values, began - start + elapsed * np.arange(1, count + 1) / count))
            # The first call compiles, so it says nothing about speed; then chunks grow to their time.
            quick = done == 0 or elapsed < _SECONDS_A_CHUNK
            size = min(2 * size, _CHUNK) if quick else max(1, size // 2)
            done += count
            if bounds.mean() > best_value:
                best, best_value = state.trainable, bounds.mean()
            if progress is not None:
                progress(done, settings.iterations, float(bounds[-1]))
            if stalled([terms.sum(axis=1) for terms, _ in record], settings.patience):
                break
            if checkpoints is not None and checkpoints.due():
                keep(checkpoints)
        final = state.trainable
    except KeyboardInterrupt:
        if not record:
            raise
        if checkpoints is not None:
            keep(checkpoints)
        warnings.warn(
            f"Training was interrupted after {done} of {settings.iterations} iterations; the best model so far is "
            "kept.",
            AligngpWarning,
            stacklevel=2,
        )
        final = best
    terms = np.concatenate([np.zeros((0, len(TERMS))), *(terms for terms, _ in record)])
    seconds = np.concatenate([np.zeros(0), *(seconds for _, seconds in record)])
    return join(final, rest), History(np.arange(1, len(terms) + 1), terms.sum(axis=1), seconds, terms)


def ended(history: History, settings: AdamSettings) -> bool:
    """Tell whether a training went on to its end, by its length or by its patience, and was not interrupted."""
    return history.objective.size >= settings.iterations or stalled([history.objective], settings.patience)


def stalled(objectives: Sequence[np.ndarray], patience: int | None) -> bool:
    """Tell whether patience is at its end: see :class:`AdamSettings`."""
    done = sum(values.size for values in objectives)
    if patience is None or done < 2 * patience or done % patience:
        return False
    values = np.concatenate(objectives)
    return bool(values[-patience:].mean() <= values[-2 * patience : -patience].mean())


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


def loss_function(rest: Model, batches, scales, key: PRNGKeyArray, settings: AdamSettings) -> Callable:
    """Return ``(trainable, rows, iteration) -> -bound, its terms`` of one step's batch and draws."""

    def loss(trainable, rows, iteration):
        model = resolve(join(trainable, rest))
        chosen = [take(batch, index, scale) for batch, index, scale in zip(batches, rows, scales, strict=True)]
        step_key = jax.random.fold_in(key, iteration)
        terms = elbo(model, chosen, step_key, num_samples=settings.num_samples, expectation=settings.expectation)
        return -terms.total, terms.contributions

    return loss


@eqx.filter_jit
def _advance(state, rest, batches, chunk: _Chunk, count, key, settings: AdamSettings):
    """Run ``count`` steps; return the state and the terms of the bounds, NaN behind the first that is not finite.

    An update that is not finite shows in the next bound, or in the state. Looking at every update here would cost a
    small model a third of its time.
    """
    loss = loss_function(rest, batches, chunk.scales, key, settings)
    optimiser = optax.adam(settings.learning_rate)
    # Small models have many small arrays: a step on one vector instead costs a third of their time less.
    vector, restore = ravel_pytree(state.trainable)
    shape = jax.tree.structure(state.trainable)
    memory = jax.tree.map(_raveled(shape), state.optimiser, is_leaf=_is(shape))

    def unfinished(carry):
        *_, done, values = carry
        return (done < count) & ((done == 0) | jnp.isfinite(jnp.sum(values[jnp.maximum(done - 1, 0)])))

    def body(carry):
        vector, memory, done, values = carry
        rows, iteration = _rows_of(chunk, done), state.iteration + done
        (_, terms), gradient = jax.value_and_grad(loss, has_aux=True)(restore(vector), rows, iteration)
        updates, memory = optimiser.update(ravel_pytree(gradient)[0], memory)
        return vector + updates, memory, done + 1, values.at[done].set(terms)

    values = jnp.full((chunk.room, len(TERMS)), jnp.nan)
    start = vector, memory, jnp.zeros((), jnp.int32), values
    vector, memory, done, values = jax.lax.while_loop(unfinished, body, start)
    restored = jax.tree.map(lambda node: restore(node) if jnp.ndim(node) == 1 else node, memory)
    return _State(restore(vector), restored, state.iteration + done), values


def _is(structure) -> Callable[[Any], bool]:
    return lambda node: jax.tree.structure(node) == structure


def _raveled(structure) -> Callable[[Any], Any]:
    return lambda node: ravel_pytree(node)[0] if _is(structure)(node) else node


def _failure(
    state: _State, rest: Model, batches, chunk: _Chunk, count: int, names: Sequence[str], key, settings: AdamSettings
) -> TrainingError:
    """Walk through a chunk again from its first state; return the error of the step that cannot be taken."""
    at = 0
    while at < count - 1:  # if no other step fails it is the last
        new, values = _advance(state, rest, batches, _from(chunk, at), jnp.int32(1), key, settings)
        if not (np.all(np.isfinite(values[0])) and _fine(new)):
            break
        state, at = new, at + 1
    rows = _rows_of(chunk, at)
    return explain(
        state.trainable,
        rest,
        tuple(take(*parts) for parts in zip(batches, rows, chunk.scales, strict=True)),
        names,
        jax.random.fold_in(key, state.iteration),
        num_samples=settings.num_samples,
        expectation=settings.expectation,
        iteration=int(state.iteration) + 1,
        learning_rate=settings.learning_rate,
    )


def _from(chunk: _Chunk, step: int) -> _Chunk:
    """Return a chunk that begins with one of its later steps."""
    rows = tuple(None if part is None else jnp.roll(part, -step, axis=0) for part in chunk.rows)
    return replace(chunk, rows=rows)


def _rows_of(chunk: _Chunk, step) -> list[Array | None]:
    """Return the row numbers of one step of a chunk."""
    return [None if part is None else part[step] for part in chunk.rows]


@eqx.filter_jit
def _fine(state: _State) -> Array:
    """Tell whether the parameters and Adam's memory are finite."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(state)]))


def _padded(rows: np.ndarray | None) -> jax.Array | None:
    """Pad the row numbers of a chunk to its room."""
    if rows is None:
        return None
    return jnp.asarray(np.concatenate([rows, np.zeros((_CHUNK - rows.shape[0], rows.shape[1]), rows.dtype)]))
