"""Predictions over inputs, and partial dependence."""

import numpy as np
import pytest

import aligngp as agp
from aligngp.findings.sweeps import dependence, sweep
from pictures import from_file, park

CASE = agp.datasets.park(num_low=20, num_test=30)
X = CASE.tasks["high"][0]


def test_one_input_varies_and_the_others_are_held_at_their_means():
    found = sweep(park(), "high", "x3", None, None, False)
    assert found.columns == ("x3",)
    assert found.axes[0][[0, -1]] == pytest.approx([X[:, 2].min(), X[:, 2].max()])
    assert found.held == pytest.approx({"x1": X[:, 0].mean(), "x2": X[:, 1].mean(), "x4": X[:, 3].mean()})
    row = X.mean(axis=0)
    row[2] = found.axes[0][17]
    assert found.prediction.mean[17] == pytest.approx(park().predict("high", row[None]).mean[0])


def test_two_inputs_make_a_grid():
    found = sweep(park(), "high", ["x4", "x1"], {"x2": 0.25}, {"x4": (0.0, 1.5)}, True)
    grid = found.grid(found.prediction.variance)
    assert found.axes[0][[0, -1]] == pytest.approx([0.0, 1.5])
    row = np.array([[found.axes[1][5], 0.25, X[:, 2].mean(), found.axes[0][9]]])
    assert grid[9, 5] == pytest.approx(park().predict("high", row, latent=True).variance[0])


def test_a_task_of_two_inputs_shows_both():
    assert sweep(park(), "low", None, None, None, False).columns == ("x3", "x4")
    assert sweep(park(), "high", None, None, None, False).columns == ("x1",)


def test_a_model_of_a_file_knows_the_ranges(tmp_path):
    found = sweep(from_file(park(), tmp_path), "high", "x1", None, None, False)
    assert found.axes[0][[0, -1]] == pytest.approx([X[:, 0].min(), X[:, 0].max()])
    assert found.held["x4"] == pytest.approx(X[:, 3].mean())


@pytest.mark.parametrize(
    "inputs, at, span, words",
    [
        ("x9", None, None, "no column 'x9'"),
        (["x1", "x2", "x3"], None, None, "one input or two"),
        (["x1", "x1"], None, None, "one input or two different"),
        ("x1", {"x1": 0.0}, None, "'x1' varies"),
        ("x1", {"x2": "much"}, None, "finite number, got 'much'"),
        ("x1", {"x7": 1.0}, None, "no column 'x7'"),
        ("x1", None, {"x2": (0, 1)}, "'x2', which does not vary"),
        ("x1", None, {"x1": (1, 0)}, r"span of 'x1' must be \(lowest, highest\)"),
        ("x1", None, {"x1": 3}, r"span of 'x1' must be \(lowest, highest\)"),
    ],
)
def test_what_cannot_be_varied(inputs, at, span, words):
    with pytest.raises(agp.AligngpError, match=f"'high'.*{words}"):
        sweep(park(), "high", inputs, at, span, False)


def test_partial_dependence_averages_over_rows():
    found = dependence(park(), "high", "x4")
    rows = X.copy()
    rows[:, 3] = found.axis[11]
    expected = park().predict("high", rows, latent=True).mean
    assert found.curves[:, 11] == pytest.approx(expected)
    assert found.mean[11] == pytest.approx(expected.mean())


def test_partial_dependence_takes_rows_that_are_passed(tmp_path):
    gp, rows = from_file(park(), tmp_path), CASE.test["high"][0]
    with pytest.raises(agp.NotFittedError, match=r"'high'.*Pass rows: data="):
        dependence(gp, "high", "x4")
    found = dependence(gp, "high", "x4", rows, (0.0, 1.0))
    assert len(found.curves) == 30
    assert found.axis[[0, -1]] == pytest.approx([0.0, 1.0])
    many = dependence(gp, "high", "x4", np.tile(rows, (5, 1)))
    assert len(many.curves) == 100
    with pytest.raises(agp.DataError, match=r"'high'.*no row"):
        dependence(gp, "high", "x4", rows[:0])
