"""The toy cases against values worked out by hand, and the promises on their random streams."""

import dataclasses
import math

import numpy as np
import pytest

from aligngp.datasets import noisy, noisy_source, noisy_target, park, park_high, park_low
from aligngp.errors import DataError, SettingError

E = math.e


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        # x1 = 1, x2 = 1, x3 = 0, x4 = 1: 1/2 (sqrt(1 + 1) - 1) + (1 + 3) e
        ((1.0, 1.0, 0.0, 1.0), 0.5 * (math.sqrt(2) - 1) + 4 * E),
        # no x4: the root is 1, what remains is x1 exp(1 + sin x3)
        ((0.5, 0.7, math.pi / 6, 0.0), 0.5 * math.exp(1.5)),
        # the paper's formula with x2 + x3^2 = 0.75, x4 / x1^2 = 4: 1/8 (sqrt 4 - 1) + 1 * exp(1 + sin 0.5)
        ((0.25, 0.5, 0.5, 0.25), 0.125 + math.exp(1 + math.sin(0.5))),
        # limits at x1 = 0: sqrt((x2 + x3^2) x4) / 2 + 3 x4 exp(1 + sin x3)
        ((0.0, 1.0, 0.0, 1.0), 0.5 + 3 * E),
        ((0.0, 0.0, 0.0, 0.0), 0.0),
    ],
)
def test_park_high_by_hand(x, expected):
    assert park_high(np.array([x]))[0] == pytest.approx(expected, abs=1e-13)


def test_park_high_is_the_papers_formula_and_continuous_at_zero():
    X = np.random.default_rng(0).uniform(0.01, 1.0, size=(50, 4))
    x1, x2, x3, x4 = X.T
    paper = x1 / 2 * (np.sqrt(1 + (x2 + x3**2) * x4 / x1**2) - 1) + (x1 + 3 * x4) * np.exp(1 + np.sin(x3))
    np.testing.assert_allclose(park_high(X), paper, rtol=1e-13)
    X[:, 0] = 0.0
    near = X + np.array([1e-9, 0, 0, 0])
    np.testing.assert_allclose(park_high(X), park_high(near), atol=1e-7)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        # high(.5, .5, 0, 1) = 1/4 (sqrt 3 - 1) + 3.5 e, then + 1 + 0.75
        ((0.0, 1.0), 0.25 * (math.sqrt(3) - 1) + 3.5 * E + 1.75),
        # high(.5, .5, pi/6, 0) = exp(1.5) / 2; times 1.05, then - pi/3 + 0.75
        ((math.pi / 6, 0.0), 1.05 * 0.5 * math.exp(1.5) - math.pi / 3 + 0.75),
    ],
)
def test_park_low_by_hand(x, expected):
    assert park_low(np.array([x]))[0] == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize(
    ("x1", "target", "source"),
    [
        # f = (0, 3, 2.5 cos 1, 0)
        (0.0, -1.2 + 1.5 * math.cos(1), 1.29 - 1.25 * math.cos(1)),
        # f = (pi, -3 - pi, -2.5 cos 1, -1)
        (
            math.pi,
            0.5 * math.pi + 0.4 * (3 + math.pi) - 1.5 * math.cos(1) - 0.6,
            -0.3 * math.pi - 0.43 * (3 + math.pi) + 1.25 * math.cos(1) - 0.1,
        ),
    ],
)
def test_noisy_functions_by_hand(x1, target, source):
    assert noisy_target(np.array([[x1, 2.0], [x1, -4.0]])) == pytest.approx([target] * 2, abs=1e-12)
    assert noisy_source(np.array([[x1]])) == pytest.approx([source], abs=1e-12)


