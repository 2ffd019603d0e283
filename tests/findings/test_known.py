"""Known outputs and their predictions, coverage and PIT values."""

import numpy as np
import pytest
from scipy import stats

import aligngp as agp
from aligngp.findings.known import LEVELS, binomial_interval, closed_form, coverage_curve, histogram, known
from estimators import FINE_Y, moved, tasks
from pictures import from_file, park

CASE = agp.datasets.park(num_low=20, num_test=30)


def test_scores_of_test_rows_are_those_of_the_model():
    found = known(park(), "high", CASE.test["high"])
    assert found.scores() == park().score("high", CASE.test["high"])
    assert found.kept == "test"
    assert found.inside / len(found.y) == found.scores()["coverage95"]


def test_left_out_rows_are_those_of_the_transfer_report():
    found = known(park(), "high")
    assert found.kept == "left out"
    assert sorted(found.y) == pytest.approx(sorted(CASE.tasks["high"][1]))
    (entry,) = park().transfer_report("high").rows
    assert found.scores()["crps"] == pytest.approx(entry.crps_with, rel=1e-12)
    assert found.scores()["smse"] == pytest.approx(entry.smse_with, rel=1e-12)


def test_a_bound_has_no_closed_form():
    assert not closed_form(moved("none"), "fine")


def test_rows_are_limited():
    found = known(park(), "low", rows=7)
    assert len(found.y) == 7
    assert set(np.round(found.y, 9)) <= set(np.round(CASE.tasks["low"][1], 9))


def test_a_model_of_a_file_needs_rows(tmp_path):
    gp = from_file(park(), tmp_path)
    assert not closed_form(gp, "high")
    with pytest.raises(agp.NotFittedError, match=r"'high'.*holds no training rows.*data="):
        known(gp, "high")
    assert known(gp, "high", CASE.test["high"]).scores() == known(park(), "high", CASE.test["high"]).scores()


def test_coverage_counts_outputs_inside_intervals():
    found = known(park(), "high", CASE.test["high"])
    for level, share in zip(LEVELS, coverage_curve(found.pit()), strict=True):
        lower, upper = park().predict("high", CASE.test["high"][0]).interval(float(level))
        y = CASE.test["high"][1]
        assert share == np.mean((lower <= y) & (y <= upper))


def test_pit_values_are_the_predictive_distributions():
    found = known(park(), "high", CASE.test["high"])
    prediction = park().predict("high", CASE.test["high"][0])
    assert found.pit() == pytest.approx(stats.norm.cdf(CASE.test["high"][1], prediction.mean, prediction.std))


@pytest.mark.parametrize("rows", [1, 6, 100])
def test_the_band_is_binomial(rows):
    lower, upper = binomial_interval(rows, LEVELS)
    expected = stats.binom.interval(0.95, rows, LEVELS)
    assert lower * rows == pytest.approx(expected[0])
    assert upper * rows == pytest.approx(expected[1])


def test_the_histogram_is_a_density():
    density, edges = histogram(np.random.default_rng(0).uniform(size=57))
    assert len(density) == 11
    assert np.sum(density * np.diff(edges)) == pytest.approx(1.0)
    assert len(histogram(np.array([0.2]))[0]) == 4


def test_tasks_that_share_nothing_are_left_out_each_in_its_own_model():
    gp = agp.AlignedGP(shared=False, num_latents=1, max_iterations=1, progress=False, inference="exact").fit(tasks())
    found = known(gp, "fine")
    assert closed_form(gp, "fine")
    assert found.kept == "left out"
    assert sorted(found.y) == pytest.approx(sorted(FINE_Y))
