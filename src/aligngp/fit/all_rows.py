"""The best q(u) by one pass over all rows, those of streams included."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aligngp.data.stream import BLOCK_ROWS
from aligngp.fit.collapse import with_best_posterior, with_moments
from aligngp.fit.devices import ALONE, Devices
from aligngp.fit.feed import TrainingData
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch
from aligngp.objective.evidence import Factors, Statistics, factors_of, posterior_of, task_statistics
from aligngp.parameters import as_arrays, resolve


def best_over_all_rows(model: Model, data: TrainingData, devices: Devices = ALONE) -> Model:
    """Return the model with the q(u) that maximises the bound at its other parameters.

    The memory is that of a block of rows. Of several processes, each adds up the shards that it reads.
    """
    if not any(one is not None for one in data.streams):
        return with_best_posterior(model, data.batches)
    resolved = resolve(model)
    factors, total = _factors(resolved), None
    for task, batch in enumerate(data.batches):
        one = data.streams[task]
        if one is None:
            part = _sums(resolved, task, as_arrays(batch), factors)
        else:
            part = None
            for block in one.stream.blocks(devices.shards(one.stream)):
                rows = one.standardised(block[:, :-1], block[:, -1])
                found = _sums(resolved, task, as_arrays(filled(rows)), factors)
                part = found if part is None else part + found
            assert part is not None  # no shard is empty
            part = devices.added(one.stream, part)
        total = part if total is None else total + part
    assert total is not None
    return with_moments(model, *_posterior(resolved, total))


def filled(batch: TaskBatch) -> TaskBatch:
    """Return a block of the usual number of rows; those that are added count nothing."""
    number = batch.y.shape[0]
    extra = BLOCK_ROWS - number
    counted = (np.arange(BLOCK_ROWS) < number).astype(np.asarray(batch.y).dtype)

    def fill(values):
        return np.concatenate([values, np.repeat(values[:1], extra, axis=0)]) if extra else values

    return TaskBatch(jax.tree.map(fill, batch.rows), fill(batch.y), batch.scale, jnp.asarray(counted))


@eqx.filter_jit
def _sums(model: Model, task: int, batch: TaskBatch, factors: Factors) -> Statistics:
    law, _ = model.mappings[task].posterior(batch.rows)
    return task_statistics(model, task, law, batch, factors)


@eqx.filter_jit
def _factors(model: Model) -> Factors:
    return factors_of(model)


@eqx.filter_jit
def _posterior(model: Model, total: Statistics):
    return posterior_of(model, total)
