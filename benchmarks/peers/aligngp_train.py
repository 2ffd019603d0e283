"""Trainings by this package, run as the peers' are: `python -m benchmarks.peers.aligngp_train`.

One JSON command a line, one JSON answer a line (serving.py):

    {"case": "n106", "seed": 0, "model": "g0", "method": "collapsed"}

`model` is g0 or hsvlmc; `method` collapsed (L-BFGS on the collapsed bound), svi (a collapsed fit to a subset, then
natural gradients on minibatches, then the best q(u): what `inference="svi"` does) or adam (the paper's training). All
start from the values of problems.py. The objective is the bound on all rows, in closed form for hsvlmc as well.
"""

from benchmarks.peers.serving import Clock, cold_and_warm, limit_threads, serve

limit_threads()

from dataclasses import replace  # noqa: E402
from importlib.metadata import version  # noqa: E402
from typing import Any  # noqa: E402

import jax  # noqa: E402
import numpy as np  # noqa: E402

import aligngp as agp  # noqa: E402
from aligngp.fit import adam, pipeline  # noqa: E402
from aligngp.fit.collapse import Objective, train_collapsed, train_deterministic, with_best_posterior  # noqa: E402
from aligngp.fit.lbfgs import LbfgsSettings  # noqa: E402
from aligngp.fit.natural import NaturalSettings, train_natural  # noqa: E402
from aligngp.model import Model  # noqa: E402
from benchmarks.peers.problems import problem  # noqa: E402
from benchmarks.step_time import our_model  # noqa: E402

DEFAULTS = {
    "seed": 0,
    "model": "g0",
    "iterations": None,
    "learning_rate": 5e-3,
    "num_samples": 10,
    "seconds": 1e9,
    "parameters": None,
}
FIRST_LOOK = 50  # svi: the bound on all rows after so many steps, after twice as many, and so on


class Training:
    """A model at the initial values of its problem, and its data."""

    def __init__(self, settings: dict[str, Any]):
        self.settings = settings
        data = problem(settings["case"], settings["seed"])
        self.model, self.batches = our_model(data, settings["model"])
        self.data = adam.TrainingData(self.batches, (None, data["batch"]), ("fine", "coarse"))
        self.key = jax.random.key(settings["seed"])
        self.runs = 0

    def objective(self, model: Model) -> float:
        """The bound on all rows."""
        how = adam.AdamSettings(1, expectation="analytic")
        return float(adam.bound(model, self.batches, self.key, how).total)

    def train(self, clock: Clock) -> int:
        """One training by the method that is asked for."""
        self.runs += 1
        model, iterations = METHODS[self.settings["method"]](self, clock)
        jax.block_until_ready(jax.tree.leaves(model))
        clock.look(lambda: self.objective(model), always=True)
        return iterations


def by_collapsed_bound(training: Training, clock: Clock) -> tuple[Model, int]:
    """L-BFGS on the collapsed bound; a value of the history is the bound at the best q(u)."""
    begun = clock.seconds
    settings = LbfgsSettings(training.settings["iterations"] or LbfgsSettings().iterations)
    model, history = train_collapsed(training.model, training.batches, settings)
    clock.trace += zip((begun + history.seconds).tolist(), history.objective.tolist(), strict=True)
    return model, history.objective.size


def by_natural_gradients(training: Training, clock: Clock) -> tuple[Model, int]:
    """What `inference="svi"` does; looks at the way come from repeated trainings, when the clock has been read."""
    begun, batches, seed = clock.seconds, training.batches, training.settings["seed"]
    subset = tuple(
        replace(part, scale=full.y.shape[0] / part.y.shape[0])
        for part, full in zip(pipeline._subset(batches, seed), batches, strict=True)
    )
    start, _, _ = train_deterministic([training.model], subset, Objective("collapsed"), LbfgsSettings(100, 1e-6))
    jax.block_until_ready(jax.tree.leaves(start))
    warmed = clock.seconds - begun

    def natural(iterations: int) -> tuple[Model, Any]:
        settings = NaturalSettings(iterations=iterations)
        model, history, _ = train_natural(start, training.data, training.key, seed, settings)
        return model, history

    model, history = natural(training.settings["iterations"] or NaturalSettings().iterations)
    trained = clock.seconds
    model = with_best_posterior(model, batches)
    jax.block_until_ready(jax.tree.leaves(model))
    ending = clock.seconds - trained

    if training.runs > 1:
        with clock.stopped():
            clock.trace.append((begun + warmed + ending, training.objective(with_best_posterior(start, batches))))
            steps = FIRST_LOOK
            while steps < history.objective.size:
                seconds = begun + warmed + float(history.seconds[steps - 1]) + ending
                clock.trace.append((seconds, training.objective(with_best_posterior(natural(steps)[0], batches))))
                steps *= 2
    return model, history.objective.size


def by_adam(training: Training, clock: Clock) -> tuple[Model, int]:
    """The paper's Adam; for hsvlmc its draws of the aligned inputs."""
    settings = adam.AdamSettings(
        training.settings["iterations"] or 5000, training.settings["learning_rate"], training.settings["num_samples"]
    )
    model, history = adam.train(training.model, training.data, training.key, training.settings["seed"], settings)
    return model, history.objective.size


METHODS = {"collapsed": by_collapsed_bound, "svi": by_natural_gradients, "adam": by_adam}


def bound_at(settings: dict[str, Any], values: dict[str, Any]) -> float:
    """The bound on all rows at given values, by the names of problems.py: to check what another library reports.

    Its jitter stayed where it was while the kernels' variances moved, ours is relative to them.
    """
    start = problem(settings["case"], settings["seed"])
    data = {**start, **{name: np.asarray(value) for name, value in values.items()}}
    data["relative_jitter"] = start["relative_jitter"] * start["variance"] / data["variance"]
    model, batches = our_model(data, "g0")
    return float(adam.bound(model, batches, jax.random.key(0), adam.AdamSettings(1, expectation="analytic")).total)


def answer(command: dict[str, Any]) -> dict[str, Any]:
    """Obey one command; with `parameters` it is only to tell the bound there."""
    settings = {**DEFAULTS, **command}
    unknown = sorted(set(settings) - set(DEFAULTS) - {"case", "method"})
    if unknown or settings.get("method") not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, and there is no setting {unknown}.")
    with agp.computing():
        if settings["parameters"] is not None:
            return {"objective": bound_at(settings, settings["parameters"])}
        found = cold_and_warm(lambda: Training(settings), Training.train, settings["seconds"])
        fresh = Training(settings)
        return {**found, "objective_at_start": fresh.objective(fresh.model)}


if __name__ == "__main__":
    serve(answer, {name: version(name) for name in ("aligngp", "jax", "jaxlib", "numpy")})
