"""The airfoil simulators against potential flow in closed form, a published computation and their own samples."""

import numpy as np
import pytest
from benchmarks.cases.files import SAMPLES
from benchmarks.simulators.airfoil import panels, samples, shape, xfoil
from benchmarks.simulators.table import SimulationError

from benchmarks import rows


def needs_neuralfoil():
    pytest.importorskip("neuralfoil", reason="NeuralFoil (the extra 'simulators') is not installed")


# ---- panels -------------------------------------------------------------------------------------------------------


def karman_trefftz(count, angle, thickness=0.08, camber=0.1, edge=np.pi / 15):
    """Outline and exact lift coefficient of the conformal image of a circle, times the same chord."""
    power = 2.0 - edge / np.pi
    centre = complex(-thickness, camber)
    radius = abs(1.0 - centre)
    turn = np.arcsin(camber / radius)
    t = np.linspace(0.0, 2.0 * np.pi, count + 1)[1:-1]
    z = centre + radius * np.exp(-1j * (turn + t))
    ratio = np.log(np.abs((z - 1) / (z + 1))) + 1j * np.unwrap(np.angle((z - 1) / (z + 1)))
    w = np.exp(power * ratio)
    image = np.concatenate([[power], power * (1 + w) / (1 - w), [power]])
    points = np.column_stack([image.real, image.imag])
    # Kutta's condition on the circle: circulation 4 pi U R sin(angle + turn)
    return points, 8.0 * np.pi * radius * np.sin(np.deg2rad(angle) + turn) / np.ptp(points[:, 0])


@pytest.mark.parametrize("camber", [0.0, 0.1])
@pytest.mark.parametrize("angle", [-2.0, 4.0, 9.0])
def test_panels_converge_to_the_conformal_map(camber, angle):
    errors = []
    for count in (100, 200, 400):
        points, exact = karman_trefftz(count, angle, camber=camber)
        errors.append(abs(panels.lift(points, angle) - exact))
    assert errors[2] < 0.01 * max(abs(exact), 0.5)
    assert errors[1] < 0.62 * errors[0] and errors[2] < 0.62 * errors[1]  # first order: halved by twice the panels


def naca0012(count=50):
    x = 0.5 * (1.0 - np.cos(np.linspace(0.0, np.pi, count + 1)))
    y = 0.2982227 * np.sqrt(x) - 0.1271252 * x - 0.3579079 * x**2 + 0.2919850 * x**3
    y = 0.594689181 * (y - (0.2982227 - 0.1271252 - 0.3579079 + 0.2919850) * x**4)
    return panels.outline(y, -y, x)


def test_a_symmetric_airfoil_has_symmetric_lift():
    points = naca0012()
    assert abs(panels.lift(points, 0.0)) < 1e-12
    assert panels.lift(points, 5.0) == pytest.approx(-panels.lift(points, -5.0), rel=1e-12)
    # thin airfoils have 2 pi sin(angle); 12 % thickness adds about a tenth
    assert 1.05 < panels.lift(points, 5.0) / (2 * np.pi * np.sin(np.deg2rad(5.0))) < 1.12


def test_the_mach_number_enters_by_prandtl_and_glauert():
    points = naca0012()
    assert panels.lift(points, 3.0, 0.6) == pytest.approx(panels.lift(points, 3.0) / 0.8, rel=1e-12)


# ---- shapes and components ----------------------------------------------------------------------------------------


def test_weights_give_the_ordinates_and_back():
    found = shape.variables(np.random.default_rng(0).uniform(-1.7, 1.7, (200, 6)), samples.components())
    for sides, side in zip(shape.weights(found), (found[:, :25], found[:, 25:50]), strict=True):
        back = np.array([shape.ordinates(weights, shape.X) for weights in sides])
        np.testing.assert_allclose(back, side, atol=2e-4)
    nominal = shape.weights(shape.variables(np.zeros((1, 6)), samples.components()))
    np.testing.assert_allclose(nominal[0][0], shape.UPPER_WEIGHTS, atol=1e-8)
    np.testing.assert_allclose(nominal[1][0], shape.LOWER_WEIGHTS, atol=1e-8)


def test_every_airfoil_of_the_box_has_a_thickness():
    corners = np.stack(np.meshgrid(*[(-shape.LIMIT, shape.LIMIT)] * 6), axis=-1).reshape(-1, 6)
    found = shape.variables(corners, samples.components())
    assert np.all(found[:, :25] > found[:, 25:50])
    assert np.all((found[:, -1] > 0.0) & (found[:, -1] < 16.0) & (found[:, -2] > 50.0) & (found[:, -2] < 150.0))


