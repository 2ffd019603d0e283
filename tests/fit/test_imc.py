"""IMC: the calibrated map is the minimum of the paper's objective, and stays where it was put."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from aligngp.fit.adam import train
from aligngp.fit.imc import calibrate, discrepancy
from aligngp.fit.initialise import sparse_gp
from aligngp.kernels import SquaredExponential
from aligngp.likelihoods import Gaussian
from aligngp.mappings.contract import Rows
from aligngp.mappings.fixed import AffineMap, Nominal
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch
from aligngp.parameters import frozen, positive, resolve, split
from oracles import imc_objective
from training import KEY, QUICK, case

GRID = np.stack(np.meshgrid(np.linspace(-2.5, 2.5, 7), np.linspace(-2.5, 2.5, 7)), axis=-1).reshape(-1, 2)
TRUTH = np.array([[0.9, 0.2, -0.1], [0.1, -0.7, 0.3]]), np.array([0.15, -0.2])
START = np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]), np.zeros(2)


def low_fidelity() -> Model:
    """A single-task GP whose posterior mean interpolates a function on a grid."""
    gp = sparse_gp(SquaredExponential(), GRID, 1, 1.3, "float64")
    values = np.sin(GRID[:, 0]) + 0.5 * GRID[:, 1] + 0.3 * GRID[:, 0] * GRID[:, 1]
    gp = eqx.tree_at(lambda g: g.mean, gp, resolve(gp).factor() @ values[:, None])
    return Model((Nominal(),), (gp,), frozen(jnp.ones((1, 1))), (Gaussian(positive(0.1)),))


LOW = low_fidelity()


def low_mean(x: np.ndarray) -> float:
    """The posterior mean at one point (2,), by NumPy alone: k(x, Z) K^-1 f(Z)."""
    gp = resolve(LOW.latents[0])

    def k(a, b):
        return np.exp(-0.5 * ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=-1) / 1.3**2)

    K = k(GRID, GRID) + 1e-6 * np.eye(len(GRID))
    u = np.linalg.cholesky(K) @ np.asarray(gp.mean)
    return float((k(x[None], GRID) @ np.linalg.solve(K, u))[0, 0])


def high_fidelity(number: int, noise: float = 0.0) -> TaskBatch:
    """Rows of a task with 3 inputs whose outputs are the low-fidelity mean at the true affine map."""
    rng = np.random.default_rng(4)
    own = rng.uniform(-1.4, 1.4, (number, 3))
    y = np.array([low_mean(x) for x in own @ TRUTH[0].T + TRUTH[1]]) + noise * rng.normal(size=number)
    return TaskBatch(Rows(own, own @ START[0].T + START[1], np.arange(number)), y)


def by_oracle(batch: TaskBatch, penalty: float):
    """The paper's objective of a flat vector (A, b)."""

    def objective(vector):
        A, b = vector[:6].reshape(2, 3), vector[6:]
        return imc_objective(np.asarray(batch.rows.own), np.asarray(batch.y), low_mean, A, b, *START, penalty)

    return objective


def flat(A, b) -> np.ndarray:
    return np.concatenate([np.ravel(A), np.ravel(b)])


@pytest.mark.parametrize("penalty", [0.0, 0.7])
def test_the_objective_is_the_papers(penalty):
    batch = high_fidelity(5, noise=0.3)
    rng = np.random.default_rng(1)
    A, b = START[0] + 0.3 * rng.normal(size=(2, 3)), START[1] + 0.3 * rng.normal(size=2)
    found = discrepancy(resolve(LOW), jnp.asarray(A), jnp.asarray(b), batch.rows, batch.y, START, penalty)
    assert float(found) == pytest.approx(by_oracle(batch, penalty)(flat(A, b)), rel=1e-9)


def test_the_map_is_a_minimum_that_no_start_nearby_beats():
    batch, penalty = high_fidelity(12, noise=0.2), 0.3
    found = resolve(calibrate(LOW, batch, START, penalty))
    objective = by_oracle(batch, penalty)
    vector = flat(found.matrix, found.offset)
    value = objective(vector)
    slope = jax.grad(lambda v: discrepancy(resolve(LOW), v[:6].reshape(2, 3), v[6:], batch.rows, batch.y, START, 0.3))
    np.testing.assert_allclose(slope(jnp.asarray(vector)), 0.0, atol=1e-5)
    for direction in np.eye(8):
        assert objective(vector + 0.01 * direction) > value < objective(vector - 0.01 * direction)
    assert value < objective(flat(*START)) - 0.1
    rng = np.random.default_rng(2)
    for _ in range(2):
        other = minimize(objective, flat(*START) + 0.2 * rng.normal(size=8), method="BFGS")
        assert other.fun > value - 1e-7
        np.testing.assert_allclose(other.x, vector, atol=1e-3)


def test_a_known_affine_truth_is_recovered():
    found = resolve(calibrate(LOW, high_fidelity(40), START, 1e-12))
    np.testing.assert_allclose(found.matrix, TRUTH[0], atol=1e-4)
    np.testing.assert_allclose(found.offset, TRUTH[1], atol=1e-4)
    assert np.max(np.abs(TRUTH[0] - START[0])) > 0.2


def test_a_large_penalty_keeps_the_prior_map():
    weak = resolve(calibrate(LOW, high_fidelity(12), START, 1e-3))
    strong = resolve(calibrate(LOW, high_fidelity(12), START, 1e9))
    assert np.max(np.abs(np.asarray(weak.matrix) - START[0])) > 0.05
    np.testing.assert_allclose(strong.matrix, START[0], atol=1e-7)
    np.testing.assert_allclose(strong.offset, START[1], atol=1e-7)
    assert strong.strength == 1e9
    np.testing.assert_array_equal(strong.start[0], START[0])
    np.testing.assert_array_equal(strong.start[1], START[1])


def test_the_map_is_not_trained_again():
    problem = case(mappings={"fine": ["x3", "x1"]})
    matrix, offset, start = jax.tree.map(jnp.asarray, (*TRUTH, START))
    found = AffineMap(frozen(matrix), frozen(offset), frozen(start), 0.5)
    assert jax.tree.leaves(split(found)[0]) == []
    model = problem.start("linear", bases={0: found})
    trained, history = train(model, problem.data(None, 4), KEY, 0, replace(QUICK, iterations=10))
    after = resolve(trained)
    np.testing.assert_array_equal(after.mappings[0].matrix, TRUTH[0])
    np.testing.assert_array_equal(after.mappings[0].offset, TRUTH[1])
    assert np.max(np.abs(after.mixing - resolve(model).mixing)) > 0.01
    assert history.objective[-3:].mean() > history.objective[:3].mean()
