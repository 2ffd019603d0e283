"""Prior and posterior aligned inputs."""

import numpy as np
import pytest

import aligngp as agp
from aligngp.findings.alignment import alignment, nu_g0
from aligngp.parameters import resolve
from aligngp.runtime import computing
from estimators import COARSE_X, FINE_X, NEW, moved
from pictures import from_file, noisy, park


def test_the_training_rows_of_a_mixture_are_those_of_the_model():
    found, (X, _) = alignment(park(), "high"), agp.datasets.park(num_low=20, num_test=30).tasks["high"]
    mean, variance = park().aligned("high", X)
    assert found.prior == pytest.approx(X[:, 2:])
    assert found.mean == pytest.approx(mean)
    assert found.variance == pytest.approx(variance)
    assert found.columns == ("x3", "x4")


def test_new_rows_of_a_sparse_model():
    gp = moved("bayes")
    found = alignment(gp, "fine", NEW)
    assert found.prior == pytest.approx(gp.nominal("fine", NEW))
    assert found.mean == pytest.approx(gp.aligned("fine", NEW)[0])
    assert found.moved == pytest.approx((found.mean - found.prior) / COARSE_X.std(axis=0))
    assert found.std == pytest.approx(np.sqrt(gp.aligned("fine", NEW)[1]) / COARSE_X.std(axis=0))


def test_training_rows_of_the_free_mapping_have_aligned_inputs_of_their_own():
    gp = moved("free")
    with computing():
        mapping = resolve(gp.model).mappings[0]
        expected = COARSE_X.mean(axis=0) + COARSE_X.std(axis=0) * np.asarray(mapping.mean)
    assert alignment(gp, "fine").mean == pytest.approx(expected)
    assert alignment(gp, "fine", FINE_X).mean == pytest.approx(FINE_X[:, [1]])


def test_tabulated_aligned_inputs_are_known_at_training_rows_only():
    rng = np.random.default_rng(0)
    X, x_bar, coarse = rng.uniform(size=(7, 2)), rng.uniform(size=(7, 1)), rng.uniform(size=(15, 1))
    tasks = {"fine": (X, np.sin(5 * x_bar[:, 0])), "coarse": (coarse, np.sin(5 * coarse[:, 0]))}
    gp = agp.AlignedGP("coarse", mappings={"fine": agp.Tabulated(x_bar)}, progress=False).fit(tasks)
    assert alignment(gp, "fine").prior == pytest.approx(x_bar)
    with pytest.raises(agp.DataError, match=r"'fine'.*tabulated at the training rows"):
        alignment(gp, "fine", X)


def test_the_common_task_has_no_mapping():
    with pytest.raises(agp.SettingError, match=r"'low'.*has no mapping.*'high'"):
        alignment(park(), "low")


def test_no_rows(tmp_path):
    with pytest.raises(agp.NotFittedError, match=r"'high'.*data="):
        alignment(from_file(park(), tmp_path), "high")
    with pytest.raises(agp.DataError, match=r"'high'.*no row"):
        alignment(park(), "high", np.zeros((0, 4)))


@pytest.mark.parametrize("calibration", ["bayes", "free"])
def test_nu_g0_is_that_of_the_mapping(calibration):
    gp = moved(calibration)
    with computing():
        assert nu_g0(gp, "fine") == float(resolve(gp.model).mappings[0].prior_variance)


def test_where_there_is_no_nu_g0():
    with pytest.raises(agp.SettingError, match=r"'target': a mixture of exact GPs has no variance nu_g0.*'bayes'"):
        nu_g0(noisy(), "target")
    with pytest.raises(agp.SettingError, match=r"'fine': calibration='none' has no variance nu_g0"):
        nu_g0(moved("none"), "fine")
