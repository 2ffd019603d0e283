"""The scikit-learn regressor: scikit-learn's own checks, and the answers of AlignedGP on the tables taken apart."""

import inspect
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import aligngp as agp
from aligngp.sklearn import AlignedGPRegressor
from estimators import unchecked

RNG = np.random.default_rng(0)
CHEAP, COSTLY = np.arange(14), np.arange(14, 22)
TASK = np.repeat(["cheap", "costly"], [14, 8])
SPEED, DEPTH = RNG.uniform(2.0, 8.0, 22), RNG.uniform(0.0, 1.0, 22)
Y = 100.0 + 20.0 * np.sin(SPEED) + np.where(TASK == "costly", 15.0 * DEPTH, 0.0)
TABLE = pd.DataFrame({"speed": SPEED, "task": TASK, "depth": np.where(TASK == "costly", DEPTH, np.nan)})
NONE = [None if task == "cheap" else depth for task, depth in zip(TASK, DEPTH.tolist(), strict=True)]
SHUFFLED = RNG.permutation(22)


def make(task="task", common=None, **settings) -> AlignedGPRegressor:
    """A regressor that is fitted quickly."""
    return AlignedGPRegressor(task, common, **{"hyperparameters": "map", **settings})


def by_hand(**settings) -> agp.AlignedGP:
    """AlignedGP on the table taken apart."""
    tasks = {
        "cheap": agp.Task(SPEED[CHEAP, None], Y[CHEAP], names=["speed"]),
        "costly": agp.Task(np.column_stack([SPEED, DEPTH])[COSTLY], Y[COSTLY], names=["speed", "depth"]),
    }
    return agp.AlignedGP(**{"hyperparameters": "map", **settings}).fit(tasks)


def folds(number: int = 2) -> list:
    """Splits with rows of every task on both sides."""
    return list(StratifiedKFold(number, shuffle=True, random_state=0).split(TABLE, TASK))


def blanked(**changes) -> pd.DataFrame:
    """The table with other values: column = (row, value)."""
    table = TABLE.astype({"task": object})
    for column, (row, value) in changes.items():
        table.loc[row, column] = value
    return table


@pytest.fixture(scope="module")
def fitted() -> AlignedGPRegressor:
    """The regressor fitted to the table; nobody may fit it again."""
    return make().fit(TABLE, Y)


@pytest.fixture(scope="module")
def hand() -> agp.AlignedGP:
    """The same by hand."""
    return by_hand()


# ---- scikit-learn's own checks ------------------------------------------------------------------------------------


