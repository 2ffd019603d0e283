"""Spaces: rows and points, the unit cube, neighbours, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aligngp.errors import SettingError
from aligngp.suggest.space import Choice, Integer, Real, Space, make_space

MIXED = Space(
    "fine", {"x": Real(-2.0, 3.0), "n": Integer(2, 5), "rate": Real(1e-4, 1.0, log=True), "kind": Choice("a", "b", "c")}
)
ALSO = Space("fine", {"size": Choice(1.0, 2.5, 4.0), "x": Real(0.0, 1.0)})


def test_columns_of_labels():
    assert MIXED.columns == ("x", "n", "rate", "kind=a", "kind=b", "kind=c")


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), number=st.integers(1, 40))
def test_samples_lie_inside_and_come_back_from_points(seed, number):
    for space in (MIXED, ALSO):
        rows = space.sample(number, seed)
        assert rows.shape == (number, len(space.columns))
        np.testing.assert_allclose(space.rows(space.points(rows)), rows)
        np.testing.assert_allclose(space.nearest(rows), rows)
    rows = MIXED.sample(number, seed)
    assert np.all((rows[:, 0] >= -2) & (rows[:, 0] <= 3) & (rows[:, 2] >= 1e-4) & (rows[:, 2] <= 1))
    assert set(rows[:, 1]) <= {2.0, 3.0, 4.0, 5.0}
    np.testing.assert_array_equal(rows[:, 3:].sum(axis=1), 1.0)


def test_every_value_of_a_whole_number_and_of_a_choice_is_as_likely():
    rows = MIXED.sample(1200, 0)
    np.testing.assert_allclose([np.mean(rows[:, 1] == n) for n in (2, 3, 4, 5)], 0.25, atol=0.01)
    np.testing.assert_allclose(rows[:, 3:].mean(axis=0), 1 / 3, atol=0.01)


def test_the_unit_cube_and_its_derivatives():
    rows = MIXED.sample(5, 1)
    unit = MIXED.to_unit(rows)
    again, slopes = MIXED.with_unit(rows, unit)
    np.testing.assert_allclose(again, rows, rtol=1e-12)
    step = 1e-6
    for d, column in enumerate(MIXED.reals):
        moved = unit.copy()
        moved[:, d] += step
        np.testing.assert_allclose((MIXED.with_unit(rows, moved)[0] - rows)[:, column] / step, slopes[:, d], rtol=1e-4)
    # half of a logarithmic range is its geometric mean
    assert MIXED.with_unit(rows[:1], np.array([[0.5, 0.5]]))[0][0, 2] == pytest.approx(1e-2)


def test_neighbours_change_one_variable_that_is_not_real():
    row = MIXED.rows([{"x": 0.5, "n": 2, "rate": 0.1, "kind": "b"}])[0]
    found = MIXED.points(MIXED.neighbours(row))
    assert sorted((point["n"], point["kind"]) for point in found) == [(2, "a"), (2, "c"), (3, "b"), (4, "b")]
    assert {point["x"] for point in found} == {0.5}
    row = ALSO.rows([{"size": 2.5, "x": 0.5}])[0]
    assert sorted(point["size"] for point in ALSO.points(ALSO.neighbours(row))) == [1.0, 4.0]


def test_nearest_rows_of_a_space():
    found = MIXED.nearest(np.array([[9.0, 3.4, 0.0, 0.2, 0.1, 0.6]]))
    assert MIXED.points(found) == [{"x": 3.0, "n": 3, "rate": 1e-4, "kind": "c"}]


def test_bounds_default_to_the_span():
    space = make_space("fine", ("a", "b"), {"b": Integer(0, 3)}, (np.array([1.0, 0.0]), np.array([2.0, 9.0])))
    assert space.variables == {"a": Real(1.0, 2.0), "b": Integer(0, 3)}


@pytest.mark.parametrize(
    "bounds, said",
    [
        ({"a": (1.0, 1.0)}, "two finite numbers, low < high"),
        ({"a": (0.0, np.inf)}, "two finite numbers"),
        ({"a": Real(0.0, 1.0, log=True)}, "lower bound above zero"),
        ({"a": Integer(3, 2)}, "two whole numbers"),
        ({"a": Choice(1.0)}, "two or more different"),
        ({"a": Choice(1.0, "b")}, "two or more different"),
        ({"a": Choice("u", "v")}, "make the columns 'a=u', 'a=v'"),
        ({"a": "wide"}, "expected .low, high."),
        ({"aa": (0, 1)}, "bounds of 'aa'.*'a'"),
    ],
)
def test_bounds_that_cannot_be(bounds, said):
    with pytest.raises(SettingError, match=said):
        make_space("fine", ("a",), bounds, (np.zeros(1), np.ones(1)))


def test_a_column_without_bounds_or_rows():
    with pytest.raises(SettingError, match="task 'fine': expected bounds of 'a'"):
        make_space("fine", ("a",), {}, None)


@pytest.mark.parametrize(
    "point, said",
    [
        ({"size": 3.0, "x": 0.5}, "'size' is one of"),
        ({"x": 0.5}, "expected a point with 'size', 'x'"),
        ({"size": 1.0, "x": "b"}, "a number for 'x'"),
    ],
)
def test_points_that_cannot_be(point, said):
    with pytest.raises(SettingError, match=said):
        ALSO.rows([point])
