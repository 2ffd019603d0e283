"""What a prediction says: intervals, draws and tables, and what it refuses."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import norm

import aligngp as agp
from aligngp.prediction import JOINT_ROWS, index_of
from estimators import unchecked

MEAN, VARIANCE = np.array([1.0, -2.0, 3.0]), np.array([0.25, 4.0, 1.0])


def prediction(kind="array", index=None, rows=3) -> agp.Prediction:
    def draws(number, seed):
        return np.random.default_rng(seed).normal(size=(number, rows))

    mean, variance = np.resize(MEAN, rows), np.resize(VARIANCE, rows)
    return agp.Prediction("fine", mean, variance, kind, lambda: np.diag(variance), draws, index)


def test_the_standard_deviation_is_the_root_of_the_variance():
    np.testing.assert_array_equal(prediction().std, [0.5, 2.0, 1.0])


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_an_interval_holds_its_probability(level):
    lower, upper = prediction().interval(level)
    held = norm.cdf(upper, MEAN, np.sqrt(VARIANCE)) - norm.cdf(lower, MEAN, np.sqrt(VARIANCE))
    np.testing.assert_allclose(held, level, rtol=1e-12)
    np.testing.assert_allclose(upper - MEAN, MEAN - lower)


@pytest.mark.parametrize("level", [0, 1, 95, -0.1, float("nan"), True, "0.95"])
def test_a_level_is_a_probability(level):
    with unchecked(), pytest.raises(agp.SettingError, match=r"level: expected a probability between 0 and 1, got"):
        prediction().interval(level)


@pytest.mark.parametrize("kind, table", [("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.Table)])
def test_a_table_of_the_kind_that_came_in(kind, table):
    made = prediction(kind).to_frame()
    assert isinstance(made, table)
    columns = {name: np.asarray(made[name]) for name in ("mean", "std", "variance", "lower95", "upper95")}
    lower, upper = prediction().interval(0.95)
    for name, expected in {"mean": MEAN, "variance": VARIANCE, "lower95": lower, "upper95": upper}.items():
        np.testing.assert_array_equal(columns[name], expected)
    np.testing.assert_array_equal(columns["std"], np.sqrt(VARIANCE))


def test_arrays_come_back_as_a_pyarrow_table():
    assert prediction("array").to_frame().column("mean").to_pylist() == MEAN.tolist()


def test_a_pandas_index_comes_back():
    rows = pd.DataFrame({"x": MEAN}, index=["a", "b", "c"])
    made = prediction("pandas", index_of(rows)).to_frame()
    assert made.index.tolist() == ["a", "b", "c"]
    assert rows.join(made).loc["b", "mean"] == -2.0
    assert index_of(rows["x"]).tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("data", [pl.DataFrame({"x": MEAN}), pa.table({"x": MEAN}), MEAN, [[1.0]], pl.Series(MEAN)])
def test_other_tables_have_no_index(data):
    assert index_of(data) is None


def test_the_covariance_is_built_when_it_is_asked_for():
    np.testing.assert_array_equal(prediction().covariance, np.diag(VARIANCE))


def test_draws_repeat_by_seed():
    first = prediction().sample(5, seed=1)
    assert first.shape == (5, 3)
    np.testing.assert_array_equal(first, prediction().sample(5, seed=1))
    assert not np.array_equal(first, prediction().sample(5, seed=2))
    assert prediction().sample().shape == (1, 3)


@pytest.mark.parametrize(
    "number, seed, message",
    [
        (0, 0, "number: expected a whole number >= 1, got 0"),
        (2.0, 0, "number: expected a whole number >= 1, got 2.0"),
        (True, 0, "number: expected"),
        (1, -1, "seed: expected a whole number from 0 to 4294967295, got -1"),
        (1, None, "seed: expected"),
    ],
)
def test_draws_need_whole_numbers(number, seed, message):
    with unchecked(), pytest.raises(agp.SettingError, match=message):
        prediction().sample(number, seed)


def test_numbers_of_numpy_are_numbers():
    with unchecked():
        assert prediction().sample(np.int64(2), seed=np.uint8(3)).shape == (2, 3)


def test_too_many_rows_for_what_is_joint():
    many = prediction(rows=JOINT_ROWS + 1)
    for ask in (lambda: many.covariance, lambda: many.sample(1)):
        with pytest.raises(agp.DataError, match=r"task 'fine': expected at most 5000 rows .*got 5001.*on their own"):
            ask()
    assert many.interval()[0].shape == (5001,)
    assert prediction(rows=JOINT_ROWS).sample(1).shape == (1, 5000)


def test_what_a_prediction_looks_like():
    assert (repr(prediction()), len(prediction())) == ("Prediction(task='fine', rows=3)", 3)
