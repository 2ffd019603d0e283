"""Whole fits, from tables to predictions: any number of ragged tasks under every inference, and the same twice."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import aligngp as agp
from aligngp.parameters import resolve
from estimators import FINE_X, FINE_Y, NEW, tasks

WAYS = {
    "default": {},
    "exact": {"calibration": "none", "inference": "exact", "max_iterations": 60, "restarts": 1},
    "collapsed": {"calibration": "bayes", "inference": "collapsed", "max_iterations": 60, "restarts": 1},
    "natural gradients": {"calibration": "none", "inference": "svi", "batch_size": 10, "max_iterations": 300},
    "Adam": {"calibration": "free", "inference": "adam", "max_iterations": 150, "learning_rate": 0.03},
}


def ragged(number: int, seed: int = 0) -> tuple[dict[str, agp.Task], dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Tasks of different numbers of rows and columns that share a function of a and b, and new rows of each."""
    rng = np.random.default_rng(seed)
    training, test = {}, {}
    for t in range(number):
        columns = ["b", "a", *(f"own {t}.{k}" for k in range(t))]
        for rows, into in ((30 - 4 * t, training), (40, test)):
            X = rng.uniform(-1.0, 1.0, (rows, 2 + t))
            y = 3.0 * t + (1.0 + 0.2 * t) * (np.sin(2.0 * X[:, 1]) + X[:, 0]) + 0.05 * X[:, 2:].sum(axis=1)
            into[f"task {t}"] = agp.Task(X, y, names=columns) if into is training else (X, y)
    return training, test


@pytest.mark.parametrize(
    "way, number", [*(("default", n) for n in (1, 2, 3, 5)), *((way, n) for way in list(WAYS)[1:] for n in (1, 3))]
)
def test_ragged_tasks_are_predicted(way, number):
    training, test = ragged(number)
    gp = agp.AlignedGP("task 0", num_inducing=None if way in ("default", "exact") else 12, progress=False, **WAYS[way])
    gp.fit(training)
    for name, (X, y) in test.items():
        score = gp.score(name, (X, y))
        assert score["smse"] < 0.1, (name, score)
        assert score["smll"] < -0.8, (name, score)
        assert score["coverage95"] > 0.6, (name, score)
    order = list(training)[::-1]
    assert gp.task_correlation().shape == (number, number)
    assert [str(gp.summary()).count(name) > 0 for name in order] == [True] * number


def test_five_tasks_with_a_mapping_of_their_own_each():
    training, test = ragged(5)
    mappings = {
        "task 1": ["b", "a"],
        "task 2": lambda x: x[:, :2],
        "task 3": agp.Affine(np.eye(2, 5)),
        "task 4": agp.Learned(),
    }
    calibration = {"task 1": "bayes", "task 2": "free", "task 3": "linear", "task 4": "none"}
    gp = agp.AlignedGP(
        "task 0",
        mappings=mappings,
        calibration=calibration,
        num_inducing=12,
        max_iterations=60,
        restarts=1,
        progress=False,
    ).fit(training)
    assert max(gp.score(name, rows)["smse"] for name, rows in test.items() if name != "task 4") < 0.1
    np.testing.assert_array_equal(gp.nominal("task 3", test["task 3"][0]), test["task 3"][0][:, :2])


@pytest.mark.parametrize("way", WAYS)
def test_one_seed_gives_one_result_bit_for_bit(way):
    short = {**WAYS[way], **({} if way == "default" else {"max_iterations": 8})}

    def fitted(seed: int) -> agp.AlignedGP:
        settings = {"mappings": {"fine": ["x2"]}, "num_inducing": None if way in ("default", "exact") else 5, **short}
        return agp.AlignedGP("coarse", seed=seed, progress=False, **settings).fit(tasks())

    one, two, other = fitted(3), fitted(3), fitted(4)
    np.testing.assert_array_equal(one.history.objective, two.history.objective)
    for name in ("mean", "variance"):
        np.testing.assert_array_equal(getattr(one.predict("fine", NEW), name), getattr(two.predict("fine", NEW), name))
    np.testing.assert_array_equal(one.predict("fine", NEW).sample(3), two.predict("fine", NEW).sample(3))
    assert not np.array_equal(one.predict("fine", NEW).mean, other.predict("fine", NEW).mean)


def test_one_exact_task_is_scikit_learns_regressor():
    settings = {"calibration": "none", "inference": "exact", "hyperparameters": "ml", "max_iterations": 30}
    gp = agp.AlignedGP(restarts=1, progress=False, **settings).fit({"fine": (FINE_X, FINE_Y)})
    model = resolve(gp.model)
    latent, noise = model.latents[0].kernel, float(model.likelihoods[0].variance)
    height = float(model.mixing[0, 0]) ** 2 * float(latent.variance)
    kernel = ConstantKernel(height) * RBF(np.asarray(latent.lengthscale)) + WhiteKernel(noise)
    X, centre, scale = (FINE_X - FINE_X.mean(axis=0)) / FINE_X.std(axis=0), FINE_Y.mean(), FINE_Y.std()
    theirs = GaussianProcessRegressor(kernel, alpha=1e-9 * height, optimizer=None).fit(X, (FINE_Y - centre) / scale)
    mean, std = theirs.predict((NEW - FINE_X.mean(axis=0)) / FINE_X.std(axis=0), return_std=True)
    found = gp.predict("fine", NEW)
    np.testing.assert_allclose(found.mean, centre + scale * mean, rtol=1e-6)
    np.testing.assert_allclose(found.std, scale * std, rtol=1e-4)  # a small difference of large numbers
    np.testing.assert_allclose(gp.elbo()["evidence"], theirs.log_marginal_likelihood_value_, rtol=1e-8)
