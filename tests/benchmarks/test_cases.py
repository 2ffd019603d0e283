"""The benchmark's cases against published check values, hand-made formulas and the data's own statistics."""

import csv
import hashlib

import numpy as np
import pytest
from benchmarks.cases import (
    CASES,
    airfoil,
    airfoil_phasta,
    disk,
    exhaust,
    lossless,
    park,
    park_rotated,
    rotor_fea,
    sarcos,
    supernova,
    unrelated,
)
from benchmarks.cases.files import SAMPLES, DataMissingError, data_file
from benchmarks.cases.instance import streams
from benchmarks.cases.published import PUBLISHED
from scipy.stats import spearmanr

from aligngp.datasets import park_low

NEEDS_DATA = {"sarcos_a": ("sarcos", "sarcos_test.npz"), "sarcos_b": ("sarcos", "sarcos_test.npz")}
NEEDS_DATA["airfoil_phasta"] = ("airfoil_phasta", "airfoil_phasta.csv.gz")
NEEDS_DATA["rotor_fea"] = ("rotor_fea", "impeller_stage4_20d.csv.gz")
SMALL_SAMPLES = ("airfoil", "disk", "exhaust", "rotor_fea")
"""Cases whose instances draw from so few rows that two of them may share some."""


def skip_without(case, name):
    try:
        return data_file(case, name)
    except DataMissingError as error:
        pytest.skip(str(error))


def drawn(name, seed):
    if name in NEEDS_DATA:
        skip_without(*NEEDS_DATA[name])
    return CASES[name](seed)


def rows_of(X):
    return {tuple(row) for row in X}


# ---- every case ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sizes", "test_rows"),
    [
        ("noisy", {"target": (5, 2), "source": (100, 1)}, 100),
        ("park", {"high": (6, 4), "low": (100, 2)}, 1000),
        ("park_rotated", {"high": (6, 4), "low": (100, 2)}, 1000),
        ("supernova", {"high": (5, 3), "low": (1000, 2)}, 499),
        ("airfoil", {"high": (4, 6), "low": (1000, 3)}, 300),
        ("disk", {"high": (8, 6), "low": (300, 3)}, 100),
        ("exhaust", {"fine": (10, 14), "coarse": (200, 6)}, 20),
        ("airfoil_phasta", {"fine": (4, 4), "coarse": (300, 2)}, 196),
        ("rotor_fea", {"fourth": (10, 20), "first": (100, 7)}, 58),
        ("lossless", {"target": (8, 5), "source": (100, 2)}, 500),
        ("unrelated", {"target": (12, 3), "source": (100, 2)}, 500),
        ("sarcos_b", {"tau4": (50, 21), "tau7": (50, 16)}, 4449),
        ("sarcos_a", {"tau4": (20, 21), "tau7": (22892, 16)}, 4449),
    ],
)
def test_a_case_is_what_it_says_and_its_seed_decides_everything(name, sizes, test_rows):
    one, same, other = (drawn(name, seed) for seed in (3, 3, 4))
    assert one.name == name
    assert {task: X.shape for task, (X, _) in one.tasks.items()} == sizes
    assert set(one.targets) <= set(sizes) and one.common in sizes
    assert set(one.mappings) == set(sizes) - {one.common}
    for task, shape in sizes.items():
        assert len(one.names[task]) == shape[1]
        assert one.test[task][0].shape == (test_rows, shape[1])
        for tables in ("tasks", "test"):
            for first, second in zip(getattr(one, tables)[task], getattr(same, tables)[task], strict=True):
                assert first.dtype == np.float64 and np.isfinite(first).all()
                np.testing.assert_array_equal(first, second)
        # no training row of any task is a test row
        assert not rows_of(one.tasks[task][0]) & rows_of(one.test[task][0])
    target = one.targets[0]
    shared = rows_of(one.tasks[target][0]) & rows_of(other.tasks[target][0])
    assert len(shared) < len(one.tasks[target][0]) if name in SMALL_SAMPLES else not shared
    mapping = one.mappings.get(target)
    if isinstance(mapping, list):
        assert mapping == list(one.names[one.common]) == one.shared_columns(target)


def test_the_models_and_cases_with_published_numbers_exist():
    from benchmarks.accuracy import MODELS

    assert {case for case, _ in PUBLISHED} <= set(CASES)
    assert {model for _, model in PUBLISHED} <= set(MODELS)


