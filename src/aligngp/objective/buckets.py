"""Rows padded to one of few numbers, so that training compiles once for many sizes of data.

A padded row repeats the first and counts nothing: sums over rows are the same to rounding. Wasted is at most a third
of the work where there are few rows and compiling is most of the time, and at most a ninth beyond that.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from aligngp.mappings.contract import AbstractMapping
from aligngp.mappings.free import FreeRows
from aligngp.objective.elbo import TaskBatch
from aligngp.parameters import as_array

SMALLEST = 4
COARSE = 256
"""Up to here a power of two has two sizes (4, 6, 8, 12, 16, 24, ... 256), from here on eight (288, 320, 352, ...)."""


def bucket(rows: int) -> int:
    """Return the number of rows that so many are padded to."""
    power = SMALLEST
    while 2 * power < rows:
        power *= 2
    step = power // (2 if power < COARSE else 8)
    return max(SMALLEST, -(-rows // step) * step)


def bucketed(mappings: Sequence[AbstractMapping], batches: Sequence[TaskBatch]) -> tuple[TaskBatch, ...]:
    """Return the batches with padded rows and their ``counted``; the mappings are those of their tasks.

    A mapping with parameters for every row is compiled for their number in any case, so its task is left as it is.
    """
    pairs = zip(mappings, batches, strict=True)
    return tuple(batch if isinstance(mapping, FreeRows) else padded(batch) for mapping, batch in pairs)


def padded(batch: TaskBatch) -> TaskBatch:
    """Return a batch of a number of rows that is one of few, outside compiled code."""
    number = batch.y.shape[0]
    extra = bucket(number) - number

    def pad(values):
        known = np.asarray(values)
        return as_array(np.concatenate([known, np.repeat(known[:1], extra, axis=0)]))

    dtype = np.asarray(batch.y).dtype
    counted = np.ones(number, dtype) if batch.counted is None else np.asarray(batch.counted)
    counted = np.concatenate([counted, np.zeros(extra, dtype)])
    return TaskBatch(jax.tree.map(pad, batch.rows), pad(batch.y), batch.scale, as_array(counted))
