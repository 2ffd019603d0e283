"""What is asked for, checked: the target task, the direction, the costs, the spaces and the constraints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real as AnyReal
from typing import Any

import numpy as np

from aligngp.data.tables import listed
from aligngp.data.tasks import TaskData, find_task
from aligngp.ensemble import Ensemble
from aligngp.errors import SettingError
from aligngp.parts import Part
from aligngp.suggest.response import sources_of
from aligngp.suggest.space import Space, make_space

OBJECTIVES = ("minimize", "maximize", "learn")
ACQUISITIONS = ("logei", "mes", "ucb")
PartOf = Callable[[str], tuple[Part, int]]


@dataclass(frozen=True)
class Limit:
    """A constraint: a task whose noise-free output lies between two bounds, standardised."""

    task: int
    low: float
    high: float


@dataclass(frozen=True)
class Goal:
    """What a search for the next evaluation needs to know, but for the fitted part."""

    target: int
    objective: str
    acquisition: str
    beta: float
    costs: dict[int, float]
    """Of the target and of every source that may be suggested."""
    spaces: dict[int, Space]
    limits: tuple[Limit, ...]
    rows: np.ndarray | None
    """Of the target, evaluated so far, raw (N, Dt); None where the model has them."""

    @property
    def sign(self) -> float:
        """1 where large is good, else -1."""
        return -1.0 if self.objective == "minimize" else 1.0

    def rows_of(self, part: Part) -> np.ndarray:
        """Return the target's evaluated rows (N, Dt), raw, with those that a part was conditioned on."""
        if self.rows is not None:
            return self.rows
        assert isinstance(part.model, Ensemble)
        return part.frame.inputs[self.target].inverse(part.model.targets[self.target].own)


def read_goal(
    part: Part,
    target: int,
    training: Sequence[TaskData] | None,
    objective: str,
    acquisition: str,
    beta: Any,
    costs: Mapping[str, Any] | None,
    bounds: Mapping[str, Any] | None,
    constraints: Mapping[str, Any] | None,
) -> Goal:
    """Return what is asked for; every mistake is an error that says what was expected."""
    names = part.frame.names
    if objective not in OBJECTIVES:
        raise SettingError(f"objective: expected one of {listed(map(repr, OBJECTIVES))}, got {objective!r}.")
    if acquisition not in ACQUISITIONS:
        raise SettingError(f"acquisition: expected one of {listed(map(repr, ACQUISITIONS))}, got {acquisition!r}.")
    if isinstance(beta, bool) or not isinstance(beta, AnyReal) or not float(beta) >= 0.0:
        raise SettingError(f"beta: expected a number >= 0, got {beta!r}.")
    prices = read_costs(costs, names, names[target])
    limits = _limits(part, target, constraints)
    if limits and objective == "learn":
        raise SettingError("constraints: they restrict a search for the best; objective='learn' has none.")
    useful = sources_of(part, target)
    tasks = [at for at in range(len(names)) if at == target or (names[at] in prices and at in useful)]
    given = dict(bounds or {})
    for name in given:
        find_task(name, names)
    spans = {} if training is None else {task.name: task.span for task in training}
    spaces = {
        at: make_space(names[at], part.frame.tasks[at].columns, given.get(names[at]), spans.get(names[at]))
        for at in tasks
    }
    costs_of = {at: prices.get(names[at], 1.0) for at in tasks}
    return Goal(
        target, objective, acquisition, float(beta), costs_of, spaces, limits, _evaluated(part, target, training)
    )


def default_target(names: Sequence[str], common: str | None, costs: Mapping[str, Any] | None) -> str:
    """Return the task that is meant where none is named: the only one, the dearest, or the one that is not common."""
    if len(names) == 1:
        return names[0]
    if costs:
        dearest = max(costs.values())
        found = [name for name, cost in costs.items() if cost == dearest]
        if len(found) == 1 and len(costs) > 1:
            return found[0]
    others = [name for name in names if name != common]
    if common is not None and len(others) == 1:
        return others[0]
    raise SettingError(
        f"target: which task is to be optimised does not follow from the tasks {listed(names)} and their costs. "
        f"Pass target={others[0]!r}, or another."
    )


def read_costs(costs: Mapping[str, Any] | None, names: Sequence[str], target: str) -> dict[str, float]:
    """Return the cost of an evaluation of every task that may be suggested; of the target alone where none is given."""
    if costs is None:
        return {target: 1.0}
    for name, cost in costs.items():
        find_task(name, names)
        if isinstance(cost, bool) or not isinstance(cost, AnyReal) or not 0.0 < float(cost) < np.inf:
            raise SettingError(f"costs: expected a number above zero for task {name!r}, got {cost!r}.")
    if target not in costs:
        raise SettingError(f"costs: the target {target!r} has none, only {listed(costs)}. Give the target a cost too.")
    return {name: float(cost) for name, cost in costs.items()}


def _limits(part: Part, target: int, constraints: Mapping[str, Any] | None) -> tuple[Limit, ...]:
    names, columns, result = part.frame.names, part.frame.tasks[target].columns, []
    for name, pair in (constraints or {}).items():
        task = find_task(name, names)
        expected = f"constraints: expected {{{name!r}: (low, high)}} with None where there is no bound, got {pair!r}."
        if not isinstance(pair, tuple | list) or len(pair) != 2 or all(end is None for end in pair):
            raise SettingError(expected)
        if any(end is not None and (isinstance(end, bool) or not isinstance(end, AnyReal)) for end in pair):
            raise SettingError(expected)
        if task == target:
            raise SettingError(f"constraints: {name!r} is the target; its output is optimised, not bounded.")
        if part.frame.tasks[task].columns != columns:
            raise SettingError(
                f"constraints: task {name!r} has the inputs {listed(part.frame.tasks[task].columns)}, and the target "
                f"{names[target]!r} has {listed(columns)}. A constraint is evaluated at the target's inputs: fit it "
                "with the same columns in the same order."
            )
        low, high = (-np.inf if pair[0] is None else float(pair[0])), (np.inf if pair[1] is None else float(pair[1]))
        if not low < high:
            raise SettingError(expected)
        scaler = part.frame.outputs[task]
        ends = (np.array([low, high]) - scaler.mean[0]) / scaler.scale[0]
        result.append(Limit(task, float(ends[0]), float(ends[1])))
    return tuple(result)


def _evaluated(part: Part, target: int, training: Sequence[TaskData] | None) -> np.ndarray | None:
    """Return the target's training rows where the model does not hold them."""
    if isinstance(part.model, Ensemble):
        return None
    for task in training or ():
        if task.name == part.frame.names[target]:
            return task.X
    raise SettingError("a model file of this kind holds no training rows. Call gp.remember(tasks) first.")
