"""The front door: any number of tasks in, predictions and errors that a user understands out."""

import json
import os
import subprocess
import sys
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import aligngp as agp
from aligngp.fit.adam import History
from aligngp.mappings.fixed import Nominal
from aligngp.mappings.gaussian import EmbeddedGP, ResidualGP
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
    trained,
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


# ---- tasks in ----------------------------------------------------------------------------------------------------


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


def test_a_pandas_index_is_kept():
    with untrained():
        gp = make(mappings=None, calibration="none").fit(frames(pd.DataFrame), output="zeta")
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


# ---- mappings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mapping",
    [
        [1],
        agp.Columns("x2"),
        "x2",
        lambda x: x[:, [1]],
        lambda x: jnp.take(x, jnp.array([1]), axis=1),
        agp.Affine([[0.0, 1.0]]),
    ],
    ids=["position", "Columns", "name", "NumPy", "jax.numpy", "Affine"],
)
def test_the_same_mapping_said_in_other_words(mapping):
    with untrained():
        gp = make(mappings={"fine": mapping}, calibration="none").fit(tasks())
    expected = moved("none").predict("fine", NEW)
    np.testing.assert_allclose(gp.predict("fine", NEW).mean, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(gp.predict("fine", NEW).variance, expected.variance, rtol=1e-9)
    np.testing.assert_array_equal(gp.nominal("fine", NEW), NEW[:, [1]])
    np.testing.assert_array_equal(gp.nominal("coarse", NEW[:, :1]), NEW[:, :1])


def test_names_that_imply_no_mapping():
    data = {"fine": (FINE_X, FINE_Y), "coarse": agp.Task(COARSE_X, COARSE_Y, names=["speed"])}
    with pytest.raises(agp.SettingError, match=r"no column 'speed' of the common task 'coarse'.*Three ways out"):
        agp.AlignedGP().fit(data)


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: x, r"return shape \(8, 1\).*got \(8, 2\)"),
        (lambda x: x[:, [1]] / 0.0, "returned"),
        (lambda x: 1 / 0, "failed on an array .*ZeroDivisionError"),
    ],
)
def test_a_formula_that_fails_is_told_at_the_fit(function, message):
    with np.errstate(all="ignore"), pytest.raises(agp.DataError, match=f"task 'fine'.*{message}"):
        make(mappings={"fine": function}).fit(tasks())


@pytest.mark.parametrize("calibration", ["none", "embedded"])
def test_aligned_inputs_are_in_the_common_domains_units(calibration):
    gp = moved(calibration)
    mean, variance = gp.aligned("fine", NEW)
    scale, centre = COARSE_X.std(), COARSE_X.mean()
    if calibration == "none":
        np.testing.assert_allclose(mean, gp.nominal("fine", NEW), rtol=1e-12)
        np.testing.assert_array_equal(variance, np.zeros((4, 1)))
        return
    rows = gp._distinct()[0].frame.rows(0, NEW)
    law = resolve(gp.model).mappings[0].predictive(rows)
    np.testing.assert_allclose(mean, centre + scale * np.asarray(law.mean), rtol=1e-9)
    np.testing.assert_allclose(variance, scale**2 * np.asarray(law.variance), rtol=1e-9)


def test_tabulated_inputs_are_embedded_and_say_nothing_of_new_rows():
    known = {"fine": agp.Tabulated(FINE_X[:, 1])}
    with untrained():
        gp = make(mappings=known).fit(tasks())
    assert isinstance(gp.model.mappings[0], EmbeddedGP)
    assert np.isfinite(gp.predict("fine", NEW).mean).all()
    assert np.isfinite(gp.elbo()["total"])
    with pytest.raises(agp.DataError, match=r"task 'fine': .*tabulated at the training rows.*gp.aligned"):
        gp.nominal("fine", NEW)
    with pytest.raises(
        agp.SettingError, match=r"'fine': agp.Tabulated.*calibration='bayes'.*Pass calibration='embedded'"
    ):
        make(mappings=known, calibration="bayes").fit(tasks())


@pytest.mark.parametrize("init", ["supervised", "pca"])
def test_a_learned_mapping_is_predicted_with(init):
    with untrained():
        gp = make(mappings={"fine": agp.Learned(init)}, calibration="none").fit(tasks())
    mapping = resolve(gp.model).mappings[0]
    rows = (NEW - FINE_X.mean(axis=0)) / FINE_X.std(axis=0)
    aligned = COARSE_X.mean() + COARSE_X.std() * (rows @ np.asarray(mapping.matrix).T + np.asarray(mapping.offset))
    np.testing.assert_allclose(gp.aligned("fine", NEW)[0], aligned, rtol=1e-9)
    np.testing.assert_allclose(gp.predict("fine", NEW).mean, by_hand(gp, tasks(), "fine", aligned)[0], rtol=1e-8)
    assert not np.allclose(gp.nominal("fine", NEW), aligned)  # what was known before, not what was learned


