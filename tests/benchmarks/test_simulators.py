"""What all simulators share: designs, files that are continued, failures, other backends, Sobol indices."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.cases import files
from benchmarks.cases.sampled import split
from benchmarks.simulators import command, table
from benchmarks.simulators.table import SimulationError, as_rows, design, fill
from joblib import parallel_config, register_parallel_backend
from joblib._parallel_backends import ThreadingBackend

from benchmarks import rows

LOWER, UPPER = np.array([-1.0, 2.0]), np.array([1.0, 5.0])
WANTED = design(("a", "b"), LOWER, UPPER, 7, seed=3)


def product(row):
    return {"ab": row["a"] * row["b"]}


def sometimes(row):
    if row["row"] in (2, 5):
        raise SimulationError("the mesh\n  is torn")
    return product(row)


class Interrupted:
    """Computes some rows and is then killed."""

    def __init__(self, rows):
        self.left = rows

    def __call__(self, row):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return product(row)


class Counted:
    def __init__(self, simulator):
        self.simulator, self.seen = simulator, []

    def __call__(self, row):
        self.seen.append(row["row"])
        return self.simulator(row)


def filled(path, simulator=product, **settings):
    fill(path, WANTED, lambda: simulator, ("ab",), **settings)
    return path.read_text()


# ---- designs ------------------------------------------------------------------------------------------------------


def test_a_longer_design_begins_with_a_shorter_one():
    longer = design(("a", "b"), LOWER, UPPER, 2000, seed=3)
    assert longer[:7] == WANTED
    assert design(("a", "b"), LOWER, UPPER, 7, seed=4) != WANTED
    X = np.array([[row["a"], row["b"]] for row in longer])
    assert np.all((LOWER <= X) & (X <= UPPER))
    np.testing.assert_allclose(X.mean(axis=0), [0.0, 3.5], atol=4 * 3 / np.sqrt(12 * 2000))
    np.testing.assert_allclose(X.std(axis=0), [2 / np.sqrt(12), 3 / np.sqrt(12)], rtol=0.05)


def test_what_is_computed_is_what_the_file_says(tmp_path):
    filled(tmp_path / "s.csv")
    for row, expected in zip(rows.read(tmp_path / "s.csv"), WANTED, strict=True):
        assert {name: float(row[name]) for name in ("a", "b")} == {name: expected[name] for name in ("a", "b")}
        assert float(row["ab"]) == pytest.approx(expected["a"] * expected["b"], rel=1e-9)
        assert row["status"] == "ok"


# ---- interruption -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [1, 4, 6])
def test_an_interrupted_run_is_continued(tmp_path, before):
    whole = filled(tmp_path / "whole.csv")
    path = tmp_path / "part.csv"
    with pytest.raises(KeyboardInterrupt):
        filled(path, Interrupted(before))
    assert len(rows.read(path)) == before
    rest = Counted(product)
    assert filled(path, rest) == whole
    assert rest.seen == list(range(before, 7))


def test_half_a_line_is_cut_off(tmp_path):
    whole = filled(tmp_path / "s.csv")
    (tmp_path / "s.csv").write_text(whole[:-7])
    again = Counted(product)
    assert filled(tmp_path / "s.csv", again) == whole
    assert again.seen == [6]


def test_a_full_file_computes_nothing(tmp_path):
    whole = filled(tmp_path / "s.csv")

    def prepare():
        raise AssertionError("nothing is to be computed")

    fill(tmp_path / "s.csv", WANTED, prepare, ("ab",))
    fill(tmp_path / "s.csv", WANTED[:3], prepare, ("ab",))
    assert (tmp_path / "s.csv").read_text() == whole


def test_a_file_of_another_design_is_refused(tmp_path):
    fill(tmp_path / "s.csv", design(("a", "b"), LOWER, UPPER, 3, seed=4), lambda: product, ("ab",))
    with pytest.raises(ValueError, match="row 0 is of another design"):
        filled(tmp_path / "s.csv")


# ---- failures -----------------------------------------------------------------------------------------------------


def test_a_failed_run_is_a_row_with_its_reason(tmp_path, monkeypatch):
    filled(tmp_path / "s.csv", sometimes)
    found = rows.read(tmp_path / "s.csv")
    assert [row["status"] for row in found] == [
        "failed: the mesh is torn" if number in (2, 5) else "ok" for number in range(7)
    ]
    assert [row["ab"] == "" for row in found] == [number in (2, 5) for number in range(7)]
    # a case never sees it
    monkeypatch.setattr(files, "SAMPLES", tmp_path)
    X, y = files.samples("s.csv", ("b", "a"), "ab")
    assert X.shape == (5, 2)
    np.testing.assert_allclose(X.prod(axis=1), y)
    assert not set(X[:, 1]) & {WANTED[2]["a"], WANTED[5]["a"]}


def test_failed_runs_are_computed_anew_when_asked(tmp_path):
    first = filled(tmp_path / "s.csv", sometimes)
    assert filled(tmp_path / "s.csv") == first
    again = Counted(product)
    whole = filled(tmp_path / "s.csv", again, again=True)
    assert again.seen == [2, 5]
    assert whole == filled(tmp_path / "whole.csv")


def test_an_error_of_the_program_is_not_a_failed_run(tmp_path):
    def broken(row):
        raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        filled(tmp_path / "s.csv", broken)
    assert not (tmp_path / "s.csv").exists()


# ---- joblib -------------------------------------------------------------------------------------------------------


class AllAtOnce(ThreadingBackend):
    """As backends that return all results of a call together, and none before."""

    supports_return_generator = False


@pytest.mark.parametrize("backend", ["threading", "all at once"])
def test_another_backend_gives_the_same_file(tmp_path, backend, monkeypatch):
    monkeypatch.setattr(table, "BATCH", 3)
    register_parallel_backend("all at once", AllAtOnce)
    whole = filled(tmp_path / "whole.csv", sometimes)
    with parallel_config(backend=backend, n_jobs=2):
        assert filled(tmp_path / "s.csv", sometimes) == whole


def test_several_processes_give_the_same_file(tmp_path):
    assert filled(tmp_path / "s.csv", table_simulator, jobs=2) == filled(tmp_path / "whole.csv", table_simulator)


def table_simulator(row):
    if row["row"] == 1:
        raise SimulationError("no")
    return {"ab": row["a"] - row["b"]}


# ---- the command --------------------------------------------------------------------------------------------------

FILES = {
    "good": command.File(lambda n: design(("a", "b"), LOWER, UPPER, n, 3), lambda: product, ("ab",), 4),
    "bad": command.File(lambda n: design(("a", "b"), LOWER, UPPER, n, 3), lambda: sometimes, ("ab",), 4),
}


def test_the_command_fills_what_it_is_asked_for(tmp_path, capsys):
    out = ["--out", str(tmp_path / "new")]
    assert command.run("toy", "A toy.", FILES, ["good", *out]) == 0
    assert len(rows.read(tmp_path / "new" / "toy_good.csv")) == 4
    assert not (tmp_path / "new" / "toy_bad.csv").exists()
    assert command.run("toy", "A toy.", FILES, ["--rows", "good=6", *out]) == 1
    assert len(rows.read(tmp_path / "new" / "toy_good.csv")) == 6
    assert "toy_bad.csv: 4 rows, 1 of them not well" in capsys.readouterr().out


def test_the_command_can_be_handed_to_another_backend(tmp_path):
    seen = set()

    def where(row):
        seen.add(threading.current_thread())
        return product(row)

    file = replace(FILES["good"], prepare=lambda: where)
    with parallel_config(backend="threading", n_jobs=2):
        assert command.run("toy", "A toy.", {"good": file}, ["--out", str(tmp_path)]) == 0
    assert threading.main_thread() not in seen
    seen.clear()
    assert command.run("toy", "A toy.", {"good": file}, ["--out", str(tmp_path / "again")]) == 0
    assert seen == {threading.main_thread()}


def test_a_file_whose_solver_is_not_installed_is_left_out_and_said(tmp_path, capsys):
    files = {**FILES, "rare": replace(FILES["good"], needs="its solver is not installed")}
    command.run("toy", "A toy.", files, ["--out", str(tmp_path)])
    assert {path.name for path in tmp_path.iterdir()} == {"toy_good.csv", "toy_bad.csv"}
    assert "toy_rare.csv is left out: its solver is not installed" in capsys.readouterr().out
    for arguments, these in ((["rare"], files), ([], {"rare": files["rare"]})):
        with pytest.raises(SystemExit) as ended:
            command.run("toy", "A toy.", these, [*arguments, "--out", str(tmp_path)])
        assert ended.value.code == 2
        assert "rare: its solver is not installed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["worse"], "expected files of good, bad, came worse"),
        (["--rows", "good"], "FILE=N with FILE of good, bad and N at least 1, came good"),
        (["--rows", "good=0"], "came good=0"),
    ],
)
def test_the_command_says_what_it_cannot_do(tmp_path, capsys, arguments, said):
    with pytest.raises(SystemExit) as ended:
        command.run("toy", "A toy.", FILES, [*arguments, "--out", str(tmp_path)])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


# ---- Sobol indices ------------------------------------------------------------------------------------------------


def ishigami(row):
    x1, x2, x3 = (row[name] for name in ("x1", "x2", "x3"))
    return {"y": np.sin(x1) + 7.0 * np.sin(x2) ** 2 + 0.1 * x3**4 * np.sin(x1)}


def test_sobol_indices_of_ishigami_s_function():
    pytest.importorskip("SALib", reason="the extra 'simulators' is not installed")
    from benchmarks.simulators.sensitivity import listing, sobol_design, sobol_indices

    names, lower, upper = ("x1", "x2", "x3"), np.full(3, -np.pi), np.full(3, np.pi)
    wanted = sobol_design(names, lower, upper, 1024, seed=1)
    assert len(wanted) == 1024 * 5
    outcomes = [table.attempt(ishigami, ("y",), row) for row in wanted]
    found = sobol_indices(names, lower, upper, outcomes, "y")
    assert [name for name, *_ in found] == ["x1", "x2", "x3"]
    # the published values
    np.testing.assert_allclose([first for _, first, _, _ in found], [0.3139, 0.4424, 0.0], atol=0.05)
    np.testing.assert_allclose([total for _, _, total, _ in found], [0.5576, 0.4424, 0.2437], atol=0.05)
    assert listing(found).splitlines()[2].startswith("x3")
    outcomes[7]["status"] = "failed: no"
    with pytest.raises(SimulationError, match=r"not well came out: \[7\]"):
        sobol_indices(names, lower, upper, outcomes, "y")


# ---- the split of a sample ----------------------------------------------------------------------------------------


def test_more_training_rows_contain_fewer_and_the_test_rows_stay():
    tables = {name: (np.arange(30.0)[:, None] + shift, np.arange(30.0)) for name, shift in (("a", 0.0), ("b", 100.0))}
    few, few_test = split(5, tables, {"a": 4, "b": 20}, 10)
    many, many_test = split(5, tables, {"a": 16, "b": 20}, 10)
    for name in tables:
        np.testing.assert_array_equal(few_test[name][0], many_test[name][0])
        used, held = set(many[name][1]), set(many_test[name][1])
        assert len(used) == (16 if name == "a" else 20) and len(held) == 10 and not used & held
    assert set(few["a"][1]) < set(many["a"][1])
    assert set(few_test["a"][1]) != set(few_test["b"][1])
    with pytest.raises(ValueError, match=r"b: expected 10 \+ 21 rows in the sample, it has 30"):
        split(5, tables, {"a": 4, "b": 21}, 10)


def test_rows_are_numbered_and_rounded():
    assert as_rows(("a", "b"), np.array([[0.12345678, 1.0]])) == [{"row": 0, "a": 0.123457, "b": 1.0}]
