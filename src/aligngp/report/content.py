"""What a report is about: everything that is computed for it, and what had to be left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aligngp.data.tasks import TaskData, find_task
from aligngp.ensemble import Ensemble
from aligngp.errors import DataError, SettingError
from aligngp.estimator import AlignedGP
from aligngp.findings.advice import advice
from aligngp.findings.alignment import Alignment, alignment
from aligngp.findings.known import Known, closed_form, known
from aligngp.findings.relevance import Relevance, relevance
from aligngp.findings.sweeps import Sweep, sweep
from aligngp.findings.view import mapped_tasks, tables_of
from aligngp.parts import Part
from aligngp.runtime import computes
from aligngp.transfer import TransferReport

MOST_INPUTS = 12
"""Most inputs of a task over which predictions are drawn."""


@dataclass(frozen=True)
class Content:
    """The model and the numbers of its report."""

    gp: AlignedGP
    names: tuple[str, ...]
    tables: Mapping[str, TaskData]
    """Training rows by task; empty where the model came from a file."""
    left_out: Mapping[str, Known]
    test: Mapping[str, Known]
    transfer: TransferReport | None
    alignments: Mapping[str, Alignment]
    sweeps: Mapping[str, list[Sweep]]
    relevances: Mapping[str, Relevance]
    terms: Mapping[str, float]
    warnings: list[str]
    missing: list[str]
    """A sentence on everything that could not be computed."""

    def part(self, task: str) -> tuple[Part, int]:
        """Return a task's model and its place there."""
        return self.gp._part(task)

    @property
    def mixture(self) -> bool:
        """Whether the model is a mixture of exact GPs."""
        return any(isinstance(part.model, Ensemble) for part in self.gp._distinct())

    def scored(self, task: str) -> Known | None:
        """Return the outputs that speak of a task: of test rows where there are some, else left out."""
        return self.test.get(task) or self.left_out.get(task)


@computes
def collect(gp: AlignedGP, test: Mapping[str, Any] | None, transfer: bool) -> Content:
    """Compute what a report needs; ``transfer=False`` leaves out whatever fits models again."""
    names = tuple(name for part in gp._distinct() for name in part.frame.names)
    tables = {table.name: table for part in gp._distinct() for table in tables_of(gp, part) or ()}
    tested, missing = _tested(gp, test, names), []
    left_out = {name: known(gp, name) for name in names if tables and (transfer or closed_form(gp, name))}
    if not tables:
        missing.append(
            "The model was read from a file, which holds no training rows. Left out are the scores of left-out rows, "
            "transfer, the mapping at the training rows, and the terms of the objective. A report that is written "
            "right after gp.fit(...) has them."
        )
    elif len(left_out) < len(names):
        missing.append(
            "Scores of held-out training rows would need further fits, which transfer=False left out. Only test rows "
            "are scored."
        )
    found = None
    if tables and transfer and len(names) > 1 and gp.settings.shared:
        found = gp.transfer_report()
    elif tables and not transfer:
        missing.append("The transfer report was left out (transfer=False).")
    relevances = _relevances(gp, names, missing)
    return Content(
        gp,
        names,
        tables,
        left_out,
        tested,
        found,
        {name: alignment(gp, name) for name in mapped_tasks(gp) if tables},
        {name: _sweeps(gp, name) for name in names},
        relevances,
        gp.elbo() if tables else {},
        advice(gp, found, [*left_out.values(), *tested.values()]),
        missing,
    )


def _tested(gp: AlignedGP, test: Mapping[str, Any] | None, names: tuple[str, ...]) -> dict[str, Known]:
    if test is None:
        return {}
    if not isinstance(test, Mapping):
        raise DataError(f"report: test expects a dict of task name to rows with outputs, got {type(test).__name__}.")
    return {names[find_task(name, names)]: known(gp, name, rows) for name, rows in test.items()}


def _sweeps(gp: AlignedGP, task: str) -> list[Sweep]:
    """Return predictions over each input, the others at their means."""
    part, at = gp._part(task)
    columns = part.frame.tasks[at].columns[:MOST_INPUTS]
    return [sweep(gp, task, column, None, None, False) for column in columns]


def _relevances(gp: AlignedGP, names: tuple[str, ...], missing: list[str]) -> dict[str, Relevance]:
    try:
        found = {name: relevance(gp, name) for name in names}
    except SettingError as error:
        missing.append(f"The relevance of inputs was left out: {error}")
        return {}
    return {name: one for name, one in found.items() if np.any(one.own) or np.any(one.common)}
