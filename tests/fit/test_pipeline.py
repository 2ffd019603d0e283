"""From settings to a fitted model: what is trained how, in which order, and which start is kept."""

import logging
import signal
from dataclasses import replace

import numpy as np
import pytest

import aligngp as agp
from aligngp.errors import AligngpWarning, SettingError, TrainingError
from aligngp.fit import pipeline
from aligngp.fit.adam import History, train
from aligngp.fit.imc import calibrate
from aligngp.mappings.fixed import AffineMap, Nominal
from aligngp.mappings.gaussian import EmbeddedGP, ResidualGP
from aligngp.parameters import resolve
from training import KINDS, assert_same, case, tables


def fit(problem, progress=lambda stage: None):
    return pipeline.fit_model(problem.frame, problem.tasks, problem.batches, problem.settings, progress)


class Trainings:
    """Takes the place of train: trains nothing, notes what it was given, ends with the objectives it is told."""

    def __init__(self, *objectives):
        self.objectives, self.given = list(objectives), []

    def __call__(self, model, data, key, seed, settings, progress=None, checkpoints=None):
        self.given.append((model, data, seed, settings))
        objective = self.objectives.pop(0) if self.objectives else 0.0
        if isinstance(objective, Exception):
            raise objective
        values = np.full(settings.iterations, objective) if np.isscalar(objective) else np.asarray(objective, float)
        steps = np.arange(1, values.size + 1)
        return model, History(steps, values, 0.1 * steps)


@pytest.fixture
def trainings(monkeypatch):
    def install(*objectives):
        fake = Trainings(*objectives)
        monkeypatch.setattr(pipeline, "train", fake)
        return fake

    return install


# Restarts.


def test_the_best_of_the_restarts_is_kept(trainings):
    fake = trainings(-5.0, -3.0, -4.0)
    problem = case(restarts=3, calibration="none", seed=11)
    stages = []
    fitted = fit(problem, lambda stage: stages.append(stage))
    assert [seed for _, _, seed, _ in fake.given] == [11, 12, 13]
    assert stages == ["restart 1 of 3", "restart 2 of 3", "restart 3 of 3"]
    assert fitted.history.objective[0] == -3.0
    assert_same(fitted.model, problem.start("none", seed=12))


def test_restarts_are_judged_by_the_last_tenth(trainings):
    good_end = [-9.0] * 18 + [-2.0, -2.2]
    lucky_last = [-1.0] * 18 + [-4.0, -1.0]
    trainings(lucky_last, good_end)
    np.testing.assert_array_equal(fit(case(restarts=2, calibration="none")).history.objective, good_end)


def test_the_largest_seed_has_restarts_too(trainings):
    fake = trainings()
    fit(case(restarts=2, calibration="none", seed=2**32 - 1))
    assert [seed for _, _, seed, _ in fake.given] == [2**32 - 1, 0]


def test_a_restart_that_fails_is_left_out(trainings):
    trainings(TrainingError("the first broke."), -3.0)
    with pytest.warns(AligngpWarning, match=r"restart 1 of 2 failed and is left out\. the first broke"):
        fitted = fit(case(restarts=2, calibration="none"))
    assert fitted.history.objective[0] == -3.0
    trainings(-2.0, TrainingError("the last broke."))
    with pytest.warns(AligngpWarning, match="restart 2 of 2 failed and is left out"):
        fitted = fit(case(restarts=2, calibration="none"))
    assert fitted.history.objective[0] == -2.0


def test_restarts_that_all_fail_are_an_error(trainings):
    trainings(TrainingError("one."), TrainingError("two."))
    with pytest.warns(AligngpWarning, match="one"), pytest.raises(TrainingError, match="two"):
        fit(case(restarts=2, calibration="none"))
    trainings(TrainingError("alone."))
    with pytest.raises(TrainingError, match="alone"):
        fit(case(calibration="none"))


def test_ctrl_c_leaves_out_the_other_restarts(trainings):
    fake = trainings(-5.0, [-4.0, -3.0], -1.0)  # the second ended after 2 of 20 iterations
    fitted = fit(case(restarts=3, calibration="none"))
    assert len(fake.given) == 2
    np.testing.assert_array_equal(fitted.history.objective, [-4.0, -3.0])
    fake = trainings([5.0, 4.0, 3.0, 2.0], -1.0)  # ended by its patience: no interruption
    assert fit(case(restarts=2, calibration="none", patience=2)).history.objective[0] == 5.0
    assert len(fake.given) == 2


