"""The front door: any number of tasks in, answers and errors that a user understands out."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import aligngp as agp
from aligngp.parameters import resolve
from estimators import (
    COARSE_X,
    COARSE_Y,
    FINE_X,
    FINE_Y,
    NEW,
    by_hand,
    make,
    moved,
    tasks,
    unchecked,
    untrained,
)

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def frames(make_frame) -> dict:
    """The two tasks as tables."""
    return {
        "fine": make_frame({"x1": FINE_X[:, 0], "zeta": FINE_Y, "x2": FINE_X[:, 1]}),
        "coarse": make_frame({"x2": COARSE_X[:, 0], "zeta": COARSE_Y}),
    }


@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_any_number_of_ragged_tasks(number):
    rng = np.random.default_rng(number)
    names = [f"task {t}" for t in range(number)]
    data, columns = {}, {}
    for t, name in enumerate(names):  # every task has another number of rows and of columns
        X = rng.normal(2.0, 3.0, (6 + t, 2 + t))
        data[name], columns[name] = (X, rng.normal(t, 1.0 + t, 6 + t)), [f"x{d}" for d in range(t, -2, -1)]
    with untrained():
        gp = make(common=names[0], mappings=None, calibration="none", num_latents=2)
        gp.fit({name: agp.Task(*data[name], names=columns[name]) for name in names})
    for name in names:
        picked = [columns[name].index(column) for column in columns[names[0]]]
        rows = rng.normal(2.0, 3.0, (3, len(columns[name])))
        found = gp.predict(name, rows)
        mean, variance = by_hand(gp, data, name, rows[:, picked])
        np.testing.assert_allclose(found.mean, mean, rtol=1e-8)
        np.testing.assert_allclose(found.variance, variance, rtol=1e-8)
    correlation = gp.task_correlation()
    np.testing.assert_allclose(np.diag(correlation), np.ones(number))
    np.testing.assert_allclose(correlation, correlation.T, rtol=1e-12)
    mixing = resolve(gp.model).mixing
    if number > 1:
        heights = [float(latent.kernel.variance) for latent in resolve(gp.model).latents]
        shared = sum(mixing[0, q] * mixing[1, q] * heights[q] for q in range(2))
        own = [sum(mixing[t, q] ** 2 * heights[q] for q in range(2)) for t in range(2)]
        np.testing.assert_allclose(correlation[0, 1], shared / np.sqrt(own[0] * own[1]), rtol=1e-9)
    assert len(gp.model.latents) == (1 if number == 1 else 2)


@pytest.mark.parametrize("kind", FRAMES)
def test_tables_give_what_arrays_give_and_come_back_in_kind(kind):
    with untrained():
        gp = make(mappings=None, calibration="none").fit(frames(FRAMES[kind]), output="zeta")
    rows = FRAMES[kind]({"x1": NEW[:, 0], "x2": NEW[:, 1]})
    found = gp.predict("fine", rows)
    np.testing.assert_array_equal(found.mean, moved("none").predict("fine", NEW).mean)
    assert isinstance(found.to_frame(), type(rows))
    turned = FRAMES[kind]({"note": ["a"] * 4, "x2": NEW[:, 1], "x1": NEW[:, 0]})
    again = gp.predict("fine", turned)
    np.testing.assert_array_equal(again.mean, found.mean)
    np.testing.assert_array_equal(again.variance, found.variance)
    with pytest.raises(agp.DataError, match=r"task 'fine': missing column 'x2'.*The frame has 'x1', 'X_2'"):
        gp.predict("fine", FRAMES[kind]({"x1": NEW[:, 0], "X_2": NEW[:, 1]}))


def test_a_pandas_index_is_kept_and_columns_are_matched():
    data = frames(pd.DataFrame)
    with untrained():
        gp = make(mappings=None, calibration="none").fit(data, output="zeta")
    turned = {name: frame[frame.columns[::-1]] for name, frame in data.items()}
    assert gp.elbo(turned) == gp.elbo()
    assert gp.score("fine", turned["fine"]) == gp.score("fine", data["fine"])
    rows = pd.DataFrame({"x1": NEW[:, 0], "x2": NEW[:, 1]}, index=[7, 3, 5, 1])
    found = gp.predict("fine", rows)
    assert rows.join(found.to_frame())["mean"].tolist() == found.mean.tolist()


def test_outputs_may_have_other_names():
    data = frames(pd.DataFrame)
    data["coarse"] = data["coarse"].rename(columns={"zeta": "eta"})
    with untrained():
        gp = make(mappings=None, calibration="none").fit(data, output={"fine": "zeta", "coarse": "eta"})
    assert gp.score("coarse", data["coarse"]) == moved("none").score("coarse", (COARSE_X, COARSE_Y))


def test_columns_that_were_taken_by_position_are_told():
    with (
        untrained(),
        pytest.warns(agp.AligngpWarning, match="task 'fine' came without column names, so its columns x1"),
    ):
        gp = make(mappings=None).fit(tasks())
    np.testing.assert_array_equal(gp.nominal("fine", NEW), NEW[:, [0]])


def test_constant_columns_and_outputs():
    X, y = np.column_stack([np.ones(8), FINE_X[:, 1]]), np.full(8, 5.0)
    with untrained(), pytest.warns(agp.AligngpWarning) as told:
        gp = make(calibration="none").fit({**tasks(), "fine": (X, y)})
    assert sorted(str(warning.message).split(":")[1].split()[0] for warning in told) == ["constant", "the"]
    rows = np.column_stack([np.full(4, 3.0), NEW[:, 1]])
    data = {**tasks(), "fine": (X, np.array([4.0, 6.0]))}  # the mean is 5, the scale of a constant 1
    mean, variance = by_hand(gp, data, "fine", rows[:, [1]])
    np.testing.assert_allclose(gp.predict("fine", rows).mean, mean, rtol=1e-9)
    np.testing.assert_allclose(gp.predict("fine", rows).variance, variance, rtol=1e-9)
    assert np.isnan(gp.score("fine", (rows, NEW[:, 0]))["smse"])


def test_one_row_is_enough():
    with untrained(), pytest.warns(agp.AligngpWarning, match="task 'fine': there is one row only"):
        gp = make(calibration="auto").fit({**tasks(), "fine": (FINE_X[:1], FINE_Y[:1])})
    found = gp.predict("fine", NEW)
    assert np.isfinite(found.mean).all()
    assert (found.variance > 0).all()
    score = gp.score("fine", (NEW, NEW[:, 0]))
    assert [name for name, value in score.items() if np.isnan(value)] == ["smse", "smll"]


def test_a_tie_asks_for_the_common_task():
    with pytest.raises(agp.SettingError, match=r"tasks 'a', 'b' all have 2 inputs.*common=...\)"):
        agp.AlignedGP().fit({"a": (FINE_X, FINE_Y), "b": (FINE_X, FINE_Y)})


def test_scores_are_those_of_the_predictions():
    gp = moved("none")
    found = gp.predict("fine", NEW)
    y = np.array([3.0, 9.0, 14.0, 5.0])
    expected = agp.metrics.scores(y, found.mean, found.variance, float(FINE_Y.mean()), float(FINE_Y.var()))
    assert gp.score("fine", (NEW, y)) == expected
    assert gp.score("fine", NEW, y) == expected
    assert gp.score("fine", agp.Task(NEW[:, ::-1], y, names=["x2", "x1"])) == expected
    assert gp.score("fine", pd.DataFrame({"x2": NEW[:, 1], "x1": NEW[:, 0]}), y) == expected
    assert set(expected) == {"smse", "smll", "rmse", "nlpd", "crps", "coverage95"}


@pytest.mark.parametrize("ask", ["predict", "score", "aligned", "nominal"])
def test_an_unknown_task(ask):
    with pytest.raises(
        agp.DataError, match=r"no task 'Fine' \(did you mean 'fine'\?\). The tasks are 'fine', 'coarse'"
    ):
        getattr(moved("none"), ask)("Fine", (NEW, NEW[:, 0]))


@pytest.mark.parametrize(
    "ask",
    [
        lambda gp: gp.predict("fine", NEW),
        lambda gp: gp.score("fine", (FINE_X, FINE_Y)),
        lambda gp: gp.aligned("fine", NEW),
        lambda gp: gp.nominal("fine", NEW),
        lambda gp: gp.model,
        lambda gp: gp.history,
        lambda gp: gp.elbo(),
        lambda gp: gp.summary(),
        lambda gp: gp.task_correlation(),
    ],
)
def test_nothing_is_said_before_a_fit(ask):
    with pytest.raises(agp.NotFittedError, match=r"not fitted yet. Call gp.fit\(tasks, output=...\) first"):
        ask(make())


def test_new_rows_must_have_the_tasks_columns():
    with pytest.raises(agp.DataError, match=r"task 'coarse': the inputs have shape \(4, 2\), expected \(n, 1\)"):
        moved("none").predict("coarse", NEW)
    with pytest.raises(agp.DataError, match=r"column 'x1' is missing, NaN or infinite"):
        moved("none").predict("fine", np.full((2, 2), np.nan))


@pytest.mark.parametrize("number", [0, 1.5, None])
def test_draws_for_a_prediction_are_counted(number):
    with unchecked(), pytest.raises(agp.SettingError, match="num_samples: expected a whole number >= 1, got"):
        moved("none").predict("fine", NEW, num_samples=number)


def test_what_an_estimator_looks_like():
    assert repr(agp.AlignedGP()) == "AlignedGP()  # not fitted yet: fit(tasks, output=...)"
    assert repr(moved("none", num_latents=2)) == (
        "AlignedGP(common='coarse', mappings={'fine': ['x2']}, calibration='none', inference='adam', residual=False, "
        "num_inducing=5, max_iterations=30, seed=3, progress=False)  # fitted to fine (8 rows), coarse (12 rows)"
    )


def test_the_process_stays_as_the_user_had_it():
    script = """
