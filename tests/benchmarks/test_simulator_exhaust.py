"""The exhaust: curves and meshes against hand-made ones, what is read from OpenFOAM's files, and a short flow."""

import re

import numpy as np
import pytest
from benchmarks.cases.files import SAMPLES
from benchmarks.simulators.exhaust import flow, geometry, mesh, samples
from benchmarks.simulators.table import attempt

from benchmarks import rows

MISSING = flow.missing_tools()
needs_openfoam = pytest.mark.skipif(bool(MISSING), reason=f"OpenFOAM is not installed: no {', '.join(MISSING)}")


def corners():
    """The nominal design, the two extreme ones, and some of the box's corners."""
    signs = np.random.default_rng(0).integers(0, 2, (20, 14))
    return [geometry.NOMINAL, geometry.LOWER, geometry.UPPER, *np.where(signs, geometry.UPPER, geometry.LOWER)]


# ---- curves -------------------------------------------------------------------------------------------------------


def de_casteljau(points, t):
    points = np.asarray(points, dtype=float)
    while len(points) > 1:
        points = (1.0 - t) * points[:-1] + t * points[1:]
    return points[0]


def test_curves_are_those_of_de_casteljau():
    points = geometry.diffuser(geometry.NOMINAL).tip
    t = np.linspace(0.0, 1.0, 13)
    np.testing.assert_allclose(geometry.bezier(points, t), [de_casteljau(points, value) for value in t], atol=1e-14)


def test_the_fourteen_coordinates_are_where_they_belong():
    design = dict(zip(geometry.INPUTS, np.arange(14.0), strict=True))
    shape = geometry.diffuser(np.array(list(design.values())))
    expected = {
        "tip": [(0.0, 2.0), (0.25, "r1"), ("x2", "r2"), ("x3", "r3"), ("x4", "r4")],
        "hub": [(0.0, 1.0), (0.60, "r1"), ("x2", "r2"), ("x3", "r3"), ("x4", "r4")],
    }
    for side, points in expected.items():
        wanted = [[design.get(f"{side}_{value}", value) for value in point] for point in points]
        np.testing.assert_array_equal(getattr(shape, side), wanted)


def test_points_along_a_curve_are_equally_far_apart():
    points = geometry.even(geometry.diffuser(geometry.NOMINAL).hub, 60)
    steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    np.testing.assert_allclose(steps, steps.mean(), rtol=2e-3)


# ---- the mesh's dictionary ----------------------------------------------------------------------------------------


def parsed(text):
    """Vertices (16, 3), blocks (corners, cells) and patches (type, faces) of a blockMeshDict."""
    numbers = r"[-\d.e+ ]+"
    body = text[text.index("vertices") : text.index("blocks")]
    vertices = np.array([[float(v) for v in found.split()] for found in re.findall(rf"\( ({numbers}) \)", body)])
    blocks = [
        ([int(v) for v in names.split()], [int(v) for v in cells.split()])
        for names, cells in re.findall(r"hex \( ([\d ]+) \) \( ([\d ]+) \)", text)
    ]
    patches = {
        name: (kind, [[int(v) for v in face.split()] for face in re.findall(r"\( (\d+ \d+ \d+ \d+) \)", faces)])
        for name, kind, faces in re.findall(r"(\w+)\n    \{\n        type (\w+);\n        faces (.*);\n", text)
    }
    return vertices, blocks, patches


@pytest.mark.parametrize("level", [0.5, samples.COARSE_LEVEL, samples.FINE_LEVEL])
def test_the_mesh_dictionary_is_well_formed(level):
    resolution = mesh.resolution(level)
    text = mesh.block_mesh(geometry.diffuser(geometry.NOMINAL), resolution)
    assert text.count("(") == text.count(")") and text.count("{") == text.count("}")
    assert not re.search(r"[^\s(]\(", text), "OpenFOAM takes a word and a bracket for one word"
    vertices, blocks, patches = parsed(text)
    assert vertices.shape == (16, 3) and len(blocks) == 3
    assert sum(np.prod(cells) for _, cells in blocks) == resolution.cells
    # every face of a block that no other block has is in one patch, and nothing else is
    sides = ((0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7))
    faces = [frozenset(names[i] for i in side) for names, _ in blocks for side in sides]
    outer = {face for face in faces if faces.count(face) == 1}
    listed = [frozenset(face) for _, found in patches.values() for face in found]
    assert len(listed) == len(set(listed)) and set(listed) == outer
    kinds = {name: kind for name, (kind, _) in patches.items()}
    assert kinds == {
        **{"inlet": "patch", "outlet": "patch", "back": "wedge", "front": "wedge"},
        **dict.fromkeys(flow.walls(""), "wall"),
    }
    # cells on both sides of a shared face are as many
    (_, passage), (_, collector), (_, front) = blocks
    assert passage[1] == collector[1] and collector[0] == front[0]


