"""The loop: evaluate what is asked for, several at once where there are workers, until the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from aligngp.data.tables import listed
from aligngp.errors import SettingError
from aligngp.estimator import AlignedGP
from aligngp.optimization.optimizer import Optimizer
from aligngp.optimization.trials import DONE, Trial
from aligngp.plots.canvas import BLUE, axes
from aligngp.progress import watched
from aligngp.settings import whole

Outcome = tuple[float | None, dict[str, float], float, str | None]
"""Value, constraints' values, seconds, error."""


@dataclass(frozen=True, eq=False)
class Result:
    """What a search has found."""

    optimizer: Optimizer

    @property
    def best(self) -> Trial | None:
        """The best evaluation of the target that meets the constraints."""
        return self.optimizer.best

    @property
    def inputs(self) -> dict[str, Any] | None:
        """The inputs of the best evaluation."""
        return None if self.best is None else self.best.inputs

    @property
    def value(self) -> float | None:
        """The target's output there."""
        return None if self.best is None else self.best.value

    @property
    def history(self) -> pa.Table:
        """All evaluations as a table."""
        return self.optimizer.history

    @property
    def model(self) -> AlignedGP:
        """The model of all evaluations."""
        return self.optimizer.model

    def best_so_far(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the cost spent (n,) and the best output of the target by then (n,), a row each evaluation.

        Before the first that counts the output is NaN.
        """
        sign = 1.0 if self.optimizer.objective == "minimize" else -1.0
        spent, best, costs, values = 0.0, np.nan, [], []
        for trial in self.optimizer.trials:
            spent += trial.cost
            counts = trial.task == self.optimizer.target and trial.status == DONE and self.optimizer._meets(trial)
            if counts and not sign * (trial.value or 0.0) >= sign * best:
                best = trial.value or 0.0
            costs.append(spent)
            values.append(best)
        return np.array(costs), np.array(values)

    def plot(self, optimum: float | None = None, *, ax: Any = None) -> Any:
        """Draw the best output so far against the cost spent; where the optimum is known, the regret."""
        ax = axes(ax)
        cost, value = self.best_so_far()
        if optimum is not None:
            value = np.abs(value - optimum)
            if np.any(value[np.isfinite(value)] > 0):
                ax.set_yscale("log")
        ax.step(cost, value, where="post", color=BLUE)
        targets = [trial.task == self.optimizer.target for trial in self.optimizer.trials]
        ax.plot(cost[targets], value[targets], "o", ms=4, color=BLUE, label=f"{self.optimizer.target} evaluated")
        ax.set_xlabel("cost spent")
        ax.set_ylabel(f"best {self.optimizer.target} so far" if optimum is None else "simple regret")
        ax.legend(frameon=False, fontsize=8.5)
        return ax

    def __repr__(self) -> str:
        done = len(self.optimizer.trials)
        return f"Result(best={self.value}, inputs={self.inputs}, evaluations={done}, spent={self.optimizer.spent:g})"


def optimize(
    functions: Mapping[str, Callable[..., float]],
    spaces: Mapping[str, Mapping[str, Any]],
    mappings: Mapping[str, Any] | None = None,
    costs: Mapping[str, Any] | None = None,
    budget: Any = 0.0,
    *,
    workers: int = 1,
    executor: Executor | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> Result:
    """Search for the best inputs of the target until the budget is spent, and return what was found.

    Parameters
    ----------
    functions: task name to a function of that task's inputs as keywords, which returns a number; those of the
        constraints' tasks too. One that raises, or returns NaN, has failed there: the search goes on elsewhere.
    spaces, mappings, costs: see :class:`Optimizer`.
    budget: the total cost of all evaluations.
    workers: evaluations at once, in processes (joblib's); the next is asked for while others run.
    executor: any :class:`concurrent.futures.Executor` instead, such as a Dask client's, with ``workers`` at once.
    progress: a progress bar; default on a terminal.
    settings: further keywords of :class:`Optimizer`; with ``history="search.parquet"`` a search that was stopped goes
        on where it was.

    Examples
    --------
    >>> import aligngp as agp
    >>> found = agp.optimize(
    ...     {"fine": lambda x: (x - 0.4) ** 2},
    ...     {"fine": {"x": (0, 1)}},
    ...     budget=8,
    ... )
    >>> abs(found.inputs["x"] - 0.4) < 0.05
    True
    """
    search = Optimizer(spaces, costs, mappings=mappings, **settings)
    for name in (*search.spaces, *search.constraints):
        if not callable(functions.get(name)):
            raise SettingError(
                f"functions: expected a function for every task and constraint, {listed(functions)} lack {name!r}."
            )
    if isinstance(budget, bool) or not budget >= search.costs[search.target]:
        raise SettingError(
            f"budget: expected at least the cost of one evaluation of {search.target!r} "
            f"({search.costs[search.target]:g}), got {budget!r}."
        )
    at_once = whole("workers", workers)
    context: Any = nullcontext(executor)
    if executor is None and at_once > 1:
        from joblib.externals.loky import ProcessPoolExecutor

        context = ProcessPoolExecutor(at_once)
    with watched(progress) as opened, context as pool:
        _run(search, functions, float(budget), at_once, pool, opened(f"optimizing {search.target!r}"))
    return Result(search)


def _run(search: Optimizer, functions, budget: float, at_once: int, pool: Executor | None, report) -> None:
    running: dict[Future[Outcome], Trial] = {}

    def told(trial: Trial, outcome: Outcome) -> None:
        value, constraints, seconds, error = outcome
        search.tell(trial, value, constraints, seconds=seconds, error=error)
        if report is not None:
            best = search.best
            report(min(int(search.spent), int(budget)), int(budget), np.nan if best is None else best.value)

    while True:
        while len(running) < at_once:
            trial = search.ask_within(budget - search.spent + 1e-9)
            if trial is None:
                break
            chosen = {trial.task: functions[trial.task]}
            if trial.task == search.target:
                chosen |= {name: functions[name] for name in search.constraints}
            if pool is None:
                told(trial, evaluate(chosen, trial.task, trial.inputs))
            else:
                running[pool.submit(evaluate, chosen, trial.task, trial.inputs)] = trial
        if not running:
            return
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            error = future.exception()
            failed: Outcome = (None, {}, 0.0, f"{type(error).__name__}: {error}")
            told(running.pop(future), failed if error is not None else future.result())


def evaluate(functions: Mapping[str, Callable[..., float]], task: str, inputs: Mapping[str, Any]) -> Outcome:
    """Call a task's function, and the constraints', at inputs; an exception is an outcome too."""
    start = time.perf_counter()
    try:
        values = {name: float(function(**inputs)) for name, function in functions.items()}
    except Exception as error:
        return None, {}, time.perf_counter() - start, f"{type(error).__name__}: {error}"
    return values.pop(task), values, time.perf_counter() - start, None