def test_missing_data_say_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("ALIGNGP_DATA", str(tmp_path))
    with pytest.raises(DataMissingError, match=r"sarcos: expected the file rows.npz .*Set ALIGNGP_DATA"):
        data_file("sarcos", "rows.npz")
    (tmp_path / "sarcos").mkdir()
    (tmp_path / "sarcos" / "rows.npz").touch()
    assert data_file("sarcos", "rows.npz") == tmp_path / "sarcos" / "rows.npz"


# ---- supernova ----------------------------------------------------------------------------------------------------

GRIDS = (2, 3, 5, 10, 100, 10000)
# Output at (H0, Omega_m, Omega_L) for each grid, as published with the data.
CHECKED = {
    (70.0, 0.3, 0.7): (-0.213860, -0.231337, -0.235395, -0.236453, -0.236710, -0.236712),
    (65.0, 0.3, 0.7): (0.064947, 0.068498, 0.068626, 0.068620, 0.068617, 0.068617),
    (80.0, 0.1, 0.2): (-5.986328, -7.900530, -8.505414, -8.677367, -8.719995, -8.720351),
    (72.0, 0.9, 0.05): (-2.179270, -3.215418, -3.559188, -3.658938, -3.683839, -3.684048),
}


@pytest.mark.parametrize("grid", GRIDS)
def test_supernova_check_values(grid):
    found = supernova.log_likelihood(np.array(list(CHECKED)), grid)
    np.testing.assert_allclose(found, [values[GRIDS.index(grid)] for values in CHECKED.values()], atol=1.1e-6)


def test_supernova_fidelities():
    X = np.array(list(CHECKED))
    np.testing.assert_allclose(supernova.high(X), [values[-1] for values in CHECKED.values()], atol=4e-6)
    nominal = np.column_stack([X[:, :2], [0.5] * 4])
    np.testing.assert_array_equal(supernova.low(X[:, :2]), supernova.log_likelihood(nominal, 2))


def test_a_supernova_term_is_cut_off():
    redshift, modulus, sigma = supernova.table()
    assert redshift.shape == (192,) and (redshift.min(), redshift.max()) == (0.016, 1.755)
    assert (modulus.min(), modulus.max()) == (33.98, 45.31)
    assert (sigma.min(), sigma.max()) == (0.13, 0.43)
    assert supernova.log_likelihood(np.array([[1e-9, 0.3, 0.7]]), 2)[0] == -1000.0


def test_the_supernova_table_is_the_one_that_its_readme_names():
    digest = hashlib.sha256(supernova.TABLE.read_bytes()).hexdigest()
    assert digest in supernova.TABLE.with_name("README.md").read_text()


# ---- sarcos -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arm():
    skip_without("sarcos", "sarcos_test.npz")
    return sarcos.arm()


def correlations(torques):
    return [spearmanr(torques[:, one - 1], torques[:, 6]).statistic for one in (4, 1, 3)]


def test_sarcos_has_the_published_statistics(arm):
    np.testing.assert_allclose(correlations(arm.torques_test), [0.9627, 0.4385, 0.7451], atol=5e-5)
    with np.load(data_file("sarcos", "sarcos_train_recovered.npz")) as file:
        data, index, how = file["data"], file["index"], file["how"]
    np.testing.assert_allclose(correlations(data[:, 21:]), [0.9655, 0.4380, 0.7507], atol=5e-5)
    kept = index % 10 != 0
    assert (kept.sum(), (how[kept] == 0).sum()) == (22892, 12337)
    with np.load(data_file("sarcos", "sarcos_train_torques.npz")) as file:
        torques = file["torques"]
    np.testing.assert_allclose(correlations(torques), [0.9644, 0.4403, 0.7483], atol=5e-5)
    # the rows that were left out are the test rows, and what is kept has the torques of its row number
    np.testing.assert_allclose(torques[::10], arm.torques_test, atol=4e-6)
    np.testing.assert_allclose(torques[arm.index], arm.torques, atol=1e-5)


def test_sarcos_trains_on_no_test_row(arm):
    assert len(arm.index) == 22892 and np.all(arm.index % 10 != 0)
    assert not rows_of(arm.X) & rows_of(arm.X_test)


def test_the_sarcos_projection_is_the_pca_of_the_training_inputs(arm):
    A = sarcos.projection().A
    Z = sarcos.project(arm.X)
    eigenvalues = np.sort(np.linalg.eigvalsh(np.corrcoef(arm.X.T)))[::-1]
    # uncorrelated, centred components that carry the largest eigenvalues of the correlation matrix
    np.testing.assert_allclose(Z.T @ Z / len(Z), np.diag(eigenvalues[:16]), atol=1e-9)
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=1e-10)
    directions = A * arm.X.std(axis=0)
    np.testing.assert_allclose(directions @ directions.T, np.eye(16), atol=1e-10)