def test_ctrl_c_in_a_fit_leaves_a_usable_model(monkeypatch):
    def interrupted(model, data, key, seed, settings, progress=None, checkpoints=None):
        def interrupt(done, total, objective):
            if done >= 15:
                signal.raise_signal(signal.SIGINT)

        return train(model, data, key, seed, settings, interrupt)

    monkeypatch.setattr(pipeline, "train", interrupted)
    gp = agp.AlignedGP(
        "coarse",
        calibration="none",
        inference="adam",
        num_inducing=4,
        num_samples=2,
        learning_rate=1e-2,
        batch_size={"coarse": 4},
        max_iterations=5000,
        progress=False,
    )
    with pytest.warns(AligngpWarning, match="interrupted after 15 of 5000 iterations"):
        gp.fit(tables())
    assert gp.history.objective.size == 15
    prediction = gp.predict("fine", np.full((3, 3), 0.5))
    assert np.all(np.isfinite(prediction.mean)) and np.all(prediction.variance > 0)
    assert np.isfinite(gp.elbo()["total"])


# What is done with each task.


def test_every_task_has_its_own_calibration(trainings):
    fake = trainings()
    fit(case(3, calibration={"fine": "embedded", "third": "none"}))
    assert [type(mapping) for mapping in fake.given[0][0].mappings] == [EmbeddedGP, Nominal, Nominal]
    fit(case(3, calibration={"third": "embedded"}))  # the others are "auto": the residual GP, weight 0
    mappings = fake.given[1][0].mappings
    assert [type(mapping) for mapping in mappings] == [ResidualGP, Nominal, EmbeddedGP]
    assert mappings[0].kl_weight == 0.0
    fit(case(3, calibration="bayes"))
    mappings = fake.given[2][0].mappings
    assert [type(mapping) for mapping in mappings] == [ResidualGP, Nominal, ResidualGP]
    assert mappings[0].kl_weight == mappings[2].kl_weight == 1.0


TABLE = agp.Tabulated(np.random.default_rng(6).uniform(size=(6, 2)))


@pytest.mark.parametrize("asked", ["auto", "embedded", {"coarse": "none"}])
def test_a_tabulated_mapping_is_embedded(asked):
    problem = case(mappings={"fine": TABLE}, calibration=asked)
    assert pipeline.calibrations(problem.frame, problem.settings) == ("embedded", "none")


@pytest.mark.parametrize("asked", ["bayes", "none", {"fine": "linear"}])
def test_a_tabulated_mapping_is_nothing_else(asked):
    problem = case(mappings={"fine": TABLE}, calibration=asked)
    with pytest.raises(SettingError, match=r"'fine': agp\.Tabulated knows .* Pass calibration='embedded'"):
        pipeline.calibrations(problem.frame, problem.settings)


def test_imc_needs_an_affine_mapping(trainings):
    trainings()
    problem = case(mappings={"fine": lambda X: X[:, :2] ** 2}, calibration="linear")
    with pytest.raises(SettingError, match=r"'fine': calibration='linear' \(IMC\) needs a prior mapping that is"):
        fit(problem)


def test_imc_has_two_stages(trainings):
    fake, stages = trainings(), []
    problem = case(3, calibration={"fine": "linear", "third": "none"}, imc_penalty=0.2, batch_size=5)
    fit(problem, lambda stage: stages.append(stage))
    assert stages == ["single-task GP of 'coarse'", "training"]
    (low, low_data, low_seed, _), (model, data, seed, _) = fake.given
    assert low_seed == seed == 0
    assert low_data.names == ("coarse",) and data.names == ("fine", "coarse", "third")
    assert low_data.batch_sizes == (5,) and data.batch_sizes == (5, 5, None)
    np.testing.assert_array_equal(low_data.batches[0].y, problem.batches[1].y)
    assert len(low.latents) == 1
    assert_same(low, case(tasks={"coarse": tables(3)["coarse"]}).start())
    assert isinstance(model.mappings[0], AffineMap) and isinstance(model.mappings[2], Nominal)
    found = resolve(model.mappings[0])
    assert found.strength == 0.2
    scale, own = problem.frame.inputs[1], problem.frame.inputs[0]
    # By names, x1 and x2; the two tasks are scaled apart.
    start = np.diag(own.scale[:2] / scale.scale) @ np.eye(2, 3), (own.mean[:2] - scale.mean) / scale.scale
    np.testing.assert_allclose(found.start[0], start[0], atol=1e-9)
    np.testing.assert_allclose(found.start[1], start[1], atol=1e-9)
    expected = resolve(calibrate(low, problem.batches[0], start, 0.2))
    np.testing.assert_allclose(found.matrix, expected.matrix, atol=1e-6)
    np.testing.assert_allclose(found.offset, expected.offset, atol=1e-6)


