"""The search over a space: functions whose maximum is known."""

import numpy as np

from aligngp.suggest.search import maximise
from aligngp.suggest.space import Choice, Integer, Real, Space


def found(space, function, gradient, seed=0, extra=None):
    rows, values = maximise(space, function, lambda X: (function(X), gradient(X)), seed, extra)
    assert np.all(np.diff(values) <= 0)
    np.testing.assert_allclose(function(rows), values)
    return space.points(rows)[0], values[0]


def test_a_narrow_peak_is_climbed():
    space = Space("fine", {"x": Real(0.0, 10.0), "rate": Real(1e-3, 1e3, log=True)})

    def function(X):
        return -((X[:, 0] - 7.3) ** 2) - (np.log(X[:, 1]) - 2.0) ** 2

    def gradient(X):
        return np.column_stack([-2 * (X[:, 0] - 7.3), -2 * (np.log(X[:, 1]) - 2.0) / X[:, 1]])

    point, value = found(space, function, gradient)
    assert abs(point["x"] - 7.3) < 1e-4 and abs(point["rate"] - np.exp(2.0)) < 1e-3
    assert abs(value) < 1e-7


def test_a_maximum_at_the_bound():
    point, _ = found(Space("fine", {"x": Real(-1.0, 2.0)}), lambda X: X[:, 0], np.ones_like)
    assert point["x"] == 2.0


def test_whole_numbers_and_choices_are_searched_too():
    space = Space("fine", {"x": Real(0.0, 1.0), "n": Integer(0, 1000), "kind": Choice("a", "b", "c")})

    def function(X):
        return -((X[:, 0] - 0.2) ** 2) - 1e-4 * (X[:, 1] - 123) ** 2 + 3.0 * X[:, 3] - X[:, 2]

    def gradient(X):
        slopes = np.zeros_like(X)
        slopes[:, 0] = -2 * (X[:, 0] - 0.2)
        return slopes

    point, _ = found(space, function, gradient)
    assert point["kind"] == "b"
    assert abs(point["n"] - 123) <= 1
    assert abs(point["x"] - 0.2) < 1e-4


def test_extra_rows_are_starts():
    """A peak that is too narrow for the Sobol rows to see."""
    space = Space("fine", {"x": Real(0.0, 1.0), "z": Real(0.0, 1.0)})
    centre = np.array([0.123, 0.456])

    def function(X):
        return np.exp(-np.sum((X - centre) ** 2, axis=1) / 2e-6)

    def gradient(X):
        return -function(X)[:, None] * (X - centre) / 1e-6

    point, value = found(space, function, gradient, extra=centre[None] + 1e-3)
    assert value > 0.999
    assert abs(point["x"] - 0.123) < 1e-4


def test_values_that_are_not_finite_are_avoided():
    space = Space("fine", {"x": Real(-1.0, 1.0)})

    def function(X):
        with np.errstate(invalid="ignore"):
            return np.where(X[:, 0] < 0, np.nan, -((X[:, 0] - 0.5) ** 2))

    point, _ = found(space, function, lambda X: np.where(X < 0, np.nan, -2 * (X - 0.5)))
    assert abs(point["x"] - 0.5) < 1e-4