def test_sarcos_tasks_have_their_torques_and_inputs(arm):
    a, b = CASES["sarcos_a"](0), CASES["sarcos_b"](0)
    inputs = {tuple(x): torques for x, torques in zip(arm.X, arm.torques, strict=True)}
    for case in (a, b):
        X, y = case.tasks["tau4"]
        np.testing.assert_array_equal(y, [inputs[tuple(x)][3] for x in X])
        np.testing.assert_array_equal(case.test["tau4"][0], arm.X_test)
        np.testing.assert_array_equal(case.test["tau7"][1], arm.torques_test[:, 6])
        affine = case.mappings["tau4"]
        np.testing.assert_allclose(case.test["tau7"][0], arm.X_test @ affine.A.T + affine.b, atol=1e-12)
        assert not case.shared_columns("tau4")
    np.testing.assert_array_equal(a.tasks["tau7"][1], arm.torques[:, 6])
    # the two tasks of sarcos_b share no row
    distances = np.linalg.norm(b.tasks["tau7"][0][:, None] - sarcos.project(b.tasks["tau4"][0])[None], axis=-1)
    assert distances.min() > 1e-9


# ---- the simulated ones -------------------------------------------------------------------------------------------

CARDS = {"airfoil": airfoil, "disk": disk, "exhaust": exhaust}


@pytest.mark.parametrize("name", CARDS)
def test_a_data_card_names_the_files_that_are_there(name):
    card = (SAMPLES / f"{name}.md").read_text()
    committed = sorted(path.name for path in SAMPLES.glob(f"{name}_*.csv"))
    assert len(committed) >= 2
    for file in committed:
        digest = hashlib.sha256((SAMPLES / file).read_bytes()).hexdigest()
        assert f"`{file}` sha256 {digest}" in card
        lines = (SAMPLES / file).read_text().splitlines()
        total, bad = len(lines) - 1, sum(not line.endswith(",ok") for line in lines[1:])
        if "status" in lines[0]:
            assert f"| `{file}` | {total} | {bad} |" in card
    assert f"python -m benchmarks.simulators.{name}" in card


@pytest.mark.parametrize(("name", "task", "output"), [("disk", "high", "displacement"), ("airfoil", "low", "lift")])
def test_a_simulated_case_has_the_rows_of_its_sample(name, task, output):
    case = CARDS[name].draw(1)
    with (SAMPLES / f"{name}_{task}.csv").open(newline="") as file:
        known = {
            tuple(float(row[column]) for column in case.names[task]): float(row[output])
            for row in csv.DictReader(file)
            if row["status"] == "ok"
        }
    for X, y in (case.tasks[task], case.test[task]):
        np.testing.assert_array_equal(y, [known[tuple(x)] for x in X])


def test_the_airfoil_takes_more_target_rows():
    few, more, many = (airfoil.draw(2, rows=rows) for rows in (4, 8, 16))
    assert [len(case.tasks["high"][1]) for case in (few, more, many)] == [4, 8, 16]
    assert rows_of(few.tasks["high"][0]) < rows_of(more.tasks["high"][0]) < rows_of(many.tasks["high"][0])
    for case in (more, many):
        np.testing.assert_array_equal(case.tasks["low"][0], few.tasks["low"][0])
        np.testing.assert_array_equal(case.test["high"][0], few.test["high"][0])


def test_impellers_are_the_published_ones():
    for name in ("impeller_stage1_7d.csv.gz", "impeller_stage4_20d.csv.gz"):
        skip_without("rotor_fea", name)
    found = rotor_fea.impellers()
    assert {name: X.shape for name, (X, _) in found.items()} == {"fourth": (1525, 20), "first": (158, 7)}
    # the inputs that the mapping joins are the strongest of either part, in the same direction
    for name, strength in (("fourth", -0.98), ("first", -0.83)):
        X, y = found[name]
        ranks = np.array([spearmanr(column, y).statistic for column in X.T])
        strongest = np.abs(ranks).argmax()
        assert rotor_fea.NAMES[name][strongest] == rotor_fea.STRONGEST[name]
        assert ranks[strongest] == pytest.approx(strength, abs=5e-3)
    case = rotor_fea.draw(0)
    assert not case.shared_columns("fourth")
    affine, X = case.mappings["fourth"], case.tasks["fourth"][0]
    mapped = X @ affine.A.T + affine.b
    np.testing.assert_array_equal(mapped[:, 1], X[:, 9])
    np.testing.assert_array_equal(np.delete(mapped, 1, axis=1), 0.5)


