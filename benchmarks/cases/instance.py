"""What a case gives for a seed: training and test tables, prior mappings, and what the paper configures for it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aligngp.datasets import Case

Table = tuple[np.ndarray, np.ndarray]
"""Inputs (N, Dt) and outputs (N,) of one task."""


@dataclass(frozen=True, eq=False)
class Instance:
    """One draw of a case; as aligngp.datasets.Case, with several targets and any kind of mapping.

    `mappings` has a prior mapping for every task but the `common` one: column names, a formula on rows, or an
    agp.Affine. `targets` are the tasks that are scored (averaged where there are several). `paper` are keywords that
    the paper's appendix sets for this case.
    """

    name: str
    tasks: dict[str, Table]
    test: dict[str, Table]
    names: dict[str, tuple[str, ...]]
    common: str
    targets: tuple[str, ...]
    mappings: dict[str, Any]
    description: str
    paper: dict[str, Any] = field(default_factory=dict)

    def shared_columns(self, task: str) -> list[str]:
        """Return the columns that a task has in common with the common task, by name."""
        return [column for column in self.names[task] if column in self.names[self.common]]


def from_case(case: Case, **paper: Any) -> Instance:
    """Return a case of the package's own datasets as an instance."""
    return Instance(
        name=case.name,
        tasks=case.tasks,
        test=case.test,
        names=case.names,
        common=case.common,
        targets=(case.target,),
        mappings=dict(case.mappings),
        description=case.description,
        paper=paper,
    )


def streams(seed: int, parts: int) -> list[np.random.Generator]:
    """Return independent generators: what is drawn from one changes nothing in another."""
    return [np.random.default_rng(part) for part in np.random.SeedSequence(seed).spawn(parts)]
