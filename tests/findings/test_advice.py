"""Sentences on what should be known of a model, each where it is due and not elsewhere."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import aligngp as agp
from aligngp.findings.advice import advice, beyond
from aligngp.findings.alignment import alignment
from aligngp.findings.known import Known
from estimators import COARSE_X, FINE_X, moved
from pictures import from_file, noisy, park


def about(sentences, words):
    """Those sentences that have the words."""
    return [sentence for sentence in sentences if words in sentence]


def fitted(X, y, **task):
    """One task alone."""
    return agp.AlignedGP(progress=False).fit({"one": agp.Task(X, y, **task)})


def test_few_rows_are_told():
    (told,) = about(park().warnings(), "training row")
    assert told == "Task 'high': 6 training rows for 4 inputs. Scores and intervals that rest on so few rows are rough."


def test_noise_at_its_lower_bound():
    X = np.linspace(0.0, 1.0, 15)[:, None]
    (told,) = about(fitted(X, np.sin(6.0 * X[:, 0])).warnings(), "noise is near its lower bound")
    assert told.startswith("Task 'one'")
    assert not about(fitted(X, np.sin(6.0 * X[:, 0]), noise=1e-5).warnings(), "noise is near")


def test_a_known_noise_is_known_after_loading(tmp_path):
    X = np.linspace(0.0, 1.0, 15)[:, None]
    gp = from_file(fitted(X, np.sin(6.0 * X[:, 0]), noise=1e-5), tmp_path)
    assert not about(gp.warnings(), "noise is near")
    assert about(from_file(fitted(X, np.sin(6.0 * X[:, 0])), tmp_path).warnings(), "noise is near its lower bound")


def test_all_is_taken_for_noise():
    rng = np.random.default_rng(3)
    (told,) = about(fitted(rng.uniform(size=(40, 1)), rng.standard_normal(40)).warnings(), "is taken for noise")
    assert "explain next to nothing" in told


def scored(inside: int, of: int) -> Known:
    """Known outputs so many of which lie inside their intervals."""
    y = np.where(np.arange(of) < inside, 0.0, 5.0)
    return Known("high", "test", y, np.zeros(of), np.ones(of), (0.0, 1.0))


@pytest.mark.parametrize(
    "inside, of, words",
    [(70, 100, "too narrow"), (94, 100, None), (100, 100, None), (1000, 1000, "wider than they need"), (2, 3, None)],
)
def test_coverage_is_told_where_chance_does_not_explain_it(inside, of, words):
    found = about(advice(park(), None, [scored(inside, of)]), "95% intervals")
    if words is None:
        assert found == []
    else:
        assert f"hold {inside} of {of} test rows" in found[0]
        assert words in found[0]


def test_a_source_that_hurts():
    report = park().transfer_report("high")
    (entry,) = report.rows
    hurting = replace(report, rows=(replace(entry, verdict="hurts", sentence="'low' hurts 'high'."),))
    assert park().warnings(hurting)[0] == "'low' hurts 'high'. Fit 'high' without 'low'."
    assert not about(park().warnings(report), "without 'low'")


def test_a_mapping_that_leads_away_from_the_common_data():
    case = agp.datasets.park(num_low=20)
    tasks = {name: agp.Task(*case.tasks[name], names=case.names[name]) for name in case.tasks}
    centimetres = agp.Affine(100.0 * np.eye(4)[2:])
    gp = agp.AlignedGP("low", mappings={"high": centimetres}, progress=False).fit(tasks)
    (told,) = about(gp.warnings(), "lie far from the data of the common task 'low'")
    assert "6 of 6 rows" in told
    assert "check the prior mapping and its units" in told
    assert not about(park().warnings(), "far from")


def test_a_mapping_that_was_moved_far():
    gp = moved("embedded")
    mean, _ = gp.aligned("fine", FINE_X)
    size = np.abs(mean[:, 0] - FINE_X[:, 1]) / COARSE_X.std()
    rows = int(np.sum(size > 1.0))
    assert 0 < rows < 8  # some were, and some were not
    (told,) = about(gp.warnings(), "moved the aligned inputs")
    assert f"of {rows} of 8 rows by more than one standard deviation of the common inputs" in told
    assert f"most by {size.max():.2g} in 'x1'" in told
    assert "gp.plot.aligned('fine')" in told
    assert np.abs(alignment(moved("bayes"), "fine").moved).max() < 1.0
    assert not about(moved("bayes").warnings(), "moved the aligned inputs")


def test_rows_far_outside_are_warned_of_once_a_call():
    far = FINE_X[[0] * 5] + [[0.0, 0.0], [0.0, 9.0], [9.0, 9.0], [0.0, 0.1], [0.0, -9.0]]
    gp = moved("none")
    with pytest.warns(agp.AligngpWarning, match="'fine': 3 of 5 rows to predict lie far outside.*'x2'") as caught:
        gp.predict("fine", far)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp.predict("fine", FINE_X + 0.5)
        gp.predict("fine", FINE_X[:0])


def test_a_model_of_a_file_knows_where_its_rows_were(tmp_path):
    gp = from_file(noisy(), tmp_path)
    low, high = (f"{end:.4g}" for end in noisy()._training[1].span[:, 0])
    with pytest.warns(agp.AligngpWarning, match=f"1 of 2 rows .* 'x1', which was trained on {low} to {high}"):
        gp.predict("source", [[0.0], [1e6]])


def test_beyond_leaves_a_part_of_the_width():
    low, high = np.array([0.0, 1.0]), np.array([2.0, 1.0])
    found = beyond(np.array([[2.9, 1.0], [3.1, 1.0], [-1.1, 1.1]]), low, high, 0.5)
    assert found.tolist() == [[False, False], [True, False], [True, False]]
