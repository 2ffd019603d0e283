"""``aligngp predict``: the rows come back with predictions, in every kind of file."""

import os

import numpy as np
import pytest
from scipy.stats import norm

import aligngp as agp
from aligngp.data.files import SUFFIXES, read_table, write_table


@pytest.mark.parametrize(
    "suffix, model", [*((suffix, "job-run") for suffix in SUFFIXES), (".csv", "job-run/model.agp")]
)
def test_the_rows_come_back_with_predictions(run, started, suffix, model):
    done = run("predict", model, "--task", "fine", "--input", "new.csv", "--output", f"pred{suffix}")
    assert done.out == f"Predictions: pred{suffix} (5 rows; new columns mean, std, lower, upper)\n"
    found, new = read_table(f"pred{suffix}"), read_table("new.csv")
    assert found.column_names == [*new.column_names, "mean", "std", "lower", "upper"]
    pred = agp.load("job-run/model.agp").predict("fine", new)
    expected = dict(zip(("mean", "std", "lower", "upper"), (pred.mean, pred.std, *pred.interval()), strict=True))
    for name, values in {**{name: new.column(name) for name in new.column_names}, **expected}.items():
        np.testing.assert_allclose(found.column(name).to_numpy(), np.asarray(values), rtol=1e-14)


def test_another_probability_and_no_noise(run, started):
    run("predict", "job-run", "-t", "fine", "-i", "new.csv", "-o", "a.csv", "--latent", "--interval", "0.5", "--quiet")
    found = read_table("a.csv")
    pred = agp.load("job-run/model.agp").predict("fine", read_table("new.csv"), latent=True)
    np.testing.assert_allclose(found.column("std").to_numpy(), pred.std, rtol=1e-14)
    half = norm.ppf(0.75) * pred.std
    np.testing.assert_allclose(found.column("upper").to_numpy(), pred.mean + half, rtol=1e-12)
    np.testing.assert_allclose(found.column("lower").to_numpy(), pred.mean - half, rtol=1e-12)
    done = run("predict", "job-run", "-t", "fine", "-i", "new.csv", "--interval", "95")
    assert (done.code, done.err) == (2, "aligngp: level: expected a probability between 0 and 1, got 95.0.\n")


def test_csv_on_the_standard_output(run, started):
    printed = run("predict", "job-run", "--task", "coarse", "--input", "new.csv")
    assert printed.err == ""
    run("predict", "job-run", "--task", "coarse", "--input", "new.csv", "--output", "a.csv")
    assert printed.out == (started / "a.csv").read_text()
    assert printed.out.splitlines()[0] == "x1,x2,x3,x4,mean,std,lower,upper"


def test_columns_that_the_task_does_not_know_stay_whatever_they_hold(run, started):
    rows = read_table("new.csv").append_column("name", [["a", "b", "c", "d", "é"]])
    write_table(rows, "named.parquet")
    run("predict", "job-run", "-t", "fine", "-i", "named.parquet", "-o", "a.xlsx")
    assert read_table("a.xlsx").column("name").to_pylist() == ["a", "b", "c", "d", "é"]


def test_the_only_task_need_not_be_named(run, tmp_path):
    x = np.linspace(0.0, 1.0, 8)
    agp.AlignedGP(progress=False).fit({"fine": (x, np.sin(x))}).save(tmp_path / "m.agp")
    (tmp_path / "new.csv").write_text("x1\n0.5\n")
    assert run("predict", "m.agp", "--input", "new.csv").code == 0


def test_a_file_is_not_replaced_unless_forced(run, started):
    (started / "pred.csv").write_text("mine")
    done = run("predict", "job-run", "-t", "fine", "-i", "new.csv", "-o", "pred.csv")
    assert (done.code, done.err) == (
        2,
        "aligngp: pred.csv is there already. Pass --force to replace it, or another --output.\n",
    )
    assert (started / "pred.csv").read_text() == "mine"
    assert run("predict", "job-run", "-t", "fine", "-i", "new.csv", "-o", "pred.csv", "--force", "--quiet").out == ""
    assert read_table("pred.csv").num_rows == 5


def test_a_disk_that_is_full_leaves_the_old_file(run, started, monkeypatch):
    (started / "pred.csv").write_text("mine")
    before = sorted(os.listdir(started))

    def fail(*arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", fail)
    done = run("predict", "job-run", "-t", "fine", "-i", "new.csv", "-o", "pred.csv", "--force")
    assert (done.code, done.err) == (1, "aligngp: no space left on device\n")
    assert (started / "pred.csv").read_text() == "mine"
    assert sorted(os.listdir(started)) == before


@pytest.mark.parametrize(
    "arguments, code, told",
    [
        (["job-run", "-i", "new.csv"], 2, "job-run/model.agp has the tasks 'fine', 'coarse'. Pass --task with one of"),
        (["job-run", "-i", "new.csv", "-t", "fin"], 1, "there is no task 'fin' (did you mean 'fine'?)"),
        (["job-run", "-i", "coarse.csv", "-t", "fine"], 1, "task 'fine': missing columns 'x1', 'x2'"),
        (["job-run", "-i", "now.csv", "-t", "fine"], 1, "now.csv: there is no such file (did you mean 'new.csv'?)"),
        (["nowhere", "-i", "new.csv", "-t", "fine"], 1, "nowhere: there is no such file"),
        ([".", "-i", "new.csv", "-t", "fine"], 1, "there is no model.agp in this folder"),
        (["new.csv", "-i", "new.csv", "-t", "fine"], 1, "new.csv: not a complete aligngp model file"),
        (["job-run", "-i", "new.csv", "-t", "fine", "-o", "a.txt"], 1, "the suffix '.txt'"),
        (["job-run", "-i", "new.csv", "-t", "fine", "-o", "no/a.csv"], 1, "the folder no does not exist"),
    ],
)
def test_mistakes(run, started, arguments, code, told):
    done = run("predict", *arguments)
    assert (done.code, done.out) == (code, "")
    assert told in done.err
    assert done.err.count("\n") == 1


def test_a_column_that_has_the_name_of_a_prediction(run, started):
    (started / "mean.csv").write_text("x3,x4,mean\n1,2,3\n")
    done = run("predict", "job-run", "-i", "mean.csv", "-t", "coarse")
    assert (done.code, "column 'mean' has the name of a column of the output" in done.err) == (1, True)


def test_rows_far_outside_are_warned_of_though_the_model_comes_from_a_file(run, started):
    (started / "far.csv").write_text("x3,x4\n0.5,0.5\n0.5,90\n")
    done = run("predict", "job-run", "-i", "far.csv", "-t", "coarse")
    assert done.code == 0
    assert done.err.startswith("aligngp: warning: task 'coarse': 1 of 2 rows to predict lie far outside its training ")
    assert "mostly in 'x4', which was trained on 0.02" in done.err
    assert done.err.count("\n") == 1
