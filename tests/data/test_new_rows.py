"""Rows that come after the fit are matched to the task they belong to."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from aligngp.data.tasks import (
    Task,
    TaskSchema,
    read_inputs,
    read_inputs_and_output,
)
from aligngp.errors import DataError

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
kinds = pytest.mark.parametrize("kind", list(FRAMES))
X = np.array([[1.0, 4.0], [2.0, 3.0], [3.0, 5.0]])
Y = np.array([7.0, 8.0, 6.0])
COLUMNS = {"speed": X[:, 0], "zeta": Y, "angle": X[:, 1]}
FRAME = pd.DataFrame(COLUMNS)
NAMED = TaskSchema("fine", ("speed", "angle"), "zeta", "pandas", True)
UNNAMED = TaskSchema("fine", ("x1", "x2"), None, "array", False)
SINGLE = TaskSchema("fine", ("speed",), "zeta", "pandas", True)


@kinds
def test_a_frame_is_matched_by_name(kind):
    frame = FRAMES[kind]({"angle": X[:, 1], "note": ["a", "b", "c"], "speed": X[:, 0]})
    values, came = read_inputs(NAMED, frame)
    assert came == kind
    np.testing.assert_array_equal(values, X)


@pytest.mark.parametrize("schema", [NAMED, UNNAMED])
def test_an_array_is_matched_by_position(schema):
    values, kind = read_inputs(schema, X.tolist())
    assert kind == "array"
    np.testing.assert_array_equal(values, X)


def test_a_frame_for_a_task_of_arrays():
    values, _ = read_inputs(UNNAMED, pd.DataFrame({"x2": X[:, 1], "x1": X[:, 0]}))
    np.testing.assert_array_equal(values, X)
    with pytest.raises(DataError, match=r"missing columns 'x1', 'x2'.*fitted from arrays: name the columns like this"):
        read_inputs(UNNAMED, pd.DataFrame({"speed": X[:, 0], "angle": X[:, 1]}))


@pytest.mark.parametrize(("rows", "kind"), [(Y, "array"), (Y[:, None], "array"), (pl.Series("other", Y), "polars")])
def test_rows_of_a_single_input(rows, kind):
    values, came = read_inputs(SINGLE, rows)
    assert came == kind
    np.testing.assert_array_equal(values, Y[:, None])


@pytest.mark.parametrize(
    "data", [np.empty((0, 2)), pd.DataFrame({"angle": [], "speed": []}), pl.DataFrame(COLUMNS).clear()]
)
def test_no_new_rows(data):
    np.testing.assert_array_equal(read_inputs(NAMED, data)[0], np.empty((0, 2)))


BAD_ROWS = {
    "missing": (
        NAMED,
        FRAME[["angle"]].rename(columns={"angle": "sped"}),
        "missing columns 'speed' .did you mean 'sped'",
    ),
    "one row flat": (
        NAMED,
        [1.0, 2.0],
        r"task 'fine': the inputs have shape \(2,\), expected \(n, 2\).*\(1, 2\)",
    ),
    "too wide": (NAMED, np.ones((4, 3)), r"shape \(4, 3\), expected \(n, 2\) with columns 'speed', 'angle'"),
    "too wide for one": (SINGLE, X, r"shape \(3, 2\), expected \(n, 1\)"),
    "three dimensions": (NAMED, X[None], r"shape \(1, 3, 2\)"),
    "a number": (SINGLE, 1.0, r"shape \(\), expected \(n, 1\).*Pass one row as shape \(1, 1\)"),
    "NaN": (NAMED, np.array([[1, 2], [1, np.nan]]), "task 'fine': column 'angle' is missing.* row 1"),
    "NaN in a frame": (
        NAMED,
        FRAME.assign(speed=[np.nan, 1, 2]),
        "task 'fine': column 'speed' is missing.* row 0",
    ),
    "text": (NAMED, FRAME.assign(speed=["a", "b", "c"]), "task 'fine': column 'speed' has dtype"),
    "no rows of other columns": (NAMED, FRAME[["angle"]].iloc[:0], "missing column 'speed'"),
}


@pytest.mark.parametrize(("schema", "data", "words"), BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_new_rows_that_do_not_fit(schema, data, words):
    with pytest.raises(DataError, match=words):
        read_inputs(schema, data)


# --- rows with known outputs


OUTPUT_TOO = {
    "frame": (FRAME[["zeta", "angle", "speed"]], None),
    "frame and its column": (FRAME.rename(columns={"zeta": "other"}), "other"),
    "frame and outputs": (FRAME[["angle", "speed"]], Y),
    "pair": ((X, Y), None),
    "pair of a frame": ((FRAME, Y), None),
    "pair of a frame and its column": ((FRAME, "zeta"), None),
    "array and outputs": (X, pd.Series(Y)),
    "task": (Task(X, Y), None),
    "task with names": (Task(X[:, ::-1], Y, names=["angle", "speed"]), None),
    "task of a frame": (Task(FRAME), None),
}


@pytest.mark.parametrize(("data", "y"), OUTPUT_TOO.values(), ids=OUTPUT_TOO.keys())
def test_rows_with_their_outputs(data, y):
    rows, outputs = read_inputs_and_output(NAMED, data, y)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(outputs, Y)


BAD_PAIRS = {
    "no output": (
        UNNAMED,
        pd.DataFrame(X, columns=["x1", "x2"]),
        None,
        "which column is the output.*'x1', 'x2'",
    ),
    "output elsewhere": (NAMED, FRAME.drop(columns="zeta"), None, "the output column 'zeta' is not there"),
    "y twice": (NAMED, (X, Y), Y, "task 'fine': y came twice, in the tuple and as y="),
    "y missing": (NAMED, X, None, "task 'fine': expected .*got ndarray"),
    "rows disagree": (NAMED, X, Y[:2], "X has 3 rows but y has 2"),
    "no rows": (NAMED, FRAME.iloc[:0], None, "there is no row"),
    "NaN": (NAMED, (X, [1, np.nan, 2]), None, "column 'zeta' is missing.* row 1"),
    "other names": (
        NAMED,
        Task(X, Y, names=["a", "b"]),
        None,
        "names are 'a', 'b', expected 'speed', 'angle'",
    ),
    "too narrow": (NAMED, Task(Y, Y, names=["angle", "speed"]), None, "X has 1 columns but 2 names came"),
}


@pytest.mark.parametrize(("schema", "data", "y", "words"), BAD_PAIRS.values(), ids=BAD_PAIRS.keys())
def test_rows_without_usable_outputs(schema, data, y, words):
    with pytest.raises(DataError, match=words):
        read_inputs_and_output(schema, data, y)
