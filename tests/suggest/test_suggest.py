"""gp.suggest: what it suggests, and what it refuses."""

import numpy as np
import pytest

import aligngp as agp
from aligngp.errors import DataError, SettingError
from aligngp.suggest.conditioned import conditioned
from ensembles import two_fidelities

BOUNDS = {"fine": {"a": (-1, 1), "b": (-1, 1), "c": (-1, 1)}, "coarse": {"a": (-1, 1), "b": (-1, 1)}}
COSTS = {"fine": 10, "coarse": 1}


def fine(X):
    return np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * X[:, 2]


@pytest.fixture(scope="module")
def gp():
    return fitted(two_fidelities(10))


def fitted(tasks, **keywords):
    return agp.AlignedGP("coarse", progress=False, hyperparameters="map", **keywords).fit(tasks)


def scaled(tasks, task, shift, scale):
    changed = dict(tasks)
    changed[task] = agp.Task(tasks[task].X, shift + scale * tasks[task].y, names=tasks[task].names)
    return changed


def test_the_minimum_of_the_target_is_gone_to(gp):
    found = gp.suggest("minimize", target="fine", bounds=BOUNDS)
    assert found.task == "fine"
    row = np.array([[found.inputs[name] for name in ("a", "b", "c")]])
    everywhere = fine(np.random.default_rng(0).uniform(-1, 1, (2000, 3)))
    assert fine(row)[0] < np.quantile(everywhere, 0.03)
    prediction = gp.predict("fine", row, latent=True)
    assert (found.mean, found.std) == pytest.approx((prediction.mean[0], prediction.std[0]), rel=1e-6)


def test_minimising_is_maximising_the_negative():
    tasks = two_fidelities(10)
    negative = {name: agp.Task(task.X, -task.y, names=task.names) for name, task in tasks.items()}
    one = fitted(tasks).suggest("minimize", bounds=BOUNDS, costs=COSTS)
    other = fitted(negative).suggest("maximize", bounds=BOUNDS, costs=COSTS)
    assert one.task == other.task
    assert list(one.inputs.values()) == pytest.approx(list(other.inputs.values()), abs=1e-2)


def test_the_incumbent_is_of_the_target_alone():
    """A source whose outputs are all far below the target's changes nothing."""
    tasks = two_fidelities(10)
    one = fitted(tasks).suggest("minimize", bounds=BOUNDS, costs=COSTS)
    other = fitted(scaled(tasks, "coarse", -1000.0, 2.0)).suggest("minimize", bounds=BOUNDS, costs=COSTS)
    assert one.task == other.task
    assert list(one.inputs.values()) == pytest.approx(list(other.inputs.values()), abs=1e-2)


def test_cost_decides_between_tasks():
    tasks = two_fidelities(6)
    tasks["coarse"] = agp.Task(tasks["coarse"].X[:7], tasks["coarse"].y[:7], names=["a", "b"])
    gp = fitted(tasks)
    assert gp.suggest(bounds=BOUNDS, costs={"fine": 1e6, "coarse": 1}).task == "coarse"
    assert gp.suggest(bounds=BOUNDS, costs={"fine": 1, "coarse": 1e6}).task == "fine"


def test_a_source_that_says_nothing_is_not_asked():
    rng = np.random.default_rng(0)
    X, Z = rng.uniform(-1, 1, (25, 3)), rng.uniform(-1, 1, (30, 2))
    tasks = {
        "fine": agp.Task(X, fine(X), names=["a", "b", "c"]),
        "coarse": agp.Task(Z, rng.standard_normal(30), names=["a", "b"]),
    }
    assert fitted(tasks).suggest(bounds=BOUNDS, costs=COSTS).task == "fine"


@pytest.mark.parametrize("acquisition", ["mes", "ucb"])
def test_other_acquisitions_go_to_low_values_too(gp, acquisition):
    found = gp.suggest("minimize", target="fine", bounds=BOUNDS, acquisition=acquisition)
    row = np.array([[found.inputs[name] for name in ("a", "b", "c")]])
    assert fine(row)[0] < np.quantile(fine(np.random.default_rng(0).uniform(-1, 1, (2000, 3))), 0.15)


def test_ucb_is_the_bound_itself(gp):
    found = gp.suggest("minimize", target="fine", bounds=BOUNDS, acquisition="ucb", beta=0.0)
    rows = np.random.default_rng(1).uniform(-1, 1, (3000, 3))
    assert found.mean <= gp.predict("fine", rows).mean.min() + 1e-3


def test_a_batch_spreads(gp):
    found = gp.suggest("minimize", target="fine", bounds=BOUNDS, n=3)
    rows = np.array([list(one.inputs.values()) for one in found])
    gaps = np.linalg.norm(rows[:, None] - rows, axis=2)[np.triu_indices(3, 1)]
    assert gaps.min() > 0.01
    first = gp.suggest("minimize", target="fine", bounds=BOUNDS)
    assert found[0] == first
    # the second is what is suggested while the first is pending
    second = gp.suggest("minimize", target="fine", bounds=BOUNDS, pending=[tuple(first)], seed=1)
    assert list(second.inputs.values()) == pytest.approx(list(found[1].inputs.values()), abs=1e-6)