def test_calibration_by_task():
    data = {**tasks(), "third": (FINE_X[:, ::-1], FINE_Y), "fourth": (FINE_X, -FINE_Y)}
    mappings = {"fine": ["x2"], "third": ["x1"], "fourth": ["x2"]}
    calibration = {"fine": "none", "third": "bayes"}
    with untrained():
        gp = make(mappings=mappings, calibration=calibration).fit(data)
    kinds = {name: gp.model.mappings[at] for at, name in enumerate(data)}
    assert [type(kinds[name]) for name in data] == [Nominal, Nominal, ResidualGP, ResidualGP]
    assert (kinds["third"].kl_weight, kinds["fourth"].kl_weight) == (1.0, 0.0)
    with pytest.raises(agp.SettingError, match="'coarse' is the common task"):
        make(calibration={"coarse": "bayes"}).fit(tasks())


def test_imc_takes_a_formula_that_is_affine_and_no_other():
    with untrained():
        gp = make(mappings={"fine": lambda x: 3.0 * x[:, [1]] + 1.0}, calibration="linear", imc_penalty=1e9).fit(
            tasks()
        )
    np.testing.assert_allclose(gp.aligned("fine", NEW)[0], 3.0 * NEW[:, [1]] + 1.0, rtol=1e-6)
    with untrained(), pytest.raises(agp.SettingError, match=r"task 'fine': calibration='linear' .*affine.*is not"):
        make(mappings={"fine": lambda x: x[:, [1]] ** 2}, calibration="linear").fit(tasks())


def test_an_analytic_expectation_needs_the_se_kernel():
    with pytest.raises(agp.SettingError, match=r"expectation='analytic'.*SE kernel only, got kernel='matern32'"):
        make(kernel="matern32", expectation="analytic").fit(tasks())


# ---- training ----------------------------------------------------------------------------------------------------


def test_training_raises_the_objective():
    gp = trained("none")
    history = gp.history
    np.testing.assert_array_equal(history.iteration, np.arange(1, 31))
    assert (np.diff(history.seconds) >= 0).all()
    assert (np.diff(history.objective) > 0).mean() > 0.9
    # The history's last value is the bound in front of the last step.
    assert history.objective[-1] < gp.elbo()["total"] < history.objective[-1] + 2 * np.diff(history.objective).max()


@pytest.mark.parametrize(
    "x_scale, x_shift, y_scale, y_shift", [(1e6, -3e6, 1e-6, 1e-6), (1e-6, 2e-6, 1e6, 7e6), (1.0, 0.0, -2.0, 0.0)]
)
def test_units_do_not_matter(x_scale, x_shift, y_scale, y_shift):
    def units(X):
        return x_scale * X + x_shift

    data = {name: (units(X), y_scale * y + y_shift) for name, (X, y) in tasks().items()}
    gp = make(calibration="none").fit(data)
    expected, found = trained("none").predict("fine", NEW), gp.predict("fine", units(NEW))
    np.testing.assert_allclose((found.mean - y_shift) / y_scale, expected.mean, rtol=1e-6)
    np.testing.assert_allclose(found.std / abs(y_scale), expected.std, rtol=1e-6)
    np.testing.assert_allclose(gp.elbo()["total"], trained("none").elbo()["total"], rtol=1e-6)


def test_a_seed_repeats_bit_for_bit():
    again, other = make(calibration="none").fit(tasks()), make(calibration="none", seed=4).fit(tasks())
    expected = trained("none").predict("fine", NEW).mean
    np.testing.assert_array_equal(again.predict("fine", NEW).mean, expected)
    np.testing.assert_array_equal(again.history.objective, trained("none").history.objective)
    assert not np.array_equal(other.predict("fine", NEW).mean, expected)
    restarted = make(calibration="none", restarts=2).fit(tasks())
    best = max(trained("none"), other, key=lambda gp: gp.history.objective[-3:].mean())
    np.testing.assert_array_equal(restarted.history.objective, best.history.objective)
    np.testing.assert_array_equal(restarted.predict("fine", NEW).mean, best.predict("fine", NEW).mean)


def test_known_noise_is_held_fixed():
    data = {**tasks(), "fine": agp.Task(FINE_X, FINE_Y, noise=0.3)}
    gp = make(calibration="none").fit(data)
    observed, latent = gp.predict("fine", NEW), gp.predict("fine", NEW, latent=True)
    np.testing.assert_allclose(observed.variance - latent.variance, 0.09, rtol=1e-9)
    assert "0.3 " in str(gp.summary())


def test_batches_of_rows():
    gp = make(calibration="none", batch_size={"coarse": 5}).fit(tasks())
    assert not np.allclose(gp.history.objective, trained("none").history.objective)
    assert gp.elbo()["total"] > trained("none").history.objective[0]


