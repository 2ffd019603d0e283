"""Predictions of a task's known outputs with some of the other tasks only: fitted again without the rest.

How the outputs are kept from the model that predicts them:

    "left out"   each training row given all the others, in closed form: the mixture of exact GPs (the weights of its
                 forms found without the row as well), and exact inference, at the hyperparameters of all rows
    "held out"   every other inference: fits to all but a part of the rows, the same settings
    "test"       rows that were never trained on
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from aligngp.data.tasks import TaskData
from aligngp.ensemble import Ensemble, Fitting, left_out_moments
from aligngp.ensemble.left_out import reweighed
from aligngp.ensemble.members import Member
from aligngp.ensemble.target import Target
from aligngp.errors import AligngpWarning, DataError
from aligngp.fit.pipeline import fit_model
from aligngp.frame import build_frame
from aligngp.mappings.prior import Tabulated
from aligngp.objective.exact import left_out
from aligngp.parameters import resolve
from aligngp.parts import FittedEnsemble, Part, predicted, training_batches
from aligngp.settings import Settings
from aligngp.typing import Progress

Kept = Literal["left out", "held out", "test"]
_SILENCE = 1e3
"""Known noise of a task that is to say nothing, in standard deviations of its outputs."""


@dataclass(frozen=True, eq=False)
class Predicted:
    """Known outputs of a task and what is predicted of them, noise included, (n,) each, in the data's units."""

    y: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True)
