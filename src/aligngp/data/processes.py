"""Several processes of one fit, as JAX's distributed runtime knows them; one alone where it was not started."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from aligngp.errors import MissingPackageError, SettingError
from aligngp.runtime import computing


def process_count() -> int:
    """Return the number of processes, without starting any device where there is one alone."""
    return jax.process_count() if jax.distributed.is_initialized() else 1


def process_index() -> int:
    """Return the number of this process."""
    return jax.process_index() if jax.distributed.is_initialized() else 0


def start(coordinator: str | None, processes: int | None, process: int | None) -> None:
    """Join the other processes: as Slurm, MPI or Kubernetes tell where they are, or at the coordinator's address."""
    given = {"coordinator_address": coordinator, "num_processes": processes, "process_id": process}
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(**{name: value for name, value in given.items() if value is not None})
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"--distributed: {error.name} is not installed, and finds the processes. Install it."
        ) from error
    except (ValueError, RuntimeError) as error:
        told = " ".join(str(error).split())[:200].rstrip(".")
        raise SettingError(
            f"--distributed: the processes could not find each other ({told}). Start them by Slurm, MPI or Kubernetes, "
            "or pass --coordinator HOST:PORT, --processes N and --process K (0 to N - 1) to each."
        ) from error


def added(tree: Any) -> Any:
    """Return the sum over all processes of a tree of arrays, as NumPy arrays on every one."""
    if process_count() == 1:
        return tree
    from jax.experimental.multihost_utils import process_allgather

    with computing():
        return jax.tree.map(lambda leaf: np.sum(np.asarray(process_allgather(np.asarray(leaf))), axis=0), tree)


def as_of_first(tree: Any) -> Any:
    """Return the first process's tree of arrays on every one, as NumPy arrays."""
    if process_count() == 1:
        return tree
    from jax.experimental.multihost_utils import broadcast_one_to_all

    with computing():
        return jax.tree.map(np.asarray, broadcast_one_to_all(jax.tree.map(np.asarray, tree)))


def wait_for_all(name: str) -> None:
    """Return once every process has come here."""
    if process_count() > 1:
        from jax.experimental.multihost_utils import sync_global_devices

        sync_global_devices(name)


def check_together(step: int) -> None:
    """Raise, on every process, where the processes would not go on from the same step of a training."""
    if process_count() == 1:
        return
    own = np.zeros(process_count())
    own[process_index()] = step
    found = added(own)
    if np.ptp(found):
        raise SettingError(
            f"the processes found checkpoints of unlike steps ({', '.join(f'{one:.0f}' for one in found)}). The folder "
            "of the run must be one that all of them see."
        )