def test_single_precision():
    gp, double = make(calibration="none", dtype="float32").fit(tasks()), trained("none")
    assert {leaf.dtype.name for leaf in jax.tree.leaves(gp.model)} == {"float32"}
    found, expected = gp.predict("fine", NEW), double.predict("fine", NEW)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-3)
    np.testing.assert_allclose(found.std, expected.std, rtol=1e-2)
    assert not np.array_equal(found.mean, expected.mean)
    np.testing.assert_allclose(gp.elbo()["total"], double.elbo()["total"], rtol=1e-2)


def test_without_standardisation_the_data_stand_as_they_are():
    with untrained():
        gp = make(calibration="none", standardize=False).fit(tasks())
    unit = {"fine": (FINE_X, np.array([-1.0, 1.0])), "coarse": (np.array([[-1.0], [1.0]]), COARSE_Y)}
    mean, variance = by_hand(gp, unit, "fine", NEW[:, [1]])
    np.testing.assert_allclose(gp.predict("fine", NEW).mean, mean, rtol=1e-8)
    np.testing.assert_allclose(gp.predict("fine", NEW).variance, variance, rtol=1e-8)


def test_progress_is_told(capsys):
    make(calibration="none", progress=True).fit(tasks())
    assert "training: 30/30, objective" in capsys.readouterr().err
    make(calibration="none", progress=False).fit(tasks())
    assert capsys.readouterr() == ("", "")


def test_a_fit_that_fails_keeps_the_old_one():
    with untrained():
        gp = make(calibration="none").fit(tasks())
    before, text = gp.predict("fine", NEW).mean, str(gp.summary())

    def fail(*arguments):
        raise agp.TrainingError("the objective became nan")

    for data in ({"fine": (FINE_X, FINE_Y)}, {**tasks(), "fine": (FINE_X, FINE_Y[1:])}, {}):
        with pytest.raises(agp.AligngpError):
            gp.fit(data)
    with mock.patch("aligngp.fit.pipeline.train", fail), pytest.raises(agp.TrainingError, match="became nan"):
        gp.fit({**tasks(), "fine": (FINE_X, -FINE_Y)})
    np.testing.assert_array_equal(gp.predict("fine", NEW).mean, before)
    assert str(gp.summary()) == text
    assert gp.elbo() == moved("none").elbo()


# ---- tasks that share nothing ------------------------------------------------------------------------------------


def test_tasks_that_share_nothing_are_fitted_one_by_one():
    with untrained():
        gp = make(shared=False, batch_size={"fine": 3, "coarse": 4}, calibration="linear").fit(tasks())
    assert list(gp.model) == ["fine", "coarse"]
    terms = []
    for name, (X, y) in tasks().items():
        with untrained():
            alone = make(common=None, mappings=None).fit({name: (X, y)})
        rows = NEW[:, : X.shape[1]]
        found, expected = gp.predict(name, rows), alone.predict(name, rows)
        np.testing.assert_array_equal(found.mean, expected.mean)
        np.testing.assert_array_equal(found.variance, expected.variance)
        np.testing.assert_array_equal(found.sample(2), expected.sample(2))
        np.testing.assert_allclose(found.mean, by_hand(alone, {name: (X, y)}, name, rows)[0], rtol=1e-9)
        assert gp.score(name, (X, y)) == alone.score(name, (X, y))
        terms.append(alone.elbo())
    assert gp.elbo() == {term: terms[0][term] + terms[1][term] for term in terms[0]}
    np.testing.assert_array_equal(gp.task_correlation(), np.eye(2))
    np.testing.assert_array_equal(gp.history.iteration, np.arange(1, 61))


def test_a_task_that_shares_nothing_needs_no_mapping():
    data = {"a": agp.Task(FINE_X, FINE_Y, mapping=["x1"]), "b": agp.Task(FINE_X, -FINE_Y, names=["u", "v"])}
    with untrained():
        gp = agp.paper.sogp("b", mappings={"c": [0]}, num_inducing=4, max_iterations=2, progress=False).fit(data)
    np.testing.assert_array_equal(gp.nominal("a", NEW), NEW)


def test_ctrl_c_between_tasks_that_share_nothing_ends_the_fit():
    with untrained():
        gp = make(shared=False).fit(tasks())
    before = gp.predict("fine", NEW).mean

    def interrupted(model, data, *arguments):
        return model, History(np.arange(1, 4), np.zeros(3), np.arange(3.0))

    with mock.patch("aligngp.fit.pipeline.train", interrupted), pytest.raises(KeyboardInterrupt):
        gp.fit({name: (X, -y) for name, (X, y) in tasks().items()})
    np.testing.assert_array_equal(gp.predict("fine", NEW).mean, before)


# ---- what is asked of a model ------------------------------------------------------------------------------------


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
    assert repr(agp.AlignedGP()) == "AlignedGP()  # not fitted"
    assert repr(moved("none", num_latents=2)) == (
        "AlignedGP(common='coarse', mappings={'fine': ['x2']}, calibration='none', num_inducing=5, max_iterations=30, "
        "seed=3, progress=False)  # fitted to fine, coarse"
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
