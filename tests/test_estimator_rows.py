"""Training rows of a model that was read from a file."""

import numpy as np
import pytest

import aligngp as agp
from pictures import noisy, park


def loaded(gp: agp.AlignedGP, folder) -> agp.AlignedGP:
    gp.save(folder / "model.agp")
    return agp.load(folder / "model.agp")


def rows_of(gp: agp.AlignedGP) -> dict[str, agp.Task]:
    return {one.name: agp.Task(one.X, one.y, names=one.columns) for one in gp._training}


def test_a_loaded_model_remembers_its_training_rows(tmp_path):
    gp = park()
    again = loaded(gp, tmp_path)
    with pytest.raises(agp.NotFittedError, match="holds no training rows"):
        again.training_scores()
    assert again.remember(rows_of(gp)) is again
    assert again.training_scores() == gp.training_scores()
    assert again.elbo() == gp.elbo()
    assert again.transfer_report().rows == gp.transfer_report().rows


def test_rows_of_another_order_of_tasks_and_of_arrays_are_remembered(tmp_path):
    gp = noisy()
    again = loaded(gp, tmp_path).remember({one.name: (one.X, one.y) for one in reversed(gp._training)})
    assert again.training_scores() == gp.training_scores()


@pytest.mark.parametrize("standardize", [True, False])
def test_rows_that_are_not_those_of_the_fit_are_refused(standardize, tmp_path):
    x = np.linspace(0.0, 1.0, 8)
    gp = agp.AlignedGP(standardize=standardize, progress=False).fit({"fine": agp.Task(x, np.sin(x), names=["a"])})
    gp = loaded(gp, tmp_path)
    for other, told in [
        ({"coarse": (x, x)}, "expected the tasks 'fine', got 'coarse'"),
        ({"fine": agp.Task(x, np.sin(x), names=["b"])}, "fitted to the inputs 'a', in this order, and the rows have"),
        ({"fine": agp.Task(x[1:], np.sin(x[1:]), names=["a"])}, "fitted to 8 rows, got 7"),
        ({"fine": agp.Task(x, np.sin(x) + 1e-6, names=["a"])}, "column 'y' has mean"),
    ]:
        with pytest.raises(agp.DataError, match=told):
            gp.remember(other)
    if standardize:
        with pytest.raises(agp.DataError, match="column 'a' has mean"):
            gp.remember({"fine": agp.Task(x + 1e-6, np.sin(x), names=["a"])})
    assert gp._training is None
    gp.remember({"fine": agp.Task(x, np.sin(x), names=["a"])})
    with pytest.raises(agp.NotFittedError, match="not fitted"):
        agp.AlignedGP().remember({"fine": (x, x)})
