"""Every mapping through one suite: its law, its penalties, its draws, against the oracles."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aligngp.mappings.contract import DiagonalGaussian, Point, Rows
from problems import KEY, quick, some_rows
from twins import MAPPINGS, joint_covariance

ROWS, NEW, OWN_DIMS, DIMS = 4, 3, 3, 2
SAMPLES = 20_000
rng = np.random.default_rng(0)
TRAINING = some_rows(rng, ROWS, OWN_DIMS, DIMS)
FRESH = some_rows(rng, NEW, OWN_DIMS, DIMS)
FRESH = Rows(FRESH.own, FRESH.nominal, jnp.full(NEW, -1))
TWINS = {name: build(np.random.default_rng(1), TRAINING) for name, build in MAPPINGS.items()}
UNCERTAIN = [name for name, twin in TWINS.items() if twin.predictive(FRESH)[1] is not None]
JOINT = [name for name, twin in TWINS.items() if twin.gps]


@quick
def _ask(mappings, training, fresh):
    return {
        name: {
            "posterior": mapping.posterior(training),
            "predictive": mapping.predictive(fresh),
            "cost": mapping.global_penalty(),
            "draws": mapping.draw(fresh, KEY, SAMPLES),
        }
        for name, mapping in mappings.items()
    }


def ask(training, fresh):
    return _ask({name: twin.mapping for name, twin in TWINS.items()}, training, fresh)


@pytest.fixture(scope="module")
def found():
    """The answers of every mapping, compiled once for all of them."""
    return ask(TRAINING, FRESH)


def agree(law, expected):
    """A law against the oracle's mean and variance; the oracle inverts K, so ten digits are left of sixteen."""
    mean, variance = expected
    if variance is None:
        assert isinstance(law, Point)
        np.testing.assert_allclose(law.value, mean, rtol=1e-12)
    else:
        assert isinstance(law, DiagonalGaussian)
        np.testing.assert_allclose(law.mean, mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(law.variance, variance, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", MAPPINGS)
def test_law_at_training_rows(name, found):
    agree(found[name]["posterior"][0], TWINS[name].posterior(TRAINING))


@pytest.mark.parametrize("name", MAPPINGS)
def test_law_at_new_rows(name, found):
    agree(found[name]["predictive"], TWINS[name].predictive(FRESH))


@pytest.mark.parametrize("name", MAPPINGS)
def test_penalty_of_every_row(name, found):
    np.testing.assert_allclose(found[name]["posterior"][1], TWINS[name].penalty(TRAINING), rtol=1e-8)


@pytest.mark.parametrize("name", MAPPINGS)
def test_what_a_mapping_costs_as_a_whole(name, found):
    np.testing.assert_allclose(found[name]["cost"], TWINS[name].cost, rtol=1e-8)


def test_order_of_rows_does_not_matter(found):
    order = np.array([2, 0, 3, 1])
    other = ask(jax.tree.map(lambda part: part[order], TRAINING), FRESH)
    for name, answer in other.items():
        for moved, here in zip(
            jax.tree.leaves(answer["posterior"]), jax.tree.leaves(found[name]["posterior"]), strict=True
        ):
            np.testing.assert_allclose(moved, here[order], rtol=1e-12, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("name", UNCERTAIN)
def test_draws_have_the_moments_of_the_predictive_law(name, found):
    draws, (mean, variance) = np.asarray(found[name]["draws"]), TWINS[name].predictive(FRESH)
    # Five standard errors of a mean, sqrt(v / S), and of a variance, v sqrt(2 / S).
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * np.sqrt(variance / SAMPLES))
    assert np.all(np.abs(draws.var(axis=0) - variance) < 5 * variance * np.sqrt(2 / SAMPLES))


@pytest.mark.parametrize("name", UNCERTAIN)
def test_draws_are_joint_over_rows_and_independent_over_dimensions(name, found):
    draws, twin = np.asarray(found[name]["draws"]), TWINS[name]
    variance = twin.predictive(FRESH)[1]
    expected = np.zeros((NEW, DIMS, NEW, DIMS))
    for d in range(DIMS):
        expected[:, d, :, d] = np.diag(variance[:, d])
    if name in JOINT:
        for d, covariance in enumerate(joint_covariance(twin.gps, np.asarray(FRESH.own))):
            expected[:, d, :, d] = covariance
    expected = expected.reshape(NEW * DIMS, NEW * DIMS)
    scale = np.sqrt(np.diag(expected))
    # A correlation's standard error is at most sqrt(2 / S).
    off = (np.cov(draws.reshape(SAMPLES, -1).T) - expected) / np.outer(scale, scale)
    assert np.max(np.abs(off)) < 5 * np.sqrt(2 / SAMPLES)
    if name in JOINT:  # or the test could not tell joint draws from independent ones
        assert np.max(np.abs(expected - np.diag(np.diag(expected)))) > 0.1 * np.max(expected)


@pytest.mark.parametrize("name", [name for name in MAPPINGS if name not in UNCERTAIN])
def test_known_points_are_drawn_as_they_are(name, found):
    points = TWINS[name].predictive(FRESH)[0]
    draws = np.asarray(found[name]["draws"])
    np.testing.assert_allclose(draws, np.broadcast_to(points, (SAMPLES, NEW, DIMS)), rtol=1e-12)


def test_the_law_is_sampled_independently_by_the_reparameterisation_trick():
    law = DiagonalGaussian(jnp.asarray([[1.0, -2.0]]), jnp.asarray([[0.25, 4.0]]))
    noise = np.asarray(jax.random.normal(KEY, (5, 1, 2)))
    np.testing.assert_allclose(law.sample(KEY, 5), [1.0, -2.0] + np.array([0.5, 2.0]) * noise, rtol=1e-14)


def test_the_embedded_mapping_needs_no_nominal_inputs_at_new_rows(found):
    unknown = Rows(FRESH.own, jnp.asarray(np.full(FRESH.nominal.shape, np.nan)), FRESH.index)
    agree(ask(TRAINING, unknown)["embedded"]["predictive"], TWINS["embedded"].predictive(FRESH))


def test_a_batch_finds_its_own_rows(found):
    # Rows 3 and 1 of four: a batch's position must not be taken for the row's number.
    batch = jax.tree.map(lambda part: part[np.array([3, 1])], TRAINING)
    law, penalty = TWINS["free"].mapping.posterior(batch)
    np.testing.assert_allclose(law.mean, TWINS["free"].posterior(TRAINING)[0][[3, 1]], atol=0)
    np.testing.assert_allclose(penalty, TWINS["free"].penalty(TRAINING)[[3, 1]], rtol=1e-12)


def test_a_certain_gp_keeps_a_positive_variance():
    twin = TWINS["residual"]
    certain = eqx.tree_at(
        lambda m: (m.gp.scale, m.gp.inducing), twin.mapping, (0.0 * twin.mapping.gp.scale, TRAINING.own)
    )
    law, penalty = certain.posterior(TRAINING)
    assert np.all(np.asarray(law.variance) > 0) and np.all(np.asarray(law.variance) < 1e-5)
    assert np.all(np.isfinite(penalty))
