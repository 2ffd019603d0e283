"""The fitted ensemble: mixtures, invariances, and data that are hard."""

import dataclasses

import jax
import numpy as np
import pytest

import aligngp as agp
from aligngp.data.tasks import Task
from aligngp.dense import factored
from aligngp.ensemble import Ensemble, Fitting, fit_ensemble
from aligngp.ensemble.fit import _choices
from aligngp.ensemble.members import observed_covariance
from aligngp.errors import SettingError
from ensembles import fitted, prepared, two_fidelities


@pytest.fixture(scope="module")
def fidelities():
    ensemble, frame = fitted(two_fidelities(), "coarse", seed=0)
    new = np.random.default_rng(9).uniform(-1.0, 1.0, (7, 3))
    return ensemble, frame, frame.rows(0, new)


def one_draw_a_form(ensemble: Ensemble) -> Ensemble:
    """The ensemble with three draws of every form, which the loops below can follow."""
    target = ensemble.targets[0]
    members = tuple(dataclasses.replace(member, z=member.z[:3]) for member in target.members)
    weights = np.full(len(members), 1.0 / len(members))
    return Ensemble(ensemble.names, (dataclasses.replace(target, members=members, weights=weights),))


def mixture_loops(ensemble: Ensemble, rows):
    """Weight, mean and covariance of every component by plain solves."""
    target = ensemble.targets[0]
    known, new = target.given.see(target.own, target.nominal), target.given.see(rows.own, rows.nominal)
    for weight, member in zip(target.weights, target.members, strict=True):
        h = member.prior.read(member.z)
        inner = observed_covariance(member.prior, member.z, target.given.pair(known, known))
        cross = member.prior.covariance(h, target.given.pair(new, known))
        among = member.prior.covariance(h, target.given.pair(new, new))
        for p in range(len(member.z)):
            solved = np.linalg.solve(inner[p], cross[p].T)
            known_mean, new_mean = (member.prior.centre(seen.side) for seen in (known, new))
            yield weight / len(member.z), new_mean + solved.T @ (target.y - known_mean), among[p] - cross[p] @ solved


def test_moments_are_those_of_the_mixture(fidelities):
    ensemble, _, rows = fidelities
    small = one_draw_a_form(ensemble)
    parts = list(mixture_loops(small, rows))
    mean = sum(w * m for w, m, _ in parts)
    second = sum(w * (c + np.outer(m, m)) for w, m, c in parts)
    covariance = second - np.outer(mean, mean)
    found_mean, found_variance = small.moments(0, rows)
    np.testing.assert_allclose(found_mean, mean, atol=1e-7)
    np.testing.assert_allclose(found_variance, np.diag(covariance), rtol=1e-5, atol=1e-7)
    joint_mean, joint_covariance = small.joint(0, rows)
    np.testing.assert_allclose(joint_mean, mean, atol=1e-7)
    np.testing.assert_allclose(joint_covariance, covariance, atol=1e-6)


def test_draws_have_the_joint_moments(fidelities):
    ensemble, _, rows = fidelities
    mean, covariance = ensemble.joint(0, rows)
    draws = ensemble.draws(0, rows, 40_000, jax.random.key(0))
    assert draws.shape == (40_000, 7)
    spread = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.03 * spread.max())
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.08 * np.diag(covariance).max())
    np.testing.assert_array_equal(draws[:5], ensemble.draws(0, rows, 40_000, jax.random.key(0))[:5])
    assert not np.allclose(draws[:5], ensemble.draws(0, rows, 40_000, jax.random.key(1))[:5])


def test_the_target_learns_from_the_source(fidelities):
    ensemble, frame, _ = fidelities
    new = np.random.default_rng(5).uniform(-1.0, 1.0, (200, 3))
    truth = np.sin(3.0 * new[:, 0]) + new[:, 1] ** 2 + 0.2 * new[:, 2]
    truth = frame.outputs[0].transform(truth[:, None])[:, 0]
    mean, variance = ensemble.moments(0, frame.rows(0, new))
    assert np.mean((mean - truth) ** 2) < 0.02
    assert np.mean(np.abs(mean - truth) < 1.96 * np.sqrt(variance + ensemble.noise(0))) > 0.85
    weights = ensemble.weights(0)
    assert sum(weights.values()) == pytest.approx(1.0)
    assert weights["alone"] + weights["alone+linear"] < 0.1
    assert set(ensemble.evidence(0)) == set(weights)


