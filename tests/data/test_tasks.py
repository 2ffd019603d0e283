"""What a user passes becomes tasks, or an error that names the task, the column and the way out."""

import json
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from aligngp.data.tasks import (
    Task,
    TaskData,
    TaskSchema,
    find_task,
    read_tasks,
)
from aligngp.errors import DataError

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
kinds = pytest.mark.parametrize("kind", list(FRAMES))
X = np.array([[1.0, 4.0], [2.0, 3.0], [3.0, 5.0]])
Y = np.array([7.0, 8.0, 6.0])
COLUMNS = {"speed": X[:, 0], "zeta": Y, "angle": X[:, 1]}


def one(task, output=None) -> TaskData:
    (read,) = read_tasks({"fine": task}, output)
    return read


@kinds
def test_a_frame_with_its_output(kind):
    task = one(FRAMES[kind](COLUMNS), "zeta")
    assert task.schema == TaskSchema("fine", ("speed", "angle"), "zeta", kind, True)
    np.testing.assert_array_equal(task.X, X)
    np.testing.assert_array_equal(task.y, Y)
    assert (task.mapping, task.noise) == (None, None)


@pytest.mark.parametrize(
    "y", [Y, Y[:, None], Y.tolist(), jnp.asarray(Y), pd.Series(Y), pl.Series(Y), pa.chunked_array([Y])]
)
def test_a_pair_of_arrays(y):
    task = one((X, y))
    assert task.schema == TaskSchema("fine", ("x1", "x2"), None, "array", False)
    np.testing.assert_array_equal(task.X, X)
    np.testing.assert_array_equal(task.y, Y)


def test_one_input_may_be_one_dimensional():
    task = one((X[:, 0], Y), "zeta")
    assert task.schema == TaskSchema("fine", ("x1",), "zeta", "array", False)
    np.testing.assert_array_equal(task.X, X[:, :1])


def test_a_series_keeps_its_name():
    assert one((pl.Series("speed", X[:, 0]), Y)).schema == TaskSchema("fine", ("speed",), None, "polars", True)
    assert one((pd.Series(X[:, 0]), Y)).schema == TaskSchema("fine", ("x1",), None, "pandas", False)


def test_a_frame_and_outputs_of_their_own():
    task = one((pd.DataFrame({"speed": X[:, 0], "angle": X[:, 1]}), Y), "zeta")
    assert task.schema == TaskSchema("fine", ("speed", "angle"), "zeta", "pandas", True)
    np.testing.assert_array_equal(task.y, Y)


def test_a_task_with_settings():
    def mapping(rows):
        return rows[:, :1]

    task = one(Task(X, Y, names=["speed", "angle"], mapping=mapping, noise=np.float32(0.5)))
    assert task.schema == TaskSchema("fine", ("speed", "angle"), None, "array", True)
    assert task.mapping is mapping
    assert task.noise == 0.5 and type(task.noise) is float


@kinds
def test_a_task_of_a_frame_picks_and_orders_columns(kind):
    frame = FRAMES[kind]({**COLUMNS, "note": ["a", "b", "c"]})
    for task in (Task(frame, "zeta", names=["angle", "speed"]), Task(frame, names=("angle", "speed"))):
        read = one(task, "zeta")
        assert (read.columns, read.output) == (("angle", "speed"), "zeta")
        np.testing.assert_array_equal(read.X, X[:, ::-1])
        np.testing.assert_array_equal(read.y, Y)


def test_the_output_named_by_a_task_wins():
    task = one(Task(pd.DataFrame(COLUMNS), "angle"), "zeta")
    assert (task.columns, task.output) == (("speed", "zeta"), "angle")
    np.testing.assert_array_equal(task.y, X[:, 1])


def test_tasks_keep_their_order_and_their_own_outputs():
    tasks = {"b": pd.DataFrame(COLUMNS), "a": (X, Y), "c": pl.DataFrame({"u": Y, "power": X[:, 0]})}
    read = read_tasks(tasks, {"b": "zeta", "c": "power"})
    assert [(t.name, t.columns, t.output, t.kind) for t in read] == [
        ("b", ("speed", "angle"), "zeta", "pandas"),
        ("a", ("x1", "x2"), None, "array"),
        ("c", ("u",), "power", "polars"),
    ]
    np.testing.assert_array_equal(read[2].y, X[:, 0])


def test_a_lazy_frame_is_collected():
    assert one(pl.LazyFrame(COLUMNS), "zeta").kind == "polars"


def test_what_was_read_does_not_change_with_the_users_array():
    mine, outputs = X.copy(), Y.copy()
    task = one((mine, outputs))
    mine[:], outputs[:] = 0.0, 0.0
    np.testing.assert_array_equal(task.X, X)
    np.testing.assert_array_equal(task.y, Y)


def test_tasks_are_found_by_name():
    assert find_task("coarse", ("fine", "coarse")) == 1
    with pytest.raises(
        DataError, match=r"no task 'Coarse' \(did you mean 'coarse'\?\). The tasks are 'fine', 'coarse'"
    ):
        find_task("Coarse", ("fine", "coarse"))
    with pytest.raises(DataError, match=r"there is no task 0\. The tasks are 'fine'"):
        find_task(0, ("fine",))


@pytest.mark.parametrize("kind", ["pandas", "array"])
def test_a_schema_survives_json(kind):
    schema = TaskSchema("fine", ("x1", "x2"), None if kind == "array" else "y", kind, kind != "array")
    assert TaskSchema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_no_frame_library_is_needed():
    program = """
import sys
class Absent:
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] in ("pandas", "polars"):
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Absent)
import numpy as np, pyarrow as pa
from aligngp.data.tables import to_native
from aligngp.data.tasks import read_tasks
pair, table = read_tasks({"a": ([1, 2], [3, 4]), "b": pa.table({"x": [1, 2], "y": [5, 6]})}, "y")
assert (pair.kind, table.kind, table.columns) == ("array", "pyarrow", ("x",))
assert to_native({"mean": table.y}, "array").to_pydict() == {"mean": [5.0, 6.0]}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
