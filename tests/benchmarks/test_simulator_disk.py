"""The disk's finite elements against the closed form of the rotating annulus, and against their own samples."""

import numpy as np
import pytest
from benchmarks.cases.files import SAMPLES

from benchmarks import rows

pytest.importorskip("skfem", reason="scikit-fem (the extra 'simulators') is not installed")

from benchmarks.simulators.disk import elements, samples
from benchmarks.simulators.table import SimulationError, attempt

INNER, OUTER = 0.05, 0.25


def ring(cells, thickness):
    r = np.linspace(INNER, OUTER, cells[0] + 1)
    return elements.section(r, np.full(r.shape, 0.5 * thickness), cells[1])


def test_the_closed_form_solves_its_equations():
    """Equilibrium d(r s_r)/dr - s_t + rho w^2 r^2 = 0, no radial stress at either edge: by finite differences."""
    r = np.linspace(INNER, OUTER, 4001)
    u = elements.annulus(r, INNER, OUTER)
    slope, ratio = np.gradient(u, r, edge_order=2), u / r
    plane = elements.YOUNG / (1.0 - elements.POISSON**2)
    radial = plane * (slope + elements.POISSON * ratio)
    hoop = plane * (ratio + elements.POISSON * slope)
    force = elements.DENSITY * elements.SPEED**2 * r**2
    balance = np.gradient(r * radial, r, edge_order=2) - hoop + force
    np.testing.assert_allclose(balance[5:-5] / force.max(), 0.0, atol=1e-5)
    np.testing.assert_allclose(radial[[0, -1]] / hoop.max(), 0.0, atol=1e-5)


@pytest.mark.parametrize(
    ("cells", "quadratic", "tolerance"), [(samples.HIGH_MESH, True, 5e-6), (samples.LOW_MESH, False, 8e-3)]
)
def test_a_thin_flat_ring_is_the_annulus(cells, quadratic, tolerance):
    places, moved = elements.displacements(ring(cells, 1e-3), quadratic)
    exact = elements.annulus(places[0], INNER, OUTER)
    np.testing.assert_allclose(moved[0], exact, atol=tolerance * exact.max())
    # the ring becomes thinner: strain -nu (s_r + s_t) / E, antisymmetric about the middle plane
    assert np.all(moved[1][places[1] > 0] < 0) and np.all(moved[1][places[1] == 0] == 0)
    # it is asked for on more points than there are vertices
    assert moved.shape[1] == 25 * cells[0] * cells[1]


def test_the_largest_displacement_is_a_length():
    mesh = ring((6, 2), 0.1)
    _, moved = elements.displacements(mesh, True)
    assert elements.largest(mesh, True) == np.sqrt(np.square(moved).sum(axis=0)).max()


def test_finer_meshes_agree():
    coarse, high, fine = (samples.displacement(samples.NOMINAL, cells, True) for cells in ((48, 4), (96, 8), (144, 12)))
    assert abs(high - fine) < abs(coarse - fine) < 1e-3 * fine


def test_the_section_has_its_six_lengths():
    design = np.array([0.04, 0.10, 0.20, 0.06, 0.012, 0.05])
    radii, half = samples.profile(design)
    at = np.interp([0.04, 0.084, 0.0925, 0.10, 0.15, 0.20, 0.2075, 0.216, 0.25], radii, 2.0 * half)
    np.testing.assert_allclose(at, [0.06, 0.06, 0.036, 0.012, 0.012, 0.012, 0.031, 0.05, 0.05])
    for cells in (12, 96):
        r = samples.columns(radii, cells)
        assert len(r) == cells + 1 and np.all(np.diff(r) > 0)
        assert np.abs(r[:, None] - radii).min(axis=0).max() < 1e-15  # the outline bends at corners of cells only
    mesh = elements.section(r, np.interp(r, radii, half), 8)
    area = np.trapezoid(np.interp(r, radii, half), r)
    corners = mesh.p[:, mesh.t]  # shoelace
    x, z = corners
    shoelace = 0.5 * np.abs(np.sum(x * np.roll(z, -1, axis=0) - z * np.roll(x, -1, axis=0), axis=0))
    assert shoelace.sum() == pytest.approx(area, rel=1e-12)


def test_a_section_whose_radii_cross_is_a_failed_run():
    row = {"row": 3, "rb": 0.06, "rh": 0.07, "rw": 0.2, "th": 0.06, "tw": 0.01, "tr": 0.04}
    with pytest.raises(SimulationError, match="radii of the section do not grow"):
        samples.high(row)
    assert attempt(samples.high, samples.OUTPUTS, row)["status"].startswith("failed: the radii")


def test_what_a_row_does_not_have_is_nominal():
    row = {"row": 0, "rw": 0.21, "tw": 0.01, "tr": 0.05}
    np.testing.assert_allclose(samples.vector(row), [0.045, 0.095, 0.21, 0.06, 0.01, 0.05])


@pytest.mark.parametrize(("name", "simulator"), [("disk_high.csv", samples.high), ("disk_low.csv", samples.low)])
def test_the_committed_samples_are_computed_again(name, simulator):
    table = rows.read(SAMPLES / name)
    for row in table[:2] + table[-1:]:
        assert simulator(row)["displacement"] == pytest.approx(float(row["displacement"]), rel=1e-8)
    assert {row["status"] for row in table} == {"ok"}
