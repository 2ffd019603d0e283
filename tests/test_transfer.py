"""Which task helps which: rows left out and held out against plain refits, verdicts on data whose truth is known."""

from __future__ import annotations

import dataclasses
import warnings
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

import aligngp as agp
from aligngp import metrics
from aligngp.ensemble import Ensemble
from aligngp.ensemble.left_out import left_out_moments, two_left_out, weights_without
from aligngp.ensemble.members import observed_covariance
from aligngp.ensemble.target import Target
from aligngp.ensemble.weights import form_weights
from aligngp.fit.adam import History
from aligngp.mappings.contract import Rows
from aligngp.parameters import resolve
from aligngp.refits import Plan
from aligngp.transfer import judged, paired_interval
from ensembles import fitted, two_fidelities
from estimators import COARSE_X, COARSE_Y, FINE_X, FINE_Y, NEW, make, moved, tasks, unchecked, untrained


def wave(X: np.ndarray) -> np.ndarray:
    """What the related tasks share."""
    return np.sin(6.0 * X[:, 0])


@cache
def three() -> dict:
    """Eight rows of a function, a plentiful related source, and one of noise."""
    rng = np.random.default_rng(3)
    fine, coarse, noise = rng.uniform(size=(8, 2)), rng.uniform(size=(25, 1)), rng.uniform(size=(25, 1))
    return {
        "fine": agp.Task(fine, wave(fine) + 0.05 * fine[:, 1], names=["a", "b"]),
        "coarse": agp.Task(coarse, wave(coarse), names=["a"]),
        "noise": agp.Task(noise, rng.standard_normal(25), names=["a"]),
    }


@cache
def mixture(*names: str, **settings) -> agp.AlignedGP:
    """The mixture of exact GPs of some of the three tasks; nobody may fit it again."""
    given = {name: three()[name] for name in names}
    common = "coarse" if "coarse" in names else names[-1]
    return agp.AlignedGP(common, progress=False, **{"hyperparameters": "map", **settings}).fit(given)


def fine_rows(number: int = 60) -> pd.DataFrame:
    """Rows of 'fine' that were not trained on."""
    X = np.random.default_rng(11).uniform(size=(number, 2))
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": wave(X) + 0.05 * X[:, 1]})


# ---- rows left out of the mixture, against brute force -----------------------------------------------------------


@cache
def small_target(draws: int) -> Target:
    """A target of six rows; the draws of its hyperparameters are held, whatever rows it is given."""
    ensemble, _ = fitted(two_fidelities(), "coarse", hyperparameters="map" if draws == 1 else "auto")
    target = ensemble.targets[0]
    return reduced(target, np.arange(6), tuple(member.z[:draws] for member in target.members))


def reduced(target: Target, rows: np.ndarray, draws: tuple[np.ndarray, ...]) -> Target:
    """A target fitted to those rows alone at given hyperparameters, by solves on the rows that are left."""
    own, nominal, y = target.own[rows], target.nominal[rows], target.y[rows]
    seen = target.given.see(own, nominal)
    members = []
    for member, z in zip(target.members, draws, strict=True):
        covariances = observed_covariance(member.prior, z, target.given.pair(seen, seen))
        centre = member.prior.centre(seen.side)
        moments = [left_out_loops(covariances, y - centre, row) for row in range(len(y))]
        density, mean, variance = (np.array(values) for values in zip(*moments, strict=True))
        whole = [multivariate_normal.logpdf(y, centre, covariance) for covariance in covariances]
        members.append(
            dataclasses.replace(
                member,
                z=z,
                evidence=float(np.mean(whole)),
                leave_one_out=density,
                left_out_mean=centre + mean,
                left_out_variance=variance,
            )
        )
    densities = np.stack([member.leave_one_out for member in members])
    weights = form_weights(densities, None, np.random.default_rng(0))
    return dataclasses.replace(target, own=own, nominal=nominal, y=y, members=tuple(members), weights=weights)


