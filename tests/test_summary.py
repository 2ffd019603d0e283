"""What a summary says of tasks, mappings, noise and lengthscales, in the units of the data."""

import jax.numpy as jnp
import numpy as np
import pytest

import aligngp as agp
from aligngp.gp.sparse import SparseGP
from aligngp.kernels import Linear, Matern32, SquaredExponential
from aligngp.likelihoods import Gaussian
from aligngp.mappings.fixed import Nominal
from aligngp.model import Model
from aligngp.parameters import resolve
from aligngp.summary import task_correlation
from estimators import FINE_Y, make, moved, tasks, untrained


def line(text: str, start: str) -> list[str]:
    """The cells of the line whose first cell is that text."""
    found = [row for row in text.splitlines() if row.strip("│┃ ").startswith(start)]
    assert found, f"no line of {start!r} in\n{text}"
    return [cell.strip() for cell in found[0].strip("│ ").split("│")]


def test_noise_rows_inputs_and_mixing():
    gp = moved("none", num_latents=2)
    text = str(gp.summary())
    name, rows, inputs, mapping, noise, mixing = line(text, "fine")
    assert (name, rows, inputs, mapping) == ("fine", "8", "x1, x2", "x2: as given")
    model = resolve(gp.model)
    assert float(noise) == pytest.approx(float(np.sqrt(model.likelihoods[0].variance)) * FINE_Y.std(), rel=1e-3)
    assert [float(value) for value in mixing.split(",")] == pytest.approx(model.mixing[0].tolist(), rel=1e-2)
    assert line(text, "coarse")[:4] == ["coarse", "12", "x1", "common domain"]
    assert repr(gp.summary()) == text


def test_lengthscales_in_the_units_of_the_common_domain():
    gp = moved("none", num_latents=2)
    text = str(gp.summary())
    X = tasks()["coarse"][0]
    lengths = [float(latent.kernel.lengthscale[0]) * X.std() for latent in resolve(gp.model).latents]
    assert [float(value) for value in line(text, "lengthscale x1")[1:]] == pytest.approx(lengths, rel=1e-3)
    variances = [float(latent.kernel.variance) for latent in resolve(gp.model).latents]
    assert [float(value) for value in line(text, "variance")[1:]] == pytest.approx(variances, rel=1e-3)
    assert line(text, "kernel") == ["kernel", "SquaredExponential", "SquaredExponential"]


@pytest.mark.parametrize(
    "calibration, told, value",
    [
        ("bayes", "x2: GP residual, nu_g0", lambda mapping: mapping.prior_variance),
        ("free", "x2: free rows, nu_g0", lambda mapping: mapping.prior_variance),
        ("embedded", "x2: embedded GP, noise sd", lambda mapping: np.sqrt(mapping.noise)),
    ],
)
def test_what_was_done_with_a_mapping(calibration, told, value):
    gp = moved(calibration)
    mapping = line(str(gp.summary()), "fine")[3]
    assert mapping.startswith(told)
    assert float(mapping.split()[-1]) == pytest.approx(float(value(resolve(gp.model).mappings[0])), rel=1e-2)


def test_a_calibrated_affine_map_is_told():
    assert line(str(moved("linear").summary()), "fine")[3] == "x2: calibrated affine map"


def test_tasks_that_share_nothing_stand_in_one_table():
    text = str(moved(shared=False).summary())
    assert [line(text, name)[3] for name in ("fine", "coarse")] == ["its own inputs"] * 2
    assert text.count("mapping") == 1
    assert text.index("Latent GP of fine") < text.index("lengthscale x2") < text.index("Latent GP of coarse")


def test_names_are_not_markup():
    with untrained():
        gp = agp.AlignedGP("[b]c[/b]", num_inducing=2, max_iterations=1).fit(
            {
                "[b]c[/b]": agp.Task(np.arange(3.0), np.arange(3.0), names=["v [m/s]"]),
                "[/d]": agp.Task(np.arange(3.0), np.arange(3.0), names=["v [m/s]"]),
            }
        )
    text = str(gp.summary())
    assert line(text, "[b]c[/b]")[2] == line(text, "[/d]")[2] == "v [m/s]"
    assert len(line(text, "lengthscale v [m/s]")) == 3


def test_sums_and_products_are_formulas():
    kernel = (SquaredExponential() + Linear()) * Matern32()
    with untrained():
        gp = make(kernel=kernel, calibration="none").fit(tasks())
    text = str(gp.summary())
    assert line(text, "kernel")[1] == "(SquaredExponential + Linear) * Matern32"
    assert "lengthscale" not in text


def test_many_inputs_stay_readable():
    X = np.random.default_rng(0).uniform(size=(4, 30))
    with untrained():
        gp = agp.AlignedGP(num_inducing=2, max_iterations=1).fit({"wide": (X, X[:, 0])})
    text = str(gp.summary())
    assert len(line(text, "lengthscale x30")) == 2
    assert max(map(len, text.splitlines())) <= 120
    assert not any(row.endswith(" ") for row in text.splitlines())


def test_the_correlation_of_tasks_weighs_latents_by_their_variance():
    mixing, variances = np.array([[1.0, -2.0], [0.5, 0.3], [0.0, 0.0]]), [2.0, 0.25]
    latents = tuple(
        SparseGP(
            SquaredExponential(jnp.ones(1), jnp.asarray(variance)),
            jnp.zeros((2, 1)),
            jnp.zeros((2, 1)),
            jnp.eye(2)[None],
        )
        for variance in variances
    )
    model = Model((Nominal(),) * 3, latents, jnp.asarray(mixing), (Gaussian(jnp.asarray(1.0)),) * 3)
    expected = np.zeros((2, 2))
    for t in range(2):
        for s in range(2):
            expected[t, s] = sum(mixing[t, q] * mixing[s, q] * variances[q] for q in range(2))
    found = task_correlation(model)
    assert found[0, 1] == pytest.approx(expected[0, 1] / np.sqrt(expected[0, 0] * expected[1, 1]), rel=1e-12)
    np.testing.assert_allclose(np.diag(found), [1.0, 1.0, 0.0], rtol=1e-12)