import json, warnings
import jax, jax.numpy as jnp, numpy as np
import aligngp as agp
seen = []
def formula(x):
    seen.append((jnp.ones(1).dtype.name, str(x.dtype)))
    return jnp.asarray(x)[:, 1:]
rng = np.random.default_rng(0)
fine, coarse = rng.uniform(size=(6, 2)), rng.uniform(size=(8, 1))
settings = {"calibration": "none", "num_latents": 1, "num_inducing": 3, "max_iterations": 1}
gp = agp.AlignedGP("coarse", mappings={"fine": formula}, **settings)
flags = [jax.config.jax_enable_x64]
gp.fit({"fine": (fine, fine[:, 1]), "coarse": (coarse, coarse[:, 0])})
flags.append(jax.config.jax_enable_x64)
found = gp.predict("fine", fine)
types = [found.mean.dtype, found.sample(1).dtype, found.covariance.dtype, gp.model.mixing.dtype]
gp.summary(), gp.task_correlation(), gp.aligned("fine", fine), gp.history
try:
    gp.predict("fine", fine[:, :1])
except agp.DataError:
    flags.append(jax.config.jax_enable_x64)
types.append((jnp.ones(3) * np.float64(2.0)).dtype)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    agp.AlignedGP(**settings).fit({"fine": (fine * [1.0, 0.0], fine[:, 1]), "coarse": (coarse, coarse[:, 0])})
places = [[str(warning.message).split()[2], warning.filename] for warning in told]
print(json.dumps([flags, [str(kind) for kind in types], sorted(set(seen)), places]))
"""
    environment = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_X64"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    flags, types, seen, places = json.loads(done.stdout)
    assert flags == [False, False, False]
    assert types == ["float64", "float64", "float64", "float64", "float32"]
    assert seen == [["float64", "float64"]]
    # Both warnings, of the data and of the mapping, point at the line that called fit.
    assert places == [["constant", "<string>"], ["came", "<string>"]]
