"""What cannot be used is an error with the task, the column and the way out; the suspicious a warning."""

import inspect
import re
import warnings

import numpy as np
import pandas as pd
import pytest

from aligngp.data.tasks import (
    Task,
    TaskData,
    read_tasks,
)
from aligngp.errors import AligngpWarning, DataError, SettingError

X = np.array([[1.0, 4.0], [2.0, 3.0], [3.0, 5.0]])
Y = np.array([7.0, 8.0, 6.0])
COLUMNS = {"speed": X[:, 0], "zeta": Y, "angle": X[:, 1]}


def one(task, output=None) -> TaskData:
    (read,) = read_tasks({"fine": task}, output)
    return read


FRAME = pd.DataFrame(COLUMNS)
BAD_ARGUMENTS = {
    "no mapping": (FRAME, "zeta", "tasks must be a mapping such as .*got DataFrame.*agp.Task"),
    "a pair alone": ((X, Y), None, "tasks must be a mapping .*got tuple"),
    "none": (None, None, "tasks must be a mapping .*got None"),
    "no task": ({}, None, "there is no task. Pass at least one"),
    "name of a number": ({3: (X, Y)}, None, r"non-empty strings, got 3 \(int\)"),
    "blank name": ({" ": (X, Y)}, None, "non-empty strings, got ' '"),
    "bare array": ({"fine": X}, None, r"task 'fine': expected a DataFrame .*got ndarray"),
    "triple": ({"fine": (X, Y, Y)}, None, "task 'fine': expected .*got tuple of length 3"),
    "list": ({"fine": [X, Y]}, None, r"task 'fine': expected .*\(X, y\).*got list of length 2"),
    "nothing": ({"fine": None}, None, "task 'fine': expected .*got None"),
    "no output": ({"fine": FRAME}, None, "task 'fine': which column is the output.*'speed', 'zeta', 'angle'"),
    "output elsewhere": (
        {"fine": FRAME},
        "zetta",
        r"task 'fine': the output column 'zetta' is not there \(did you mean 'zeta'\?\). The frame has",
    ),
    "output unlike any": (
        {"fine": FRAME},
        "q",
        r"the output column 'q' is not there\. The frame has 'speed'",
    ),
    "output of another task": (
        {"fine": FRAME, "coarse": (X, Y)},
        {"fine": "zeta", "course": "zeta"},
        r"output names a column for 'course', which is not a task \(did you mean 'coarse'\?\)",
    ),
    "output lacks a task": (
        {"fine": FRAME, "coarse": FRAME},
        {"fine": "zeta"},
        "task 'coarse': which column",
    ),
    "output is a number": ({"fine": FRAME}, 1, "output must be the name of a column, .*got 1"),
    "output maps to a number": ({"fine": FRAME}, {"fine": 1}, "output must be the name of a column"),
    "array without y": (
        {"fine": Task(X)},
        None,
        r"task 'fine': the inputs are an array, so y must be numbers, got None",
    ),
    "array with a name": ({"fine": (X, "zeta")}, None, "so y must be numbers, got 'zeta'"),
    "no rows": ({"fine": (np.empty((0, 2)), [])}, None, "task 'fine': there is no row"),
    "no rows in a frame": ({"fine": FRAME.iloc[:0]}, "zeta", "task 'fine': there is no row"),
    "no columns": ({"fine": (np.empty((3, 0)), Y)}, None, "task 'fine': there is no input column"),
    "output only": ({"fine": FRAME[["zeta"]]}, "zeta", "task 'fine': there is no input column"),
    "rows disagree": ({"fine": (X, Y[:2])}, None, "task 'fine': X has 3 rows but y has 2"),
    "three dimensions": (
        {"fine": (X[None], Y)},
        None,
        r"task 'fine': X has shape \(1, 3, 2\), expected \(n,\) or",
    ),
    "a number": ({"fine": (1.0, Y)}, None, r"X has shape \(\)"),
    "two outputs": (
        {"fine": (X, X)},
        None,
        r"task 'fine': y has shape \(3, 2\).*several outputs are several tasks",
    ),
    "text": ({"fine": FRAME.assign(angle=["a", "b", "c"])}, "zeta", "task 'fine': column 'angle' has dtype"),
    "text output": (
        {"fine": FRAME.assign(zeta=["a", "b", "c"])},
        "zeta",
        "task 'fine': column 'zeta' has dtype",
    ),
    "text array": ({"fine": (X.astype(str), Y)}, None, "task 'fine': column 'X' has dtype <U"),
    "NaN": (
        {"fine": FRAME.assign(angle=[1, np.nan, 2])},
        "zeta",
        "column 'angle' is missing.* 1 of 3 rows.* row 1",
    ),
    "NaN output": (
        {"fine": FRAME.assign(zeta=[1, 2, np.inf])},
        "zeta",
        "column 'zeta' is .*infinite.* row 2",
    ),
    "NaN array": (
        {"fine": (np.where(X == 4, np.nan, X), Y)},
        None,
        "task 'fine': column 'x2' is missing.* row 0",
    ),
    "NaN vector": (
        {"fine": (X, [1, np.nan, np.nan])},
        "zeta",
        "column 'zeta' is missing, NaN .* 2 of 3 rows.* row 1",
    ),
    "duplicate": (
        {"fine": pd.DataFrame(np.c_[X, Y], columns=["a", "a", "zeta"])},
        "zeta",
        "task 'fine': a duplicate column name.*'a' 2 times",
    ),
    "names too few": (
        {"fine": Task(X, Y, names=["a"])},
        None,
        "task 'fine': X has 2 columns but 1 names came: 'a'",
    ),
    "names twice": (
        {"fine": Task(X, Y, names=["a", "a"])},
        None,
        "task 'fine': names has 'a' more than once",
    ),
    "names no list": (
        {"fine": Task(X, Y, names="ab")},
        None,
        "names must be a list of non-empty strings, got 'ab'",
    ),
    "names of numbers": (
        {"fine": Task(X, Y, names=[0, 1])},
        None,
        "names must be a list of non-empty strings",
    ),
    "names a number": (
        {"fine": Task(X, Y, names=3)},
        None,
        "names must be a list of non-empty strings, got 3",
    ),
    "names elsewhere": (
        {"fine": Task(FRAME, "zeta", names=["sped"])},
        None,
        "missing column 'sped' .*'speed'",
    ),
    "output among names": (
        {"fine": Task(FRAME, "zeta", names=["zeta"])},
        None,
        "'zeta' is the output, it cannot",
    ),
}


