"""A model that was saved and loaded is the same model: every kind of model, mapping and kernel, bit for bit."""

import gpjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aligngp as agp
from aligngp import archive, storage
from aligngp.kernels import Foreign, Linear, Matern12, Matern52, SquaredExponential
from estimators import CALIBRATIONS, COARSE_X, COARSE_Y, FINE_X, FINE_Y, NEW, make, moved, tasks, untrained


def second_column(x):
    return x[:, [1]]


@pytest.fixture
def again(tmp_path):
    """Save and load an estimator."""

    def through_a_file(gp: agp.AlignedGP, **given) -> agp.AlignedGP:
        gp.save(tmp_path / "model.agp")
        return agp.load(tmp_path / "model.agp", **given)

    return through_a_file


def same(a: agp.AlignedGP, b: agp.AlignedGP) -> None:
    """Everything that can be asked of the two is equal to the last bit."""
    leaves = jax.tree.leaves(a.model), jax.tree.leaves(b.model)
    for one, other in zip(*leaves, strict=True):
        np.testing.assert_array_equal(one, other)
        assert (np.shape(one), one.dtype) == (np.shape(other), other.dtype)
    assert jax.tree.structure(a.model) == jax.tree.structure(b.model)
    for task, rows in (("fine", NEW), ("coarse", NEW[:, :1])):
        first, second = a.predict(task, rows), b.predict(task, rows)
        np.testing.assert_array_equal(first.mean, second.mean)
        np.testing.assert_array_equal(first.variance, second.variance)
        for one, other in zip(a.aligned(task, rows), b.aligned(task, rows), strict=True):
            np.testing.assert_array_equal(one, other)
    assert a.score("fine", (FINE_X, FINE_Y)) == b.score("fine", (FINE_X, FINE_Y))
    assert str(a.summary()) == str(b.summary())
    np.testing.assert_array_equal(a.task_correlation(), b.task_correlation())
    for name in ("iteration", "objective", "seconds"):
        np.testing.assert_array_equal(getattr(a.history, name), getattr(b.history, name))


@pytest.mark.parametrize("calibration", CALIBRATIONS)
def test_every_calibration(again, calibration):
    gp = moved(calibration, num_latents=2) if calibration == "none" else moved(calibration)
    loaded = again(gp)
    same(gp, loaded)
    if calibration == "bayes":
        np.testing.assert_array_equal(gp.predict("fine", NEW).sample(2), loaded.predict("fine", NEW).sample(2))
    if calibration == "free":
        assert loaded.elbo(tasks()) == gp.elbo()


def test_tasks_that_share_nothing(again):
    gp = moved(shared=False)
    loaded = again(gp)
    assert list(loaded.model) == ["fine", "coarse"]
    same(gp, loaded)


def test_single_precision(again):
    gp = moved(dtype="float32")
    loaded = again(gp)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(loaded.model)} == {"float32"}
    same(gp, loaded)


KERNELS = [
    "matern32",
    Matern52(lengthscale=0.3, variance=2.0),
    Linear(),
    SquaredExponential(jnp.array([0.5])) + Linear() * Matern12(),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=["name", "numbers", "linear", "sum"])
def test_kernels(again, kernel):
    with untrained():
        gp = make(kernel=kernel, mapping_kernel="linear", calibration="bayes").fit(tasks())
    loaded = again(gp)
    same(gp, loaded)
    tensors, stored = {}, {}
    assert storage.encode(loaded.settings.kernel, tensors, "k") == storage.encode(kernel, stored, "k")
    assert list(map(repr, tensors.values())) == list(map(repr, stored.values()))