def test_park_case():
    case = park()
    assert (case.common, case.target, case.mappings) == ("low", "high", {"high": ["x3", "x4"]})
    assert case.names == {"high": ("x1", "x2", "x3", "x4"), "low": ("x3", "x4")}
    for tables, rows in ((case.tasks, (6, 100)), (case.test, (1000, 1000))):
        for name, function, n in (("high", park_high, rows[0]), ("low", park_low, rows[1])):
            X, y = tables[name]
            assert X.shape == (n, len(case.names[name]))
            assert X.dtype == np.float64
            np.testing.assert_array_equal(y, function(X))
            assert 0.0 <= X.min() and X.max() <= 1.0
    # 1000 uniform rows fill each axis of the cube.
    np.testing.assert_allclose(case.test["high"][0].mean(axis=0), 0.5, atol=4 * math.sqrt(1 / 12 / 1000))
    assert np.ptp(case.test["high"][0], axis=0).min() > 0.98


def test_noisy_case():
    case = noisy(num_test=4000)
    assert (case.common, case.target, case.mappings) == ("source", "target", {"target": ["x1"]})
    assert case.names == {"target": ("x1", "x2"), "source": ("x1",)}
    assert [len(y) for _, y in case.tasks.values()] == [5, 100]
    for X, y in (case.tasks["source"], case.test["source"]):
        np.testing.assert_array_equal(y, noisy_source(X))
    X, y = case.test["target"]
    noise = y - noisy_target(X)
    assert noise.var() == pytest.approx(0.04, rel=4 * math.sqrt(2 / 4000))
    assert noise.mean() == pytest.approx(0.0, abs=4 * 0.2 / math.sqrt(4000))
    assert abs(np.corrcoef(noise, X[:, 1])[0, 1]) < 4 / math.sqrt(4000)
    X, y = case.tasks["target"]
    assert np.abs(y - noisy_target(X)).min() > 0.0
    assert -5.0 <= case.test["target"][0].min() < -4.95
    assert 4.95 < case.test["target"][0].max() <= 5.0


@pytest.mark.parametrize(
    ("make", "few", "target", "common"),
    [(park, "num_high", "high", "low"), (noisy, "num_target", "target", "source")],
)
def test_streams_do_not_disturb_one_another(make, few, target, common):
    small, large = make(seed=3, num_test=7), make(seed=3, num_test=20, **{few: 9})
    np.testing.assert_array_equal(small.tasks[common][0], large.tasks[common][0])
    rows = len(small.tasks[target][1])
    for table, n in (("tasks", rows), ("test", 7)):
        for before, after in zip(getattr(small, table)[target], getattr(large, table)[target], strict=True):
            assert len(after) > n
            np.testing.assert_array_equal(before, after[:n])


@pytest.mark.parametrize("make", [park, noisy])
def test_a_seed_decides_everything(make):
    one, same, other = make(seed=1), make(seed=1), make(seed=2)
    for table in ("tasks", "test"):
        for name, (X, y) in getattr(one, table).items():
            np.testing.assert_array_equal(X, getattr(same, table)[name][0])
            np.testing.assert_array_equal(y, getattr(same, table)[name][1])
            assert not np.any(np.isclose(X, getattr(other, table)[name][0], rtol=0, atol=1e-12))
    # Training and test rows are not the same draw, nor are those of two tasks.
    rows = [X[:5, 0] for table in (one.tasks, one.test) for X, _ in table.values()]
    assert len({tuple(row) for row in rows}) == 4


def test_a_case_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        park(num_test=2).name = "other"


@pytest.mark.parametrize(
    ("make", "setting", "message"),
    [
        (park, {"num_high": 0}, r"num_high: expected an integer >= 1, got 0"),
        (noisy, {"num_test": -2}, r"num_test: expected an integer >= 1, got -2"),
        (noisy, {"seed": -1}, r"seed: expected an integer >= 0, got -1"),
    ],
)
def test_impossible_sizes_are_refused(make, setting, message):
    with pytest.raises(SettingError, match=message):
        make(**setting)


def test_inputs_of_another_width_are_refused():
    with pytest.raises(DataError, match=r"park_high: expected inputs of shape \(N, 4\), got \(3, 2\)"):
        park_high(np.zeros((3, 2)))
    with pytest.raises(DataError, match=r"noisy_source: expected inputs of shape \(N, 1\), got \(3,\)"):
        noisy_source(np.zeros(3))