def test_leave_one_out_mixes_the_forms(fidelities):
    ensemble, _, _ = fidelities
    target = ensemble.targets[0]
    mean, variance = ensemble.leave_one_out(0)
    expected = sum(w * m.left_out_mean for w, m in zip(target.weights, target.members, strict=True))
    np.testing.assert_allclose(mean, expected)
    inside = sum(w * m.left_out_variance for w, m in zip(target.weights, target.members, strict=True))
    assert np.all(variance >= inside - 1e-12)
    assert set(ensemble.left_out_density(0)) == set(ensemble.weights(0))


def test_blocks_of_rows_change_nothing(fidelities, monkeypatch):
    ensemble, _, rows = fidelities
    whole = ensemble.moments(0, rows), ensemble.aligned(0, rows)
    monkeypatch.setattr("aligngp.ensemble.target._BLOCK", 2000)
    parts = ensemble.moments(0, rows), ensemble.aligned(0, rows)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_aligned_inputs_are_conditional_displacements(fidelities):
    """Against the joint Gaussian of outputs and displacements, one draw of the form "calibrated"."""
    ensemble, _, rows = fidelities
    target = ensemble.targets[0]
    sources = dataclasses.replace(target.given.sources, lengthscale=np.array([[0.6, 0.8]]))
    target = dataclasses.replace(target, given=dataclasses.replace(target.given, sources=sources))
    (member,) = (m for m in target.members if m.prior.form.name == "calibrated")
    one = dataclasses.replace(target, members=(dataclasses.replace(member, z=member.z[:1]),), weights=np.ones(1))
    mean, variance = one.aligned(rows)
    known = target.given.see(target.own, target.nominal)
    h = member.prior.read(member.z[:1])
    inner = observed_covariance(member.prior, member.z[:1], target.given.pair(known, known))[0]
    solved = np.linalg.solve(inner, target.y)
    sign = np.sign(solved @ known.side.mean[:, 0])
    v, width = h.variances[0][0], h.widths[0][0]
    for i, own in enumerate(np.asarray(rows.own)):
        k = v * np.exp(-0.5 * np.sum(((own - target.own) / width) ** 2, axis=1))
        for d in range(2):
            cross = np.sqrt(h.scale[0]) * k * sign * known.side.gradient[:, 0, d]
            reach = (0.6, 0.8)[d]
            assert mean[i, d] == pytest.approx(rows.nominal[i, d] + reach * cross @ solved, abs=1e-6)
            expected = reach**2 * (v - cross @ np.linalg.solve(inner, cross))
            assert variance[i, d] == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_forms_that_do_not_move_leave_g0(fidelities):
    ensemble, _, rows = fidelities
    target = ensemble.targets[0]
    weights = np.array([float(m.prior.form.name == "residual") for m in target.members])
    mean, variance = dataclasses.replace(target, weights=weights).aligned(rows)
    np.testing.assert_array_equal(mean, rows.nominal)
    np.testing.assert_array_equal(variance, 0.0)


def test_one_task_alone_is_an_exact_gp():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (25, 1))
    ensemble, frame = fitted({"only": Task(X, np.sin(2.0 * X[:, 0]))}, "only")
    assert set(ensemble.weights(0)) == {"alone", "alone+linear"}
    new = np.linspace(-1.8, 1.8, 30)[:, None]
    mean, _ = ensemble.moments(0, frame.rows(0, new))
    truth = frame.outputs[0].transform(np.sin(2.0 * new))[:, 0]
    assert np.max(np.abs(mean - truth)) < 0.05


def test_the_order_of_rows_and_tasks_changes_little():
    tasks = two_fidelities()
    order = np.random.default_rng(0).permutation(6)
    fine = Task(tasks["fine"].X[order], tasks["fine"].y[order], names=["a", "b", "c"])
    new = np.random.default_rng(9).uniform(-1.0, 1.0, (20, 3))
    means = []
    for given in (tasks, {"coarse": tasks["coarse"], "fine": fine}):
        ensemble, frame = fitted(given, "coarse", seed=0)
        at = frame.names.index("fine")
        means.append(ensemble.moments(at, frame.rows(at, new)))
    np.testing.assert_allclose(means[0][0], means[1][0], atol=0.15)


def test_one_seed_one_result(fidelities):
    ensemble, _, rows = fidelities
    again, _ = fitted(two_fidelities(), "coarse", seed=0)
    np.testing.assert_array_equal(ensemble.moments(0, rows)[0], again.moments(0, rows)[0])