# No check is expected to fail. The checks' data are suspicious on purpose (constant columns, one row).
@pytest.mark.filterwarnings("ignore::aligngp.AligngpWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([AlignedGPRegressor()], expected_failed_checks=lambda estimator: {})
def test_the_checks_of_scikit_learn_pass(estimator, check):
    with unchecked():  # they pass values of wrong types to the constructor
        check(estimator)


def test_gaps_are_allowed_where_a_task_column_says_whose_they_are():
    assert AlignedGPRegressor("task").__sklearn_tags__().input_tags.allow_nan
    assert not AlignedGPRegressor().__sklearn_tags__().input_tags.allow_nan


def test_every_keyword_of_aligned_gp_is_there_with_its_default():
    own = inspect.signature(AlignedGPRegressor).parameters
    front = dict(inspect.signature(agp.AlignedGP).parameters)
    del front["seed"], front["progress"]  # random_state here; a bar for each of many fits is too much
    assert {name: own[name].default for name in front} == {name: one.default for name, one in front.items()}
    assert set(own) - set(front) == {"task", "random_state", "progress"}


# ---- the same answers as AlignedGP --------------------------------------------------------------------------------


def test_predictions_are_those_of_the_tables_taken_apart(fitted, hand):
    mean, std = fitted.predict(TABLE.iloc[SHUFFLED], return_std=True)
    cheap = hand.predict("cheap", SPEED[CHEAP, None])
    costly = hand.predict("costly", np.column_stack([SPEED, DEPTH])[COSTLY])
    np.testing.assert_allclose(mean, np.concatenate([cheap.mean, costly.mean])[SHUFFLED], rtol=1e-9)
    np.testing.assert_allclose(std, np.concatenate([cheap.std, costly.std])[SHUFFLED], rtol=1e-9)
    np.testing.assert_array_equal(fitted.predict(TABLE.iloc[SHUFFLED]), mean)
    assert fitted.score(TABLE, Y) == pytest.approx(r2_score(Y, np.concatenate([cheap.mean, costly.mean])), rel=1e-9)
    assert fitted.tasks_.tolist() == ["cheap", "costly"]
    assert fitted.inputs_ == {"cheap": ("speed",), "costly": ("speed", "depth")}
    assert fitted.feature_names_in_.tolist() == ["speed", "task", "depth"]
    assert fitted.n_features_in_ == 3


def test_the_covariance_is_that_of_one_task(fitted, hand):
    rows = TABLE.iloc[COSTLY[:3]]
    mean, covariance = fitted.predict(rows, return_cov=True)
    expected = hand.predict("costly", rows)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(covariance, expected.covariance, rtol=1e-6)
    with pytest.raises(agp.DataError, match="rows of one task, got rows of 'cheap', 'costly'"):
        fitted.predict(TABLE, return_cov=True)
    with pytest.raises(agp.SettingError, match="return_std and return_cov both came"):
        fitted.predict(rows, return_std=True, return_cov=True)


def test_draws_have_the_moments_of_the_prediction_and_do_not_depend_on_other_tasks(fitted):
    rows = np.concatenate([CHEAP[:2], COSTLY[:2]])[[2, 0, 3, 1]]
    draws = fitted.sample_y(TABLE.iloc[rows], 4000, random_state=1)
    mean, std = fitted.predict(TABLE.iloc[rows], return_std=True)
    np.testing.assert_allclose((draws.mean(axis=1) - mean) / std, 0.0, atol=0.08)
    np.testing.assert_allclose(draws.std(axis=1) / std, 1.0, atol=0.08)
    _, covariance = fitted.predict(TABLE.iloc[rows[[0, 2]]], return_cov=True)
    scale = np.sqrt(np.prod(np.diagonal(covariance)))
    assert np.cov(draws[[0, 2]])[0, 1] / scale == pytest.approx(covariance[0, 1] / scale, abs=0.08)
    assert np.corrcoef(draws[:2])[0, 1] == pytest.approx(0.0, abs=0.08)  # of two tasks
    np.testing.assert_array_equal(fitted.sample_y(TABLE.iloc[rows[[0, 2]]], 4000, random_state=1), draws[[0, 2]])
    assert np.abs(fitted.sample_y(TABLE.iloc[rows], 4000, random_state=2) - draws).max() > 0


TABLES = {
    "polars": pl.DataFrame({"speed": SPEED, "task": TASK, "depth": NONE}),
    "pyarrow": pa.table({"speed": SPEED, "task": TASK, "depth": NONE}),
    "categories": TABLE.astype({"task": "category"}),
    "nullable": TABLE.convert_dtypes(),
}


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_table_gives_the_same(kind, fitted):
    found = make().fit(TABLES[kind], Y)
    np.testing.assert_array_equal(found.predict(TABLES[kind]), fitted.predict(TABLE))
    assert found.feature_names_in_.tolist() == ["speed", "task", "depth"]


ARRAYS = {
    "objects": TABLE.to_numpy(),
    "objects with pandas' NA": TABLE.convert_dtypes().to_numpy(),
    "lists": TABLE.to_numpy().tolist(),
    "lists with None": [[speed, task, depth] for speed, task, depth in zip(SPEED, TASK, NONE, strict=True)],
    "numbers": TABLE.assign(task=np.where(TASK == "costly", 7, 3)).to_numpy(),
    "booleans": TABLE.assign(task=TASK == "costly").to_numpy(),
    "a frame without names": TABLE.set_axis([0, 1, 2], axis=1),
}


@pytest.mark.parametrize("task", [1, -2])
@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_have_columns_by_position(kind, task, fitted):
    found = make(task).fit(ARRAYS[kind], Y)
    np.testing.assert_array_equal(found.predict(ARRAYS[kind]), fitted.predict(TABLE))
    assert list(found.inputs_.values()) == [("x1",), ("x1", "x2")]
    names = {"numbers": ["3", "7"], "booleans": ["False", "True"]}
    assert found.tasks_.tolist() == names.get(kind, ["cheap", "costly"])


def test_a_position_finds_the_task_column_of_a_frame(fitted):
    np.testing.assert_array_equal(make(1).fit(TABLE, Y).predict(TABLE), fitted.predict(TABLE))


def test_an_array_without_the_names_of_the_fit_is_told_and_taken_by_position(fitted):
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        found = fitted.predict(TABLE.to_numpy())
    np.testing.assert_array_equal(found, fitted.predict(TABLE))


def test_columns_that_a_task_was_not_fitted_with_are_not_read(fitted):
    whole = TABLE.assign(depth=DEPTH, task="cheap")
    np.testing.assert_array_equal(fitted.predict(whole), fitted.gp_.predict("cheap", SPEED[:, None]).mean)


def test_without_a_task_column_it_is_a_plain_gp():
    X = np.column_stack([SPEED, DEPTH])
    gp = agp.AlignedGP(hyperparameters="map", seed=4).fit({"task": (X, Y)})
    found = make(None, random_state=4).fit(X, Y)
    np.testing.assert_array_equal(found.predict(X), gp.predict("task", X).mean)
    named = make(None, random_state=4).fit(pd.DataFrame(X, columns=["speed", "depth"]), Y)
    assert named.inputs_ == {"task": ("speed", "depth")}
    np.testing.assert_array_equal(named.predict(pd.DataFrame(X, columns=["speed", "depth"])), found.predict(X))


def test_keywords_reach_the_model_and_tasks_may_be_called_by_number():
    numbers = TABLE.assign(task=np.where(TASK == "costly", 7, 3))
    settings = {"mappings": {7: agp.Columns("depth")}, "calibration": {7: "auto"}, "random_state": 5}
    found = make("task", 3, residual=False, **settings).fit(numbers, Y)
    by_name = {"mappings": {"costly": ["depth"]}, "calibration": {"costly": "auto"}}
    gp = by_hand(common="cheap", residual=False, seed=5, **by_name)
    expected = gp.predict("costly", np.column_stack([SPEED, DEPTH])[COSTLY])
    np.testing.assert_allclose(found.predict(numbers.iloc[COSTLY]), expected.mean, rtol=1e-9)
    assert found.gp_.settings.common == "3"
    np.testing.assert_array_equal(found.gp_.nominal("7", numbers.iloc[COSTLY])[:, 0], DEPTH[COSTLY])


def test_tasks_that_share_nothing_are_fitted_alone(monkeypatch):
    monkeypatch.setattr(agp.AlignedGP, "fit", lambda gp, tasks: gp)  # what it does with them: tests/test_estimator.py
    rest = {"common": "costly", "mappings": {"costly": ["speed"]}, "batch_size": {"cheap": 3}}
    settings = make(shared=False, **rest).fit(TABLE.iloc[CHEAP], Y[CHEAP]).gp_.settings
    assert (settings.shared, settings.common, settings.batch_size) == (False, "costly", {"cheap": 3})
    with pytest.raises(agp.SettingError, match="batch_size: there is no row of task 'costly' in the table"):
        make(shared=False, batch_size={"costly": 3}).fit(TABLE.iloc[CHEAP], Y[CHEAP])


def test_random_states(monkeypatch):
    monkeypatch.setattr(agp.AlignedGP, "fit", lambda gp, tasks: gp)  # the seed is that of the model: see above

    def seed(random_state):
        return make(random_state=random_state).fit(TABLE, Y).gp_.settings.seed

    state, again = np.random.RandomState(3), np.random.RandomState(3)
    drawn = [seed(state), seed(state)]
    assert drawn == [int(again.randint(2**32, dtype=np.uint32)) for _ in range(2)]
    assert (seed(None), seed(9)) == (0, 9)
    with pytest.raises(agp.SettingError, match=r"random_state: expected a whole number from 0 to .*, got -1"):
        seed(-1)


# ---- in the company of scikit-learn -------------------------------------------------------------------------------


def test_a_clone_is_not_fitted_and_fits_the_same(fitted):
    original = make("task", mappings={"costly": agp.Columns("speed")}, residual=False)
    copied = clone(original)
    assert copied.get_params()["mappings"]["costly"].columns == ("speed",)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        clone(fitted).predict(TABLE)
    np.testing.assert_array_equal(copied.fit(TABLE, Y).predict(TABLE), original.fit(TABLE, Y).predict(TABLE))


def test_a_fitted_regressor_survives_a_pickle(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(TABLE), fitted.predict(TABLE))
    np.testing.assert_array_equal(again.sample_y(TABLE.iloc[:3], 2), fitted.sample_y(TABLE.iloc[:3], 2))


def test_a_pipeline_scales_a_single_task():
    X = np.column_stack([SPEED, DEPTH])
    found = make_pipeline(StandardScaler(), make(None)).fit(X, Y)
    mean, std = found.predict(X, return_std=True)
    expected = (
        make(None).fit(StandardScaler().fit_transform(X), Y).predict(StandardScaler().fit_transform(X), return_std=True)
    )
    np.testing.assert_allclose((mean, std), expected, rtol=1e-12)


def scaled(task, **settings):
    """A pipeline that scales the inputs and passes the task column on."""
    scaler = ColumnTransformer([("scaled", StandardScaler(), ["speed", "depth"])], remainder="passthrough", **settings)
    return make_pipeline(scaler, make(task))


def test_pipelines_scale_the_inputs_and_pass_the_task_column_on():
    inputs = StandardScaler().fit_transform(TABLE[["speed", "depth"]])
    table = pd.DataFrame(inputs, columns=["speed", "depth"]).assign(task=TASK)
    expected = make().fit(table, Y).predict(table)
    framed = scaled("task", verbose_feature_names_out=False).set_output(transform="pandas")
    np.testing.assert_allclose(framed.fit(TABLE, Y).predict(TABLE), expected, rtol=1e-12)
    assert framed[-1].feature_names_in_.tolist() == ["speed", "depth", "task"]
    arrays = scaled(-1).fit(TABLE, Y)  # the column that is passed on comes last
    np.testing.assert_allclose(arrays.predict(TABLE), expected, rtol=1e-12)
    with pytest.raises(agp.SettingError, match=r"no column 'task'\. The table has .*'remainder__task'"):
        scaled("task").set_output(transform="pandas").fit(TABLE, Y)


def test_cross_validation_with_rows_of_every_task_in_every_fold():
    found = cross_val_score(make(), TABLE, Y, cv=folds(), error_score="raise")
    expected = []
    for train, test in folds():
        inputs = {"cheap": ["speed"], "costly": ["speed", "depth"]}
        rows = {name: [part[TASK[part] == name] for part in (train, test)] for name in inputs}
        gp = agp.AlignedGP(hyperparameters="map")
        gp.fit({name: (TABLE.loc[rows[name][0], inputs[name]], Y[rows[name][0]]) for name in inputs})
        y = np.concatenate([Y[rows[name][1]] for name in inputs])
        mean = np.concatenate([gp.predict(name, TABLE.loc[rows[name][1], inputs[name]]).mean for name in inputs])
        expected.append(r2_score(y, mean))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_fold_without_a_task_is_explained():
    by_task = [(CHEAP, COSTLY)]
    with pytest.raises(agp.DataError, match=r"no task 'costly' among the fitted ones, which are 'cheap'.*Stratified"):
        cross_val_score(make(), TABLE, Y, cv=by_task, error_score="raise")
    with pytest.raises(agp.SettingError, match=r"common: there is no row of task 'costly'.*'cheap'.*StratifiedKFold"):
        make("task", "costly").fit(TABLE.iloc[CHEAP], Y[CHEAP])
    with pytest.raises(agp.SettingError, match=r"mappings: there is no row of task 'costly'.*StratifiedKFold"):
        make("task", mappings={"costly": ["speed"]}).fit(TABLE.iloc[CHEAP], Y[CHEAP])
    one_row = [*CHEAP, COSTLY[0]]
    with pytest.warns(agp.AligngpWarning, match="task 'costly': there is one row only"):
        make().fit(TABLE.iloc[one_row], Y[one_row])


def test_a_grid_search_over_settings_finds_the_best_of_them():
    model = make(num_latents=1, max_iterations=20, restarts=1)
    grid = [
        {"calibration": ["auto"], "hyperparameters": ["map", "marginalize"]},
        {"calibration": ["none"], "hyperparameters": ["map"]},
    ]
    search = GridSearchCV(model, grid, cv=folds(), error_score="raise").fit(TABLE, Y)
    scores = search.cv_results_["mean_test_score"]
    assert len(set(scores)) == 3
    train, test = folds()[0]
    for params, score in zip(search.cv_results_["params"], search.cv_results_["split0_test_score"], strict=True):
        one = clone(model).set_params(**params).fit(TABLE.iloc[train], Y[train])
        assert one.score(TABLE.iloc[test], Y[test]) == pytest.approx(score, rel=1e-9)
    assert search.best_params_ == search.cv_results_["params"][int(np.argmax(scores))]
    best = clone(model).set_params(**search.best_params_).fit(TABLE, Y)
    np.testing.assert_array_equal(search.predict(TABLE), best.predict(TABLE))


# ---- what goes wrong is said --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "table, task, words",
    [
        (
            TABLE,
            "tsk",
            r"task: there is no column 'tsk' \(did you mean 'task'\?\). The table has 'speed', 'task', 'dep",
        ),
        (TABLE.to_numpy(), "task", "task='task' is the name of a column, but scikit-learn sees no column names in X"),
        (TABLE.to_numpy(), 3, r"task: there is no column at position 3, X has 3 columns"),
        (TABLE, -4, r"task: there is no column at position -4, X has 3 columns"),
        (TABLE, True, "task: expected the name or the position of the task column, or None, got True"),
        (
            blanked(depth=(16, np.nan)),
            "task",
            "task 'costly': column 'depth' is missing, NaN or infinite in 1 of 8 rows",
        ),
        (blanked(depth=(16, np.nan)), "task", r"first in row 16 of the table .*in all of its rows or in none of them"),
        (blanked(depth=(16, np.nan)).to_numpy(), 1, "task 'costly': column 'x2' is missing, NaN or infinite in 1 of 8"),
        (blanked(depth=(5, 0.5)), "task", "task 'cheap': column 'depth' is missing, NaN or infinite in 13 of 14 rows"),
        (
            blanked(speed=(0, np.inf)),
            "task",
            "task 'cheap': column 'speed' is missing, NaN or infinite in 1 of 14 rows",
        ),
        (blanked(task=(2, None)), "task", r"row 2 of the table \(counted from 0\): the task column 'task' holds None"),
        (blanked(task=(2, " ")), "task", r"row 2 of the table \(counted from 0\): the task column 'task' holds ' '"),
        (TABLE.to_numpy(), 0, r"the task column at position 0 holds [\d.]+, expected a name"),
        (
            TABLE.assign(speed=np.nan),
            "task",
            "task 'cheap': there is no input, all of 'speed', 'depth' are missing in its",
        ),
        (TABLE[["task"]], "task", "X has the task column alone, expected inputs beside it"),
        (TABLE.iloc[:0], "task", "there is no row in the table"),
        (TABLE.assign(speed="fast"), "task", "task 'cheap': column 'speed' has dtype .*, expected numbers"),
        (TABLE.assign(speed="0.5").to_numpy(), 1, r"task 'cheap': column 'x1' holds '0.5' \(str\), expected numbers"),
        (TABLE.set_axis(["a", "task", "a"], axis=1), "task", "X: .*'a'"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(table, task, words):
    with unchecked(), pytest.raises(agp.AligngpError, match=words):
        make(task).fit(table, Y[: len(table)])


@pytest.mark.parametrize(
    "X, y, error, words",
    [
        (TABLE, None, ValueError, "requires y to be passed"),
        (TABLE, Y[:5], ValueError, r"inconsistent numbers of samples: \[22, 5\]"),
        (TABLE, np.column_stack([Y, Y]), ValueError, "y should be a 1d array"),
        (TABLE, np.where(Y > Y.mean(), Y, np.nan), ValueError, "y contains NaN"),
        (SPEED, Y, ValueError, "Expected 2D array, got 1D array"),
        (csr_array(np.eye(22)), Y, TypeError, "Sparse data was passed"),
    ],
)
def test_scikit_learns_own_words_for_arrays_and_outputs(X, y, error, words):
    with pytest.raises(error, match=words):
        make("task" if X is TABLE else 0).fit(X, y)


def test_what_is_wrong_with_new_rows_is_said(fitted):
    with pytest.raises(agp.DataError, match=r"no task 'cheep' \(did you mean 'cheap'\?\) among the fitted ones"):
        fitted.predict(blanked(task=(0, "cheep")))
    with pytest.raises(
        agp.DataError, match=r"task 'costly': column 'depth' is .*in 1 of 8 rows, first in row 15 of the"
    ):
        fitted.predict(blanked(depth=(15, np.nan)))
    with pytest.raises(ValueError, match=r"(?s)feature names should match.*missing:\n- depth"):
        fitted.predict(TABLE[["speed", "task"]])
    with pytest.raises(agp.SettingError, match="n_samples: expected a whole number >= 1, got 0"):
        fitted.sample_y(TABLE, 0)


def test_a_fit_that_fails_leaves_the_earlier_model():
    model = make().fit(TABLE, Y)
    before = model.predict(TABLE)
    with pytest.raises(agp.DataError):
        model.fit(blanked(depth=(16, np.nan)), Y)
    np.testing.assert_array_equal(model.predict(TABLE), before)
