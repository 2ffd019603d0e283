"""Ask and tell, the loop, its history, failures and workers."""

import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest

import aligngp as agp
from aligngp.errors import DataError, SettingError

SPACES = {"fine": {"x": (0.0, 1.0), "z": (0.0, 1.0)}, "coarse": {"x": (0.0, 1.0)}}
COSTS = {"fine": 4.0, "coarse": 1.0}
QUICK = {"hyperparameters": "map"}
"""Of the model: this is about the loop."""


def fine(x, z):
    return (x - 0.3) ** 2 + 0.2 * (z - 0.8) ** 2


def coarse(x):
    return (x - 0.3) ** 2 + 0.1


FUNCTIONS = {"fine": fine, "coarse": coarse}


def search(**keywords):
    settings = {"initial": {"fine": 4, "coarse": 4}, "model": QUICK, "seed": 1} | keywords
    return agp.Optimizer(SPACES, COSTS, **settings)


def test_the_whole_loop_finds_the_minimum_within_the_budget():
    found = agp.optimize(
        FUNCTIONS, SPACES, costs=COSTS, budget=50, initial={"fine": 4, "coarse": 4}, model=QUICK, progress=False
    )
    assert found.optimizer.spent <= 50
    assert found.value == pytest.approx(fine(**found.inputs))
    assert found.value < 2e-3
    cost, best = found.best_so_far()
    assert cost[-1] == found.optimizer.spent and np.all(np.diff(best[np.isfinite(best)]) <= 0)
    assert best[-1] == found.value
    assert np.isnan(best[0])  # a source counts for nothing


def test_maximising_and_one_task_alone():
    found = agp.optimize(
        {"fine": lambda x: -((x - 0.7) ** 2)},
        {"fine": {"x": (0, 1)}},
        budget=10,
        objective="maximize",
        model=QUICK,
        progress=False,
    )
    assert abs(found.inputs["x"] - 0.7) < 0.03
    assert len(found.history) == 10


def test_first_the_designs_then_suggestions():
    one = search()
    tasks = []
    for _ in range(9):
        trial = one.ask()
        tasks.append(trial.task)
        one.tell(trial, FUNCTIONS[trial.task](**trial.inputs))
    assert tasks[:8] == ["coarse"] * 4 + ["fine"] * 4
    assert one.spent == sum(COSTS[task] for task in tasks)


def test_the_target_gets_its_turn():
    """Sources take at most the cost of one evaluation of the target in a row."""
    one = search(model=QUICK)
    since, most = 0.0, 0.0
    for _ in range(20):
        trial = one.ask()
        one.tell(trial, FUNCTIONS[trial.task](**trial.inputs))
        if len(one.trials) > 8:
            since = 0.0 if trial.task == "fine" else since + 1.0
            most = max(most, since)
    assert most <= COSTS["fine"]


def test_a_history_is_continued_where_it_was(tmp_path):
    path = tmp_path / "search.parquet"
    one = search(history=path)
    for _ in range(9):
        trial = one.ask()
        one.tell(trial, FUNCTIONS[trial.task](**trial.inputs))
    left = one.ask()  # asked for, and then the process died
    again = search(history=path)
    assert [t.inputs for t in again.trials] == [t.inputs for t in one.trials]
    assert again.best == one.best
    assert again.ask() == left
    again.tell(left, 0.5)
    assert pq.read_table(path).num_rows == 10
    assert {json.loads(text)["x"] for text in again.history["inputs"].to_pylist()} == {
        t.inputs["x"] for t in one.trials
    }


def test_a_history_of_another_search_is_refused(tmp_path):
    path = tmp_path / "search.parquet"
    one = search(history=path)
    one.tell(one.ask(), 1.0)
    with pytest.raises(DataError, match="of another search: objective was 'minimize' and is 'maximize'"):
        search(history=path, objective="maximize")
    path.write_bytes(b"no parquet")
    with pytest.raises(DataError, match="not a history"):
        search(history=path)


def broken(x, z):
    if x < 0.25:
        raise ValueError("the mesh has collapsed")
    return fine(x, z)


def test_failed_evaluations_are_kept_and_avoided():
    found = agp.optimize(
        {"fine": broken, "coarse": coarse},
        SPACES,
        costs=COSTS,
        budget=70,
        initial={"fine": 4, "coarse": 4},
        model=QUICK,
        progress=False,
    )
    failed = [trial for trial in found.optimizer.trials if trial.status == "failed"]
    assert failed and all(trial.inputs["x"] < 0.25 and trial.value is None for trial in failed)
    assert "the mesh has collapsed" in failed[0].error
    assert found.value < 0.02
    later = [trial for trial in found.optimizer.trials[-6:] if trial.status == "failed"]
    assert len(later) <= 2


def test_nan_is_a_failure():
    one = search()
    trial = one.ask()
    one.tell(trial, math.nan)
    assert one.trials[0].status == "failed"
    assert one.best is None