@pytest.mark.parametrize("hyperparameters", ["auto", "map"])
@pytest.mark.parametrize("case", ["one row", "constant", "duplicates", "far"])
def test_hard_data_give_finite_predictions(case, hyperparameters):
    tasks = two_fidelities(rows=1 if case == "one row" else 5)
    fine = tasks["fine"]
    X, y = fine.X, fine.y
    if case == "constant":
        y = np.full(5, 3.0)
    if case == "duplicates":
        X, y = np.repeat(X[:3], 2, axis=0), np.repeat(y[:3], 2) + np.tile([0.0, 0.1], 3)
    if case == "far":
        X, y = 1e6 * X, 1e8 + 1e5 * y
    tasks["fine"] = Task(X, y, names=["a", "b", "c"])
    ensemble, frame = fitted(tasks, "coarse", hyperparameters=hyperparameters)
    rows = frame.rows(0, np.concatenate([X, 100.0 * X]))
    mean, variance = ensemble.moments(0, rows)
    assert np.all(np.isfinite(mean)) and np.all(np.isfinite(variance)) and np.all(variance >= 0.0)
    assert np.isfinite(ensemble.noise(0)) and ensemble.noise(0) > 0.0
    assert np.all(np.isfinite(ensemble.draws(0, rows, 10, jax.random.key(0))))
    left = ensemble.leave_one_out(0)
    assert np.all(np.isfinite(left)) and np.all(left[1] > 0.0)


@pytest.mark.parametrize("number", [3, 5])
def test_several_tasks_each_learn_from_the_others(number):
    rng = np.random.default_rng(0)
    tasks = {}
    for t in range(number):
        X = rng.uniform(-2.0, 2.0, (12, 1 + (t > 0)))
        names = ["a", "b"][: X.shape[1]]
        tasks[f"t{t}"] = Task(X, (1.0 + t) * np.sin(2.0 * X[:, 0]) + t, names=names)
    together, frame = fitted(tasks, "t0", hyperparameters="map")
    new = np.linspace(-1.8, 1.8, 30)[:, None] * np.ones(2)
    truth = frame.outputs[1].transform(2.0 * np.sin(2.0 * new[:, :1]) + 1.0)[:, 0]
    mean, _ = together.moments(1, frame.rows(1, new))
    alone, own = fitted({"t1": tasks["t1"]}, "t1", hyperparameters="map")
    mean_alone, _ = alone.moments(0, own.rows(0, new))
    assert np.mean((mean - truth) ** 2) < 0.3 * np.mean((mean_alone - truth) ** 2)
    assert together.targets[1].given.sources.tasks == tuple(t for t in range(number) if t != 1)


def test_an_unrelated_source_does_no_harm():
    rng = np.random.default_rng(0)
    X, Z, new = rng.uniform(-1.0, 1.0, (15, 2)), rng.uniform(-1.0, 1.0, (20, 1)), rng.uniform(-1.0, 1.0, (100, 2))
    function = lambda X: np.sin(2.0 * X[:, 0]) + X[:, 1]  # noqa: E731
    target = Task(X, function(X), names=["a", "b"])
    tasks = {"target": target, "noise": Task(Z, rng.standard_normal(20), names=["a"])}
    together, frame = fitted(tasks, "noise")
    alone, own = fitted({"target": target}, "target")
    truth = frame.outputs[0].transform(function(new)[:, None])[:, 0]
    error = np.mean((together.moments(0, frame.rows(0, new))[0] - truth) ** 2)
    error_alone = np.mean((alone.moments(0, own.rows(0, new))[0] - truth) ** 2)
    assert error < 1.5 * error_alone + 1e-3


def test_an_unrelated_source_beside_a_good_one_does_no_harm():
    """Sources are weighed one by one: the good one is not lost with the other."""
    tasks = two_fidelities(rows=12)
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.0, 1.0, (40, 2))
    unrelated = np.sin(4.0 * X[:, 1]) * np.cos(5.0 * X[:, 0])
    both = {**tasks, "unrelated": Task(X, unrelated, names=["a", "b"])}
    new = rng.uniform(-1.0, 1.0, (200, 3))
    truth = np.sin(3.0 * new[:, 0]) + new[:, 1] ** 2 + 0.2 * new[:, 2]
    errors = []
    for given in (tasks, both):
        frame, data, batches = prepared(given, "coarse")
        target = Fitting(frame, data, batches).target(0)
        mean, _ = target.moments(frame.rows(0, new))
        errors.append(np.mean((mean - frame.outputs[0].transform(truth[:, None])[:, 0]) ** 2))
    assert errors[1] < 2.0 * errors[0] + 1e-3
    shares = np.zeros(2)
    for weight, member in zip(target.weights, target.members, strict=True):
        if member.prior.sources:
            h = member.prior.read(member.z)
            shares += weight * np.log(member.prior.weights(h)[1]).mean(axis=0)
    assert shares[0] > shares[1] + 1.0