@pytest.mark.parametrize("design", corners())
def test_blocks_are_right_handed_everywhere_in_the_box(design):
    shape = geometry.diffuser(design)
    vertices, blocks, _ = parsed(mesh.block_mesh(shape, mesh.resolution(1.0)))
    for names, _ in blocks:
        block = vertices[names]
        for corner, (first, second) in zip(range(4), ((1, 3), (2, 0), (3, 1), (0, 2)), strict=True):
            edges = block[[first, second, corner + 4]] - block[corner]
            assert np.linalg.det(edges) > 0
    # the passage stays open: hub and tip do not touch
    distance = np.linalg.norm(geometry.even(shape.tip, 200)[:, None] - geometry.even(shape.hub, 200), axis=-1)
    assert distance.min() > 0.5


def test_walls_are_approached_in_finer_cells_but_never_coarser():
    ratios = [mesh.resolution(level).wall_ratio for level in (0.5, 1.0, 1.75, 10.0)]
    assert ratios == sorted(ratios, reverse=True) and ratios[-1] == 1.0
    assert mesh.resolution(2.0).cells == pytest.approx(4 * mesh.resolution(1.0).cells, rel=0.01)


# ---- what is read back --------------------------------------------------------------------------------------------

FIELD = """FoamFile
{{
}}
internalField   nonuniform List<scalar>
2
(
9
9
)
;
boundaryField
{{
    inlet
    {{
        type            calculated;
        value           nonuniform List<scalar>
3
(
{inlet}
)
;
    }}
    outlet
    {{
        type            calculated;
        value           nonuniform List<scalar> 2({outlet});
    }}
    hub
    {{
        type            fixedValue;
        value           uniform -1.5e-3;
    }}
    tip
    {{
        type            zeroGradient;
    }}
}}
"""


def fields(folder, **values):
    for name, (inlet, outlet) in values.items():
        text = FIELD.format(inlet="\n".join(map(str, inlet)), outlet=" ".join(map(str, outlet)))
        (folder / name).write_text(text)


def test_values_on_patches_are_read(tmp_path):
    fields(tmp_path, p=((1.0, -2.5e-4, 3), (4, 5)))
    np.testing.assert_array_equal(flow.patch_values(tmp_path / "p", "inlet"), [1.0, -2.5e-4, 3.0])
    np.testing.assert_array_equal(flow.patch_values(tmp_path / "p", "outlet"), [4.0, 5.0])
    np.testing.assert_array_equal(flow.patch_values(tmp_path / "p", "hub"), [-1.5e-3])
    for patch, said in (("tip", "no values on the patch tip"), ("wall", "no patch wall")):
        with pytest.raises(flow.FlowError, match=said):
            flow.patch_values(tmp_path / "p", patch)


def test_the_loss_is_weighted_with_the_flux(tmp_path):
    wedge = 74.736 / 0.0467 * 5.0 / 360.0
    inlet, outlet = -wedge * np.array([0.5, 0.25, 0.25]), wedge * np.array([1.25, -0.25])
    fields(tmp_path, phi=(inlet, outlet), total=((700.0, 600.0, 800.0), (500.0, 300.0)))
    speed = 74.736 / (0.0467 * np.pi * 3.0)
    before, after = 0.5 * 700 + 0.25 * 600 + 0.25 * 800, 1.25 * 500 - 0.25 * 300
    zeta, backflow = flow.loss(tmp_path)
    assert zeta == pytest.approx((before - after) / (0.5 * 0.0467 * speed**2), rel=1e-12)
    assert backflow == pytest.approx(0.25, rel=1e-12)
    fields(tmp_path, phi=(inlet, 0.9 * outlet))
    with pytest.raises(flow.FlowError, match=r"fluxes .* expected"):
        flow.loss(tmp_path)


@pytest.mark.parametrize(
    ("history", "converged"),
    [
        ((0.3,), False),
        ((0.3, 0.3), False),
        ((0.3, 0.3, 0.30001), True),
        ((0.31, 0.3, 0.3), False),
        ((0.2, 0.3, 0.3, 0.3), True),
    ],
)
def test_a_flow_has_converged_when_two_slices_leave_zeta_alone(history, converged):
    found = flow.Flow(history[-1], 100 * len(history), 10, 0.0, (1.0, 1.0, 1.0), history)
    assert found.converged == converged


# ---- the sensitivity study ----------------------------------------------------------------------------------------