def test_constraints_are_told_with_the_target():
    one = agp.Optimizer(
        {"cost": {"p": (0, 1), "q": (0, 1)}},
        constraints={"stress": (None, 0.5)},
        initial={"cost": 6},
        model=QUICK,
        seed=0,
    )
    for _ in range(9):
        trial = one.ask()
        p, q = trial.inputs["p"], trial.inputs["q"]
        one.tell(trial, p + q, {"stress": 2.0 - 3.0 * p})
    assert one.best.inputs["p"] == pytest.approx(0.5, abs=0.06)
    trial = one.ask()
    with pytest.raises(DataError, match="expected the outputs of the constraints 'stress'"):
        one.tell(trial, 1.0)


def test_several_at_once_in_processes():
    found = agp.optimize(
        FUNCTIONS,
        SPACES,
        costs=COSTS,
        budget=30,
        workers=2,
        initial={"fine": 4, "coarse": 4},
        model=QUICK,
        progress=False,
    )
    assert found.optimizer.spent <= 30
    assert all(trial.status == "done" for trial in found.optimizer.trials)
    points = [tuple(t.inputs.values()) for t in found.optimizer.trials if t.task == "fine"]
    assert len(set(points)) == len(points)
    assert found.value < 0.05


def test_outcomes_may_come_in_any_order():
    one = search()
    for _ in range(9):
        trial = one.ask()
        one.tell(trial, FUNCTIONS[trial.task](**trial.inputs))
    first, second, third = one.ask(), one.ask(), one.ask()
    for trial in (third, first, second):
        one.tell(trial, FUNCTIONS[trial.task](**trial.inputs))
        one.ask()  # the model takes in what is new
    done = [trial for trial in one.trials if trial.status == "done"]
    assert one._seen == {trial.id for trial in done}
    part = one._part
    for task in SPACES:
        X = one.spaces[task].rows([trial.inputs for trial in done if trial.task == task])
        at = part.frame.names.index(task)
        own = part.frame.inputs[at].inverse(part.model.targets[at].own)
        np.testing.assert_allclose(np.sort(own, axis=0), np.sort(X, axis=0), atol=1e-12)


def test_more_may_be_asked_for_than_the_first_design_before_any_outcome():
    one = search()
    asked = [one.ask() for _ in range(12)]
    assert [trial.task for trial in asked[8:]] == ["fine"] * 4
    assert len({tuple(trial.inputs.values()) for trial in asked[4:]}) == 8


def test_what_was_known_before_costs_nothing():
    one = search()
    one.add("fine", {"x": 0.5, "z": 0.5}, 0.3)
    assert one.spent == 0 and one.best.value == 0.3
    with pytest.raises(DataError, match="no task 'rough'"):
        one.add("rough", {"x": 0.5}, 0.3)


def test_an_outcome_is_told_once_and_of_what_was_asked():
    one = search()
    trial = one.ask()
    one.tell(trial, 1.0)
    with pytest.raises(DataError, match="told already"):
        one.tell(trial, 1.0)
    with pytest.raises(DataError, match="has not asked for it"):
        one.tell(agp.optimization.Trial(7, "fine", {"x": 0.5, "z": 0.5}, 1.0), 1.0)


@pytest.mark.parametrize(
    "keywords, said",
    [
        ({"costs": None}, "costs: expected a dict"),
        ({"costs": {"fine": 1.0}}, "costs: task 'coarse' has none"),
        ({"objective": "learn"}, "objective: expected 'minimize' or 'maximize'"),
        ({"acquisition": "ei"}, "acquisition: expected one of"),
        ({"constraints": {"coarse": (0, 1)}}, "'coarse' is among the spaces"),
        ({"initial": {"rough": 3}}, "initial: there is no task 'rough'"),
    ],
)
def test_what_is_refused(keywords, said):
    with pytest.raises(SettingError, match=said):
        agp.Optimizer(**({"spaces": SPACES, "costs": COSTS} | keywords))


def test_budget_and_functions_are_checked():
    with pytest.raises(SettingError, match="at least the cost of one evaluation of 'fine'"):
        agp.optimize(FUNCTIONS, SPACES, costs=COSTS, budget=3)
    with pytest.raises(SettingError, match="lack 'coarse'"):
        agp.optimize({"fine": fine}, SPACES, costs=COSTS, budget=30)


def test_regret_is_drawn():
    found = agp.optimize(
        {"fine": lambda x: (x - 0.7) ** 2}, {"fine": {"x": (0, 1)}}, budget=7, model=QUICK, progress=False
    )
    ax = found.plot(optimum=0.0)
    line = ax.lines[0]
    cost, best = found.best_so_far()
    np.testing.assert_array_equal(line.get_xdata(), cost)
    np.testing.assert_allclose(line.get_ydata(), best)
    assert ax.get_ylabel() == "simple regret" and ax.get_yscale() == "log"
    assert found.plot().get_ylabel() == "best fine so far"
