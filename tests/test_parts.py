"""Predictions and terms of the objective in the units of the data: blocks, noise, what is joint over the rows."""

import numpy as np
import pytest

import estimators
from aligngp import parts, predict
from aligngp.fit.adam import History
from aligngp.parameters import resolve
from estimators import COARSE_X, COARSE_Y, FINE_X, FINE_Y, NEW, make, moved, tasks, untrained

ALL = pytest.mark.parametrize("calibration", estimators.CALIBRATIONS)


def test_a_prediction_by_hand():
    gp = moved("none", num_latents=2)
    for task, rows, aligned in (("fine", NEW, NEW[:, [1]]), ("coarse", NEW[:, :1], NEW[:, :1])):
        found = gp.predict(task, rows)
        mean, variance = estimators.by_hand(gp, tasks(), task, aligned)
        np.testing.assert_allclose(found.mean, mean, rtol=1e-9)
        np.testing.assert_allclose(found.variance, variance, rtol=1e-9)


@ALL
def test_noise_is_all_that_a_latent_prediction_lacks(calibration):
    gp = moved(calibration)
    observed, latent = gp.predict("fine", NEW), gp.predict("fine", NEW, latent=True)
    noise = float(resolve(gp.model).likelihoods[0].variance) * FINE_Y.var()
    np.testing.assert_array_equal(observed.mean, latent.mean)
    np.testing.assert_allclose(observed.variance - latent.variance, noise, rtol=1e-9)


@pytest.mark.parametrize("latent", [True, False])
@pytest.mark.parametrize("calibration", ["none", "bayes"])
def test_variance_covariance_and_draws_agree(calibration, latent):
    found = moved(calibration).predict("fine", NEW, latent=latent, num_samples=1000)
    covariance = found.covariance
    np.testing.assert_allclose(np.diag(covariance), found.variance, rtol=1e-12)
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-12 * found.variance.max())
    assert np.linalg.eigvalsh(covariance).min() > -1e-9 * found.variance.max()
    draws = found.sample(4000, seed=3)
    standard_error = np.sqrt(found.variance / 4000)
    assert np.all(np.abs(draws.mean(axis=0) - found.mean) < 5 * standard_error)
    scale = np.sqrt(np.outer(found.variance, found.variance))
    np.testing.assert_allclose(np.cov(draws.T) / scale, covariance / scale, atol=0.15)
    assert np.abs(covariance / scale - np.eye(4)).max() > 0.3  # rows drawn one by one would not do


def test_draws_of_a_single_precision_model_exist():
    rows = np.random.default_rng(0).uniform(size=(200, 2))
    found = moved("none", dtype="float32").predict("fine", rows)
    assert found.mean.dtype == found.variance.dtype == np.float64
    assert np.isfinite(found.sample(2)).all()
    assert np.linalg.eigvalsh(found.covariance).min() > 0.5 * found.variance.min() * 1e-3


def test_no_rows_are_no_error():
    found = moved("none").predict("fine", np.empty((0, 2)))
    assert (len(found), found.sample(3).shape, found.covariance.shape) == (0, (3, 0), (0, 0))
    assert found.to_frame().num_rows == 0


def test_many_rows_are_predicted_in_blocks(monkeypatch):
    mapped, predicted = [], []

    def second(x):
        mapped.append(len(x))
        return x[:, [1]]

    def fake(model, task, rows, key, num_samples, analytic):
        predicted.append(rows.own.shape[0])
        return rows.nominal[:, 0], np.ones(rows.own.shape[0])

    with untrained():
        gp = make(mappings={"fine": second}, calibration="none").fit(tasks())
    monkeypatch.setattr(predict, "_moments", fake)
    mapped.clear()
    X = np.random.default_rng(0).uniform(size=(200_000, 2))
    found = gp.predict("fine", X)
    assert sum(mapped) == 200_000
    assert max(mapped) <= 65_536
    assert 200_000 <= sum(predicted) < 210_000
    assert max(predicted) <= 2048
    scaled = (X[:, 1] - COARSE_X.mean()) / COARSE_X.std()
    np.testing.assert_allclose(found.mean, FINE_Y.mean() + FINE_Y.std() * scaled, rtol=1e-12)


def test_blocks_do_not_change_a_prediction(monkeypatch):
    gp = moved("none")
    rows = np.random.default_rng(0).uniform(size=(40, 2))
    whole = gp.predict("fine", rows)
    monkeypatch.setattr(parts, "_ROWS_AT_ONCE", 7)
    blocks = gp.predict("fine", rows)
    np.testing.assert_allclose(blocks.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(blocks.variance, whole.variance, rtol=1e-12)


@pytest.mark.parametrize("calibration", ["none", "free"])
def test_the_objective_is_a_sum_over_blocks_of_rows(monkeypatch, calibration):
    gp = moved(calibration)
    whole = gp.elbo()
    assert set(whole) == {
        "expected_log_likelihood",
        "alignment_penalty",
        "latent_kl",
        "residual_kl",
        "mapping_penalty",
        "log_prior",
        "total",
    }
    assert (whole["residual_kl"], whole["log_prior"]) == (0.0, 0.0)  # the paper's models have neither
    costs = whole["alignment_penalty"] + whole["latent_kl"] + whole["mapping_penalty"]
    assert whole["total"] == pytest.approx(whole["expected_log_likelihood"] - costs, rel=1e-12)
    assert (whole["alignment_penalty"] > 0) == (calibration == "free")
    monkeypatch.setattr(parts, "_ELBO_ROWS", 7)
    assert gp.elbo() == pytest.approx(whole, rel=1e-9)
    # The rows and not their order of columns in a table are what counts.
    assert gp.elbo({"coarse": (COARSE_X, COARSE_Y), "fine": (FINE_X, FINE_Y)}) == gp.elbo()


def test_histories_follow_one_another():
    one = History(np.array([1, 2]), np.array([-5.0, -4.0]), np.array([0.5, 1.0]))
    two = History(np.array([1, 2, 3]), np.array([-9.0, -8.0, -7.0]), np.array([0.25, 0.5, 0.75]))
    joined = parts.one_history([one, two])
    np.testing.assert_array_equal(joined.iteration, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(joined.objective, [-5.0, -4.0, -9.0, -8.0, -7.0])
    np.testing.assert_array_equal(joined.seconds, [0.5, 1.0, 1.25, 1.5, 1.75])
    empty = History(np.zeros(0, int), np.zeros(0), np.zeros(0))
    np.testing.assert_array_equal(parts.one_history([empty, one]).seconds, [0.5, 1.0])


def test_drawn_covariances_get_the_variances_that_are_known():
    drawn = np.array([[4.0, 2.0, 0.0], [2.0, 9.0, 0.0], [0.0, 0.0, 0.0]])
    found = parts._with_diagonal(drawn, np.array([1.0, 4.0, 0.5]))
    np.testing.assert_allclose(found, [[1.0, 2.0 * (1 / 2) * (2 / 3), 0.0], [2 / 3, 4.0, 0.0], [0.0, 0.0, 0.5]])
