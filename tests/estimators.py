"""Small estimators for many tests: one pair of tasks, fitted once a session, most of them without training."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

import equinox as eqx
import jax
import jaxtyping
import numpy as np

import aligngp as agp
from aligngp.fit.adam import History
from aligngp.parameters import join, resolve, split

COMMON = {
    **{"common": "coarse", "inference": "adam", "residual": False, "num_latents": 1, "num_inducing": 5},
    **{"max_iterations": 30, "seed": 3, "progress": False},
}
CALIBRATIONS = ("none", "bayes", "embedded", "free", "linear")
FINE_X, COARSE_X = np.random.default_rng(0).uniform(size=(8, 2)), np.random.default_rng(1).uniform(size=(12, 1))
FINE_Y = 5.0 + 10.0 * (np.sin(3.0 * FINE_X[:, 1]) + 0.1 * FINE_X[:, 0])
COARSE_Y = np.sin(3.0 * COARSE_X[:, 0])
NEW = np.random.default_rng(2).uniform(size=(4, 2))


def tasks() -> dict[str, Any]:
    """Two tasks: 'fine' has inputs x1, x2, of which the second is the input of 'coarse'."""
    return {"fine": (FINE_X, FINE_Y), "coarse": (COARSE_X, COARSE_Y)}


@contextmanager
def untrained() -> Iterator[None]:
    """Leave training out of fits: the model is its start, moved at random, which compiles nothing."""

    def moved(model, data, key, seed, settings, *arguments, **keywords):
        trainable, rest = split(model)
        rng = np.random.default_rng(seed)

        def move(leaf):
            return leaf + 0.2 * rng.standard_normal(leaf.shape).astype(leaf.dtype) if eqx.is_array(leaf) else leaf

        steps = np.arange(1, settings.iterations + 1)
        history = History(steps, -1.0 / steps, 0.1 * steps)
        return join(jax.tree.map(move, trainable), rest), history

    with mock.patch("aligngp.fit.pipeline.train", moved):
        yield


@contextmanager
def unchecked() -> Iterator[None]:
    """The package as users run it, without the tests' own checks of types: what comes of values of a wrong type."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def make(**settings: Any) -> agp.AlignedGP:
    """An estimator for :func:`tasks` that is not fitted."""
    return agp.AlignedGP(**{"mappings": {"fine": ["x2"]}, **COMMON, **settings})


@cache
def moved(calibration: str = "none", **settings: Any) -> agp.AlignedGP:
    """An estimator with a fit that is no training; one for each set of keywords, so nobody may fit it again."""
    with untrained():
        return make(calibration=calibration, **settings).fit(tasks())


@cache
def trained(calibration: str = "none", **settings: Any) -> agp.AlignedGP:
    """An estimator that was really fitted; one for each set of keywords, so nobody may fit it again."""
    return make(calibration=calibration, **settings).fit(tasks())


def by_hand(
    gp: agp.AlignedGP, data: dict[str, tuple[np.ndarray, np.ndarray]], task: str, g0_X: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Predictive mean and variance, noise included, at rows whose aligned inputs are known, in plain NumPy."""
    model, at = resolve(gp.model), list(data).index(task)
    common, y = data[gp.settings.common or task][0], data[task][1]
    X = (g0_X - common.mean(axis=0)) / common.std(axis=0)
    mean, variance = np.zeros(len(X)), np.full(len(X), float(model.likelihoods[at].variance))
    for q, latent in enumerate(model.latents):
        lengthscale, height = np.asarray(latent.kernel.lengthscale), float(latent.kernel.variance)
        Z, m, C, a = (np.asarray(part) for part in (latent.inducing, latent.mean[:, 0], latent.scale[0], model.mixing))

        def k(x, z, lengthscale=lengthscale, height=height):
            return height * np.exp(-0.5 * np.sum(((x[:, None] - z[None]) / lengthscale) ** 2, axis=2))

        L = np.linalg.cholesky(k(Z, Z) + 1e-6 * height * np.eye(len(Z)))
        A = np.linalg.solve(L, k(Z, X))
        mean += a[at, q] * (A.T @ m)
        variance += a[at, q] ** 2 * (height - np.sum(A * ((np.eye(len(Z)) - C @ C.T) @ A), axis=0))
    return y.mean() + y.std() * mean, y.var() * variance
