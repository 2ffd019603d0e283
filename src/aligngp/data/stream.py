"""Rows of a dataset in shuffled batches of bounded memory, and what one pass over all of them tells.

Every epoch takes each row of a shard exactly once. The row groups of the shard come in random order and fill pools of
at most ``POOL_BYTES`` (one row group at least); within a pool the rows are a random permutation. Two pools are held:
the one that batches are cut from, and the next, which a thread of its own reads meanwhile. Epoch, pool and order follow
from seed and position alone, so that any position is found again without what stood before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from aligngp.data.parquet import Dataset
from aligngp.data.scaling import Scaler, moments, scaler_of
from aligngp.errors import SettingError
from aligngp.runtime import computing

POOL_BYTES = 2**26
"""Bytes of the rows of all shards that batches are cut from at a time."""
SAMPLE_ROWS = 20_000
"""Rows, drawn at random without replacement, that stand for a dataset where not all are needed."""
BLOCK_ROWS = 8192
"""Rows of a block in a pass over all of them."""


@dataclass(frozen=True, eq=False)
class Summary:
    """What one pass tells of the columns (inputs, then the output), (C,) each, and a sample (n, C) of the rows."""

    mean: np.ndarray
    spread: np.ndarray
    low: np.ndarray
    high: np.ndarray
    sample: np.ndarray

    def scaler(self, columns: slice, standardize: bool) -> Scaler:
        """Return the scaling of some of the columns."""
        mean, spread = self.mean[columns], self.spread[columns]
        return scaler_of(mean, spread) if standardize else Scaler(np.zeros(len(mean)), np.ones(len(mean)))


def group_facts(dataset: Dataset, group: int, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return count, mean, deviation, lowest and highest value of a row group, (5, C), and some of its rows."""
    values = dataset.read(group)
    mean, spread = moments(values)
    count = np.full(len(mean), float(len(values)))
    return np.stack([count, mean, spread, values.min(axis=0), values.max(axis=0)]), values[chosen]


def sampled_rows(dataset: Dataset, seed: int = 0) -> list[np.ndarray]:
    """Return which rows of every group belong to the sample, by their numbers in it."""
    total, ends = dataset.rows, np.cumsum(dataset.groups[:, 2])
    if total <= SAMPLE_ROWS:
        chosen = np.arange(total)
    else:
        chosen = np.sort(np.random.default_rng(seed).choice(total, SAMPLE_ROWS, replace=False, shuffle=False))
    pieces = np.split(chosen, np.searchsorted(chosen, ends[:-1]))
    return [piece - (end - rows) for piece, end, rows in zip(pieces, ends, dataset.groups[:, 2], strict=True)]


def combined(facts: Sequence[np.ndarray], sample: np.ndarray) -> Summary:
    """Return the summary of all row groups from the facts (5, C) of each, in their order.

    Means and deviations are merged by pairs (Chan, Golub and LeVeque), which loses no digits of a column far from zero;
    deviations and not variances, so that no square leaves the range of float64.
    """
    count, mean, spread, low, high = facts[0]
    for more, other, own, lower, upper in facts[1:]:
        total = count + more
        difference = other - mean
        inside = np.hypot(np.sqrt(count / total) * spread, np.sqrt(more / total) * own)
        between = np.sqrt(count / total) * np.sqrt(more / total) * np.abs(difference)
        mean, spread = mean + difference * (more / total), np.hypot(inside, between)
        low, high, count = np.minimum(low, lower), np.maximum(high, upper), total
    return Summary(mean, spread, low, high, sample)


def summarise(
    dataset: Dataset, part: tuple[int, int] = (0, 1), add: Callable[[Any], Any] = lambda tree: tree
) -> Summary:
    """Return the summary of a dataset from one pass over all rows.

    ``part`` (k, n) reads every n-th row group from k on, and ``add`` then adds up what n processes have found: every
    place is filled by one of them, so the summary does not depend on how many there are.
    """
    chosen, width = sampled_rows(dataset), len(dataset.columns)
    starts = np.cumsum([0, *map(len, chosen)])
    facts, sample = np.zeros((len(chosen), 5, width)), np.zeros((starts[-1], width))
    for group in range(part[0], len(chosen), part[1]):
        facts[group], sample[starts[group] : starts[group + 1]] = group_facts(dataset, group, chosen[group])
    facts, sample = add((facts, sample))
    return combined(list(facts), sample)