def test_kernels_of_another_library_are_passed_again(again):
    kernel = (SquaredExponential() + Foreign(gpjax.kernels.RBF())) * Linear()
    mapping_kernel = gpjax.kernels.Matern32(lengthscale=jnp.array([0.5, 0.7]), n_dims=2)
    with untrained():
        gp = make(kernel=kernel, mapping_kernel=mapping_kernel, calibration="bayes").fit(tasks())
    same(gp, again(gp, kernel=kernel, mapping_kernel=mapping_kernel))
    for given, message in [
        ({}, r"model.agp: the model uses RBF, a kernel of another library.*agp.load\(path, kernel=...\)"),
        ({"kernel": kernel}, "the model uses Matern32, a kernel of another library.*mapping_kernel"),
        ({"mapping_kernel": mapping_kernel, "kernel": gpjax.kernels.RBF()}, "uses RBF.*sums and products included"),
        (
            {"kernel": kernel, "mapping_kernel": gpjax.kernels.RBF()},
            r"\(RBF\) is not .* \(Matern32 with .*\(2,\)",
        ),
        (
            {"kernel": kernel, "mapping_kernel": gpjax.kernels.Matern32()},
            r"agp.load \(Matern32\) is not the one of the fit \(Matern32.*Pass it as it was",
        ),
        (
            {
                "kernel": kernel,
                "mapping_kernel": gpjax.kernels.Matern52(lengthscale=jnp.array([0.5, 0.7]), n_dims=2),
            },
            r"agp.load \(Matern52\) is not the one of the fit \(Matern32",
        ),
    ]:
        with pytest.raises(agp.ModelFileError, match=message):
            again(gp, **given)


def test_a_kernel_that_nothing_uses_is_missed_too(again):
    with untrained():
        gp = make(mapping_kernel=gpjax.kernels.RBF(), calibration="none").fit(tasks())
    with pytest.raises(agp.ModelFileError, match="uses RBF, a kernel of another library"):
        again(gp)
    same(gp, again(gp, mapping_kernel=gpjax.kernels.RBF()))


MAPPINGS = [
    (None, None),
    (["x2"], "Columns('x2')"),
    (agp.Affine([[0.5, 2.0]], [1.0]), "Affine(A (1, 2), b (1,))"),
    (agp.Learned("pca", 0.3), "Learned(init='pca', strength=0.3)"),
    (agp.Tabulated(FINE_X[:, 1]), "Tabulated(X_bar (8, 1))"),
]


@pytest.mark.parametrize("mapping, told", MAPPINGS, ids=["names", "columns", "affine", "learned", "tabulated"])
def test_mappings(again, mapping, told):
    fine = agp.Task(FINE_X, FINE_Y, names=["x2", "x1"])
    data = {"fine": fine, "coarse": (COARSE_X, COARSE_Y)}
    if mapping == ["x2"]:
        data["fine"] = (FINE_X, FINE_Y)
    with untrained():
        known = isinstance(mapping, agp.Tabulated)
        gp = make(mappings={"fine": mapping} if told else None, calibration="auto" if known else "none").fit(data)
    loaded = again(gp)
    same(gp, loaded)
    assert repr((loaded.settings.mappings or {}).get("fine")) == str(told)
    if known:
        assert loaded.elbo(data) == gp.elbo()
    else:
        np.testing.assert_array_equal(gp.nominal("fine", NEW), loaded.nominal("fine", NEW))


def test_the_mapping_of_a_task_does_not_become_a_setting(again):
    data = {"fine": agp.Task(FINE_X, FINE_Y, mapping=["x2"]), "coarse": (COARSE_X, COARSE_Y)}
    with untrained():
        loaded = again(make(mappings=None, calibration="none").fit(data))
        assert loaded.settings.mappings is None
        assert loaded.fit(data).history.objective.size == 30


def test_formulas_are_passed_again(again):
    with untrained():
        gp = make(mappings={"fine": second_column}, calibration="none").fit(tasks())
    same(gp, again(gp, mappings={"fine": second_column}))
    with pytest.raises(
        agp.ModelFileError, match=r"'fine': .*function second_column.*mappings=\{'fine': second_column\}"
    ):
        again(gp)
    with pytest.raises(agp.ModelFileError, match=r"'fin', which is not a task of the file \(did you mean 'fine'\?\)"):
        again(gp, mappings={"fine": second_column, "fin": second_column})


