"""Small problems to train on: raw tables read, framed and started as the estimator does it."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

import aligngp as agp
from aligngp.data.tasks import TaskData, read_tasks
from aligngp.fit import pipeline
from aligngp.fit.adam import AdamSettings, TrainingData
from aligngp.fit.initialise import initial_model
from aligngp.frame import Frame, build_frame
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch
from aligngp.parameters import split
from aligngp.settings import Settings

KINDS = ("none", "bayes", "embedded", "free", "linear")
QUICK = AdamSettings(iterations=20, learning_rate=1e-2, num_samples=2)
KEY = jax.random.key(3)


@dataclass(frozen=True)
class Case:
    """Tables, their frame, their rows and the settings they are fitted with."""

    tasks: tuple[TaskData, ...]
    frame: Frame
    batches: tuple[TaskBatch, ...]
    settings: Settings

    def start(self, kind: str | None = None, bases: Any = None, **keywords: Any) -> Model:
        """The model at its initial values; IMC without a calibrated map is the prior mapping."""
        settings = replace(self.settings, **keywords, **({} if kind is None else {"calibration": kind}))
        kinds = pipeline.calibrations(self.frame, settings)
        starts = [pipeline._start(settings, name) for name in self.frame.names]
        noises = [task.noise for task in self.tasks]
        return initial_model(self.frame, self.batches, kinds, noises, starts, settings.seed, bases or {})

    def data(self, *sizes: int | None) -> TrainingData:
        """The rows for training; no sizes: all rows in every step."""
        return TrainingData(self.batches, sizes or (None,) * len(self.batches), self.frame.names)


def tables(number: int = 2, seed: int = 0) -> dict[str, Any]:
    """Up to three tasks: 'fine' (3 inputs, 6 rows), 'coarse' (2 inputs, 9 rows), 'third' (4 inputs, 5 rows)."""
    rng = np.random.default_rng(seed)
    sizes = {"fine": (6, 3), "coarse": (9, 2), "third": (5, 4)}
    names = ["coarse"] if number == 1 else list(sizes)[:number]
    result = {}
    for name in names:
        X = rng.uniform(size=sizes[name])
        columns = [f"x{d + 1}" for d in range(X.shape[1])]
        result[name] = agp.Task(X, np.sin(4.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * X.sum(axis=1), names=columns)
    return result


def case(number: int = 2, tasks: dict[str, Any] | None = None, **keywords: Any) -> Case:
    """The tables as the estimator sees them, with the common task 'coarse' and few inducing inputs."""
    defaults = {
        "common": "coarse",
        "inference": "adam",
        "residual": False,
        "num_inducing": 4,
        "max_iterations": 20,
        "num_samples": 2,
    }
    settings = Settings(**{**defaults, **keywords})
    read = read_tasks(tables(number) if tasks is None else tasks)
    frame = build_frame(read, settings.common, settings.mappings, settings.standardize)
    batches = tuple(frame.batch(at, task.X, task.y) for at, task in enumerate(read))
    return Case(read, frame, batches, settings)


def numbers(tree: Any) -> dict[str, np.ndarray]:
    """The trainable arrays of a model by their paths."""
    leaves = jax.tree_util.tree_leaves_with_path(split(tree)[0])
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def assert_same(one: Any, other: Any, atol: float | None = None) -> None:
    """The trainable arrays of two models agree, bit for bit where no tolerance is given."""
    one, other = numbers(one), numbers(other)
    assert one.keys() == other.keys()
    for path, value in one.items():
        if atol is None:
            np.testing.assert_array_equal(value, other[path], err_msg=path)
        else:
            np.testing.assert_allclose(value, other[path], rtol=0.0, atol=atol, err_msg=path)