class Plan:
    """Which rows predictions are scored on."""

    test: Mapping[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    """Rows (X, y) of a task that were never trained on."""
    rows: int = 500
    """Most training rows of a task that are scored, drawn at random."""
    folds: int = 5
    """No fit does without more than that part of a task's rows."""

    def chosen(self, size: int, task: int, seed: int) -> np.ndarray:
        """Return which of a task's training rows are scored, in random order."""
        return np.random.default_rng([seed, task]).permutation(size)[: self.rows]

    def parts(self, size: int, task: int, seed: int) -> list[np.ndarray]:
        """Return the scored rows in parts that are held out together."""
        chosen = self.chosen(size, task, seed)
        return np.array_split(chosen, min(-(-len(chosen) * self.folds // size), len(chosen)))


class MixtureRefits:
    """Refits of a mixture of exact GPs: the target in question alone is fitted again."""

    def __init__(self, part: Part, tasks: tuple[TaskData, ...], settings: Settings, plan: Plan):
        assert isinstance(part.model, Ensemble)
        self.part, self.ensemble, self.plan, self.seed = part, part.model, plan, settings.seed
        batches = training_batches(part.frame, tasks, "float64")
        residual = settings.residual is not False
        self._fitting = Fitting(
            part.frame, tasks, batches, settings.kernel, settings.seed, settings.hyperparameters, residual
        )
        self._found: dict[tuple[int, tuple[int, ...]], Target] = {}

    def kept(self, task: int) -> Kept:
        """Return how a task's outputs are kept from the model."""
        return "test" if task in self.plan.test else "left out"

    def used(self, task: int) -> tuple[int, ...]:
        """Return the tasks that the model of a task uses at all."""
        return self._fitting.sources_of(task)

    def fits(self, task: int) -> int:
        """Return the number of fits behind one call of :meth:`predictions`."""
        return 1

    def predictions(self, task: int, among: Collection[int], report: Progress) -> Predicted:
        """Return what is predicted of a task given those other tasks."""
        target, scaler = self._target(task, among), self.part.frame.outputs[task]
        report(1, 1, max(member.evidence for member in target.members))
        if task in self.plan.test:
            targets = (*self.ensemble.targets[:task], target, *self.ensemble.targets[task + 1 :])
            mixture = replace(self.part.fitted, ensemble=Ensemble(self.ensemble.names, targets))
            return _at_rows(replace(self.part, fitted=mixture), task, *self.plan.test[task], self.seed)
        rows = self.plan.chosen(len(target.y), task, self.seed)
        mean, variance = left_out_moments(target, rows, self.seed)
        y, mean = (scaler.inverse(values[:, None])[:, 0] for values in (target.y[rows], mean))
        return Predicted(y, mean, scaler.inverse_variance(variance[:, None])[:, 0])

    def _target(self, task: int, among: Collection[int]) -> Target:
        fitted, used = self.ensemble.targets[task], self._fitting.sources_of(task, among)
        if used == self.used(task):
            return fitted
        if (task, used) not in self._found:
            target = self._fitting.target(task, used)
            members = tuple(_at_hand(member, fitted.members) for member in target.members)
            self._found[task, used] = reweighed(replace(target, members=members), [self.seed, task])
        return self._found[task, used]


def _at_hand(member: Member, others: Sequence[Member]) -> Member:
    """Return a form's draws among others where it is the same without its source, else the form as it is.

    So differences come of the source, and not of other draws from the same posterior.
    """
    if not member.prior.form.transfers:
        for other in others:
            priors = other.prior, member.prior
            one, own = ((prior.form, prior.known_noise, *prior.mean, *prior.spread) for prior in priors)
            if one == own:
                return other
    return member


class SparseRefits:
    """Refits of one model of all tasks, which is fitted again without some of them.

    Without any other, a task is a GP on its own inputs. Where the common task alone is taken away its domain stays, and
    its outputs become zeros under a known noise so large that they say nothing.
    """

    def __init__(self, part: Part, tasks: tuple[TaskData, ...], settings: Settings, plan: Plan):
        assert not isinstance(part.fitted, FittedEnsemble)
        self.part, self.plan, self.seed = part, plan, settings.seed
        self.tasks = tuple(task.sampled() for task in tasks)
        # A fit to all rows of a stream is no match for fits to a sample of them: those are fitted to the same sample.
        self._whole = all(task.stream is None for task in tasks)
        self.exact = part.fitted.inference == "exact"
        self.settings = replace(settings, inference="exact") if self.exact else settings

    def kept(self, task: int) -> Kept:
        """Return how a task's outputs are kept from the model."""
        return "test" if task in self.plan.test else "left out" if self.exact else "held out"

    def used(self, task: int) -> tuple[int, ...]:
        """Return the tasks that the model of a task uses at all."""
        return tuple(other for other in range(len(self.tasks)) if other != task)

    def fits(self, task: int) -> int:
        """Return the number of fits behind one call of :meth:`predictions`."""
        return len(self._parts(task)) if self.kept(task) == "held out" else 1

    def predictions(self, task: int, among: Collection[int], report: Progress) -> Predicted:
        """Return what is predicted of a task given those other tasks."""
        data = self.tasks[task]
        if self.kept(task) != "held out":
            part, given = self._fitted(task, among)
            report(1, 1, _objective(part))
            at = part.frame.names.index(data.name)
            if task in self.plan.test:
                return _at_rows(part, at, *self.plan.test[task], self.seed)
            return _left_out(part, given, at, self.plan.chosen(data.y.size, task, self.seed))
        found, parts = [], self._parts(task)
        for number, rows in enumerate(parts):
            part, _ = self._fitted(task, among, np.setdiff1d(np.arange(data.y.size), rows))
            report(number + 1, len(parts), _objective(part))
            found.append(_at_rows(part, part.frame.names.index(data.name), data.X[rows], data.y[rows], self.seed))
        columns = zip(*((one.y, one.mean, one.variance) for one in found), strict=True)
        return Predicted(*(np.concatenate(column) for column in columns))

    def _parts(self, task: int) -> list[np.ndarray]:
        data = self.tasks[task]
        if data.y.size < 2:
            raise DataError(
                f"task {data.name!r}: expected two training rows or more to hold some out, got {data.y.size}. Pass "
                f"rows that were not trained on: gp.transfer_report(test={{{data.name!r}: ...}})."
            )
        return self.plan.parts(data.y.size, task, self.seed)

    def _fitted(
        self, task: int, among: Collection[int], rows: np.ndarray | None = None
    ) -> tuple[Part, tuple[TaskData, ...]]:
        """Return the model of a task, trained on those rows of it, and the training tables."""
        if rows is None and len(among) == len(self.tasks) - 1 and self._whole:
            return self.part, self.tasks
        own, settings, common = self.tasks[task], self.settings, self.part.frame.common
        mappings = dict(settings.mappings or {})
        if rows is not None:
            mappings[own.name] = _of_rows(mappings.get(own.name), rows)
            own = replace(own, X=own.X[rows], y=own.y[rows], mapping=_of_rows(own.mapping, rows))
        if not among:
            return self._fit((replace(own, mapping=None),), settings.alone(own.name))
        given = {other: self.tasks[other] for other in among} | {task: own}
        if common not in given:
            quiet, noise = self.tasks[common], _SILENCE * (float(np.std(self.tasks[common].y)) or 1.0)
            given[common] = replace(quiet, y=np.zeros_like(quiet.y), noise=noise)
        tables = tuple(given[at] for at in sorted(given))
        names = [table.name for table in tables]
        return self._fit(
            tables,
            replace(
                settings,
                common=self.tasks[common].name,
                mappings={name: spec for name, spec in mappings.items() if name in names and spec is not None},
                calibration=_of_tasks(settings.calibration, names),
                batch_size=_of_tasks(settings.batch_size, names),
            ),
        )

    def _fit(self, tables: tuple[TaskData, ...], settings: Settings) -> tuple[Part, tuple[TaskData, ...]]:
        with warnings.catch_warnings():  # what is suspicious about the tables was told when the model was fitted
            warnings.simplefilter("ignore", AligngpWarning)
            frame = build_frame(tables, settings.common, settings.mappings, settings.standardize)
        batches = training_batches(frame, tables, settings.dtype)
        fitted = fit_model(frame, tables, batches, settings, lambda stage: None)
        if fitted.interrupted:
            raise KeyboardInterrupt
        return Part(frame, fitted, tuple(table.y.size for table in tables)), tables


def _objective(part: Part) -> float:
    return float(np.append(np.nan, part.fitted.history.objective)[-1])


def _at_rows(part: Part, task: int, X: np.ndarray, y: np.ndarray, seed: int) -> Predicted:
    found = predicted(part, task, X, latent=False, num_samples=100, seed=seed)
    return Predicted(y, found.mean, found.variance)


def _left_out(part: Part, tables: tuple[TaskData, ...], task: int, rows: np.ndarray) -> Predicted:
    """Return each row of an exact fit given all the others, of all tasks."""
    assert not isinstance(part.fitted, FittedEnsemble)
    batches = training_batches(part.frame, tables, part.dtype)
    start, scaler = sum(table.y.size for table in tables[:task]), part.frame.outputs[task]
    moments = left_out(resolve(part.fitted.model), batches)
    mean, variance = (np.asarray(values, np.float64)[start + rows][:, None] for values in moments)
    return Predicted(tables[task].y[rows], scaler.inverse(mean)[:, 0], scaler.inverse_variance(variance)[:, 0])


def _of_rows(mapping: Any, rows: np.ndarray) -> Any:
    """Return a prior mapping for some rows of the training table."""
    return Tabulated(mapping.X_bar[rows]) if isinstance(mapping, Tabulated) else mapping


def _of_tasks(value: Any, names: Collection[str]) -> Any:
    """Return a setting for all tasks, or of those that are there."""
    return {name: one for name, one in value.items() if name in names} if isinstance(value, Mapping) else value
