"""Small problems of an ensemble, and slow oracles of what its forms say."""

import warnings

import numpy as np

from aligngp.data.tasks import Task, TaskData, read_tasks
from aligngp.ensemble.fit import fit_ensemble
from aligngp.ensemble.forms import Form
from aligngp.ensemble.given import Given, Likeness
from aligngp.ensemble.model import Ensemble
from aligngp.ensemble.prior import Prior
from aligngp.ensemble.sources import Sources, fit_sources
from aligngp.errors import AligngpWarning
from aligngp.frame import Frame, build_frame
from aligngp.objective.elbo import TaskBatch
from aligngp.runtime import computing


def stationary(kernel: str, r: float) -> float:
    """The kernel of unit variance at the scaled distance r."""
    return {
        "se": np.exp(-0.5 * r**2),
        "matern12": np.exp(-r),
        "matern32": (1.0 + np.sqrt(3.0) * r) * np.exp(-np.sqrt(3.0) * r),
        "matern52": (1.0 + np.sqrt(5.0) * r + 5.0 / 3.0 * r**2) * np.exp(-np.sqrt(5.0) * r),
    }[kernel]


def kernel_loops(kernel: str, x: np.ndarray, z: np.ndarray, lengthscale: np.ndarray) -> np.ndarray:
    """The kernel of unit variance, pair by pair."""
    return np.array([[stationary(kernel, np.linalg.norm((a - b) / lengthscale)) for b in z] for a in x])


def small_sources(tasks: int = 2, kernel: str = "se", seed: int = 0) -> Sources:
    """Sources of 2-D functions with hyperparameters that were not trained."""
    rng = np.random.default_rng(seed)
    rows, of = rng.standard_normal((12, 2)), np.arange(12) % tasks
    y = np.sin(2.0 * rows[:, 0]) + rows[:, 1] * (1.0 + of)
    lengthscale, mixing = rng.uniform(0.8, 2.0, (tasks, 2)), rng.standard_normal((tasks, tasks))
    return Sources(kernel, tuple(range(tasks)), rows, of, y, lengthscale, mixing, rng.uniform(0.01, 0.1, tasks), 0.0)


def small_target(rows: int = 5, seed: int = 1, sources: Sources | None = None):
    """A target's Given, own inputs, aligned inputs and outputs."""
    rng = np.random.default_rng(seed)
    own = rng.standard_normal((rows, 3))
    given = Given(small_sources() if sources is None else sources, 0.25, Likeness(0, 0.8, 0.3))
    return given, own, own[:, :2], np.sin(own[:, 0]) + 0.3 * own[:, 2]


def covariance_loops(prior: Prior, z: np.ndarray, sources: Sources, own: np.ndarray, nominal: np.ndarray) -> np.ndarray:
    """The covariance of observed outputs of a form, straight from its equation, entry by entry."""
    form: Form = prior.form
    values = np.exp(prior.mean + prior.spread * z)
    tau, noise, rest = values[0], 1e-6 + values[1], values[2:]
    number, shares = len(sources.noise), np.ones(len(sources.noise))
    if form.transfers and number > 1:
        shares, rest = rest[:number], rest[number:]
    mean, gradient = sources.mean(nominal)
    gradient = gradient * sources.reach
    whitened = sources.whitened(nominal)
    posterior = sources.covariance(nominal, nominal, whitened, whitened)
    bounded = own / np.sqrt(1.0 + own**2 / 9.0)
    size = len(own)
    result = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            entry = 0.25 + noise * (i == j)
            for s in range(number) if form.transfers else ():
                # a_s ~ N(0, lambda_s), of the source with the target's units a_s ~ N(1, lambda_s / 4)
                like = prior.likeness is not None and s == prior.likeness.source
                variance, square = shares[s] * (0.25 if like else 1.0), float(like)
                entry += variance * mean[i, s] * mean[j, s] + (variance + square) * posterior[s, i, j]
            at = 0
            for term in form.terms:
                x = nominal if term.aligned else own
                v, width = rest[at], rest[at + 1 : at + 1 + x.shape[1]]
                at += 1 + x.shape[1]
                if term.linear:
                    part = np.sum(width * bounded[i] * bounded[j]) / own.shape[1] + float(term.calibrates)
                else:
                    part = stationary(prior.kernel, float(np.linalg.norm((x[i] - x[j]) / width)))
                if term.calibrates:
                    part *= sum(shares[s] * np.sum(gradient[i, s] * gradient[j, s]) for s in range(number))
                entry += v * part
            result[i, j] = tau * entry
    return result


def trained_sources(x: np.ndarray, y: np.ndarray) -> Sources:
    """One source, trained."""
    return fit_sources("se", (0,), [x], [y], [None], np.random.default_rng(0))


def prepared(
    tasks: dict[str, Task], common: str, mappings=None
) -> tuple[Frame, tuple[TaskData, ...], tuple[TaskBatch, ...]]:
    """What `fit_ensemble` takes."""
    with warnings.catch_warnings():  # what is suspicious about the data is told elsewhere
        warnings.simplefilter("ignore", AligngpWarning)
        data = read_tasks(tasks)
    frame = build_frame(data, common, mappings, True)
    return frame, data, tuple(frame.batch(at, task.X, task.y) for at, task in enumerate(data))


def two_fidelities(rows: int = 6, seed: int = 0) -> dict[str, Task]:
    """A target of three inputs and a plentiful source of two of them."""
    rng = np.random.default_rng(seed)
    fine, coarse = rng.uniform(-1.0, 1.0, (rows, 3)), rng.uniform(-1.0, 1.0, (20, 2))
    return {
        "fine": Task(fine, np.sin(3.0 * fine[:, 0]) + fine[:, 1] ** 2 + 0.2 * fine[:, 2], names=["a", "b", "c"]),
        "coarse": Task(coarse, np.sin(3.0 * coarse[:, 0]) + coarse[:, 1] ** 2, names=["a", "b"]),
    }


def fitted(tasks: dict[str, Task], common: str, mappings=None, **settings) -> tuple[Ensemble, Frame]:
    """An ensemble and its frame."""
    frame, data, batches = prepared(tasks, common, mappings)
    with computing():
        return fit_ensemble(frame, data, batches, **settings), frame