def left_out_loops(covariances: np.ndarray, y: np.ndarray, row: int) -> tuple[float, float, float]:
    """Log density, mean and variance of a row given the others, draws weighted by what the others say of them."""
    rest = np.delete(np.arange(len(y)), row)
    moments, ratios = [], []
    for covariance in covariances:
        inner, cross = covariance[np.ix_(rest, rest)], covariance[row, rest]
        mean = cross @ np.linalg.solve(inner, y[rest])
        moments.append((mean, covariance[row, row] - cross @ np.linalg.solve(inner, cross)))
        ratios.append(multivariate_normal.logpdf(y[rest], cov=inner) - multivariate_normal.logpdf(y, cov=covariance))
    weights = truncated(np.array(ratios))
    mean, variance = np.array(moments).T
    density = np.log(np.sum(weights * np.exp(-0.5 * (y[row] - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)))
    middle = weights @ mean
    return float(density), float(middle), float(weights @ (variance + (mean - middle) ** 2))


def truncated(ratios: np.ndarray) -> np.ndarray:
    """Importance weights of log ratios, none above sqrt(P) times their mean."""
    weights = np.exp(ratios - ratios.max())
    weights = np.minimum(weights, weights.mean() * np.sqrt(len(weights)))
    return weights / weights.sum()


def test_left_out_rows_are_those_of_refits_without_them(monkeypatch):
    """One draw a form: a row is predicted by the mixture that the other five rows give, weights included."""
    monkeypatch.setattr("aligngp.ensemble.target._NEGLIGIBLE", 0.0)
    target = small_target(1)
    found = left_out_moments(target, np.arange(6), seed=0)
    for row in range(6):
        rest = np.delete(np.arange(6), row)
        refit = reduced(target, rest, tuple(member.z for member in target.members))
        rows = Rows(target.own[[row]], target.nominal[[row]], np.full(1, -1, np.int32))
        mean, variance = refit.moments(rows)
        assert found[0][row] == pytest.approx(mean[0], abs=1e-6)
        assert found[1][row] == pytest.approx(variance[0] + refit.noise, rel=1e-5)
    assert np.abs(weights_without(target, np.arange(6)) - target.weights).max() > 0.01


def test_two_rows_left_out_of_several_draws():
    target = small_target(4)
    seen = target.given.see(target.own, target.nominal)
    covariances = observed_covariance(target.members[1].prior, target.members[1].z, target.given.pair(seen, seen))
    precision = np.linalg.inv(covariances)
    found = two_left_out(precision, precision @ target.y, 2)
    for at, other in enumerate([0, 1, 3, 4, 5]):
        rest = [row for row in range(6) if row not in (2, other)]
        ratios, own = [], []
        for covariance in covariances:
            whole = multivariate_normal.logpdf(target.y, cov=covariance)
            fewer = multivariate_normal.logpdf(target.y[rest], cov=covariance[np.ix_(rest, rest)])
            more = [*rest, other]
            ratios.append(fewer - whole)
            own.append(multivariate_normal.logpdf(target.y[more], cov=covariance[np.ix_(more, more)]) - fewer)
        assert found[at] == pytest.approx(np.log(truncated(np.array(ratios)) @ np.exp(own)), rel=1e-6)


def test_weights_of_several_draws_count_the_evidence_without_the_row():
    target = small_target(4)
    seen = target.given.see(target.own, target.nominal)
    densities, evidences = [], []
    for member in target.members:
        precision = np.linalg.inv(observed_covariance(member.prior, member.z, target.given.pair(seen, seen)))
        densities.append(two_left_out(precision, precision @ (target.y - member.prior.centre(seen.side)), 4))
        evidences.append(member.evidence - member.leave_one_out[4])
    expected = form_weights(np.stack(densities), np.array(evidences), np.random.default_rng(7))
    np.testing.assert_allclose(weights_without(target, np.array([4]), seed=7)[0], expected, rtol=1e-6)


# ---- the mixture's report ---------------------------------------------------------------------------------------


def test_a_related_source_helps_and_noise_does_not():
    report = mixture("fine", "coarse", "noise").transfer_report("fine")
    coarse, noise = report.rows
    assert (coarse.source, noise.source, report.together[0].source) == ("coarse", "noise", None)
    assert coarse.verdict == report.together[0].verdict == "helps"
    assert noise.verdict != "helps"
    assert coarse.crps_with < 0.5 * coarse.crps_without
    assert coarse.crps_interval[0] < coarse.crps_with - coarse.crps_without < coarse.crps_interval[1] < 0.0
    assert coarse.smse_alone == noise.smse_alone == report.together[0].smse_without
    before, after = f"{coarse.crps_without:.3g}", f"{coarse.crps_with:.3g}"
    assert coarse.sentence.startswith(
        f"'coarse' helps 'fine': its left-out error (CRPS) falls from {before} to {after} (95% interval of the change -"
    )
    assert noise.sentence.startswith("'noise' makes no difference to 'fine': its left-out error (CRPS) is ")
    assert report.together[0].sentence.startswith("The other tasks together help 'fine'")
    assert all(sentence in str(report).replace("\n", " ") for sentence in report.sentences)
    assert len(report.sentences) == 3


@cache
def unrelated() -> agp.AlignedGP:
    """A target that depends on all its inputs alike, and a source of noise; hyperparameters are marginalised."""
    rng = np.random.default_rng(0)
    X, noise = rng.uniform(size=(8, 2)), rng.uniform(size=(20, 1))
    given = {
        "target": agp.Task(X, np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2, names=["a", "b"]),
        "noise": agp.Task(noise, rng.standard_normal(20), names=["a"]),
    }
    return agp.AlignedGP("noise", progress=False).fit(given)


def test_noise_does_not_help_where_hyperparameters_are_marginalised():
    report = unrelated().transfer_report("target")
    (entry,) = report.rows
    assert entry.verdict != "helps"
    assert report.sentences == (entry.sentence,)
    assert unrelated().transfer_report("target") == report


def test_verdicts_and_scores_of_left_out_rows_do_not_flatter_the_larger_family():
    """The mixture's own left-out moments are those of weights that have seen the row."""
    gp = unrelated()
    (entry,) = gp.transfer_report("target").rows
    assert isinstance(gp.model, Ensemble)
    mean, variance = gp.model.leave_one_out(0)
    y, scale = gp.model.targets[0].y, gp._part("target")[0].frame.outputs[0].scale[0]
    assert entry.crps_with > scale * metrics.crps(y, mean, variance)


def test_scores_on_test_rows_are_those_of_models_without_the_source():
    held, gp = fine_rows(), mixture("fine", "coarse", "noise")
    pairs = (held[["a", "b"]].to_numpy(), held["y"].to_numpy())
    report = gp.transfer_report(test={"fine": pairs})
    assert [entry.source for entry in report.rows] == ["coarse", "noise"]
    entry = report.rows[0]
    assert (entry.scored, entry.rows) == ("test", 60)
    together, alone = gp.score("fine", pairs), mixture("fine").score("fine", pairs)
    for name in ("smse", "nlpd", "crps"):
        assert getattr(entry, f"{name}_with") == pytest.approx(together[name], rel=1e-9)
        # Without a source the draws at hand are kept, so only the forms' weights are found anew.
        assert getattr(entry, f"{name}_alone") == pytest.approx(alone[name], rel=0.02)
        assert getattr(report.together[0], f"{name}_without") == getattr(entry, f"{name}_alone")
    without = mixture("fine", "coarse").score("fine", pairs)
    assert report.rows[1].crps_without == pytest.approx(without["crps"], rel=0.02)
    assert entry.verdict == "helps"
    assert "error on the test rows (CRPS) falls" in entry.sentence


def test_a_task_that_is_too_small_to_learn_from_is_told():
    assert mixture("fine", "coarse").transfer_report("coarse", rows=10).rows[0].rows == 10
    few = {"fine": agp.Task(three()["fine"].X[:4], three()["fine"].y[:4]), "coarse": three()["coarse"]}
    gp = agp.AlignedGP("coarse", mappings={"fine": ["x1"]}, hyperparameters="map", progress=False).fit(few)
    report = gp.transfer_report("coarse")
    (entry,) = report.rows
    assert entry.verdict == "makes no difference"
    assert entry.crps_interval == (0.0, 0.0)
    assert entry.crps_with == entry.crps_alone
    assert "does not learn from tasks with far fewer rows" in entry.sentence


def test_a_table_of_the_kind_that_came_in():
    frames = {
        name: pd.DataFrame(np.column_stack([task.X, task.y]), columns=[*task.names, "y"])
        for name, task in three().items()
        if name != "noise"
    }
    gp = agp.AlignedGP("coarse", hyperparameters="map", progress=False).fit(frames, output="y")
    report = gp.transfer_report("fine")
    table = report.to_frame()
    assert isinstance(table, pd.DataFrame)
    entry = report.rows[0]
    assert table.loc[0, ["task", "source", "verdict"]].tolist() == ["fine", "coarse", entry.verdict]
    assert (table["nlpd_low"][0], table["nlpd_high"][0]) == entry.nlpd_interval
    assert table["smse_without"][0] == entry.smse_without == report.together[0].smse_alone
    test = gp.transfer_report(test={"fine": fine_rows()})
    assert test.rows[0].smse_with == pytest.approx(gp.score("fine", fine_rows())["smse"], rel=1e-9)


# ---- sparse and exact models ---------------------------------------------------------------------------------------


def test_held_out_rows_are_those_of_refits_with_the_same_settings():
    with untrained():
        report = moved("none").transfer_report("fine", folds=3)
        y, scores = np.empty(0), {"with": ([], []), "alone": ([], [])}
        for part in Plan(folds=3).parts(8, 0, 3):
            rest = np.setdiff1d(np.arange(8), part)
            fine = (FINE_X[rest], FINE_Y[rest])
            both = make(calibration="none").fit({"fine": fine, "coarse": (COARSE_X, COARSE_Y)})
            alone = make(calibration="none", mappings=None, common="fine").fit({"fine": fine})
            y = np.append(y, FINE_Y[part])
            for name, gp in (("with", both), ("alone", alone)):
                with warnings.catch_warnings():  # some of so few rows lie far from the others
                    warnings.simplefilter("ignore", agp.AligngpWarning)
                    found = gp.predict("fine", FINE_X[part])
                scores[name][0].append(found.mean)
                scores[name][1].append(found.variance)
    (entry,) = report.rows
    assert (entry.scored, entry.rows) == ("held out", 8)
    assert "its held-out error (CRPS)" in entry.sentence
    for name, (mean, variance) in scores.items():
        mean, variance = np.concatenate(mean), np.concatenate(variance)
        assert getattr(entry, f"crps_{name}") == pytest.approx(metrics.crps(y, mean, variance), rel=1e-9)
        assert getattr(entry, f"nlpd_{name}") == pytest.approx(metrics.nlpd(y, mean, variance), rel=1e-9)
        assert getattr(entry, f"smse_{name}") == pytest.approx(metrics.smse(y, mean, np.var(FINE_Y)), rel=1e-9)


def test_the_parts_that_are_held_out():
    few, many, huge = Plan(folds=5).parts(8, 0, 0), Plan(rows=50).parts(100, 0, 0), Plan(rows=50).parts(1000, 0, 0)
    assert sorted(np.concatenate(few)) == list(range(8))
    assert [len(part) for part in few] == [2, 2, 2, 1, 1]
    assert [len(part) for part in many] == [17, 17, 16]  # no more than a fifth of the rows at once
    assert [len(part) for part in huge] == [50]
    assert len(set(huge[0])) == 50
    assert max(huge[0]) > 500


def third(scale: float = 1.0) -> dict:
    """Three tasks; the outputs of the common one have a scale."""
    middle = np.random.default_rng(5).uniform(size=(7, 2))
    given = tasks()
    return {"fine": given["fine"], "middle": (middle, wave(middle)), "coarse": (COARSE_X, scale * COARSE_Y)}


def exact(given: dict) -> agp.AlignedGP:
    """An exact fit that is no training: the hyperparameters are those of the start."""
    mappings = {name: spec for name, spec in {"fine": ["x2"], "middle": ["x1"]}.items() if name in given}
    return make(calibration="none", inference="exact", max_iterations=1, mappings=mappings).fit(given)


def at_start(starts, batches, objective, *arguments):
    """In place of a deterministic training."""
    history = History(np.ones(1), np.zeros(1), np.zeros(1))
    return starts[0], history, False


def test_left_out_rows_of_an_exact_fit_are_conditioned_on_all_others():
    given, aligned = third(), [FINE_X[:, 1:], third()["middle"][0][:, :1], COARSE_X]
    with mock.patch("aligngp.fit.pipeline.train_deterministic", at_start):
        models = {"with": exact(given), "without": exact({name: given[name] for name in ("middle", "coarse")})}
        report = models["with"].transfer_report("middle")
    (entry, _), y = report.rows, [FINE_Y, given["middle"][1], COARSE_Y]
    assert (entry.source, entry.scored, entry.rows) == ("fine", "left out", 7)
    for name, gp in models.items():
        kept, model = [0, 1, 2] if name == "with" else [1, 2], resolve(gp.model)
        x = np.concatenate([(aligned[task] - COARSE_X.mean()) / COARSE_X.std() for task in kept])
        outputs = np.concatenate([(y[task] - y[task].mean()) / y[task].std() for task in kept])
        of = np.concatenate([np.full(len(y[task]), at) for at, task in enumerate(kept)])
        (latent,), a = model.latents, np.asarray(model.mixing)[:, 0]
        noise = np.array([float(likelihood.variance) for likelihood in model.likelihoods])
        kernel = float(latent.kernel.variance) * np.exp(-0.5 * ((x - x.T) / float(latent.kernel.lengthscale[0])) ** 2)
        covariance = np.outer(a[of], a[of]) * kernel + np.diag(noise[of])
        mean, variance = np.empty(7), np.empty(7)
        for at, row in enumerate(np.flatnonzero(of == kept.index(1))):
            rest = np.delete(np.arange(len(of)), row)
            inner, cross = covariance[np.ix_(rest, rest)], covariance[row, rest]
            mean[at] = cross @ np.linalg.solve(inner, outputs[rest])
            variance[at] = covariance[row, row] - cross @ np.linalg.solve(inner, cross)
        expected = metrics.crps(y[1], y[1].mean() + y[1].std() * mean, y[1].var() * variance)
        assert getattr(entry, f"crps_{name}") == pytest.approx(expected, rel=1e-6)


def test_without_the_common_task_its_outputs_say_nothing():
    with mock.patch("aligngp.fit.pipeline.train_deterministic", at_start):
        entries = []
        for outputs in (third(), {**third(), "coarse": (COARSE_X, np.cos(9.0 * COARSE_X[:, 0]))}):
            entries.append(exact(outputs).transfer_report("fine").rows[1])
    one, other = entries
    assert one.source == other.source == "coarse"
    assert one.crps_without == pytest.approx(other.crps_without, rel=1e-6)
    assert one.crps_with != pytest.approx(other.crps_with, rel=1e-3)
    assert one.crps_without != pytest.approx(one.crps_alone, rel=1e-3)


def test_tabulated_rows_go_with_their_rows():
    with untrained():
        gp = make(calibration="embedded", mappings={"fine": agp.Tabulated(FINE_X[:, 1:])}).fit(tasks())
        tabulated = gp.transfer_report("fine", folds=2)
        named = make(calibration="embedded").fit(tasks()).transfer_report("fine", folds=2)
    assert tabulated.rows[0].crps_with == pytest.approx(named.rows[0].crps_with, rel=1e-6)


# ---- intervals, verdicts, errors -----------------------------------------------------------------------------------


def test_the_interval_is_students_for_gaussian_differences():
    differences = np.random.default_rng(0).normal(-0.2, 1.0, 400)
    half = 1.966 * np.std(differences, ddof=1) / 20.0
    np.testing.assert_allclose(
        paired_interval(differences), differences.mean() + np.array([-half, half]), atol=0.08 * half
    )


def test_the_interval_of_few_rows_covers_as_often_as_it_says():
    rng = np.random.default_rng(1)
    held = [low <= 0.0 <= high for low, high in (paired_interval(rng.standard_normal(5)) for _ in range(1000))]
    assert 0.91 < np.mean(held) < 0.98
    assert paired_interval(np.array([-1.0])) == (-np.inf, np.inf)
    assert paired_interval(np.zeros(4)) == (0.0, 0.0)


@pytest.mark.parametrize(
    "crps_with, crps_without, interval, deviation, verdict",
    [
        (0.5, 1.0, (-0.6, -0.4), 1.0, "helps"),
        (1.0, 0.5, (0.4, 0.6), 1.0, "hurts"),
        (0.5, 1.0, (-1.1, 0.1), 1.0, "makes no difference"),
        (0.97, 1.0, (-0.04, -0.02), 1.0, "makes no difference"),
        (0.5, 1.0, (-0.6, -0.4), 1000.0, "makes no difference"),
    ],
)
def test_a_verdict_is_sure_and_matters(crps_with, crps_without, interval, deviation, verdict):
    assert judged(crps_with, crps_without, interval, deviation) == verdict


def test_a_source_that_hurts_is_told():
    """On outputs that the model without the source predicts exactly."""
    with untrained():
        gp = moved("none")
        alone = make(calibration="none", mappings=None, common="fine").fit({"fine": (FINE_X, FINE_Y)})
        outputs = alone.predict("fine", NEW).mean
        (entry,) = gp.transfer_report(test={"fine": (NEW, outputs)}).rows
    assert entry.smse_without == pytest.approx(0.0, abs=1e-12)
    assert entry.verdict == "hurts"
    assert entry.sentence.startswith(
        f"'coarse' hurts 'fine': its error on the test rows (CRPS) rises from {entry.crps_without:.3g} to "
    )


def test_what_cannot_be_reported(tmp_path):
    with pytest.raises(agp.NotFittedError, match="not fitted yet"):
        make().transfer_report()
    gp = moved("none")
    gp.save(tmp_path / "model.agp")
    with pytest.raises(agp.NotFittedError, match=r"holds no training rows.*Call gp.fit\(tasks\) first"):
        agp.load(tmp_path / "model.agp").transfer_report()
    with pytest.raises(agp.DataError, match=r"no task 'fin' \(did you mean 'fine'\?\)"):
        gp.transfer_report("fin")
    with pytest.raises(agp.DataError, match=r"no task 'corse' \(did you mean 'coarse'\?\)"):
        gp.transfer_report(test={"corse": (COARSE_X, COARSE_Y)})
    with pytest.raises(agp.DataError, match=r"tasks is empty. Name one or more of 'fine', 'coarse'"):
        gp.transfer_report([])
    wrong: Any = (FINE_X, FINE_Y)
    with unchecked(), pytest.raises(agp.DataError, match=r"test expects a dict of task name to rows .* got tuple"):
        gp.transfer_report(test=wrong)
    with pytest.raises(agp.DataError, match=r"test expects a dict of task name to rows .* got an empty one"):
        gp.transfer_report(test={})
    with pytest.raises(agp.DataError, match=r"expected \(n, 2\) with columns"):
        gp.transfer_report(test={"fine": (COARSE_X, COARSE_Y)})
    with pytest.raises(agp.SettingError, match="folds: expected a whole number >= 2, got 1"):
        gp.transfer_report(folds=1)
    with pytest.raises(agp.SettingError, match="rows: expected a whole number >= 1, got 0"):
        gp.transfer_report(rows=0)
    with pytest.raises(agp.DataError, match="expected two tasks or more, got 'fine' alone"):
        mixture("fine").transfer_report()
    with pytest.raises(agp.SettingError, match="with shared=False no task learns from another"):
        moved("none", shared=False).transfer_report()
