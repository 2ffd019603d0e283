"""Rows twice, lengthscales of a thousand, inducing inputs on top of each other: each objective keeps its value."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from aligngp.fit.adam import TrainingData
from aligngp.fit.natural import NaturalSettings, train_natural
from aligngp.gp.sparse import SparseGP
from aligngp.kernels import SquaredExponential
from aligngp.likelihoods import Gaussian
from aligngp.linalg import DEFAULT_JITTER
from aligngp.mappings.contract import Rows
from aligngp.mappings.fixed import Nominal
from aligngp.model import Model
from aligngp.objective import exact
from aligngp.objective.elbo import TaskBatch
from aligngp.objective.evidence import best_posterior, collapsed_bound
from aligngp.parameters import Triangular
from problems import KEY, quick

MIXING, NOISE, VARIANCE = np.array([[0.9], [-0.6]]), np.array([0.05, 0.2]), 1.7
rng = np.random.default_rng(0)
ROWS, Z = [rng.normal(size=(4, 2)), rng.normal(size=(6, 2))], rng.normal(size=(5, 2))
OUTPUTS = [rng.normal(size=8), rng.normal(size=12)]
CASES = ("rows twice", "lengthscale 1e3", "inducing inputs on top of each other")


def arranged(case: str) -> tuple[list[np.ndarray], np.ndarray, float]:
    """Rows of both tasks, inducing inputs and lengthscale."""
    x = [np.concatenate([one, one]) for one in ROWS]  # the outputs of the copies are others
    if case == "rows twice":
        return x, Z, 1.3
    apart = [one + np.linspace(0.0, 0.5, len(one))[:, None] for one in x]
    if case == "lengthscale 1e3":
        return apart, Z, 1e3
    return apart, np.repeat(Z, 3, axis=0), 1.3


def built(case: str) -> tuple[Model, tuple[TaskBatch, ...]]:
    x, inducing, lengthscale = arranged(case)
    kernel = SquaredExponential(jnp.full(2, lengthscale), jnp.asarray(VARIANCE))
    identity = Triangular(jnp.eye(len(inducing))[None])
    latent = SparseGP(kernel, jnp.asarray(inducing), jnp.zeros((len(inducing), 1)), identity.unwrap())
    model = Model((Nominal(),) * 2, (latent,), jnp.asarray(MIXING), tuple(Gaussian(jnp.asarray(v)) for v in NOISE))
    rows = [Rows(jnp.asarray(one), jnp.asarray(one), jnp.arange(len(one))) for one in x]
    return model, tuple(TaskBatch(one, jnp.asarray(y)) for one, y in zip(rows, OUTPUTS, strict=True))


def k(x: np.ndarray, z: np.ndarray, lengthscale: float) -> np.ndarray:
    return VARIANCE * np.exp(-0.5 * np.sum((x[:, None] - z[None]) ** 2, axis=2) / lengthscale**2)


def expected(case: str, kind: str) -> float:
    """The evidence, or the bound with inducing inputs each counted once, in plain NumPy."""
    x, inducing, lengthscale = arranged(case)
    a = np.concatenate([np.full(len(one), MIXING[t, 0]) for t, one in enumerate(x)])
    noise = np.concatenate([np.full(len(one), NOISE[t]) for t, one in enumerate(x)])
    x, y = np.concatenate(x), np.concatenate(OUTPUTS)
    prior = a[:, None] * a * k(x, x, lengthscale)
    if kind == "exact":
        return multivariate_normal.logpdf(y, cov=prior + np.diag(noise))
    if case == "lengthscale 1e3":  # a constant function: one inducing input says it all
        explained = a[:, None] * a * VARIANCE
    else:
        distinct = np.unique(inducing, axis=0)
        jitter = DEFAULT_JITTER * VARIANCE * len(distinct) / len(inducing)  # three of a kind share it
        cross = a[:, None] * k(x, distinct, lengthscale)
        inner = k(distinct, distinct, lengthscale) + jitter * np.eye(len(distinct))
        explained = cross @ np.linalg.solve(inner, cross.T)
    bound = multivariate_normal.logpdf(y, cov=explained + np.diag(noise))
    return bound - 0.5 * np.sum(np.diag(prior - explained) / noise)


OBJECTIVES = {"exact": exact.log_evidence, "collapsed": lambda model, batches: collapsed_bound(model, batches).total}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", OBJECTIVES)
def test_value_and_gradient(kind, case):
    model, batches = built(case)
    value, gradient = quick(jax.value_and_grad(OBJECTIVES[kind], allow_int=True))(model, batches)
    np.testing.assert_allclose(value, expected(case, kind), rtol=0, atol=2e-3 if case == "lengthscale 1e3" else 1e-6)
    for leaf in jax.tree.leaves(eqx.filter(gradient, eqx.is_inexact_array)):
        assert np.all(np.isfinite(leaf))


@pytest.mark.parametrize("case", CASES)
def test_natural_gradients_reach_the_collapsed_value_and_their_posterior_is_the_best(case):
    model, batches = built(case)
    wrapped = replace(model, latents=(replace(model.latents[0], scale=Triangular(model.latents[0].scale)),))
    data = TrainingData(batches, (None, None), ("a", "b"))
    found, history, _ = train_natural(wrapped, data, KEY, 0, NaturalSettings(iterations=2, learning_rate=1e-12))
    atol = 2e-3 if case == "lengthscale 1e3" else 1e-6
    np.testing.assert_allclose(history.objective, expected(case, "collapsed"), rtol=0, atol=atol)
    (mean,), (scale,) = quick(best_posterior)(model, batches)
    np.testing.assert_allclose(found.latents[0].mean, mean, atol=1e-6)
    np.testing.assert_allclose(found.latents[0].scale.unwrap(), scale, atol=1e-6)
