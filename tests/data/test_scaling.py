"""Scalers against NumPy and against exact arithmetic, at both ends of the range of a float."""

import statistics
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aligngp.data.scaling import fit_scaler
from aligngp.errors import DataError


def test_mean_and_population_standard_deviation():
    X = np.array([[1.0, 10.0], [2.0, 30.0], [6.0, 20.0]])
    scaler = fit_scaler(X)
    np.testing.assert_allclose(scaler.mean, [3.0, 20.0], rtol=1e-15)
    np.testing.assert_allclose(scaler.scale, [np.sqrt(14 / 3), np.sqrt(200 / 3)], rtol=1e-15)
    np.testing.assert_allclose(scaler.transform(X)[0], [-2 / np.sqrt(14 / 3), -10 / np.sqrt(200 / 3)], rtol=1e-15)


def test_new_rows_use_the_fitted_numbers():
    scaler = fit_scaler(np.array([[0.0], [4.0]]))
    np.testing.assert_array_equal(scaler.transform(np.array([[8.0], [2.0]])), [[3.0], [0.0]])
    np.testing.assert_array_equal(scaler.inverse(np.array([[3.0], [0.0]])), [[8.0], [2.0]])
    np.testing.assert_array_equal(scaler.inverse_variance(np.array([[3.0]])), [[12.0]])


def test_variance_goes_back_as_samples_do():
    rng = np.random.default_rng(0)
    scaler = fit_scaler(rng.normal(5.0, 3.0, size=(20, 2)))
    samples = rng.normal(size=(50, 2))
    expected = np.var(scaler.inverse(samples), axis=0)
    np.testing.assert_allclose(scaler.inverse_variance(np.var(samples, axis=0)), expected, rtol=1e-12)


def test_a_small_variance_in_large_units():
    scaler = fit_scaler(np.array([[-1e200], [1e200]]))
    np.testing.assert_allclose(scaler.inverse_variance(np.array([[1e-150]])), [[1e250]], rtol=1e-14)


def test_an_output_is_a_column():
    y = np.array([1.0, 3.0, 8.0])
    scaler = fit_scaler(y[:, None])
    np.testing.assert_allclose(scaler.transform(y[:, None])[:, 0], (y - 4.0) / y.std(), rtol=1e-15)


def test_without_standardising_nothing_changes():
    X = np.array([[1e300, -3.0], [5.0, 7.0]])
    scaler = fit_scaler(X, standardize=False)
    np.testing.assert_array_equal(scaler.transform(X), X)
    np.testing.assert_array_equal(scaler.inverse_variance(X), X)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e300, 1e-300, 5e-324, 1e16 / 3])
@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_a_constant_is_only_moved(value, rows):
    scaler = fit_scaler(np.full((rows, 1), value))
    np.testing.assert_array_equal(scaler.mean, [value])
    np.testing.assert_array_equal(scaler.scale, [1.0])


def test_rounding_noise_of_a_constant_is_not_blown_up():
    scaler = fit_scaler(np.array([[0.1 + 0.2], [0.3], [0.3]]))
    assert scaler.scale[0] == 1.0


def test_a_small_but_real_spread_far_from_zero_is_kept():
    seconds = 1.7e9 + np.array([[0.0], [1.0], [2.0]])
    scaler = fit_scaler(seconds)
    np.testing.assert_allclose(scaler.scale, [np.sqrt(2 / 3)], rtol=1e-12)
    np.testing.assert_allclose(scaler.transform(seconds)[:, 0], np.array([-1, 0, 1]) / np.sqrt(2 / 3), rtol=1e-12)


@pytest.mark.parametrize("factor", [1e300, 1e-300, 1.0])
def test_extreme_units(factor):
    unit = np.array([[-1.0], [0.25], [0.5], [1.0]])
    scaler = fit_scaler(unit * factor)
    np.testing.assert_allclose(scaler.mean, [unit.mean() * factor], rtol=1e-14)
    np.testing.assert_allclose(scaler.scale, [unit.std() * factor], rtol=1e-14)
    np.testing.assert_allclose(scaler.transform(unit * factor), (unit - unit.mean()) / unit.std(), rtol=1e-14)


def test_the_largest_floats():
    largest = np.finfo(np.float64).max
    scaler = fit_scaler(np.array([[largest], [largest], [largest / 2]]))
    np.testing.assert_allclose(scaler.mean / largest, [5 / 6], rtol=1e-15)
    np.testing.assert_allclose(scaler.scale / largest, [np.sqrt(2) / 6], rtol=1e-14)


def test_a_spread_too_small_to_divide_by():
    assert fit_scaler(np.array([[0.0], [5e-324], [1e-323]])).scale[0] == 1.0


def test_columns_do_not_touch_each_other():
    X = np.array([[1e300, 1e-300, 3.0], [-1e300, 3e-300, 3.0]])
    together = fit_scaler(X)
    for d in range(3):
        alone = fit_scaler(X[:, d : d + 1])
        assert (together.mean[d], together.scale[d]) == (alone.mean[0], alone.scale[0])


@pytest.mark.parametrize("X", [np.empty((0, 2)), np.ones(3)])
def test_a_scaler_needs_rows(X):
    with pytest.raises(DataError, match=r"a scaler needs rows of shape \(N, D\)"):
        fit_scaler(X)


def test_inside_a_traced_function():
    X = np.array([[1.0, 4.0], [3.0, 8.0]])
    scaler = fit_scaler(X)
    traced = jax.jit(lambda x: scaler.inverse(2.0 * scaler.transform(x)))(jnp.asarray(X))
    np.testing.assert_allclose(traced, [[0.0, 2.0], [4.0, 10.0]], rtol=1e-15)


floats = st.floats(-1e300, 1e300, allow_subnormal=False)
columns = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.lists(floats, min_size=width, max_size=width), min_size=1, max_size=8)
)


@given(columns)
def test_there_and_back(rows):
    X = np.array(rows)
    scaler = fit_scaler(X)
    Z = scaler.transform(X)
    assert np.isfinite(Z).all()
    # What comes back is as exact as sums of numbers of the column's size can be.
    np.testing.assert_allclose(scaler.inverse(Z) - X, 0.0, atol=1e-14 * np.abs(X).max() + 1e-300)


@given(st.lists(st.floats(-1e300, 1e300, allow_subnormal=False), min_size=2, max_size=8))
def test_against_exact_arithmetic(values):
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    spread = statistics.pstdev(exact)
    scaler = fit_scaler(np.array(values)[:, None])
    size = max(abs(value) for value in values)
    assert abs(scaler.mean[0] - float(mean)) <= 1e-15 * size + 1e-300
    if scaler.scale[0] != 1.0:
        assert abs(scaler.scale[0] - float(spread)) <= 1e-14 * size
    else:
        assert spread in (0, 1) or spread < 1e-13 * size or spread < 1e-300


@given(st.lists(st.floats(-1e3, 1e3).map(lambda x: round(x, 3)), min_size=2, max_size=8), st.integers(-900, 900))
def test_a_change_of_units_changes_nothing_but_the_units(values, exponent):
    X = np.array(values)[:, None]
    scaler, other = fit_scaler(X), fit_scaler(np.ldexp(X, exponent))
    np.testing.assert_array_equal(other.mean, np.ldexp(scaler.mean, exponent))
    if X.std() > 1e-6:
        np.testing.assert_array_equal(other.scale, np.ldexp(scaler.scale, exponent))
