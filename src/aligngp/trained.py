"""What a fit leaves behind: every task's fitted model, and the training rows where they are at hand."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aligngp import parts, training_scores
from aligngp.data.tables import listed
from aligngp.data.tasks import TaskData, find_task, read_inputs_and_output, read_tasks
from aligngp.errors import AligngpWarning, DataError, NotFittedError
from aligngp.fit.pipeline import ProgressOf
from aligngp.frame import check_same_rows
from aligngp.parts import Part
from aligngp.settings import Settings
from aligngp.transfer import TransferReport, transfer_report


@dataclass(frozen=True, eq=False)
class Trained:
    """The fitted parts by task, in the order of the tasks; empty before a fit."""

    settings: Settings
    parts: Mapping[str, Part] = field(default_factory=dict)
    tables: tuple[TaskData, ...] | None = None
    """The training rows; a model from a file has none."""

    @property
    def distinct(self) -> list[Part]:
        """Return every part once, or raise before a fit."""
        if not self.parts:
            raise NotFittedError("this AlignedGP is not fitted yet. Call gp.fit(tasks, output=...) first.")
        return list({id(part): part for part in self.parts.values()}.values())

    def part(self, task: str) -> tuple[Part, int]:
        """Return the part that serves a task and the task's place in it, or raise."""
        assert self.distinct
        part = list(self.parts.values())[find_task(task, self.parts)]
        return part, part.frame.names.index(task)

    def settings_of(self, part: Part) -> Settings:
        """Return the settings that a part was fitted with."""
        return self.settings if self.settings.shared else self.settings.alone(part.frame.names[0])

    def with_rows(self, tasks: Mapping[str, Any], output: str | Mapping[str, str] | None) -> Trained:
        """Return the same with its training rows, as they were passed to the fit; others are refused."""
        fitted = self.distinct
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AligngpWarning)  # what is suspicious was told at the fit
            data = read_tasks(tasks, output)
        tables = {table.name: table for table in data}
        if set(tables) != set(self.parts):
            raise DataError(f"remember: expected the tasks {listed(self.parts)}, got {listed(tables)}.")
        for part in fitted:
            for at, name in enumerate(part.frame.names):
                check_same_rows(part.frame, at, tables[name], part.rows[at])
        return replace(self, tables=tuple(tables[name] for name in self.parts))

    def scores(self) -> dict[str, dict[str, Any]]:
        """Return each task's scores on its training rows; see :meth:`aligngp.AlignedGP.training_scores`."""
        fitted, data = self.distinct, {task.name: task for task in self.tables or ()}
        if not data:
            raise NotFittedError("a model file holds no training rows. Call gp.fit(tasks), or gp.score(task, rows).")
        result: dict[str, dict[str, Any]] = {}
        for part in fitted:
            own = tuple(data[name] for name in part.frame.names)
            result |= training_scores.training_scores(part, own, self.settings_of(part))
        return {name: result[name] for name in data}

    def transfer(
        self,
        progress: ProgressOf,
        tasks: str | Iterable[str] | None,
        test: Mapping[str, Any] | None,
        folds: int,
        rows: int,
    ) -> TransferReport:
        """Return what each task does for each other; see :meth:`aligngp.AlignedGP.transfer_report`."""
        fitted = self.distinct
        if self.tables is None:
            raise NotFittedError(
                "a model file holds no training rows, and the report fits again without each task. Call gp.fit(tasks) "
                "first."
            )
        return transfer_report(
            fitted, self.tables, self.settings, progress, targets=tasks, test=test, folds=folds, rows=rows
        )

    def terms(self, tasks: Mapping[str, Any] | None) -> dict[str, float]:
        """Return the named terms of the objective on all training rows; see :meth:`aligngp.AlignedGP.elbo`."""
        fitted = self.distinct
        if tasks is None and self.tables is None:
            raise NotFittedError("a model file holds no training rows. Pass them: gp.elbo(tasks).")
        given: Any = {task.name: (task.X, task.y) for task in self.tables or ()} if tasks is None else tasks
        missing = [name for name in self.parts if not isinstance(given, Mapping) or name not in given]
        if missing:
            raise DataError(f"elbo: expected a dict with the training rows of every task, it lacks {listed(missing)}.")
        result: dict[str, float] = {}
        for part in fitted:
            rows = [read_inputs_and_output(task, given[task.name]) for task in part.frame.tasks]
            for name, value in parts.terms(part, rows, self.settings.seed).items():
                result[name] = result.get(name, 0.0) + value
        return result