@dataclass(frozen=True, eq=False)
class Stream:
    """A dataset, its summary, and how its rows come in batches."""

    dataset: Dataset
    summary: Summary
    shards: int = 1

    def __post_init__(self) -> None:
        groups = len(self.dataset.groups)
        if groups < self.shards:
            raise SettingError(
                f"task {self.dataset.task!r}: shards={self.shards} parts of {groups} row "
                f"group{'' if groups == 1 else 's'} cannot be made. Write the file with more row groups "
                f"(row_group_size={max(1, self.dataset.rows // (8 * self.shards))}), or pass fewer shards."
            )

    @property
    def rows(self) -> int:
        """Return the number of all rows."""
        return self.dataset.rows

    @cached_property
    def groups_of(self) -> tuple[np.ndarray, ...]:
        """Return the row groups of every shard: the largest first, each to the shard with the fewest rows so far."""
        sizes = self.dataset.groups[:, 2]
        taken: list[list[int]] = [[] for _ in range(self.shards)]
        filled = np.zeros(self.shards, dtype=np.int64)
        for group in np.argsort(-sizes, kind="stable"):
            shard = int(np.argmin(filled))
            taken[shard].append(int(group))
            filled[shard] += sizes[group]
        return tuple(np.sort(np.array(groups)) for groups in taken)

    @cached_property
    def rows_of(self) -> np.ndarray:
        """Return the rows of every shard."""
        return np.array([self.dataset.groups[groups, 2].sum() for groups in self.groups_of])

    def check_batch(self, size: int) -> None:
        """Raise where a batch cannot be shared out evenly over the shards."""
        if size % self.shards:
            raise SettingError(
                f"batch_size of task {self.dataset.task!r}: expected a multiple of its {self.shards} shards, got "
                f"{size}."
            )

    def blocks(self, shards: Sequence[int] | None = None) -> Iterator[np.ndarray]:
        """Give all rows once, in blocks (at most ``BLOCK_ROWS``, C); of some shards, or of all in the files' order."""
        groups = range(len(self.dataset.groups))
        if shards is not None:
            groups = np.sort(np.concatenate([self.groups_of[shard] for shard in shards])).tolist()
        with ThreadPoolExecutor(1, "aligngp-read") as reader:
            ahead: Future[np.ndarray] | None = None
            for at, group in enumerate(groups):
                values = ahead.result() if ahead is not None else self.dataset.read(group)
                ahead = reader.submit(self.dataset.read, groups[at + 1]) if at + 1 < len(groups) else None
                for start in range(0, len(values), BLOCK_ROWS):
                    yield values[start : start + BLOCK_ROWS]