@pytest.mark.parametrize(("tasks", "output", "words"), BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS.keys())
def test_what_cannot_be_used(tasks, output, words):
    with pytest.raises(DataError, match=words):
        read_tasks(tasks, output)


@pytest.mark.parametrize("noise", [0.0, -1, np.inf, np.nan, True, "0.1", [0.1]])
def test_noise_must_be_a_standard_deviation(noise):
    with pytest.raises(SettingError, match=re.escape(f"or None, got {noise!r}")):
        read_tasks({"fine": Task(X, Y, noise=noise)})


# --- what is suspicious


SUSPICIOUS = {
    "constant": ((np.c_[X, np.ones((3, 2))], Y), "constant input columns tell nothing: 'x3', 'x4'"),
    "constant output": ((X, np.ones(3)), "the output 'zeta' is constant"),
    "identical": ((np.c_[X, X[:, :1]], Y), "columns 'x1' and 'x3' hold identical values"),
    "identical but for a sign of zero": ((np.c_[[0.0, 1, 2], [-0.0, 1, 2]], Y), "columns 'x1' and 'x2' hold"),
    "one row": ((X[:1], Y[:1]), "there is one row only"),
    "the output as an input": ((FRAME, Y), "column 'zeta' is used as an input although output= names it"),
}


@pytest.mark.parametrize(("task", "words"), SUSPICIOUS.values(), ids=SUSPICIOUS.keys())
def test_what_is_suspicious_is_used_and_told_once(task, words):
    with pytest.warns(AligngpWarning, match=f"task 'fine': {words}") as told:
        read = one(task, "zeta")
    assert len(told) == 1
    np.testing.assert_array_equal(read.X, FRAME if task[0] is FRAME else task[0])


def test_the_warning_points_at_the_caller_of_the_caller():
    def fit():
        return inspect.unwrap(read_tasks)({"fine": (X[:1], Y[:1])})  # without the tests' type checks

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fit()
    assert told[0].filename == __file__
