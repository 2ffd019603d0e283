"""What training steps work on: tables in memory and the numbers of the rows of each step, rows of streams as they come.

The chunk after the one in work is drawn, standardised and placed on the devices in a thread of its own meanwhile.
Batch k follows from the seed and k alone, so training goes on from any step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aligngp.data.batches import Batches
from aligngp.data.stream import Ahead, Batcher, Stream
from aligngp.fit.devices import ALONE, Devices
from aligngp.mappings.contract import Rows
from aligngp.objective.elbo import TaskBatch
from aligngp.typing import Array, Float


@dataclass(frozen=True, eq=False)
class StreamedTask:
    """A stream, and how its raw rows X (n, Dt) and outputs y (n,) become standardised ones."""

    stream: Stream
    standardised: Callable[[np.ndarray, np.ndarray], TaskBatch]


@dataclass(frozen=True)
class TrainingData:
    """All training rows of all tasks and how they are drawn into batches; of a streamed task a sample of its rows."""

    batches: tuple[TaskBatch, ...]
    batch_sizes: tuple[int | None, ...]
    names: tuple[str, ...]
    streams: tuple[StreamedTask | None, ...] = ()

    @property
    def rows(self) -> tuple[int, ...]:
        """Return the number of all rows of every task."""
        streams = self.streams or (None,) * len(self.batches)
        return tuple(
            batch.y.shape[0] if one is None else one.stream.rows
            for batch, one in zip(self.batches, streams, strict=True)
        )

    @property
    def scales(self) -> tuple[float, ...]:
        """Return N_t / B_t."""
        return tuple(max(1.0, n / (size or n)) for n, size in zip(self.rows, self.batch_sizes, strict=True))

    @property
    def in_memory(self) -> tuple[TaskBatch | None, ...]:
        """Return the tables whose rows are taken by number."""
        streams = self.streams or (None,) * len(self.batches)
        return tuple(batch if one is None else None for batch, one in zip(self.batches, streams, strict=True))


class Drawn(eqx.Module):
    """The rows of a streamed task in K steps."""

    own: Float[Array, "K B Dt"]
    nominal: Float[Array, "K B D"]
    y: Float[Array, "K B"]
    counted: Float[Array, "K B"] | None
    """What a row counts for, where its shard is larger or smaller than others; on average 1."""


Part = Array | Drawn | None
"""A task's part of a chunk: row numbers (K, B), the rows themselves, or None where every step takes all rows."""


def take(batch: TaskBatch, index: Array | None, scale: float) -> TaskBatch:
    """Return the rows of a batch by number, all of them where there is no number."""
    if index is None:
        return batch
    counted = None if batch.counted is None else batch.counted[index]
    return TaskBatch(jax.tree.map(lambda leaf: leaf[index], batch.rows), batch.y[index], scale, counted)


def step_batch(batch: TaskBatch | None, part: Part, at, scale: float) -> TaskBatch:
    """Return a task's rows in one step of a chunk."""
    if isinstance(part, Drawn):
        own, nominal, y = part.own[at], part.nominal[at], part.y[at]
        rows = Rows(own, nominal, jnp.zeros(y.shape, jnp.int32))
        return TaskBatch(rows, y, scale, None if part.counted is None else part.counted[at])
    assert batch is not None
    return take(batch, None if part is None else part[at], scale)


def from_step(parts: tuple[Part, ...], at: int) -> tuple[Part, ...]:
    """Return the one step of a chunk as a chunk."""
    return jax.tree.map(lambda leaf: leaf[at : at + 1], parts)


class Feed:
    """Chunks of steps, from any step on; to be used as a context, which ends its threads."""

    def __init__(self, data: TrainingData, seed: int, total: int, chunk: int, devices: Devices = ALONE) -> None:
        self._data, self._total, self._chunk, self._devices = data, total, chunk, devices
        streams = data.streams or (None,) * len(data.batches)
        self._batchers = [
            None if one is None or size is None else Batcher(one.stream, task, seed, size, devices.shards(one.stream))
            for task, (one, size) in enumerate(zip(streams, data.batch_sizes, strict=True))
        ]
        sizes = [None if one is not None else size for one, size in zip(streams, data.batch_sizes, strict=True)]
        self._numbers = lambda: Batches(data.rows, sizes, seed)
        self._batches = self._numbers()
        self._ahead = Ahead(self._drawn) if any(one is not None for one in self._batchers) else None

    def __enter__(self) -> Feed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ahead is not None:
            self._ahead.close()
        for one in self._batchers:
            if one is not None:
                one.close()

    def draw(self, done: int) -> tuple[int, tuple[Part, ...]]:
        """Return how many steps come after so many, and their rows."""
        count = self._count(done)
        if self._ahead is None:
            return count, self._drawn(done, count)
        following = done + count
        return count, self._ahead(
            (done, count), (following, self._count(following)) if following < self._total else None
        )

    def _count(self, done: int) -> int:
        return min(self._chunk, self._total - done)

    def _drawn(self, first: int, count: int) -> tuple[Part, ...]:
        if self._batches.drawn != first:
            self._batches = self._numbers()
            self._batches.skip(first)
        numbers = self._batches.draw(count)
        return tuple(
            self._rows(task, first, count) if rows is None else self._devices.numbers(rows)
            for task, rows in enumerate(numbers)
        )

    def _rows(self, task: int, first: int, count: int) -> Part:
        batcher = self._batchers[task]
        if batcher is None:
            return None
        one = self._data.streams[task]
        assert one is not None
        raw = batcher.draw(first, count)
        batch = one.standardised(raw[..., :-1].reshape(-1, raw.shape[-1] - 1), raw[..., -1].ravel())
        own, nominal, y = (
            self._devices.rows(np.asarray(part).reshape(*raw.shape[:2], *part.shape[1:]))
            for part in (batch.rows.own, batch.rows.nominal, batch.y)
        )
        weights = batcher.weights
        counted = None if weights is None else np.broadcast_to(weights.astype(batch.y.dtype), raw.shape[:2])
        return Drawn(own, nominal, y, None if counted is None else self._devices.rows(counted))