class Shard:
    """The endless shuffled rows of one shard of a task, from any position on."""

    def __init__(self, stream: Stream, shard: int, task: int, seed: int) -> None:
        self._dataset, self._groups = stream.dataset, stream.groups_of[shard]
        self._key = (task, shard)
        self._seed = seed
        self._size = int(stream.rows_of[shard])
        a_row = 8 * len(stream.dataset.columns)
        self._room = max(1, POOL_BYTES // (a_row * stream.shards))  # rows of a pool
        self._order: tuple[int, list[np.ndarray], np.ndarray] = (-1, [], np.zeros(0))
        self._pool: tuple[tuple[int, int], np.ndarray, np.ndarray] | None = None
        self._ahead: tuple[tuple[int, int], Future[tuple[np.ndarray, np.ndarray]]] | None = None
        self._reader = ThreadPoolExecutor(1, "aligngp-pool")

    def close(self) -> None:
        """End the thread that reads ahead."""
        self._reader.shutdown(wait=True, cancel_futures=True)
        self._pool = self._ahead = None

    def rows(self, start: int, count: int) -> np.ndarray:
        """Return the rows (count, C) from a position of the endless sequence on."""
        found, filled = np.empty((count, len(self._dataset.columns))), 0
        while filled < count:
            epoch, offset = divmod(start + filled, self._size)
            _, _, ends = self._pools(epoch)
            pool = int(np.searchsorted(ends, offset, side="right"))
            values, order = self._load(epoch, pool)
            begin = offset - (int(ends[pool - 1]) if pool else 0)
            chosen = order[begin : begin + count - filled]
            np.take(values, chosen, axis=0, out=found[filled : filled + len(chosen)])
            filled += len(chosen)
        return found

    def _pools(self, epoch: int) -> tuple[int, list[np.ndarray], np.ndarray]:
        """Return the epoch, the row groups of its pools, and the number of rows up to the end of each."""
        if self._order[0] != epoch:
            groups = self._random(epoch, 0).permutation(self._groups)
            pools, held = [[]], 0
            for group in groups.tolist():
                rows = int(self._dataset.groups[group, 2])
                if pools[-1] and held + rows > self._room:
                    pools, held = [*pools, []], 0
                pools[-1].append(group)
                held += rows
            ends = np.cumsum([self._dataset.groups[pool, 2].sum() for pool in pools])
            self._order = epoch, [np.array(pool) for pool in pools], ends
        return self._order

    def _random(self, epoch: int, number: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(*self._key, epoch, number)))

    def _load(self, epoch: int, pool: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of a pool and their order, and have the next one read meanwhile."""
        wanted = epoch, pool
        if self._pool is None or self._pool[0] != wanted:
            self._pool = None  # what is done with makes room before more is read
            if self._ahead is not None and self._ahead[0] == wanted:
                found = self._ahead[1].result()
            else:
                found = self._read(self._order[1][pool], epoch, pool)
            self._pool = wanted, *found
            following = (epoch, pool + 1) if pool + 1 < len(self._order[1]) else (epoch + 1, 0)
            groups = self._pools(following[0])[1][following[1]]
            self._ahead = following, self._reader.submit(self._read, groups, *following)
        return self._pool[1:]

    def _read(self, groups: np.ndarray, epoch: int, pool: int) -> tuple[np.ndarray, np.ndarray]:
        sizes = self._dataset.groups[groups, 2]
        values, filled = np.empty((int(sizes.sum()), len(self._dataset.columns))), 0
        for group, size in zip(groups.tolist(), sizes.tolist(), strict=True):
            values[filled : filled + size] = self._dataset.read(group)
            filled += size
        return values, self._random(epoch, 1 + pool).permutation(len(values)).astype(np.int32)


class Batcher:
    """The batches of a stream: of every shard, or of those that this process reads, equally many rows."""

    def __init__(self, stream: Stream, task: int, seed: int, size: int, shards: Sequence[int] | None = None) -> None:
        stream.check_batch(size)
        chosen = range(stream.shards) if shards is None else shards
        self._each = size // stream.shards
        self._shards = [Shard(stream, shard, task, seed) for shard in chosen]
        weights = stream.rows_of * stream.shards / stream.rows
        self._weights = None if np.ptp(stream.rows_of) == 0 else np.repeat(weights[list(chosen)], self._each)

    @property
    def weights(self) -> np.ndarray | None:
        """Return what a row of a batch counts for: shards of unlike sizes give equally many. None: all the same."""
        return self._weights

    def draw(self, first: int, count: int) -> np.ndarray:
        """Return rows (count, B, C) of that many batches from number ``first`` on."""
        parts = [shard.rows(first * self._each, count * self._each) for shard in self._shards]
        return np.concatenate([part.reshape(count, self._each, -1) for part in parts], axis=1)

    def close(self) -> None:
        """End all threads."""
        for shard in self._shards:
            shard.close()


class Ahead:
    """Calls a function in a thread, one call ahead of the one who asks."""

    def __init__(self, function) -> None:
        self._function = function
        self._worker = ThreadPoolExecutor(1, "aligngp-batches")
        self._next: tuple[tuple, Future] | None = None

    def __call__(self, wanted: tuple, following: tuple | None):
        """Return ``function(*wanted)``, and have ``function(*following)`` computed meanwhile."""
        if self._next is not None and self._next[0] == wanted:
            found = self._next[1].result()
        else:
            found = self._worker.submit(self._run, wanted).result()
        self._next = None if following is None else (following, self._worker.submit(self._run, following))
        return found

    def _run(self, arguments: tuple):
        with computing():  # JAX's precision is a thread's own
            return self._function(*arguments)

    def close(self) -> None:
        """End the thread."""
        self._worker.shutdown(wait=True, cancel_futures=True)