def unknown_mapping(columns: tuple[int, ...] = (0, 1, 2), turn: float = 0.0):
    """Eight rows of three inputs, two of which a plentiful source has, in another order or turned, without names."""
    rng = np.random.default_rng(4)
    fine, coarse, new = (rng.uniform(0.0, 1.0, shape) for shape in ((8, 3), (80, 2), (150, 3)))
    function = lambda X: np.sin(6.0 * X[:, 0]) + 3.0 * X[:, 1] ** 2  # noqa: E731
    c, s = np.cos(turn), np.sin(turn)
    turned = (coarse - 0.5) @ np.array([[c, s], [-s, c]]) + 0.5
    at = list(columns)
    tasks = {
        "fine": Task(fine[:, at], function(fine) + 0.1 * fine[:, 2], names=[f"u{n}" for n in range(3)]),
        "coarse": Task(turned, function(coarse), names=["v0", "v1"]),
    }
    frame, data, batches = prepared(tasks, "coarse", {"fine": agp.Learned()})
    target = Fitting(frame, data, batches).target(0)
    mean, _ = target.moments(frame.rows(0, new[:, at]))
    truth = frame.outputs[0].transform((function(new) + 0.1 * new[:, 2])[:, None])[:, 0]
    alone, own = fitted({"fine": tasks["fine"]}, "fine")
    lonely = alone.moments(0, own.rows(0, new[:, at]))[0]
    best = target.members[int(np.argmax(target.weights))].prior.form
    return np.mean((mean - truth) ** 2), np.mean((lonely - truth) ** 2), best


@pytest.mark.parametrize("columns", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_columns_are_found_wherever_they_stand(columns):
    error, lonely, best = unknown_mapping(columns)
    assert best.columns == (columns.index(0), columns.index(1))
    assert error < 0.2 * lonely


def test_turned_inputs_are_no_choice_of_columns_and_do_no_harm():
    error, lonely, best = unknown_mapping(turn=np.pi / 4)
    assert best.columns is None
    assert error < lonely


def test_more_choices_of_columns_than_can_be_tried_are_not():
    assert len(list(_choices(4, 2))) == 12 and len(list(_choices(5, 3))) == 60
    assert not list(_choices(6, 3)) and not list(_choices(2, 3))


def test_settings_are_checked_and_obeyed():
    frame, data, batches = prepared(two_fidelities(), "coarse")
    with pytest.raises(SettingError, match="'auto', 'map' or 'marginalize', got 'best'"):
        fit_ensemble(frame, data, batches, hyperparameters="best")
    with pytest.raises(SettingError, match="knows se, matern12, matern32, matern52; got 'linear'"):
        fit_ensemble(frame, data, batches, kernel="linear")
    said, reports = [], []
    ensemble = fit_ensemble(
        frame,
        data,
        batches,
        hyperparameters="map",
        residual=False,
        log=said.append,
        progress=lambda *report: reports.append(report),
    )
    transferring = ("nominal", "shifted", "calibrated", "affine")
    expected = {*transferring, *(f"{name}, same units" for name in transferring), "alone", "alone+linear"}
    assert set(ensemble.weights(0)) == expected
    assert all(len(member.z) == 1 for member in ensemble.targets[0].members)
    assert said[0].startswith("task 'fine': weights of the forms nominal ")
    assert [report[:2] for report in reports] == [(1, 2), (2, 2)]


def test_a_known_noise_is_used():
    tasks = two_fidelities()
    tasks["fine"] = dataclasses.replace(tasks["fine"], noise=0.3)
    ensemble, frame = fitted(tasks, "coarse")
    assert ensemble.noise(0) == pytest.approx((0.3 / frame.outputs[0].scale[0]) ** 2)


def test_factors_of_predictions_are_of_the_training_rows(fidelities):
    ensemble, _, _ = fidelities
    target = ensemble.targets[0]
    known = target.given.see(target.own, target.nominal)
    member = target.members[1]
    covariance = observed_covariance(member.prior, member.z[:1], target.given.pair(known, known))
    factor = factored(covariance)[0]
    np.testing.assert_allclose(factor @ factor.T, covariance[0], atol=1e-10)
