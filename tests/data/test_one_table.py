"""One table of several tasks: whose row it is, and which columns are whose inputs; errors: tests/test_sklearn.py."""

import numpy as np
import pandas as pd
import pytest

from aligngp.data.one_table import name_columns, read_array_table, read_frame_table, task_name
from aligngp.data.tables import open_frame
from aligngp.errors import DataError


@pytest.mark.parametrize(
    "label, name",
    [
        ("fine", "fine"),
        (np.str_("fine"), "fine"),
        (3, "3"),
        (np.int8(-3), "-3"),
        (3.0, "3"),
        (np.float32(3.0), "3"),
        (2**60 + 1, "1152921504606846977"),
        (True, "True"),
        (np.bool_(False), "False"),
        *[(label, None) for label in (" ", "", None, 0.5, np.nan, np.inf, b"fine", ("fine",))],
    ],
)
def test_labels_and_the_names_of_tasks(label, name):
    assert task_name(label) == name


def test_rows_are_those_of_their_task_and_tasks_are_sorted():
    X = np.array([[1, 5.0, np.nan], [0, 6.0, 0.1], [1, 7.0, np.nan], [0, 8.0, 0.2]])
    table = read_array_table(X, 0)
    assert {task: rows.tolist() for task, rows in table.rows.items()} == {"0": [1, 3], "1": [0, 2]}
    assert list(table.rows) == ["0", "1"]
    columns, values = table.inputs("0")
    assert columns == ("x1", "x2")
    np.testing.assert_array_equal(values, [[6.0, 0.1], [8.0, 0.2]])
    columns, values = table.inputs("1")
    assert columns == ("x1",)
    np.testing.assert_array_equal(values, [[5.0], [7.0]])
    assert table.size == 4


def test_frames_and_arrays_with_names_are_the_same():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "task": ["s", "t", "s"], "b": [4, 5, 6]}, index=[7, 7, 8])
    opened = open_frame(frame, "all")
    assert opened is not None
    tables = [read_frame_table(opened, "task"), read_array_table(frame.to_numpy(), "task", ["a", "task", "b"])]
    for table in tables:
        columns, values = table.inputs("s")
        assert columns == ("a", "b")
        np.testing.assert_array_equal(values, [[1.0, 4.0], [3.0, 6.0]])
        np.testing.assert_array_equal(table.new_rows("t", ("b", "a")), [[5.0, 2.0]])


def test_new_rows_need_the_columns_of_the_fit_alone():
    X = np.array([[0, 5.0, np.nan], [0, 6.0, 0.1]])
    np.testing.assert_array_equal(read_array_table(X, 0).new_rows("0", ("x1",)), [[5.0], [6.0]])
    with pytest.raises(DataError, match=r"task '0': column 'x2' .* in 1 of 2 rows, first in row 0 .*fitted with 'x2'"):
        read_array_table(X, 0).new_rows("0", ("x2",))


def test_columns_without_names_are_counted_from_one():
    assert name_columns(None, 3) == ("x1", "x2", "x3")
    assert name_columns(np.array(["a", "b"]).tolist(), 2) == ("a", "b")
