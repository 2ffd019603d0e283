"""Which rows stand in which minibatch: back-to-back random permutations of each task's rows."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from aligngp.data.tables import did_you_mean, listed
from aligngp.errors import SettingError


def resolve_batch_sizes(batch_size: Any, names: Sequence[str], sizes: Sequence[int]) -> tuple[int | None, ...]:
    """The batch size B_t of each task from the user's setting, None where every step uses all N_t rows.

    `batch_size` is None, one number for all tasks that have more rows, or a mapping task -> number.
    """
    if isinstance(batch_size, Mapping):
        for name in batch_size:
            if name not in names:
                raise SettingError(
                    f"batch_size names {name!r}, which is not a task{did_you_mean(name, names)}. "
                    f"The tasks are {listed(names)}."
                )
        wanted = [_positive(batch_size.get(name), f" for task {name!r}") for name in names]
    else:
        wanted = [_positive(batch_size, "")] * len(names)
    return tuple(b if b is not None and b < size else None for b, size in zip(wanted, sizes, strict=True))


def _positive(batch_size: Any, where: str) -> int | None:
    """A batch size as a positive int or None."""
    if batch_size is None:
        return None
    if isinstance(batch_size, bool) or not isinstance(batch_size, Integral) or batch_size < 1:
        raise SettingError(f"batch_size{where} must be a positive integer or None, got {batch_size!r}.")
    return int(batch_size)


class Batches:
    """Row numbers of minibatches, repeatable by seed and independent of how many are drawn at once.

    A task's batches of B of its N rows are cut from permutations laid end to end (a batch may straddle two),
    so that a row comes exactly once an epoch and stands in a batch B/N times on average: a sum over the batch
    times N/B is unbiased. Permutation e of task t has a random stream of its own, which leaves a task's
    batches alone when another task is added behind it, and makes skipping free.
    """

    def __init__(self, sizes: Sequence[int], batch_sizes: Sequence[int | None], seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
            raise SettingError(f"seed must be a non-negative integer, got {seed!r}.")
        if len(sizes) != len(batch_sizes):
            raise SettingError(f"there are {len(sizes)} tasks but {len(batch_sizes)} batch sizes.")
        self._sizes = tuple(int(size) for size in sizes)
        self._batch_sizes = tuple(
            resolve_batch_sizes(b, [str(t)], [size])[0]
            for t, (b, size) in enumerate(zip(batch_sizes, self._sizes, strict=True))
        )
        self._seed = int(seed)
        self._drawn = 0
        self._current: dict[int, tuple[int, np.ndarray]] = {}  # task -> (epoch, permutation), the last one used

    @property
    def drawn(self) -> int:
        """How many batches were drawn or skipped; a fresh object that skips as many continues alike."""
        return self._drawn

    def draw(self, count: int) -> tuple[np.ndarray | None, ...]:
        """The next `count` batches: rows (count, B_t) int32 of each task, or None where it uses all."""
        first = self._drawn
        self.skip(count)
        return tuple(
            None if b is None else self._rows(t, first * b, count * b).reshape(count, b)
            for t, b in enumerate(self._batch_sizes)
        )

    def skip(self, count: int) -> None:
        """Pass over the next `count` batches without computing them."""
        if count < 0:
            raise SettingError(f"count must not be negative, got {count}.")
        self._drawn += count

    def _rows(self, task: int, start: int, count: int) -> np.ndarray:
        """The rows (count,) from position `start` on of a task's endless sequence of permutations."""
        size = self._sizes[task]
        rows = np.empty(count, dtype=np.int32)
        filled = 0
        while filled < count:
            epoch, offset = divmod(start + filled, size)
            piece = self._permutation(task, epoch)[offset : offset + count - filled]
            rows[filled : filled + len(piece)] = piece
            filled += len(piece)
        return rows

    def _permutation(self, task: int, epoch: int) -> np.ndarray:
        """Permutation `epoch` of a task's rows (N_t,); the last is kept, as most draws end inside it."""
        if self._current.get(task, (-1,))[0] != epoch:
            # The spawn key is that of SeedSequence(seed).spawn(...)[task].spawn(...)[epoch].
            stream = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(task, epoch)))
            self._current[task] = epoch, stream.permutation(self._sizes[task])
        return self._current[task][1]