def test_spaces_of_all_kinds():
    rng = np.random.default_rng(0)
    n, kind, x = rng.integers(1, 9, 30), rng.integers(0, 3, 30), rng.uniform(0, 1, 30)
    y = (n - 6.0) ** 2 / 10.0 + np.array([0.0, -1.0, 0.5])[kind] + (x - 0.3) ** 2
    columns = np.column_stack([n, x, kind == 0, kind == 1, kind == 2]).astype(float)
    names = ["n", "x", "kind=a", "kind=b", "kind=c"]
    gp = agp.AlignedGP(progress=False, hyperparameters="map").fit({"fine": agp.Task(columns, y, names=names)})
    bounds = {"fine": {"n": agp.Integer(1, 8), "x": (0, 1), "kind": agp.Choice("a", "b", "c")}}
    found = gp.suggest("minimize", bounds=bounds)
    assert found.inputs["kind"] == "b"
    assert found.inputs["n"] in (5, 6, 7) and isinstance(found.inputs["n"], int)


def test_constraints_are_kept():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (14, 2))
    tasks = {
        "cost": agp.Task(X, X[:, 0] + X[:, 1], names=["p", "q"]),
        "stress": agp.Task(X, 2.0 - 3.0 * X[:, 0], names=["p", "q"]),
    }
    gp = agp.AlignedGP("cost", progress=False, hyperparameters="map").fit(tasks)
    bounds = {"cost": {"p": (0, 1), "q": (0, 1)}}
    free = gp.suggest("minimize", target="cost", bounds=bounds)
    assert free.inputs["p"] < 0.1
    bound = gp.suggest("minimize", target="cost", bounds=bounds, constraints={"stress": (None, 0.5)})
    assert bound.inputs["p"] == pytest.approx(0.5, abs=0.05)
    # with no row that meets it, what is looked for is one that does
    none = gp.suggest(
        "minimize", target="cost", bounds=bounds, constraints={"stress": (None, float(tasks["stress"].y.min()) - 0.02)}
    )
    assert none.inputs["p"] > X[:, 0].max() - 0.05


def test_learning_takes_most_off_the_average_variance():
    gp = fitted(two_fidelities(8))
    found = gp.suggest("learn", costs=COSTS, bounds=BOUNDS)
    part, at = gp._part("fine")
    rows = np.random.default_rng(0).uniform(-1, 1, (300, 3))

    def average(after) -> float:
        with agp.computing():
            return float(np.mean(after.model.moments(at, after.frame.rows(at, rows))[1]))

    def gain(task: str, inputs) -> float:
        with agp.computing():
            where = part.frame.names.index(task)
            mean, _ = part.model.moments(where, part.frame.rows(where, inputs))
            y = part.frame.outputs[where].inverse(mean[:, None])[:, 0]
            return (average(part) - average(conditioned(part, where, inputs, y))) / COSTS[task]

    ours = gain(found.task, np.array([list(found.inputs.values())]))
    rng = np.random.default_rng(1)
    others = [gain(found.task, rng.uniform(-1, 1, (1, len(found.inputs)))) for _ in range(20)]
    assert ours > np.quantile(others, 0.75)
    assert ours > 0


@pytest.mark.parametrize(
    "keywords, error, said",
    [
        ({"objective": "best"}, SettingError, "objective: expected one of"),
        ({"acquisition": "ei"}, SettingError, "acquisition: expected one of"),
        ({"beta": -1.0}, SettingError, "beta: expected a number >= 0"),
        ({"costs": {"coarse": 1, "fine": 0}}, SettingError, "above zero for task 'fine'"),
        ({"costs": {"coarse": 1}, "target": "fine"}, SettingError, "the target 'fine' has none"),
        ({"costs": {"rough": 1}}, DataError, "no task 'rough'"),
        ({"bounds": {"fine": {"z": (0, 1)}}}, SettingError, "bounds of 'z'"),
        ({"constraints": {"coarse": (None, 1.0)}}, SettingError, "A constraint is evaluated at the target's inputs"),
        ({"constraints": {"fine": (None, 1.0)}}, SettingError, "'fine' is the target"),
        ({"constraints": {"coarse": 1.0}}, SettingError, "expected {'coarse': .low, high.}"),
        ({"n": 0}, SettingError, "n: expected"),
        ({"pending": [("coarse", {"a": 0, "b": 0})]}, SettingError, "pending: task 'coarse' has no cost"),
    ],
)
def test_what_is_refused(gp, keywords, error, said):
    with pytest.raises(error, match=said):
        gp.suggest(**keywords)


def test_tasks_that_share_nothing_need_a_target():
    tasks = two_fidelities(6)
    gp = agp.AlignedGP(shared=False, progress=False, hyperparameters="map").fit(tasks)
    with pytest.raises(SettingError, match="target: which task is to be optimised"):
        gp.suggest()
    assert gp.suggest(target="coarse").task == "coarse"


@pytest.mark.parametrize("calibration, inference", [("none", "exact"), ("none", "collapsed")])
def test_other_models_suggest_for_the_target(calibration, inference):
    gp = agp.AlignedGP(
        "coarse", calibration=calibration, inference=inference, num_latents=1, max_iterations=100, progress=False
    ).fit(two_fidelities(10))
    found = gp.suggest("minimize", target="fine", bounds=BOUNDS, acquisition="ucb", beta=0.0)
    rows = np.random.default_rng(1).uniform(-1, 1, (2000, 3))
    assert found.mean <= gp.predict("fine", rows).mean.min() + 1e-3
    with pytest.raises(SettingError, match="calibration='auto'"):
        gp.suggest(target="fine", n=2)


def test_a_loaded_model_suggests_the_same(gp, tmp_path):
    gp.save(tmp_path / "model.agp")
    again = agp.load(tmp_path / "model.agp")
    one, other = (model.suggest(bounds=BOUNDS, costs=COSTS) for model in (gp, again))
    assert one.task == other.task
    assert list(one.inputs.values()) == pytest.approx(list(other.inputs.values()), abs=1e-6)
    with pytest.raises(SettingError, match="expected bounds of 'a'"):
        again.suggest(costs=COSTS)
