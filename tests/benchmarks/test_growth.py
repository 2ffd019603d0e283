"""The growth and cold start benchmarks: sizes, what is evaluated, fits of exponents, tables."""

import csv
import json

import numpy as np
import pytest

import aligngp as agp
from benchmarks import cold_start, growth, rows


def test_one_size_grows_and_the_others_stay():
    assert growth.sizes("M", 400) == {"N": 2000, "M": 400, "T": 2, "Q": 2}
    assert growth.sizes("T", 8) == {"N": 1600, "M": 100, "T": 8, "Q": 2}
    for axis, values in growth.AXES.items():
        assert all(growth.sizes(axis, value)[axis] == value for value in values)
    assert (growth.AXES["N"][0], growth.AXES["N"][-1]) == (10**3, 10**6)
    assert (growth.AXES["M"][0], growth.AXES["M"][-1]) == (50, 800)
    assert (growth.AXES["T"][0], growth.AXES["T"][-1]) == (2, 20)
    assert (growth.AXES["Q"][0], growth.AXES["Q"][-1]) == (1, 8)


def test_the_problem_has_the_size_that_its_row_says():
    size = {"N": 23, "M": 5, "T": 3, "Q": 2}
    data = growth.data_of(size)
    assert [len(y) for _, y in data] == [8, 8, 7]
    with agp.computing():
        model, batches = growth.model_of(data, size)
    assert len(model.latents) == 2 and {latent.inducing.shape for latent in model.latents} == {(5, 3)}
    assert model.mixing.shape == (3, 2)
    for (X, y), batch in zip(data, batches, strict=True):
        np.testing.assert_array_equal(batch.rows.nominal, X)
        np.testing.assert_array_equal(batch.y, y)


def test_the_exponent_is_the_slope_of_the_logarithms():
    values = np.array([10.0, 100.0, 1000.0, 10000.0])
    assert growth.exponent(values, 3e-4 * values**1.7) == pytest.approx(1.7)
    assert growth.exponent(values, np.full(4, 2.0)) == pytest.approx(0.0, abs=1e-12)


def row(axis, value, method, seconds, memory):
    found = {"axis": axis, "value": value, "method": method, **growth.sizes(axis, value), "seconds": seconds}
    return {**found, "first_seconds": 1.0, "peak_mib": 500.0, "peak_above_data_mib": memory, "data_mib": 1.0}


def test_the_table_gives_exponents_and_memory_of_each_axis(tmp_path):
    path = tmp_path / "growth.csv"
    # Written out of order, as a run that was stopped and begun again with other values would.
    for value, seconds, memory in ((10_000, 4.0, 110), (1_000, 1.0, 100), (100_000, 64.0, 130)):
        rows.append(path, row("N", value, "collapsed", seconds, memory))
    rows.append(path, row("Q", 2, "svi", 0.5, 90))
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in growth.table(path).splitlines()]
    slope = np.log10(64.0) / 2.0
    first = ["N", "1000", "100000", "collapsed", "1", "64", f"{slope:.2f}", f"{np.log10(16.0):.2f}", "100", "130"]
    assert first in lines
    assert ["Q", "2", "2", "svi", "0.5", "0.5", "", "", "90", "90"] in lines
    growth.plot(path)
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_only_what_is_missing_is_measured(tmp_path, monkeypatch):
    path, commands = tmp_path / "growth.csv", []

    def run(command, check):
        commands.append(command)
        axis, value, method = command[4:7]
        rows.append(path, row(axis, int(value), method, 1.0, 2.0))

    monkeypatch.setattr(growth.os, "sched_setaffinity", lambda *_: None, raising=False)
    monkeypatch.setattr(growth.subprocess, "run", run)
    monkeypatch.setattr("sys.argv", ["growth", "--short", "--out", str(path)])
    rows.append(path, row("N", 1_000, "svi", 1.0, 2.0))
    growth.main()
    assert [command[4:7] for command in commands] == [
        ["N", "1000", "collapsed"],
        ["N", "100000", "collapsed"],
        ["N", "100000", "svi"],
    ]


# ---- cold start -----------------------------------------------------------------------------------------------------


def test_every_round_fits_with_an_empty_folder_first(tmp_path, monkeypatch):
    out, seen = tmp_path / "cold_start.csv", []

    def timed(command, folder):
        seen.append((json.loads(command[3]), folder))
        return 3.0, json.dumps({"import": 1.0, "fit": 1.5, "predict": 0.25, "smse": 0.1}) + "\n"

    monkeypatch.setattr(cold_start, "timed", timed)
    cold_start.fits(0, tmp_path, out)
    assert [settings for settings, _ in seen] == [{}, {}, {"calibration": "none"}, {"calibration": "none"}]
    folders = [folder for _, folder in seen]
    assert folders[0] == folders[1] != folders[2] == folders[3]
    with out.open(newline="") as file:
        found = [(line["what"], line["cache"], line["seconds"]) for line in csv.DictReader(file)]
    assert found == [(name, cache, "3") for name in cold_start.FITS for cache in ("empty", "filled")]


def test_compiled_programs_go_into_the_folder_alone(tmp_path):
    seconds, output = cold_start.timed(
        ["env"] if not hasattr(cold_start.sys, "getwindowsversion") else ["cmd", "/c", "set"], tmp_path
    )
    assert 0.0 < seconds < 60.0
    assert f"JAX_COMPILATION_CACHE_DIR={tmp_path / 'compiled'}" in output
    with pytest.raises(RuntimeError, match="code 3: broken"):
        script = "import sys; sys.stderr.write('broken'); sys.exit(3)"
        cold_start.timed([cold_start.sys.executable, "-c", script], tmp_path)


def test_the_table_of_cold_starts_has_medians():
    def line(number, cache, seconds):
        base = {"round": str(number), "what": "default", "cache": cache, "seconds": seconds}
        return {**base, "import": "1", "fit": "2", "predict": ""}

    found = [line(0, "filled", "3"), line(1, "filled", "9"), line(2, "filled", "4"), line(0, "empty", "20")]
    text = cold_start.table(found)
    assert "| default | filled | 3 | 4 | 1 | 2 |  |" in text
    assert "| default | empty | 1 | 20 | 1 | 2 |  |" in text