# How it is trained.


def test_the_settings_reach_the_training(trainings):
    fake = trainings()
    given = {"max_iterations": 33, "learning_rate": 0.02, "num_samples": 7, "patience": 4, "expectation": "sampled"}
    fitted = fit(case(calibration="bayes", **given))
    adam = fake.given[0][3]
    assert (adam.iterations, adam.learning_rate, adam.num_samples, adam.patience) == (33, 0.02, 7, 4)
    assert fitted.adam == adam
    assert case(max_iterations=None).settings.iterations == 5000


@pytest.mark.parametrize(
    "asked, expected",
    [(None, (None, None)), (4, (4, 4)), (7, (None, 7)), ({"coarse": 3}, (None, 3)), ({"fine": 99}, (None, None))],
)
def test_batch_sizes(trainings, asked, expected):
    fake = trainings()
    fit(case(calibration="none", batch_size=asked))
    assert fake.given[0][1].batch_sizes == expected


@pytest.mark.parametrize(
    "keywords, expected",
    [
        ({"calibration": "bayes"}, "analytic"),
        ({"calibration": "embedded"}, "analytic"),
        ({"calibration": "free"}, "analytic"),
        ({"calibration": "none"}, "sampled"),  # nothing to take an expectation of
        ({"calibration": "linear"}, "sampled"),
        ({"calibration": "bayes", "kernel": "matern52"}, "sampled"),
        ({"calibration": "bayes", "mapping_kernel": "matern52"}, "analytic"),
        ({"calibration": "bayes", "expectation": "sampled"}, "sampled"),
        ({"calibration": "none", "expectation": "analytic"}, "analytic"),
    ],
)
def test_how_expectations_are_taken(trainings, keywords, expected):
    assert (trainings() and fit(case(**keywords))).adam.expectation == expected


@pytest.mark.parametrize(
    "limit, keywords, expected",
    [
        # 6 rows, M = 4, Q = 2: 6 * 16 * 3 = 288; with batches of 2 a third of it; with Q = 3 twice as many.
        (288, {}, "analytic"),
        (287, {}, "sampled"),
        (96, {"batch_size": 2}, "analytic"),
        (95, {"batch_size": {"fine": 2}}, "sampled"),
        (288, {"batch_size": {"coarse": 2}}, "analytic"),
        (575, {"num_latents": 3}, "sampled"),
        (576, {"num_latents": 3}, "analytic"),
        (287, {"expectation": "analytic"}, "analytic"),
    ],
)
def test_auto_counts_what_the_closed_form_costs(trainings, monkeypatch, caplog, limit, keywords, expected):
    trainings()
    monkeypatch.setattr(pipeline, "_ANALYTIC_ENTRIES", limit)
    with caplog.at_level(logging.INFO, "aligngp"):
        assert fit(case(calibration="bayes", **keywords)).adam.expectation == expected
    assert ("expectation over aligned inputs" in caplog.text) is ("expectation" not in keywords)


def test_the_closed_form_is_refused_where_there_is_none(trainings):
    trainings()
    with pytest.raises(SettingError, match="expectation='analytic' has a closed form for the SE kernel only"):
        fit(case(calibration="bayes", expectation="analytic", kernel="matern32"))


# All of it.


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_increases_under_every_calibration(kind):
    sizes = {"none": {"coarse": 4}, "bayes": {"fine": 3, "coarse": 4}}.get(kind)
    problem = case(calibration=kind, batch_size=sizes, expectation="sampled", learning_rate=1e-2, max_iterations=1500)
    fitted = fit(problem)
    objective = fitted.history.objective
    assert objective.size == 1500
    assert objective[-100:].mean() > objective[:100].mean() + 1.0
    if kind != "linear":  # IMC's first stage would be shorter, too
        shorter = fit(replace(problem, settings=replace(problem.settings, max_iterations=40)))
        np.testing.assert_array_equal(shorter.history.objective, objective[:40])
