"""The next evaluation: which task, at which inputs, so that the target gains most for the cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from aligngp.data.tasks import find_task
from aligngp.ensemble import Ensemble
from aligngp.errors import SettingError
from aligngp.parts import Part
from aligngp.suggest import acquisition
from aligngp.suggest.conditioned import believed
from aligngp.suggest.goal import Goal
from aligngp.suggest.response import make_response
from aligngp.suggest.search import STARTS, maximise
from aligngp.suggest.space import Point
from aligngp.suggest.surface import make_surface, moments

_RESPONDING = 48
"""Target rows at which the change by an evaluation of a source is looked at."""
_AVERAGED = 32
"""Target rows over which the variance is averaged."""
_MAXIMA = 8
_NEAR = 32
_NOISY, _SAME = 1e-3, 1e-4
"""Noise variance above which an evaluation is worth repeating, and what counts as the same input, standardised."""


@dataclass(frozen=True)
class Suggestion:
    """A task and the inputs at which to evaluate it; unpacks as ``task, inputs = suggestion``."""

    task: str
    inputs: Point
    cost: float
    value: float
    """Logarithm of what the acquisition expects of it; ``"ucb"`` is not a logarithm."""
    mean: float
    """Expected output of the task there, in its units."""
    std: float
    """Its standard deviation, without noise."""

    def __iter__(self) -> Iterator[Any]:
        return iter((self.task, self.inputs))


@dataclass(frozen=True)
class Candidate:
    """A task, a raw row (Dt,), and the logarithm of its worth."""

    task: int
    row: np.ndarray
    value: float


def suggest(
    part: Part, goal: Goal, n: int, seed: int, pending: Sequence[tuple[str, Mapping[str, Any]]] = ()
) -> list[Suggestion]:
    """Return the next n evaluations; each after the first is found as if those before had come out as expected."""
    if (n > 1 or pending) and not isinstance(part.model, Ensemble):
        raise SettingError(
            "a batch, or evaluations that are pending, need the mixture of exact GPs behind calibration='auto'; this "
            "is another model. Pass n=1 and no pending evaluations, or fit with calibration='auto'."
        )
    for name, inputs in pending:
        task = find_task(name, part.frame.names)
        if task not in goal.spaces:
            raise SettingError(f"pending: task {name!r} has no cost, so it is not among those that are evaluated.")
        part = _expected(part, goal, task, goal.spaces[task].rows([inputs]))
    result = []
    for number in range(n):
        found = _Search(part, goal, seed + number).best()
        result.append(_suggestion(part, goal, found))
        if number + 1 < n:
            part = _expected(part, goal, found.task, found.row[None])
    return result


def _suggestion(part: Part, goal: Goal, found: Candidate) -> Suggestion:
    mean, variance = moments(part, found.task, found.row[None])
    scaler, (point,) = part.frame.outputs[found.task], goal.spaces[found.task].points(found.row[None])
    spread = scaler.inverse_variance(variance[:, None])
    centre, deviation = float(scaler.inverse(mean[:, None])[0, 0]), float(np.sqrt(spread[0, 0]))
    name, cost = part.frame.names[found.task], goal.costs[found.task]
    return Suggestion(name, point, cost, found.value, centre, deviation)


def _expected(part: Part, goal: Goal, task: int, X: np.ndarray) -> Part:
    """Return the part after an evaluation that came out as expected; with the target go its constraints."""
    for at in (task, *(limit.task for limit in goal.limits if task == goal.target)):
        part = believed(part, at, X)
    return part


class _Search:
    """One search for the next evaluation."""

    def __init__(self, part: Part, goal: Goal, seed: int):
        self.part, self.goal, self.seed = part, goal, seed
        self.space = goal.spaces[goal.target]
        self.surface = make_surface(part, goal.target)
        self.limits = [(make_surface(part, limit.task), limit) for limit in goal.limits]
        self.evaluated = goal.rows_of(part)
        self.kind, self.best_mean, self.maxima = goal.acquisition, 0.0, np.zeros(_MAXIMA)
        if goal.objective != "learn":
            self._look()

    def _look(self) -> None:
        """Find the best that is known of the target, and where its maximum may be."""
        mean, _ = self.surface.moments(self.evaluated)
        feasible = self._log_feasible(self.evaluated) >= np.log(0.5)
        if not feasible.any():
            self.kind = "feasible"
            return
        self.best_mean = float(np.max(self.goal.sign * mean[feasible]))
        if self.kind == "mes":
            mean, variance = self.surface.moments(self.space.sample(512, self.seed))
            self.maxima = acquisition.sampled_maxima(self.goal.sign * mean, variance, _MAXIMA, self.seed)
            self.maxima = np.maximum(self.maxima, self.best_mean + 1e-6)

    def best(self) -> Candidate:
        """Return the evaluation that is worth most for its cost."""
        rows, values = self._of_target()
        candidates = [self._candidate(self.goal.target, rows, values)]
        if self.kind != "ucb":
            responding = self._responding(rows)
            for task in self.goal.spaces:
                if task != self.goal.target:
                    candidates.append(self._candidate(task, *self._of_source(task, responding)))
        return max(candidates, key=lambda candidate: candidate.value)

    def _candidate(self, task: int, rows: np.ndarray, values: np.ndarray) -> Candidate:
        """Return the best of local maxima that is not a repetition; where all are, the least known of many rows."""
        cost = 0.0 if self.kind == "ucb" else float(np.log(self.goal.costs[task]))
        new = np.flatnonzero(self._new(task, rows))
        if not new.size:
            more = self.goal.spaces[task].sample(256, self.seed + 2)
            more = more[self._new(task, more)]
            if not len(more):
                return Candidate(task, rows[0], -np.inf)
            _, variance = moments(self.part, task, more)
            return Candidate(task, more[int(np.argmax(variance))], float(np.min(values)) - cost)
        return Candidate(task, rows[new[0]], float(values[new[0]]) - cost)

    def _new(self, task: int, rows: np.ndarray) -> np.ndarray:
        """Tell which rows (n,) would not repeat an evaluation without noise, of which nothing can be learnt."""
        if not isinstance(self.part.model, Ensemble) or self.part.noise(task) > _NOISY:
            return np.ones(len(rows), bool)
        scaler = self.part.frame.inputs[task]
        known = self.part.model.targets[task].own
        distance = np.abs(scaler.transform(rows)[:, None] - known).max(axis=2)
        return distance.min(axis=1) > _SAME

    # ---- the target -----------------------------------------------------------------------------------------------

    def _of_target(self) -> tuple[np.ndarray, np.ndarray]:
        """Return local maxima (k, Dt) of what an evaluation of the target is worth, and the values (k,)."""
        if self.goal.objective == "learn":
            return self._learned()
        mean, _ = self.surface.moments(self.evaluated)
        ordered = self.evaluated[np.argsort(-self.goal.sign * mean)]
        near = self.space.around(self.space.nearest(ordered[:4]), _NEAR, self.seed)
        return maximise(self.space, self._value, self._slopes, self.seed, near)

    def _value(self, X: np.ndarray) -> np.ndarray:
        mean, variance = self.surface.moments(X)
        return np.asarray(self._worth(mean, variance)[0]) + self._log_feasible(X)

    def _worth(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, ...]:
        given = self.surface.noise, self.best_mean, self.maxima, self.goal.beta
        found = acquisition.of_target(self.kind, self.goal.sign * mean, variance, *given)
        return tuple(map(np.asarray, found))

    def _slopes(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, variance, by_mean, by_variance = self.surface.slopes(X)
        values, over_mean, over_variance = self._worth(mean, variance)
        slopes = self.goal.sign * over_mean[:, None] * by_mean + over_variance[:, None] * by_variance
        for surface, limit in self.limits:
            mean, variance, by_mean, by_variance = surface.slopes(X)
            more, over_mean, over_variance = map(
                np.asarray, acquisition.of_constraint(mean, variance, limit.low, limit.high)
            )
            values = values + more
            slopes = slopes + over_mean[:, None] * by_mean + over_variance[:, None] * by_variance
        return values, slopes

    def _log_feasible(self, X: np.ndarray) -> np.ndarray:
        total = np.zeros(len(X))
        for surface, limit in self.limits:
            total += np.asarray(acquisition.of_constraint(*surface.moments(X), limit.low, limit.high)[0])
        return total

    # ---- other tasks ----------------------------------------------------------------------------------------------

    def _responding(self, rows: np.ndarray) -> np.ndarray:
        """Return target rows (R, Dt) at which it matters what an evaluation elsewhere changes."""
        if self.goal.objective == "learn":
            return self.space.sample(_AVERAGED, self.seed)
        mean, _ = self.surface.moments(self.evaluated)
        incumbent = self.evaluated[[int(np.argmax(self.goal.sign * mean))]]
        more = self.space.sample(4 * _RESPONDING, self.seed + 1)
        order = np.argsort(-self._value(more))
        return np.concatenate([rows, incumbent, more[order]])[:_RESPONDING]

    def _of_source(self, task: int, responding: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return local maxima (k, Ds) of what an evaluation of a source is worth, and the values (k,)."""
        space = self.goal.spaces[task]
        response = make_response(self.part, self.goal.target, task, responding)
        mean, variance = self.surface.moments(responding)
        kind = "learn" if self.goal.objective == "learn" else self.kind
        given = self.goal.sign * mean, variance, self._log_feasible(responding), self.maxima
        value = Partial(_SOURCE_VALUES[kind], *map(jnp.asarray, given))
        extra = None
        if self.part.frame.priors[task].kind == "identity" and self.part.frame.priors[self.goal.target].kind not in (
            "tabulated",
        ):
            name = self.part.frame.names[self.goal.target]
            extra = space.nearest(self.part.frame.priors[self.goal.target].nominal(responding, name))
        return maximise(
            space,
            lambda X: np.asarray(value(jnp.asarray(response.change(X)))),
            lambda X: response.slopes(X, value),
            self.seed,
            extra,
        )

    # ---- learning -------------------------------------------------------------------------------------------------

    def _learned(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows whose evaluation takes most off the target's average variance, and its logarithm."""
        over, noise = self.space.sample(_AVERAGED, self.seed), self.surface.noise

        def gains(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            _, covariance = self.surface.joint(np.concatenate([over, X])[None])
            cross = covariance[0, :_AVERAGED, _AVERAGED:]
            return np.mean(cross**2, axis=0), np.diagonal(covariance[0])[_AVERAGED:] + noise, cross

        def value(X: np.ndarray) -> np.ndarray:
            parts = [gains(rows)[:2] for rows in np.array_split(X, -(-len(X) // STARTS))]
            shared, variance = (np.concatenate(column) for column in zip(*parts, strict=True))
            return np.log(np.maximum(shared, 1e-300)) - np.log(variance)

        def slopes(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            shared, variance, cross = gains(X)
            shared = np.maximum(shared, 1e-300)
            size, number = _AVERAGED + len(X), len(X)
            by_covariance = np.zeros((1, size, size))
            by_covariance[0, :_AVERAGED, _AVERAGED:] = 2.0 * cross / (_AVERAGED * shared)
            own = np.arange(_AVERAGED, size)
            by_covariance[0, own, own] = -1.0 / variance
            both = np.concatenate([over, X])[None]
            by_rows = self.surface.pulled(both, np.zeros((1, size)), by_covariance)[0, _AVERAGED:]
            return np.log(shared) - np.log(variance), by_rows.reshape(number, -1)

        return maximise(self.space, value, slopes, self.seed)


def _source_value(kind: str):
    """Return the worth of changes (n, R) of an acquisition: a function of its own for each, which compiles once."""

    def value(mean: Any, variance: Any, weight: Any, maxima: Any, change: Any) -> Any:
        return acquisition.of_source(kind, mean, variance, weight, maxima, change)

    return value


_SOURCE_VALUES = {kind: _source_value(kind) for kind in ("logei", "mes", "learn", "feasible")}
