"""Ask for the next evaluation, tell its outcome."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from aligngp.data.tables import listed
from aligngp.data.tasks import Task
from aligngp.ensemble import Ensemble
from aligngp.errors import AligngpWarning, DataError, SettingError
from aligngp.estimator import AlignedGP
from aligngp.optimization import trials as files
from aligngp.optimization.trials import ASKED, DONE, FAILED, Trial
from aligngp.parts import Part
from aligngp.runtime import computes
from aligngp.settings import seed_number, whole
from aligngp.suggest import default_target, read_goal, suggest
from aligngp.suggest.conditioned import conditioned
from aligngp.suggest.goal import ACQUISITIONS, read_costs
from aligngp.suggest.space import Space, as_variable, make_space
from aligngp.suggest.surface import moments

_GROWTH = 0.2
"""The model is fitted anew when a task has so many rows more than at the last fit, as a part of them."""
_SURPRISE = 3.0
"""Or when an outcome is so many standard deviations from what was expected."""


class Optimizer:
    """Search for the best inputs of a target task with the help of cheaper ones: ask, evaluate, tell.

    Parameters
    ----------
    spaces: task name to a dict of input name to ``(low, high)``, :class:`Real`, :class:`Integer` or :class:`Choice`.
    costs: what an evaluation of each task costs.
    mappings: as of :class:`AlignedGP`; labels are columns ``name=label`` there, 1 where they hold.
    target: the task that counts; default the dearest.
    objective: ``"minimize"`` or ``"maximize"`` it.
    common: the task whose inputs are the common domain; default the one with the fewest.
    constraints: task name to ``(low, high)``; it has the target's inputs and is evaluated with it, see :meth:`tell`.
    initial: number of first evaluations, by task; default twice the inputs (at least 5) for every task, a source no
        more than cost as much as the target's.
    acquisition: as of :meth:`AlignedGP.suggest`.
    history: a Parquet file that is written after every outcome; one that is there is continued.
    model: further keywords of :class:`AlignedGP`.
    seed: of the whole search.

    A source is evaluated at most for the cost of one evaluation of the target before the target's turn comes: however
    wrong the model is about a source, it cannot take more than half of the budget.

    Examples
    --------
    >>> import aligngp as agp
    >>> spaces = {"fine": {"x": (0, 1), "z": (0, 1)}, "coarse": {"x": (0, 1)}}
    >>> search = agp.Optimizer(spaces, costs={"fine": 10, "coarse": 1}, seed=0)
    >>> trial = search.ask()
    >>> search.tell(trial, 1.5)
    >>> search.spent
    1.0
    """

    def __init__(
        self,
        spaces: Mapping[str, Mapping[str, Any]],
        costs: Mapping[str, Any] | None = None,
        *,
        mappings: Mapping[str, Any] | None = None,
        target: str | None = None,
        objective: str = "minimize",
        common: str | None = None,
        constraints: Mapping[str, Any] | None = None,
        initial: Mapping[str, int] | None = None,
        acquisition: str = "logei",
        history: str | os.PathLike[str] | None = None,
        model: Mapping[str, Any] | None = None,
        seed: int = 0,
    ):
        if objective not in ("minimize", "maximize"):
            raise SettingError(f"objective: expected 'minimize' or 'maximize', got {objective!r}.")
        if acquisition not in ACQUISITIONS:
            raise SettingError(f"acquisition: expected one of {listed(map(repr, ACQUISITIONS))}, got {acquisition!r}.")
        if not isinstance(spaces, Mapping) or not spaces:
            raise SettingError("spaces: expected a dict of task name to the bounds of its inputs.")
        self.spaces = {name: make_space(name, _columns(name, given), given) for name, given in spaces.items()}
        if common is None and len(self.spaces) > 1:
            fewest = min(len(space.columns) for space in self.spaces.values())
            found = [name for name, space in self.spaces.items() if len(space.columns) == fewest]
            common = found[0] if len(found) == 1 else None
        self.target = default_target(list(self.spaces), common, costs) if target is None else target
        if costs is None and len(self.spaces) > 1:
            raise SettingError("costs: expected a dict of task name to the cost of an evaluation.")
        self.costs = read_costs(costs, list(self.spaces), self.target)
        for name in self.spaces:
            if name not in self.costs:
                raise SettingError(f"costs: task {name!r} has none. Give every task that may be evaluated a cost.")
        self.objective, self.common, self.acquisition = objective, common, acquisition
        self.constraints = dict(constraints or {})
        for name in self.constraints:
            if name in self.spaces:
                raise SettingError(f"constraints: {name!r} is among the spaces; it has the target's, and no own.")
        self.initial = self._initial(initial)
        self.seed, self._model, self._mappings = seed_number("seed", seed), dict(model or {}), dict(mappings or {})
        self._gp: AlignedGP | None = None
        self._fitted_rows: dict[str, int] = {}
        self._seen: set[int] = set()
        self._part: Part | None = None
        self._history = history
        self.trials: list[Trial] = []
        """All evaluations so far, in the order in which they were asked for."""
        if history is not None:
            self.trials = files.read(history, self._about(), self.spaces)
        self._open = [trial for trial in self.trials if trial.status == ASKED]

    # ---- ask and tell -----------------------------------------------------------------------------------------------

    def ask(self) -> Trial:
        """Return the next evaluation to make; what was asked for before and has no outcome yet is taken into account.

        Evaluations that a history left open come first.
        """
        trial = self.ask_within(math.inf)
        assert trial is not None
        return trial

    @computes
    def ask_within(self, most: float) -> Trial | None:
        """Return the next evaluation that costs no more than that, None where there is none."""
        if self._open:
            return self._open.pop(0)
        number = len(self.trials)
        design = self._first_design()
        if design is not None and self.costs[design[0]] > most:
            return None
        if design is None and self.costs[self.target] > most:
            return None  # what is learnt elsewhere could not be used any more
        task, inputs = design or (
            self._suggested(number, most) if self._done()[self.target] else self._anywhere(number)
        )
        trial = Trial(number, task, inputs, self.costs[task])
        self.trials.append(trial)
        self._keep()
        return trial

    def tell(
        self,
        trial: Trial,
        value: Any,
        constraints: Mapping[str, Any] | None = None,
        *,
        seconds: float | None = None,
        error: str | None = None,
    ) -> None:
        """Say what an evaluation gave; None or NaN where it failed.

        ``constraints`` has the outputs of the constraints' tasks at the same inputs, with every outcome of the target.
        """
        if not 0 <= trial.id < len(self.trials) or self.trials[trial.id].inputs != trial.inputs:
            raise DataError(f"trial {trial.id}: this search has not asked for it.")
        if self.trials[trial.id].status != ASKED:
            raise DataError(f"trial {trial.id}: its outcome has been told already.")
        given = dict(constraints or {})
        failed = value is None or not math.isfinite(value) or not all(map(math.isfinite, given.values()))
        if not failed and trial.task == self.target and set(given) != set(self.constraints):
            raise DataError(
                f"trial {trial.id}: expected the outputs of the constraints {listed(self.constraints)} with the "
                f"target's, got {listed(given)}."
            )
        outcome = {"value": None if failed else float(value or 0.0), "constraints": {} if failed else given}
        status = FAILED if failed else DONE
        self.trials[trial.id] = replace(trial, status=status, seconds=seconds, error=error, **outcome)
        self._keep()

    def add(
        self, task: str, inputs: Mapping[str, Any], value: Any, constraints: Mapping[str, Any] | None = None
    ) -> None:
        """Add an evaluation that was made before; it costs nothing here."""
        if task not in self.spaces:
            raise DataError(f"there is no task {task!r} in this search, only {listed(self.spaces)}.")
        point = self.spaces[task].points(self.spaces[task].rows([inputs]))[0]
        trial = Trial(len(self.trials), task, point, 0.0)
        self.trials.append(trial)
        self.tell(trial, value, constraints)

    # ---- what is known ----------------------------------------------------------------------------------------------

    @property
    def spent(self) -> float:
        """The cost of all evaluations that were asked for."""
        return float(sum(trial.cost for trial in self.trials))

    @property
    def best(self) -> Trial | None:
        """The best evaluation of the target so far that meets the constraints, None where there is none."""
        found = [trial for trial in self.trials if trial.task == self.target and trial.status == DONE]
        found = [trial for trial in found if self._meets(trial)]
        return min(found, key=lambda trial: self._sign * (trial.value or 0.0), default=None)

    @property
    def history(self) -> pa.Table:
        """All evaluations as a table."""
        return files.to_table(self.trials)

    @property
    def model(self) -> AlignedGP:
        """The model of all outcomes so far, fitted when it is asked for."""
        return self._fit()

    @property
    def _sign(self) -> float:
        return 1.0 if self.objective == "minimize" else -1.0

    def _meets(self, trial: Trial) -> bool:
        for name, (low, high) in self.constraints.items():
            value = trial.constraints[name]
            if (low is not None and value < low) or (high is not None and value > high):
                return False
        return True

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _initial(self, given: Mapping[str, int] | None) -> dict[str, int]:
        usual = {name: max(5, 2 * space.size) for name, space in self.spaces.items()}
        most = usual[self.target] * self.costs[self.target]
        usual = {name: max(1, min(number, int(most // self.costs[name]))) for name, number in usual.items()}
        for name, number in (given or {}).items():
            if name not in self.spaces:
                raise SettingError(f"initial: there is no task {name!r}, only {listed(self.spaces)}.")
            usual[name] = whole(f"initial[{name!r}]", number)
        return usual

    def _about(self) -> dict[str, Any]:
        spaces = {name: {n: repr(v) for n, v in space.variables.items()} for name, space in self.spaces.items()}
        constraints = {name: list(pair) for name, pair in self.constraints.items()}
        return {"target": self.target, "objective": self.objective, "spaces": spaces, "constraints": constraints}

    def _keep(self) -> None:
        if self._history is not None:
            files.write(self._history, self.trials, self._about())

    def _first_design(self) -> tuple[str, Any] | None:
        """Return the next point of the first design, None where it is complete; sources first."""
        for name in sorted(self.spaces, key=lambda name: name == self.target):
            mine = [trial for trial in self.trials if trial.task == name]
            sound = [trial for trial in mine if trial.status != FAILED]
            if len(sound) < self.initial[name] and len(mine) < 3 * self.initial[name]:
                space, seed = self.spaces[name], self.seed + list(self.spaces).index(name)
                return name, space.points(space.sample(4 * self.initial[name], seed)[len(mine)][None])[0]
        return None

    def _anywhere(self, number: int) -> tuple[str, Any]:
        """Return inputs of the target at random: nothing is known of it yet, however many were asked for."""
        space = self.spaces[self.target]
        return self.target, space.points(space.sample(1, self.seed + 1000 + number))[0]

    def _suggested(self, number: int, most: float) -> tuple[str, Any]:
        part, at = self._conditioned()
        since = 0.0
        for trial in self.trials:
            since = 0.0 if trial.task == self.target else since + trial.cost
        dear = self.costs[self.target]
        costs = self.costs if since < dear and dear + min(self.costs.values()) <= most else {self.target: dear}
        bounds = {name: space.variables for name, space in self.spaces.items()}
        goal = read_goal(part, at, None, self.objective, self.acquisition, 2.0, costs, bounds, self.constraints)
        known = {part.frame.names[task] for task in goal.spaces}
        pending = [
            (trial.task, trial.inputs)
            for trial in self.trials
            # A source that failed there once will again: nothing is to be learnt of it.
            if trial.task in known and (trial.status == ASKED or (trial.status == FAILED and trial.task != self.target))
        ]
        (found,) = suggest(part, goal, 1, self.seed + number, pending)
        return found.task, found.inputs

    def _done(self) -> dict[str, list[Trial]]:
        done = [trial for trial in self.trials if trial.status == DONE]
        return {name: [trial for trial in done if trial.task == name] for name in self.spaces}

    def _tables(self) -> dict[str, Task]:
        tables = {}
        for name, mine in self._done().items():
            if mine:
                X, y = self.spaces[name].rows([t.inputs for t in mine]), np.array([t.value for t in mine])
                tables[name] = Task(X, y, names=list(self.spaces[name].columns))
                if name == self.target:
                    for constraint in self.constraints:
                        y = np.array([t.constraints[constraint] for t in mine])
                        tables[constraint] = Task(X, y, names=list(self.spaces[name].columns))
        if self.target not in tables:
            raise DataError(f"no evaluation of the target {self.target!r} has succeeded, so nothing can be learnt.")
        return tables

    def _fit(self) -> AlignedGP:
        tables = self._tables()
        common = self.common if self.common in tables else None
        mappings = {name: spec for name, spec in self._mappings.items() if name in tables and common is not None}
        for constraint in self.constraints:
            if self.target in mappings:
                mappings.setdefault(constraint, mappings[self.target])
        if common is None:
            common = self.target
            tables = {name: table for name, table in tables.items() if name == common or name in self.constraints}
        gp = AlignedGP(common, mappings=mappings, progress=False, **{"seed": self.seed, **self._model})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AligngpWarning)  # few rows, and close ones, are what a search has
            self._gp = gp.fit(tables)
        return self._gp

    def _conditioned(self) -> tuple[Part, int]:
        """Return the model of all outcomes: fitted where there is much new, else with the new rows put in."""
        done = self._done()
        part = self._part
        if part is not None:
            part = self._with_new(part, done)
        if part is None:
            gp = self._fit()
            part, _ = gp._part(self.target)
            self._fitted_rows = {name: len(mine) for name, mine in done.items()}
            self._seen = {trial.id for mine in done.values() for trial in mine}
        self._part = part
        at = part.frame.names.index(self.target)
        return self._with_failures(part, done), at

    def _with_new(self, part: Part, done: Mapping[str, Sequence[Trial]]) -> Part | None:
        """Return the part with the outcomes since it was made, None where it is to be fitted anew."""
        if not isinstance(part.model, Ensemble):
            return None
        for name, mine in done.items():
            if name not in part.frame.names:
                if mine:
                    return None
                continue
            if len(mine) >= self._fitted_rows[name] * (1.0 + _GROWTH):
                return None
            for trial in mine:
                if trial.id in self._seen:  # outcomes come in any order
                    continue
                self._seen.add(trial.id)
                X = self.spaces[name].rows([trial.inputs])
                for task, value in ((name, trial.value or 0.0), *trial.constraints.items()):
                    where = part.frame.names.index(task)
                    mean, variance = moments(part, where, X)
                    z = part.frame.outputs[where].transform(np.array([[value]]))[0, 0]
                    if abs(z - mean[0]) > _SURPRISE * np.sqrt(variance[0] + part.noise(where)) + 1e-6:
                        return None
                    part = conditioned(part, where, X, np.array([value]))
        return part

    def _with_failures(self, part: Part, done: Mapping[str, Sequence[Trial]]) -> Part:
        """Return the part with failed evaluations of the target put in as its worst outcome: not there again."""
        failed = [trial for trial in self.trials if trial.task == self.target and trial.status == FAILED]
        if not failed or not isinstance(part.model, Ensemble):
            return part
        worst = max(self._sign * (trial.value or 0.0) for trial in done[self.target]) * self._sign
        X = self.spaces[self.target].rows([trial.inputs for trial in failed])
        return conditioned(part, part.frame.names.index(self.target), X, np.full(len(X), worst))


def _columns(task: str, given: Mapping[str, Any]) -> list[str]:
    """Return the columns that bounds make."""
    if not isinstance(given, Mapping) or not given:
        raise SettingError(f"spaces: expected a dict of input name to bounds for task {task!r}, got {given!r}.")
    return list(Space(task, {name: as_variable(value, task, name) for name, value in given.items()}).columns)
