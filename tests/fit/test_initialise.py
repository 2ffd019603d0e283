"""Where training begins: inducing inputs, noise, mixing, mappings, precision."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aligngp as agp
from aligngp.fit.adam import train
from aligngp.fit.initialise import NOISE_FLOOR, default_inducing, default_lengthscale, inducing_inputs
from aligngp.frame import affine_in_frame
from aligngp.kernels import Matern32, SquaredExponential
from aligngp.mappings.fixed import AffineMap, Nominal
from aligngp.mappings.free import FreeRows
from aligngp.mappings.gaussian import EmbeddedGP, ResidualGP
from aligngp.parameters import frozen, resolve, split
from training import KEY, KINDS, QUICK, case, tables

ROWS = np.random.default_rng(5).uniform(size=(60, 2))


# Inducing inputs.


def test_few_rows_are_taken_as_they_are_and_once():
    rows = np.array([[2.0, 1.0], [0.0, 5.0], [2.0, 1.0], [0.0, 4.0], [2.0, 1.0]])
    expected = [[0.0, 4.0], [0.0, 5.0], [2.0, 1.0]]
    for number in (3, 4, 100):
        np.testing.assert_array_equal(inducing_inputs(rows, number, 0), expected)


def test_centres_are_the_means_of_their_clusters():
    centres = inducing_inputs(ROWS, 7, 3)
    nearest = np.argmin(((ROWS[:, None, :] - centres[None, :, :]) ** 2).sum(axis=-1), axis=1)
    means = [ROWS[nearest == k].mean(axis=0) for k in range(7)]
    np.testing.assert_allclose(centres, means, atol=1e-6)


def test_centres_depend_on_the_seed_and_on_nothing_else():
    first = inducing_inputs(ROWS, 7, 3)
    np.random.seed(1)  # noqa: NPY002  (the state that must not matter)
    np.testing.assert_array_equal(inducing_inputs(ROWS, 7, 3), first)
    assert not np.allclose(np.sort(inducing_inputs(ROWS, 7, 4), axis=0), np.sort(first, axis=0))


def test_of_very_many_rows_some_are_clustered(monkeypatch):
    monkeypatch.setattr("aligngp.fit.initialise._KMEANS_ROWS", 20)
    centres = inducing_inputs(ROWS, 3, 3)
    some = ROWS[np.sort(np.random.default_rng(3).choice(60, 20, replace=False))]
    np.testing.assert_array_equal(centres, inducing_inputs(some, 3, 3))
    np.testing.assert_array_equal(inducing_inputs(ROWS, 20, 3), np.unique(some, axis=0))


@pytest.mark.parametrize("rows, expected", [(5, 30), (120, 30), (200, 50), (400, 100), (10**6, 100)])
def test_the_default_number_of_inducing_inputs(rows, expected):
    assert default_inducing(rows) == expected


def test_latents_see_the_aligned_rows_of_all_tasks():
    problem = case(num_inducing=None)
    aligned = np.concatenate([batch.rows.nominal for batch in problem.batches])
    model = problem.start("bayes")
    for latent in model.latents:
        np.testing.assert_array_equal(latent.inducing, np.unique(aligned, axis=0))
    # The mapping's inducing inputs are the task's own rows, where they are few (the paper: M^1 = N^1).
    np.testing.assert_array_equal(model.mappings[0].gp.inducing, np.unique(problem.batches[0].rows.own, axis=0))
    fewer = problem.start("bayes", num_inducing=5)
    assert [latent.inducing.shape for latent in fewer.latents] == [(5, 2), (5, 2)]
    np.testing.assert_array_equal(fewer.latents[0].inducing, inducing_inputs(aligned, 5, 0))
    np.testing.assert_array_equal(fewer.mappings[0].gp.inducing, inducing_inputs(problem.batches[0].rows.own, 5, 0))


def test_a_calibrated_base_moves_the_aligned_rows():
    problem = case(num_inducing=None)
    matrix, offset = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]]), np.array([0.5, -0.5])
    parts = tuple(jnp.asarray(part) for part in (matrix, offset))
    base = AffineMap(*map(frozen, parts), frozen(parts), 1.0)
    model = problem.start("linear", bases={0: base})
    fine = problem.batches[0].rows.own @ matrix.T + offset
    expected = np.unique(np.concatenate([fine, problem.batches[1].rows.nominal]), axis=0)
    np.testing.assert_allclose(model.latents[0].inducing, expected, atol=1e-12)
    assert eqx.tree_equal(model.mappings[0], base)


# Scalars and q(u).


def test_q_of_u_starts_at_the_prior():
    model = resolve(case().start("bayes"))
    for gp in (*model.latents, model.mappings[0].gp):
        assert float(gp.kl()) == 0.0
    # The mapping starts at g0, so the model starts as its g0 sibling.
    law = model.mappings[0].predictive(case().batches[0].rows)
    np.testing.assert_allclose(law.mean, case().batches[0].rows.nominal, atol=1e-12)


@pytest.mark.parametrize("dimensions, expected", [(1, 1.0), (4, 1.0), (9, 1.5), (16, 2.0)])
def test_the_default_lengthscale(dimensions, expected):
    assert default_lengthscale(dimensions) == pytest.approx(expected)


def test_lengthscales_variances_and_noise_start_where_asked():
    problem = case(
        initial_lengthscale=0.3, initial_mapping_lengthscale=0.7, initial_mapping_variance=2.5, initial_noise=0.4
    )
    model = resolve(problem.start("bayes", kernel=Matern32()))
    assert isinstance(model.latents[0].kernel, Matern32)
    np.testing.assert_allclose(model.latents[1].kernel.lengthscale, [0.3, 0.3], rtol=1e-12)
    np.testing.assert_allclose(model.mappings[0].gp.kernel.lengthscale, [0.7, 0.7, 0.7], rtol=1e-12)
    assert float(model.mappings[0].prior_variance) == pytest.approx(2.5, rel=1e-12)
    assert [float(likelihood.variance) for likelihood in model.likelihoods] == pytest.approx([0.4, 0.4], rel=1e-12)
    # A kernel's own lengthscale is not overruled.
    model = resolve(problem.start("bayes", kernel=SquaredExponential(lengthscale=1.9)))
    np.testing.assert_allclose(model.latents[0].kernel.lengthscale, [1.9, 1.9], rtol=1e-12)


def test_a_known_noise_is_frozen_in_standardised_units():
    fine = tables()["fine"]
    known = {"fine": replace(fine, noise=0.2), "coarse": tables()["coarse"]}
    problem = case(tasks=known)
    expected = (0.2 / np.std(fine.y)) ** 2
    model = problem.start("none")
    assert float(resolve(model).likelihoods[0].variance) == pytest.approx(expected, rel=1e-9)
    trained, _ = train(model, problem.data(None, 4), KEY, 0, replace(QUICK, iterations=10))
    before, after = ([float(one.variance) for one in resolve(m).likelihoods] for m in (model, trained))
    assert after[0] == before[0] and after[1] != before[1]


def test_a_tiny_known_noise_is_raised_to_the_floor():
    known = {"fine": replace(tables()["fine"], noise=1e-9), "coarse": tables()["coarse"]}
    assert float(resolve(case(tasks=known).start("none")).likelihoods[0].variance) == pytest.approx(NOISE_FLOOR)


def test_the_mixing_is_random_by_seed_and_frozen_for_one_task():
    problem = case(3, num_latents=2)
    mixing = np.asarray(problem.start().mixing)
    np.testing.assert_array_equal(mixing, np.random.default_rng(0).standard_normal((3, 2)))
    np.testing.assert_array_equal(problem.start(seed=1).mixing, np.random.default_rng(1).standard_normal((3, 2)))
    alone = case(1, num_latents=3).start()
    np.testing.assert_array_equal(resolve(alone).mixing, [[1.0]])
    assert len(alone.latents) == 1
    assert all("mixing" not in path for path in _paths(split(alone)[0]))


# Mappings.


def test_every_calibration_has_its_mapping():
    problem = case()
    nominal = problem.batches[0].rows.nominal
    found = {kind: problem.start(kind).mappings for kind in KINDS}
    assert {kind: type(mappings[0]) for kind, mappings in found.items()} == {
        "none": Nominal,
        "bayes": ResidualGP,
        "embedded": EmbeddedGP,
        "free": FreeRows,
        "linear": Nominal,
    }
    assert all(isinstance(mappings[1], Nominal) for mappings in found.values())
    free = resolve(found["free"][0])
    np.testing.assert_array_equal(free.mean, nominal)
    np.testing.assert_allclose(free.variance, np.full(nominal.shape, 0.1), rtol=1e-12)
    assert float(resolve(found["embedded"][0]).noise) == pytest.approx(0.01, rel=1e-6)
    assert found["bayes"][0].kl_weight == 1.0
    assert problem.start("auto").mappings[0].kl_weight == 0.0
    assert problem.start("auto", mapping_kl_weight=0.3).mappings[0].kl_weight == 0.3


@pytest.mark.parametrize("kind", ["none", "bayes", "free"])
def test_a_learned_base_starts_at_its_guess_and_is_trained(kind):
    problem = case(mappings={"fine": agp.Learned(strength=0.25)})
    mapping = problem.start(kind).mappings[0]
    base = mapping if kind == "none" else mapping.base
    assert isinstance(base, AffineMap)
    assert base.strength == 0.25
    rows = problem.batches[0].rows
    np.testing.assert_allclose(resolve(base).predictive(rows).value, rows.nominal, atol=1e-9)
    matrix, offset = affine_in_frame(problem.frame, 0, problem.tasks[0].X)
    np.testing.assert_allclose(base.matrix, matrix, atol=1e-12)
    np.testing.assert_allclose(resolve(base).start[1], offset, atol=1e-12)
    assert float(resolve(base).global_penalty()) == 0.0
    assert {path.split(".")[-1] for path in _paths(split(base)[0])} == {"matrix", "offset"}


# Precision.


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_is_single_everywhere(kind):
    known = {"fine": replace(tables()["fine"], noise=0.2), "coarse": tables()["coarse"]}
    learned = {} if kind == "embedded" else {"mappings": {"fine": agp.Learned()}}
    problem = case(tasks=known, dtype="float32", **learned)
    model = problem.start(kind)
    dtypes = {leaf.dtype.name for leaf in jax.tree.leaves(model) if hasattr(leaf, "dtype")}
    assert dtypes == {"float32"}
    assert model.latents[0].jitter == 1e-4
    double = problem.start(kind, dtype="float64")
    assert {leaf.dtype.name for leaf in jax.tree.leaves(double) if hasattr(leaf, "dtype")} == {"float64"}
    assert double.latents[0].jitter == 1e-6


def _paths(tree) -> list[str]:
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
