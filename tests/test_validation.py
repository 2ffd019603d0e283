"""What is wrong with a user's tables, from the front door: the task, the column, what was expected, what to do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import aligngp as agp
from estimators import untrained

KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
kinds = pytest.mark.parametrize("kind", KINDS)
RNG = np.random.default_rng(0)
FINE = {"speed": RNG.uniform(size=6), "angle": RNG.uniform(size=6), "zeta": RNG.uniform(size=6)}
COARSE = {"speed": RNG.uniform(size=8), "zeta": RNG.uniform(size=8)}
SETTINGS = {"common": "coarse", "calibration": "none", "inference": "adam", "num_inducing": 3, "max_iterations": 2}


def fit(fine: dict[str, Any], make: Callable[[Any], Any] = pd.DataFrame) -> agp.AlignedGP:
    with untrained():
        return agp.AlignedGP(**SETTINGS).fit({"fine": make(fine), "coarse": make(COARSE)}, output="zeta")


def first(value: Any, column: str = "angle") -> dict[str, Any]:
    """The fine task with another first value in a column."""
    return {**FINE, column: [value, *FINE[column][1:].tolist()]}


UNUSABLE = {
    "empty": ({name: values[:0] for name, values in FINE.items()}, "task 'fine': there is no row. Pass at least one,"),
    "NaN": (
        first(float("nan")),
        r"task 'fine': column 'angle' is missing, NaN or infinite in 1 of 6 rows, first in row 0 .*Drop",
    ),
    "missing": (first(None), "task 'fine': column 'angle' is missing, NaN or infinite in 1 of 6 rows.* fill in their"),
    "infinity": (first(float("inf")), "task 'fine': column 'angle' is missing, NaN or infinite in 1 of 6 .*Drop these"),
    "output": (first(float("nan"), "zeta"), "task 'fine': column 'zeta' is missing, NaN or infinite in 1 of 6 .*Drop"),
    "text": (
        {**FINE, "angle": list("abcdef")},
        r"task 'fine': column 'angle' has dtype .*(str|object|String|string).*, expected numbers.*leave it out",
    ),
    "no output": (
        {"speed": FINE["speed"], "zetta": FINE["zeta"]},
        r"task 'fine': the output column 'zeta' is not there \(did you mean 'zetta'\?\). The frame has.*Name one",
    ),
    "no common column": (
        {"angle": FINE["angle"], "zeta": FINE["zeta"]},
        r"task 'fine' has no column 'speed' of the common task 'coarse' \(it has angle\).*Three ways out: .*mappings=",
    ),
}


@kinds
@pytest.mark.parametrize("case", UNUSABLE)
def test_what_cannot_be_fitted(case, kind):
    fine, words = UNUSABLE[case]
    with pytest.raises(agp.AligngpError, match=words):
        fit(fine, KINDS[kind])


SUSPICIOUS = {
    "one row": ({n: v[:1] for n, v in FINE.items()}, "task 'fine': there is one row only, .* cannot be scaled. Add"),
    "constant column": (
        {**FINE, "angle": np.ones(6)},
        "task 'fine': constant input columns tell nothing: 'angle'. Leave them out",
    ),
    "constant output": ({**FINE, "zeta": np.ones(6)}, "task 'fine': the output 'zeta' is constant. Check that"),
    "duplicate column": (
        {**FINE, "angle": FINE["speed"]},
        "task 'fine': columns 'speed' and 'angle' hold identical values. Leave one out",
    ),
}


@kinds
@pytest.mark.parametrize("case", SUSPICIOUS)
def test_what_is_fitted_all_the_same(case, kind):
    fine, words = SUSPICIOUS[case]
    with pytest.warns(agp.AligngpWarning, match=words) as told:
        gp = fit(fine, KINDS[kind])
    assert len(told) == 1
    assert np.isfinite(gp.predict("fine", KINDS[kind](FINE)).mean).all()


def test_two_columns_of_one_name():
    twice = pd.DataFrame(np.ones((3, 3)), columns=["angle", "angle", "zeta"])
    with pytest.raises(
        agp.DataError, match=r"task 'fine': a duplicate column name.*'angle' 2 times. Rename or drop one"
    ):
        fit(twice, pd.DataFrame)
    renamed = pa.table([[1.0], [2.0], [3.0]], names=["angle", "angle", "zeta"])
    with pytest.raises(agp.DataError, match=r"task 'fine': a duplicate column name.*angle.*Rename or drop one"):
        agp.AlignedGP(**SETTINGS).fit({"fine": renamed, "coarse": pa.table(COARSE)}, output="zeta")


X, Y = np.column_stack([FINE["speed"], FINE["angle"]]), FINE["zeta"]
SHAPES = {
    "rows": ((X, Y[:4]), "task 'fine': X has 6 rows but y has 4. Pass one output a row"),
    "outputs": ((X, X), r"task 'fine': y has shape \(6, 2\), expected \(n,\) or \(n, 1\). .*several tasks"),
    "dimensions": ((X[None], Y), r"task 'fine': X has shape \(1, 6, 2\), expected \(n,\) or \(n, number of inputs\)"),
    "names": (agp.Task(X, Y, names=["a"]), "task 'fine': X has 2 columns but 1 names came: 'a'"),
    "ragged": (([[1.0, 2.0], [3.0]], [1.0, 2.0]), "task 'fine': X is not an array of numbers.*rows of equal length"),
}


@pytest.mark.parametrize("case", SHAPES)
def test_shapes_that_disagree(case):
    task, words = SHAPES[case]
    with pytest.raises(agp.DataError, match=words):
        agp.AlignedGP(**SETTINGS).fit({"fine": task, "coarse": (X, Y)})


@kinds
def test_new_rows(kind):
    make = KINDS[kind]
    gp = fit(FINE, make)
    new = {name: values[:3] for name, values in FINE.items()}
    expected = gp.predict("fine", make(new)).mean
    turned = {name: new[name] for name in ("angle", "zeta", "speed")}
    np.testing.assert_array_equal(gp.predict("fine", make(turned)).mean, expected)
    with pytest.raises(
        agp.DataError,
        match=r"there is no task 'fin' \(did you mean 'fine'\?\). The tasks are 'fine', 'coarse'. Name one",
    ):
        gp.predict("fin", make(new))
    with pytest.raises(
        agp.DataError,
        match=r"task 'fine': missing column 'angle' \(did you mean 'angel'\?\). The frame has 'speed', 'angel'. Add",
    ):
        gp.predict("fine", make({"speed": new["speed"], "angel": new["angle"]}))
    with pytest.raises(
        agp.DataError,
        match=r"task 'fine': the inputs have shape \(3, 1\), expected \(n, 2\) with columns 'speed', 'angle'. Pass",
    ):
        gp.predict("fine", new["speed"][:, None])
    with pytest.raises(agp.DataError, match="task 'fine': column 'speed' is missing, NaN or infinite in 3 of 3 rows"):
        gp.predict("fine", make({**new, "speed": [np.nan] * 3}))


def test_new_rows_are_not_copied_and_what_is_joint_does_not_change_with_them():
    gp = fit(FINE)
    rows = X.copy()
    prediction = gp.predict("fine", rows)
    draws, covariance = prediction.sample(2, seed=1), prediction.covariance
    rows[:] = 0.0
    np.testing.assert_array_equal(prediction.sample(2, seed=1), draws)
    np.testing.assert_array_equal(prediction.covariance, covariance)