def test_the_components_are_those_of_many_airfoils():
    mean, scale, correlation = shape.population()
    draws = mean + scale * np.random.default_rng(1).multivariate_normal(np.zeros(52), correlation, 20000)
    # camber and thickness of the middle are independent and have the deviations that are stated
    upper, lower = ((draws[:, at] - mean[at]) / (np.sqrt(shape.X[12]) * (1 - shape.X[12])) for at in (12, 37))
    np.testing.assert_allclose([np.std(upper + lower) / 2, np.std(upper - lower) / 2], [0.03, 0.02], rtol=0.03)
    assert abs(np.corrcoef(upper + lower, upper - lower)[0, 1]) < 0.03
    assert np.corrcoef(draws[:, -1], draws[:, -2])[0, 1] == pytest.approx(-0.3, abs=0.03)
    # principal components of the sample: same eigenvalues, same subspace
    values, vectors = np.linalg.eigh(np.corrcoef(draws.T))
    matrix = samples.components()
    np.testing.assert_allclose(np.square(matrix).sum(axis=1), values[::-1][:6], rtol=0.05)
    directions = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    np.testing.assert_allclose(directions @ directions.T, np.eye(6), atol=1e-8)
    np.testing.assert_allclose(np.abs(np.sum(directions * vectors.T[::-1][:6], axis=1)), 1.0, atol=0.02)


def test_the_committed_matrix_is_computed_again(tmp_path):
    samples.write_matrix(tmp_path / "matrix.csv")
    for new, old in zip(rows.read(tmp_path / "matrix.csv"), rows.read(samples.MATRIX), strict=True):
        assert new.pop("variable") == old.pop("variable")
        np.testing.assert_allclose(*([float(value) for value in row.values()] for row in (new, old)), atol=1e-8)


# ---- solvers ------------------------------------------------------------------------------------------------------


def test_the_nominal_airfoil_is_rae_2822():
    needs_neuralfoil()
    from aerosandbox import Airfoil

    published = Airfoil("rae2822").coordinates
    nose = published[:, 0].argmin()
    for weights, side in ((shape.UPPER_WEIGHTS, published[:nose]), (shape.LOWER_WEIGHTS, published[nose:])):
        np.testing.assert_allclose(shape.ordinates(weights, side[:, 0]), side[:, 1], atol=6e-4)


def test_neuralfoil_against_a_published_computation():
    """NACA 0012, Re 6e6, M 0.15: CFL3D with Spalart and Allmaras' model, NASA's Turbulence Modeling Resource."""
    needs_neuralfoil()
    from aerosandbox import Airfoil

    airfoil = Airfoil("naca0012").to_kulfan_airfoil()
    found = airfoil.get_aero_from_neuralfoil(
        alpha=np.array([0.0, 10.0, 15.0]), Re=6e6, mach=0.15, model_size=samples.NETWORK
    )
    np.testing.assert_allclose(found["CL"], [0.0, 1.0909, 1.5461], rtol=0.03, atol=1e-10)


@pytest.mark.parametrize(("name", "simulator"), [("airfoil_high.csv", samples.high), ("airfoil_low.csv", samples.low)])
def test_the_committed_samples_are_computed_again(name, simulator):
    if simulator is samples.high:
        needs_neuralfoil()
    table = rows.read(SAMPLES / name)
    for row in table[:3] + table[-1:]:
        if row["status"] == "ok":
            # the networks' products may differ in their last digits from machine to machine
            assert simulator(row)["lift"] == pytest.approx(float(row["lift"]), rel=1e-6)
    assert {row["status"].partition(":")[0] for row in table} <= {"ok", "failed"}


def test_an_unsure_answer_is_a_failed_run(monkeypatch):
    needs_neuralfoil()
    row = dict.fromkeys(shape.INPUTS, 0.0)
    sure = samples.high(row)
    assert sure["confidence"] > 0.9
    monkeypatch.setattr(samples, "CONFIDENCE", 0.999)
    with pytest.raises(samples.SimulationError, match=r"confidence is 0\.9"):
        samples.high(row)


def test_the_low_fidelity_knows_three_components():
    row = {"pc1": 0.5, "pc4": -1.0, "pc5": 1.2}
    whole = dict.fromkeys(shape.INPUTS, 0.0) | row
    assert set(samples.LOW_INPUTS) == set(row)
    assert samples.low(row) == samples.low(whole)
    assert samples.low(whole | {"pc1": 0.6})["lift"] > samples.low(row)["lift"]  # more camber, more lift


@pytest.mark.skipif(bool(xfoil.missing_tools()), reason=f"not installed: {', '.join(xfoil.missing_tools())}")
def test_xfoil_gives_the_committed_answers_again():
    table = rows.read(SAMPLES / "airfoil_xfoil.csv")
    for row in table[2:4]:
        assert row["status"] == "ok"
        assert xfoil.lift(row)["lift"] == pytest.approx(float(row["lift"]), abs=2e-4)


def test_a_run_of_xfoil_without_a_polar_is_a_failed_one(monkeypatch):
    monkeypatch.setattr(xfoil.subprocess, "run", lambda *arguments, **settings: None)
    with pytest.raises(SimulationError, match="XFOIL did not converge"):
        xfoil.lift(dict.fromkeys(shape.INPUTS, 0.0))


def test_the_comparison_uses_what_came_out_well_in_both(monkeypatch):
    high = [
        {"row": str(i), "lift": y, "status": s} for i, (y, s) in enumerate([("1.0", "ok"), ("", "no"), ("2.0", "ok")])
    ]
    monkeypatch.setattr(xfoil.rows, "read", lambda path: high)
    theirs = [{"row": str(i), "lift": y, "status": "ok"} for i, y in enumerate(("0.9", "5.0", "1.7", "3.0"))]
    said = xfoil.comparison(theirs)
    assert said.startswith("2 rows") and "mean +0.2000" in said and "largest 0.3000" in said
