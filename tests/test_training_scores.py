"""Scores on training rows: left out one by one where there is a closed form, else said to be training scores."""

import jax
import numpy as np
import pytest

import aligngp as agp
from aligngp.data.tasks import read_tasks
from aligngp.metrics import scores
from aligngp.objective.exact import log_evidence
from aligngp.parameters import resolve
from aligngp.parts import training_batches
from estimators import COARSE_X, COARSE_Y, FINE_X, FINE_Y, make, moved, tasks

EXACT = {"calibration": "none", "inference": "exact", "max_iterations": 20, "restarts": 1, "num_inducing": None}


@pytest.fixture(scope="module")
def default() -> agp.AlignedGP:
    return agp.AlignedGP("coarse", mappings={"fine": ["x2"]}, progress=False).fit(tasks())


def test_the_mixture_leaves_rows_out_as_the_transfer_report_does(default):
    found = default.training_scores()
    assert list(found) == ["fine", "coarse"]
    report = {entry.task: entry for entry in default.transfer_report().rows}
    for task, y in (("fine", FINE_Y), ("coarse", COARSE_Y)):
        own, entry = found[task], report[task]
        assert (own["scored"], own["rows"], entry.scored) == ("left out", y.size, "left out")
        for score in ("smse", "nlpd", "crps"):
            np.testing.assert_allclose(own[score], getattr(entry, f"{score}_with"), rtol=1e-10)
        np.testing.assert_allclose(own["rmse"] ** 2, own["smse"] * y.var(), rtol=1e-10)


def test_exact_inference_leaves_rows_out_as_ratios_of_evidences():
    # Known noise, beside which the jitter is nothing: it is relative to a diagonal that changes with the rows.
    given = {"fine": agp.Task(FINE_X, FINE_Y, noise=0.5), "coarse": agp.Task(COARSE_X, COARSE_Y, noise=0.1)}
    gp = make(**EXACT).fit(given)
    found = gp.training_scores()
    part = gp._part("fine")[0]
    model, data = resolve(gp.model), read_tasks(given)
    batches = training_batches(part.frame, data, "float64")

    def evidence(fine: np.ndarray) -> float:
        some = jax.tree.map(lambda leaf: leaf[fine] if np.ndim(leaf) else leaf, batches[0])
        return float(log_evidence(model, (some, batches[1])))

    everything = np.arange(FINE_Y.size)
    densities = [evidence(everything) - evidence(np.delete(everything, row)) for row in everything]
    nlpd = -np.mean(densities) + np.log(FINE_Y.std())  # in the units of the data
    np.testing.assert_allclose(found["fine"]["nlpd"], nlpd, rtol=1e-6)
    assert (found["fine"]["scored"], found["coarse"]["rows"]) == ("left out", COARSE_Y.size)


def test_other_inference_has_training_scores():
    gp = moved("bayes")
    found = gp.training_scores()
    for task, X, y in (("fine", FINE_X, FINE_Y), ("coarse", COARSE_X, COARSE_Y)):
        assert found[task] == {"scored": "training", "rows": y.size, **gp.score(task, X, y)}


def test_tasks_that_share_nothing_are_scored_on_their_own():
    gp = make(shared=False, mappings=None, common=None, **EXACT).fit(tasks())
    found = gp.training_scores()
    alone = make(shared=False, mappings=None, common=None, **EXACT).fit({"fine": (FINE_X, FINE_Y)}).training_scores()
    assert list(found) == ["fine", "coarse"]
    for name, value in alone["fine"].items():
        assert found["fine"][name] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-9))


def test_a_single_row_has_nothing_to_be_left_out_of():
    x = np.linspace(0.0, 1.0, 9)[:, None]
    with pytest.warns(agp.AligngpWarning, match="there is one row only"):
        gp = agp.AlignedGP("b", progress=False).fit({"a": (x[:1], [0.5]), "b": (x, np.sin(3 * x[:, 0]))})
    found = gp.training_scores()["a"]
    assert (found["scored"], found["rows"]) == ("training", 1)
    pred = gp.predict("a", x[:1])
    np.testing.assert_equal(scores([0.5], pred.mean, pred.variance, 0.5, 0.0), {k: found[k] for k in list(found)[2:]})


def test_a_loaded_model_has_no_training_rows(default, tmp_path):
    default.save(tmp_path / "m.agp")
    with pytest.raises(agp.NotFittedError, match=r"holds no training rows\. Call gp\.fit\(tasks\)"):
        agp.load(tmp_path / "m.agp").training_scores()
    with pytest.raises(agp.NotFittedError, match="not fitted yet"):
        agp.AlignedGP().training_scores()


def test_what_a_fitted_model_says_of_itself(default):
    assert (default.tasks, default.common, default.interrupted) == (("fine", "coarse"), "coarse", False)
    assert make(shared=False, mappings=None, common=None, **EXACT).fit(tasks()).common is None
    with pytest.raises(agp.NotFittedError, match="not fitted yet"):
        _ = agp.AlignedGP().tasks