def test_mappings_in_the_file_may_be_passed_and_stand_as_they_were(again):
    loaded = again(moved("none"), mappings={"fine": ["x1"]})
    assert repr(loaded.settings.mappings) == "{'fine': Columns('x2')}"
    same(moved("none"), loaded)


def test_settings_come_back(again):
    given = {"calibration": {"fine": "none"}, "batch_size": {"coarse": 4}, "seed": 5, "num_latents": 1}
    with untrained():
        gp = make(**given).fit(tasks())
    loaded = again(gp)
    assert {name: getattr(loaded.settings, name) for name in given} == given
    assert loaded.settings.changed() == [part.replace("['x2']", "Columns('x2')") for part in gp.settings.changed()]


def test_a_loaded_model_is_fitted_again(again):
    loaded = again(moved("none"))
    with untrained():
        loaded.fit(tasks())
    same(moved("none"), loaded)
    assert loaded.elbo() == moved("none").elbo()


def test_a_loaded_model_holds_no_training_rows(again):
    loaded = again(moved("none"))
    with pytest.raises(agp.NotFittedError, match=r"holds no training rows. Pass them: gp.elbo\(tasks\)"):
        loaded.elbo()
    with pytest.raises(agp.DataError, match="training rows of every task, it lacks 'coarse'"):
        loaded.elbo({"fine": (FINE_X, FINE_Y)})
    with pytest.raises(agp.DataError, match="task 'fine': expected its 8 training rows, got 7 rows"):
        loaded.elbo({"fine": (FINE_X[1:], FINE_Y[1:]), "coarse": (COARSE_X, COARSE_Y)})


def damaged(gp: agp.AlignedGP, path, change) -> None:
    """Save an estimator to a file that is whole, but whose description or tensors were changed before."""
    tensors = {}
    description = archive.describe(gp.settings, gp._distinct(), tensors)
    change(description, tensors)
    storage.write(path, description, tensors)


def without(name):
    return lambda description, tensors: description["parts"][0].pop(name)


DAMAGES = {
    "no settings": (lambda d, t: d.pop("settings"), "KeyError: 'settings'"),
    "no parts": (lambda d, t: d.pop("parts"), "KeyError: 'parts'"),
    "parts that are none": (lambda d, t: d.update(parts=3), "TypeError"),
    "no frame": (without("frame"), "KeyError: 'frame'"),
    "no model": (without("model"), "KeyError: 'model'"),
    "an unknown setting": (lambda d, t: d["settings"].update(magic=1), "TypeError.*magic"),
    "a wrong setting": (lambda d, t: d["settings"].update(dtype="float8"), "SettingError: dtype"),
    "an unknown class": (
        lambda d, t: d["parts"][0]["model"]["latents"]["tuple"][0].update({"class": "Popen"}),
        "a part that this version does not know: 'Popen'",
    ),
    "a missing field": (
        lambda d, t: d["parts"][0]["model"]["latents"]["tuple"][0]["fields"].pop("inducing"),
        "TypeError.*inducing",
    ),
    "a missing tensor": (lambda d, t: t.pop("part0.model.mixing"), "KeyError: 'part0.model.mixing'"),
    "a prior too few": (lambda d, t: d["parts"][0]["frame"]["priors"].pop(), "ValueError"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_description_that_does_not_fit(tmp_path, name):
    change, message = DAMAGES[name]
    damaged(moved("none"), tmp_path / "model.agp", change)
    with pytest.raises(agp.ModelFileError, match=f"model.agp: .*{message}"):
        agp.load(tmp_path / "model.agp")


def test_an_estimator_without_a_fit_is_not_saved(tmp_path):
    with pytest.raises(agp.NotFittedError, match="not fitted yet"):
        make().save(tmp_path / "model.agp")
    assert list(tmp_path.iterdir()) == []