def test_elementary_effects_of_a_linear_function():
    pytest.importorskip("SALib", reason="the extra 'simulators' is not installed")
    slopes = np.arange(14.0) - 3.0  # in units of each input's range
    table = samples.sensitivity_design(4)
    for row in table:
        share = (samples.vector(row) - geometry.LOWER) / (geometry.UPPER - geometry.LOWER)
        row |= {"zeta": str(share @ slopes), "status": "ok"}
    assert len(table) == 60
    table[20] |= {"zeta": "", "status": "failed: torn"}  # its trajectory is left out
    found = {name: (mean, spread) for name, mean, spread in samples.effects(table)}
    for name, slope in zip(geometry.INPUTS, slopes, strict=True):
        np.testing.assert_allclose(found[name], (abs(slope), 0.0), atol=1e-4)
    assert next(iter(found)) == geometry.INPUTS[-1]
    with pytest.raises(flow.FlowError, match="no trajectory"):
        samples.effects(table[15:30])


def test_the_six_inputs_are_those_of_the_largest_effects():
    pytest.importorskip("SALib", reason="the extra 'simulators' is not installed")
    found = samples.effects(rows.read(SAMPLES / "exhaust_sensitivity.csv"))
    assert {name for name, _, _ in found[:6]} == set(samples.COARSE_INPUTS)


# ---- the flow -----------------------------------------------------------------------------------------------------

TINY = mesh.Resolution(along=10, across=8, outward=8, front=3)


@needs_openfoam
def test_a_short_flow_is_whole_and_comes_out_the_same_again(tmp_path):
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        found.append(flow.simulate(tmp_path / name, geometry.NOMINAL, TINY, longest=200))
    one, two = found
    assert one == two
    assert one.iterations == 200 and one.cells == TINY.cells == 168 and len(one.history) == 2
    assert not one.converged and 0.0 < one.zeta < 1.0
    assert 0.0 < one.yplus[0] < one.yplus[1] < one.yplus[2]
    # what comes in is the mass flow of the wedge at the speed that is stated, and it is what goes out
    time = tmp_path / "one" / "200"
    inflow, outflow = (flow.patch_values(time / "phi", patch) for patch in ("inlet", "outlet"))
    assert -inflow.sum() == pytest.approx(169.80 * np.pi * 3.0 * 5.0 / 360.0, rel=2e-3)
    assert outflow.sum() == pytest.approx(-inflow.sum(), rel=1e-3)
    # total pressure is p + |u|^2 / 2, times the density
    velocity = flow.patch_values(time / "U", "outlet")
    expected = 6000.0 + 0.5 * flow.DENSITY * np.square(velocity).sum(axis=1)
    np.testing.assert_allclose(flow.patch_values(time / "total", "outlet"), expected, rtol=1e-6)


@needs_openfoam
def test_a_mesh_inside_out_is_a_failed_run():
    row = dict(zip(geometry.INPUTS, geometry.NOMINAL, strict=True)) | {"row": 0, "level": 0.3}
    row |= {"hub_x4": 0.2, "hub_r4": 4.9, "hub_r3": 4.0, "hub_r2": 3.5}
    found = attempt(samples.outcome, samples.OUTPUTS, row)
    assert found["status"].startswith("failed: ") and found["zeta"] == ""


# ---- the samples --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "inputs", "wanted", "least"),
    [
        ("exhaust_fine.csv", geometry.INPUTS, samples.fine_design, 30),
        ("exhaust_coarse.csv", samples.COARSE_INPUTS, samples.coarse_design, 220),
    ],
)
def test_the_committed_samples_are_those_of_the_command(name, inputs, wanted, least):
    table = rows.read(SAMPLES / name)
    good = [row for row in table if row["status"] == "ok"]
    assert len(good) >= least
    numbers = [int(row["row"]) for row in table]
    assert numbers == sorted(set(numbers))
    design = wanted(numbers[-1] + 1)
    for row in table:
        expected = design[int(row["row"])]
        assert [float(row[column]) for column in inputs] == [expected[column] for column in inputs]
    assert all(float(row["drift"]) <= flow.DRIFT for row in good)
    assert all(0.1 < float(row["zeta"]) < 0.5 for row in good)


@needs_openfoam
def test_a_coarse_row_comes_out_again_from_another_start():
    """The committed row began at the nominal design's flow; this run begins at the potential flow."""
    row = rows.read(SAMPLES / "exhaust_coarse.csv")[2]
    found = samples.outcome(row, level=samples.COARSE_LEVEL)
    assert found["status"] == "ok"
    assert found["zeta"] == pytest.approx(float(row["zeta"]), rel=2 * flow.DRIFT)
    assert found["cells"] == mesh.resolution(samples.COARSE_LEVEL).cells
