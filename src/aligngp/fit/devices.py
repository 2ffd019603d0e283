"""Which devices a training runs on: one, several of this process, or those of several processes.

Batches are sharded over a one-dimensional mesh, everything else is a copy on every device; the compiler turns sums over
the rows of a batch into sums over the devices (gloo on CPU, NCCL on GPU), and nothing else is ever exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from aligngp.data.processes import added, as_of_first, process_count, process_index
from aligngp.data.stream import Stream
from aligngp.errors import SettingError
from aligngp.parameters import as_array

_AXIS = "rows"


@dataclass(frozen=True, eq=False)
class Devices:
    """A mesh of devices, or JAX's default one where there is none."""

    mesh: Mesh | None = None

    @property
    def number(self) -> int:
        """Return the number of devices."""
        return 1 if self.mesh is None else self.mesh.size

    def shards(self, stream: Stream) -> Sequence[int] | None:
        """Return the shards of a stream that this process reads, None where it reads all."""
        processes = process_count()
        if self.mesh is None or processes == 1:
            return None
        if stream.shards % processes:
            raise SettingError(
                f"task {stream.dataset.task!r}: {processes} processes need a multiple of so many shards, got "
                f"{stream.shards}. Pass agp.Parquet(..., shards={processes}), in a job file shards = {processes}."
            )
        each = stream.shards // processes
        return range(process_index() * each, (process_index() + 1) * each)

    def rows(self, local: np.ndarray) -> jax.Array:
        """Return rows (K, B, ...) of this process as part of those of all, spread over the devices."""
        if self.mesh is None:
            return jax.device_put(local)
        self._check(local.shape[1] * process_count())
        return jax.make_array_from_process_local_data(self._sharding(), np.ascontiguousarray(local))

    def numbers(self, numbers: np.ndarray) -> jax.Array:
        """Return row numbers (K, B), which every process knows, spread over the devices where they can be."""
        if self.mesh is None:
            return jax.device_put(numbers)
        sharding = self._sharding() if numbers.shape[1] % self.number == 0 else self._everywhere()
        return jax.make_array_from_callback(numbers.shape, sharding, lambda index: numbers[index])

    def everywhere(self, tree: Any) -> Any:
        """Return a tree whose arrays are copied to every device."""
        if self.mesh is None:
            return tree

        arrays, others = eqx.partition(tree, eqx.is_array)
        keys = jax.tree.map(lambda leaf: jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key), arrays)
        plain = jax.tree.map(lambda leaf, key: jax.random.key_data(leaf) if key else leaf, arrays, keys)

        def copied(leaf: Any, key: bool) -> Any:
            known = np.asarray(leaf)
            made = jax.make_array_from_callback(known.shape, self._everywhere(), lambda index: known[index])
            return jax.random.wrap_key_data(made) if key else made

        return eqx.combine(jax.tree.map(copied, as_of_first(plain), keys), others)

    def local(self, tree: Any) -> Any:
        """Return a tree of copies, which every device has, as arrays of this process alone."""
        if self.mesh is None:
            return tree

        def own(leaf: Any) -> Any:
            return as_array(np.asarray(leaf.addressable_data(0))) if isinstance(leaf, jax.Array) else leaf

        return jax.tree.map(own, tree)

    def added(self, stream: Stream, tree: Any) -> Any:
        """Return the sum of every process's part of a tree, where each has its own shards of a stream."""
        return tree if self.shards(stream) is None else jax.tree.map(as_array, added(tree))

    def _sharding(self) -> NamedSharding:
        assert self.mesh is not None
        return NamedSharding(self.mesh, PartitionSpec(None, _AXIS))

    def _everywhere(self) -> NamedSharding:
        assert self.mesh is not None
        return NamedSharding(self.mesh, PartitionSpec())

    def _check(self, size: int) -> None:
        if size % self.number:
            raise SettingError(
                f"batch_size: {size} rows cannot be shared out evenly over {self.number} devices. Pass a multiple of "
                f"{self.number}."
            )


ALONE = Devices()


def all_devices() -> Devices:
    """Return the devices of all processes, in the order of the processes."""
    return Devices(Mesh(np.array(sorted(jax.devices(), key=lambda one: (one.process_index, one.id))), (_AXIS,)))
