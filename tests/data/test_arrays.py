"""Arrays and series of every kind become the same float64 numbers."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from aligngp.data.tables import read_array, read_vector
from aligngp.errors import DataError


@pytest.mark.parametrize(
    "data",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]], np.float32),
        np.array([[1, 2], [3, 4]], np.longdouble),
        jnp.array([[1, 2], [3, 4]], jnp.bfloat16),
        np.ma.masked_array([[1, 2], [3, 4]]),
    ],
)
def test_arrays(data):
    values, kind = read_array(data, "fine", "X")
    assert (values.dtype, kind) == (np.float64, "array")
    np.testing.assert_array_equal(values, [[1.0, 2.0], [3.0, 4.0]])


def test_what_was_read_is_a_copy():
    mine = np.array([1.0, 2.0])
    values, _ = read_array(mine, "fine", "X")
    mine[:] = 0.0
    np.testing.assert_array_equal(values, [1.0, 2.0])


def test_a_masked_value_is_a_missing_one():
    values, _ = read_array(np.ma.masked_array([1, 2, 3], mask=[False, True, False]), "fine", "X")
    np.testing.assert_array_equal(values, [1.0, np.nan, 3.0])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([["a", "b"]], r"column 'X' has dtype <U1.*category"),
        (np.array(["2020"], "M8[D]"), r"dtype datetime64\[D\].*seconds"),
        ([1, None], r"dtype object.*Cast"),
        (np.array([1j]), "dtype complex128"),
        (np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), "dtype .*expected numbers"),
        ([[1, 2], [3]], "X is not an array of numbers.*equal length"),
    ],
)
def test_arrays_that_are_not_numbers(data, words):
    with pytest.raises(DataError, match=f"task 'fine': .*{words}"):
        read_array(data, "fine", "X")


def test_too_large_a_long_double_is_infinite():
    with pytest.raises(DataError, match="column 'y' is missing, NaN or infinite in 1 of 2 rows, first in row 1"):
        read_vector(np.array([1.0, np.longdouble("1e400")]), "fine", "y")


@pytest.mark.parametrize(
    "data",
    [
        [1, 2],
        np.array([[1.0], [2.0]]),
        jnp.array([1.0, 2.0]),
        pd.Series([1, 2], dtype="Int64"),
        pl.Series([1, 2]),
        pa.chunked_array([[1], [2]]),
        pl.DataFrame({"y": [1, 2]}),
    ],
)
def test_vectors(data):
    np.testing.assert_array_equal(read_vector(data, "fine", "y"), [1.0, 2.0])


def test_vectors_that_are_not():
    with pytest.raises(DataError, match=r"task 'fine': y has shape \(2, 2\), expected \(n,\) or \(n, 1\)"):
        read_vector(np.eye(2), "fine", "y")
    with pytest.raises(DataError, match=r"y has shape \(\)"):
        read_vector(1.0, "fine", "y")
    with pytest.raises(DataError, match="y must be one column, but a frame with columns 'a', 'b'"):
        read_vector(pd.DataFrame({"a": [1], "b": [2]}), "fine", "y")
