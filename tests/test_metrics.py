"""Scores against scipy.stats, numerical integrals and numbers worked out by hand."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from aligngp.errors import DataError, SettingError
from aligngp.metrics import coverage, crps, nlpd, rmse, scores, smll, smse

rng = np.random.default_rng(0)
TRAIN = rng.normal(2.0, 3.0, size=5)
Y = rng.normal(2.0, 3.0, size=40)
MEAN = Y + rng.normal(size=40)
VARIANCE = rng.uniform(0.3, 2.0, size=40)


def test_smse_by_hand():
    # Errors 1, 0, -2: squares 5; three rows; training outputs 0, 2, 4 have variance 8/3 (not 4).
    assert smse([1.0, 2.0, 3.0], [0.0, 2.0, 5.0], np.var([0.0, 2.0, 4.0])) == pytest.approx(5 / 3 / (8 / 3))


def test_smse_is_one_for_the_mean_on_the_training_rows():
    assert smse(TRAIN, np.full(5, TRAIN.mean()), TRAIN.var()) == pytest.approx(1.0, abs=1e-14)


def test_smll_matches_scipy():
    trivial = norm.logpdf(Y, TRAIN.mean(), TRAIN.std())
    expected = np.mean(trivial - norm.logpdf(Y, MEAN, np.sqrt(VARIANCE)))
    assert smll(Y, MEAN, VARIANCE, TRAIN.mean(), TRAIN.var()) == pytest.approx(expected, abs=1e-12)
    assert expected < -0.1  # the sign: a useful prediction is negative


def test_smll_is_zero_for_the_training_moments():
    constant = smll(Y, np.full(40, TRAIN.mean()), np.full(40, TRAIN.var()), TRAIN.mean(), TRAIN.var())
    assert constant == pytest.approx(0.0, abs=1e-14)


def test_rmse_by_hand():
    assert rmse([1.0, 2.0], [4.0, -2.0]) == pytest.approx(math.sqrt((9 + 16) / 2))


def test_nlpd_matches_scipy():
    assert nlpd(Y, MEAN, VARIANCE) == pytest.approx(-norm.logpdf(Y, MEAN, np.sqrt(VARIANCE)).mean(), abs=1e-12)


@pytest.mark.parametrize(("y", "mean", "variance"), [(0.3, 0.3, 1.0), (2.0, -1.0, 0.25), (-1.5, 0.0, 9.0)])
def test_crps_is_its_integral(y, mean, variance):
    law = norm(mean, math.sqrt(variance))
    below, _ = quad(lambda u: law.cdf(u) ** 2, mean - 12 * law.std(), y)
    above, _ = quad(lambda u: law.sf(u) ** 2, y, mean + 12 * law.std())
    assert crps([y], [mean], [variance]) == pytest.approx(below + above, abs=1e-8)


def test_crps_is_the_mean_over_rows_and_tends_to_the_absolute_error():
    single = [crps(Y[i : i + 1], MEAN[i : i + 1], VARIANCE[i : i + 1]) for i in range(40)]
    assert crps(Y, MEAN, VARIANCE) == pytest.approx(np.mean(single), abs=1e-14)
    assert crps(Y, MEAN, np.full(40, 1e-16)) == pytest.approx(np.abs(Y - MEAN).mean(), abs=1e-7)


def test_coverage_counts_rows_inside_the_interval():
    # Half widths are 1.96 * 2 = 3.92 at 95 % and 0.674 * 2 = 1.349 at 50 %.
    y, mean, variance = [0.0, 3.9, -3.93, 1.3], np.zeros(4), np.full(4, 4.0)
    assert coverage(y, mean, variance) == 0.75
    assert coverage(y, mean, variance, level=0.5) == 0.5


def test_coverage_of_the_truth_is_its_level():
    y = np.random.default_rng(1).normal(1.0, 0.5, size=20000)
    for level in (0.5, 0.9):
        found = coverage(y, np.ones(20000), np.full(20000, 0.25), level)
        assert found == pytest.approx(level, abs=4 * math.sqrt(level * (1 - level) / 20000))


def test_scores_collects_every_one_by_name():
    assert scores(Y, MEAN, VARIANCE, TRAIN.mean(), TRAIN.var()) == {
        "smse": smse(Y, MEAN, TRAIN.var()),
        "smll": smll(Y, MEAN, VARIANCE, TRAIN.mean(), TRAIN.var()),
        "rmse": rmse(Y, MEAN),
        "nlpd": nlpd(Y, MEAN, VARIANCE),
        "crps": crps(Y, MEAN, VARIANCE),
        "coverage95": coverage(Y, MEAN, VARIANCE, 0.95),
    }


def test_scores_do_not_depend_on_the_order_of_rows():
    order = np.random.default_rng(2).permutation(40)
    shuffled = scores(Y[order], MEAN[order], VARIANCE[order], TRAIN.mean(), TRAIN.var())
    assert shuffled == pytest.approx(scores(Y, MEAN, VARIANCE, TRAIN.mean(), TRAIN.var()), rel=1e-12)


def test_standardised_scores_do_not_depend_on_units_and_others_follow_them():
    # y -> 10 y + 3
    before = scores(Y, MEAN, VARIANCE, TRAIN.mean(), TRAIN.var())
    moved = 10 * TRAIN + 3
    after = scores(10 * Y + 3, 10 * MEAN + 3, 100 * VARIANCE, moved.mean(), moved.var())
    for name, expected in (
        ("smse", before["smse"]),
        ("smll", before["smll"]),
        ("rmse", 10 * before["rmse"]),
        ("nlpd", before["nlpd"] + math.log(10)),
        ("crps", 10 * before["crps"]),
        ("coverage95", before["coverage95"]),
    ):
        assert after[name] == pytest.approx(expected, rel=1e-10)


def test_zero_training_variance_is_nan_without_a_warning():
    assert math.isnan(smse([1.0, 2.0], [1.0, 2.5], 0.0))
    assert math.isnan(smll([1.0, 2.0], [1.0, 2.5], [1.0, 1.0], 1.0, 0.0))
    found = scores([1.0, 2.0], [1.0, 2.5], [1.0, 1.0], 1.0, np.var([1.0]))
    assert math.isnan(found["smse"])
    assert found["rmse"] == pytest.approx(math.sqrt(0.125))


@pytest.mark.parametrize("metric", [nlpd, crps, coverage])
@pytest.mark.parametrize("bad", [0.0, -1e-9])
def test_variance_must_be_positive(metric, bad):
    with pytest.raises(DataError, match=r"variance: expected positive.*row 1.*noise variance"):
        metric([1.0, 2.0], [1.0, 2.0], [0.5, bad])


def test_errors_are_value_errors():
    with pytest.raises(ValueError, match="variance: expected positive"):
        smll([1.0], [1.0], [0.0], 0.0, 1.0)


@pytest.mark.parametrize(
    ("y", "mean", "message"),
    [
        ([1.0, 2.0], [1.0], r"mean: expected 2 rows as y has, got 1"),
        ([1.0, 2.0], [[1.0], [2.0]], r"mean: expected a vector .* got shape \(2, 1\); .*ravel"),
        ([], [], r"y: expected a vector .* got shape \(0,\); pass one row"),
        ([1.0, math.nan], [1.0, 2.0], r"y: expected finite numbers, got nan in row 1"),
        ([1.0, 2.0], [math.inf, 2.0], r"mean: expected finite numbers, got inf in row 0"),
        (["a", "b"], [1.0, 2.0], r"y: expected numbers"),
    ],
)
def test_unusable_columns_are_named(y, mean, message):
    with pytest.raises(DataError, match=message):
        rmse(y, mean)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_training_moments_must_make_sense(bad):
    with pytest.raises(DataError, match=r"train_variance: expected a finite number >= 0"):
        smse([1.0], [1.0], bad)
    with pytest.raises(DataError, match=r"train_mean: expected a finite number, got nan"):
        smll([1.0], [1.0], [1.0], math.nan, 1.0)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_level_is_a_probability(level):
    with pytest.raises(SettingError, match=r"level: expected a number between 0 and 1.*0\.95"):
        coverage([1.0], [1.0], [1.0], level)
