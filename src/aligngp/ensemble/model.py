"""The fitted ensemble: a mixture of forms for every task."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np

from aligngp.ensemble.target import Target
from aligngp.mappings.contract import Rows
from aligngp.typing import PRNGKeyArray


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Mixtures of exact GPs, one for every task; everything in standardised units."""

    names: tuple[str, ...]
    targets: tuple[Target, ...]

    def moments(self, task: int, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance (n,) of a task's noise-free output at any number of rows."""
        return self.targets[task].moments(rows)

    def noise(self, task: int) -> float:
        """Return a task's noise variance, averaged over the mixture."""
        return self.targets[task].noise

    def joint(self, task: int, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (n,) and covariance (n, n) of a task's noise-free outputs."""
        return self.targets[task].joint(rows)

    def draws(self, task: int, rows: Rows, number: int, key: PRNGKeyArray) -> np.ndarray:
        """Return joint draws (number, n) of a task's noise-free outputs."""
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).astype(np.uint32).tolist())
        return self.targets[task].draws(rows, number, rng)

    def aligned(self, task: int, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance (n, D) of a task's aligned inputs."""
        return self.targets[task].aligned(rows)

    def leave_one_out(self, task: int) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance (N,) of a task's observed training rows, each predicted without itself."""
        return self.targets[task].leave_one_out()

    def weights(self, task: int) -> dict[str, float]:
        """Return the weight of every form of a task."""
        target = self.targets[task]
        return {member.prior.form.name: float(w) for member, w in zip(target.members, target.weights, strict=True)}

    def evidence(self, task: int) -> dict[str, float]:
        """Return log p(y | sources) of every form of a task (log p(y, z) where hyperparameters are at the maximum)."""
        return {member.prior.form.name: member.evidence for member in self.targets[task].members}

    def left_out_density(self, task: int) -> dict[str, np.ndarray]:
        """Return log p(y_i | y_-i, sources) (N,) of every form of a task."""
        return {member.prior.form.name: member.leave_one_out for member in self.targets[task].members}