# ---- the others ---------------------------------------------------------------------------------------------------


def test_airfoils_are_the_published_ones():
    skip_without("airfoil_phasta", "airfoil_phasta.csv.gz")
    X, coarse, fine = airfoil_phasta.airfoils()
    assert X.shape == (500, 4)
    assert np.corrcoef(coarse, fine)[0, 1] == pytest.approx(0.966, abs=1e-3)
    assert spearmanr(coarse, fine).statistic == pytest.approx(0.968, abs=1e-3)
    for values, expected in ((fine, (0.27, 0.08, -0.04, 0.97)), (coarse, (0.19, 0.07, -0.25, 0.95))):
        found = [spearmanr(column, values).statistic for column in X.T]
        np.testing.assert_allclose(found, expected, atol=1e-2)
    case = airfoil_phasta.draw(0)
    used = [
        rows_of(case.tasks["fine"][0][:, [0, 3]]),
        rows_of(case.tasks["coarse"][0]),
        rows_of(case.test["coarse"][0]),
    ]
    assert len(used[0] | used[1] | used[2]) == 500  # no airfoil comes twice, none is left out
    outputs = {tuple(x): y for x, y in zip(X, fine, strict=True)}
    np.testing.assert_array_equal(case.test["fine"][1], [outputs[tuple(x)] for x in case.test["fine"][0]])


def test_a_rotation_is_undone_by_its_inverse():
    X = np.array([[1.0, 0.5], [0.5, 0.5], [0.5, 1.0]])
    expected = [[0.5, 1.0], [0.5, 0.5], [0.0, 0.5]]
    np.testing.assert_allclose(park_rotated.rotate(X, np.pi / 2), expected, atol=1e-15)
    case, plain = park_rotated.draw(2), park.draw(2)
    for tables in ("tasks", "test"):
        turned, straight = getattr(case, tables), getattr(plain, tables)
        np.testing.assert_array_equal(turned["high"][0], straight["high"][0])
        X, y = turned["low"]
        np.testing.assert_allclose(park_low(park_rotated.rotate(X, -np.deg2rad(20.0))), y, atol=1e-12)
        assert np.abs(park_low(X) - y).max() > 1.0  # by its names the mapping is wrong


def test_the_lossless_target_is_a_function_of_the_mapped_inputs():
    assert lossless.source(np.array([[0.25, 0.4], [0.0, 0.9]])) == pytest.approx([1.1, 0.5])
    X = np.random.default_rng(0).uniform(size=(50, 5))
    expected = 1.5 * lossless.source(X[:, [1, 3]]) + 0.5 * X[:, 1] - 1.0
    np.testing.assert_allclose(lossless.target(X), expected)
    case = lossless.draw(0)
    for tables in (case.tasks, case.test):
        for name, truth in (("target", lossless.target), ("source", lossless.source)):
            noise = tables[name][1] - truth(tables[name][0])
            assert noise.std() == pytest.approx(0.05, rel=4 / np.sqrt(2 * len(noise)))


def test_the_unrelated_source_is_a_draw_of_a_gaussian_process():
    assert unrelated.target(np.array([[0.0, 2.0, 5.0], [np.pi / 6, 0.0, 1.0]])) == pytest.approx([4.0, 1 + np.pi / 12])
    Z = np.array([[0.5, 0.5], [0.5, 0.7], [0.1, 0.9]])
    values = np.array([unrelated.RandomFunction(stream)(Z) for stream in streams(0, 4000)])
    distances = np.linalg.norm(Z[:, None] - Z[None], axis=-1)
    kernel = np.exp(-0.5 * (distances / 0.2) ** 2)
    np.testing.assert_allclose(values.mean(axis=0), 0.0, atol=4 / np.sqrt(4000))
    np.testing.assert_allclose(values.T @ values / 4000, kernel, atol=4 * np.sqrt(2 / 4000))
    case = unrelated.draw(0)
    noise = case.test["target"][1] - unrelated.target(case.test["target"][0])
    assert noise.std() == pytest.approx(0.02, rel=4 / np.sqrt(1000))
    # training and test rows of the source are of one function: neighbours agree
    (X, y), (new, values) = case.tasks["source"], case.test["source"]
    distance = np.linalg.norm(X[:, None] - new[None], axis=-1)
    i, j = np.unravel_index(distance.argmin(), distance.shape)
    assert abs(y[i] - values[j]) < 0.15
