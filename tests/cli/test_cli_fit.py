"""``aligngp fit``: the run folder, what is printed and logged, and what is never replaced."""

import importlib
import json
import os
import re

import numpy as np
import pytest

import aligngp as agp
from aligngp.data.files import read_table
from aligngp.job import read_job


def contents(folder) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def by_hand() -> agp.AlignedGP:
    """The same fit without the command line."""
    fine, coarse = read_table("fine.csv"), read_table("coarse.csv")
    return agp.AlignedGP("coarse", seed=0, progress=False).fit({"fine": fine, "coarse": coarse}, output="zeta")


def test_a_run_folder_is_what_python_would_give(started):
    assert sorted(contents(started / "job-run")) == ["job.toml", "log.txt", "model.agp", "scores.json"]
    gp, own, new = agp.load(started / "job-run" / "model.agp"), by_hand(), read_table("new.csv")
    np.testing.assert_array_equal(gp.predict("fine", new).mean, own.predict("fine", new).mean)
    scores = json.loads((started / "job-run" / "scores.json").read_text())
    assert scores["tasks"] == own.training_scores()
    assert scores["warnings"] == own.warnings()
    assert scores["test"] == {"fine": {"rows": 20, **own.score("fine", read_table("fine_test.csv"))}}
    assert (scores["aligngp"], scores["interrupted"]) == (agp.__version__, False)
    assert gp.settings.progress is None


def test_the_job_as_used_gives_the_same_model(run, started):
    assert run("fit", "job-run/job.toml", "--out", "again", "--quiet").code == 0
    first, second = (
        agp.load(f"{folder}/model.agp").predict("fine", read_table("new.csv")) for folder in ("job-run", "again")
    )
    np.testing.assert_array_equal(first.mean, second.mean)
    assert read_job("job-run/job.toml").digest() == read_job("again/job.toml").digest()


def test_the_log(started):
    lines = (started / "job-run" / "log.txt").read_text().splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO ", line) for line in lines)
    text = "\n".join(lines)
    assert f"aligngp {agp.__version__}, jax " in text
    assert "fitting 'fine', 'coarse' with common='coarse'" in text
    assert "task 'fine': weights of the forms" in text
    assert re.search(r"fitted in \d+\.\d s$", text, re.MULTILINE)
    assert "INFO worth knowing: Task 'fine': 6 training rows for 4 inputs" in lines[-2]


def test_what_is_printed(run, finished, tmp_path):
    for name in ("job.toml", "fine.csv", "coarse.csv", "fine_test.csv"):
        (tmp_path / name).write_bytes((finished / name).read_bytes())
    done = run("fit", "job.toml", "--out", "deep/er")
    lines = done.out.splitlines()
    assert re.fullmatch(r"fine: 6 rows left out, SMSE [\d.e-]+, RMSE .*, CRPS .*, 95% interval holds \d+%", lines[0])
    assert lines[1].startswith("coarse: 100 rows left out, ")
    assert lines[2].startswith("fine: 20 rows test, ")
    few, noise = json.loads((tmp_path / "deep/er/scores.json").read_text())["warnings"]
    assert few.startswith("Task 'fine': 6 training rows for 4 inputs")
    assert noise.startswith("Task 'coarse': its noise is near its lower bound")
    assert lines[3:5] == [f"Worth knowing: {few}", f"Worth knowing: {noise}"]
    assert lines[5].startswith("Model: deep/er/model.agp, fitted in ")
    assert lines[6] == "Next:  aligngp predict deep/er --task fine --input new.csv --output pred.csv"
    assert lines[7:] == ["       aligngp report deep/er"]
    assert "mixture of exact GPs: 2/2, objective" in done.err
    quiet = run("fit", "job.toml", "--quiet")
    assert quiet.out.splitlines() == lines[:3]
    assert quiet.err == ""


def test_scores_are_a_table_on_a_terminal(started, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    scores = json.loads((started / "job-run" / "scores.json").read_text())
    importlib.import_module("aligngp.cli.fit")._show({kind: scores[kind] for kind in ("tasks", "test")})
    text = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert "Scores: lower is better" in text
    for kind, rows in (("tasks", "6 left out"), ("test", "20 test")):
        smse = re.escape(f"{scores[kind]['fine']['smse']:.3g}")
        assert re.search(rf"│ fine\s+│ {rows}\s+│\s+{smse} │", text)


def test_a_run_is_not_replaced_unless_forced(run, started):
    before = contents(started / "job-run")
    done = run("fit", "job.toml")
    assert done.code == 2
    assert "job-run holds a run already. Pass --force to replace it, --resume to keep it" in done.err
    assert contents(started / "job-run") == before
    (started / "job.toml").write_text((started / "job.toml").read_text().replace("seed = 0", "seed = 1"))
    assert run("fit", "job.toml", "--force", "--quiet").code == 0
    after = contents(started / "job-run")
    assert b"seed = 1" in after["job.toml"]
    assert after["model.agp"] != before["model.agp"]
    assert sorted(after) == sorted(before)


def test_resume_keeps_a_finished_run_of_the_same_job_and_data(run, started):
    before = contents(started / "job-run")
    done = run("fit", "job.toml", "--resume")
    assert (done.code, done.out) == (0, "job-run: finished before, of the same job and data; nothing to do.\n")
    (started / "fine.csv").write_text((started / "fine.csv").read_text().replace("12.68", "12.69"))
    done = run("fit", "job.toml", "--resume")
    assert done.code == 2
    assert "job-run holds a run of another job, of other data, or one that did not end. Pass --force" in done.err
    assert contents(started / "job-run") == before


@pytest.mark.parametrize("change", ["scores are gone", "scores of another model", "damaged scores"])
def test_resume_does_not_take_half_a_run_for_a_whole_one(run, started, change):
    scores = started / "job-run" / "scores.json"
    if change == "scores are gone":
        scores.unlink()
    elif change == "damaged scores":
        scores.write_text("{")
    else:
        scores.write_text(json.dumps({**json.loads(scores.read_text()), "model": "0"}))
    assert run("fit", "job.toml", "--resume").code == 2


def test_resume_fits_again_what_was_interrupted_and_what_is_not_there(run, started):
    scores = started / "job-run" / "scores.json"
    whole = json.loads(scores.read_text())
    scores.write_text(json.dumps({**whole, "interrupted": True}))
    assert run("fit", "job.toml").code == 2
    assert run("fit", "job.toml", "--resume", "--quiet").code == 0
    assert json.loads(scores.read_text())["tasks"] == whole["tasks"]
    assert run("fit", "job.toml", "--resume", "--quiet", "--out", "new").code == 0
    assert json.loads((started / "new" / "scores.json").read_text())["tasks"] == whole["tasks"]


def test_the_job_file_itself_is_not_replaced(run, started):
    before = (started / "job.toml").read_bytes()
    done = run("fit", "job.toml", "--out", ".", "--force")
    assert done.code == 2
    assert "job.toml in it is the job file itself" in done.err
    assert (started / "job.toml").read_bytes() == before
    done = run("fit", "job.toml", "--out", "fine.csv")
    assert (done.code, "fine.csv: this is a file, expected a folder" in done.err) == (2, True)


def test_a_fit_that_fails_says_so_in_the_log_and_leaves_the_old_run(run, started, monkeypatch):
    before = contents(started / "job-run")

    def fail(*arguments, **keywords):
        raise agp.TrainingError("task 'fine': the objective is NaN.")

    monkeypatch.setattr(agp.AlignedGP, "fit", fail)
    done = run("fit", "job.toml", "--force")
    assert (done.code, done.err) == (1, "aligngp: task 'fine': the objective is NaN.\n")
    after = contents(started / "job-run")
    log = after.pop("log-unfinished.txt").decode()
    assert log.splitlines()[-1].endswith("ERROR TrainingError: task 'fine': the objective is NaN.")
    assert after == before


def test_a_model_is_kept_even_if_it_cannot_be_scored(run, started, monkeypatch):
    def fail(*arguments):
        raise agp.DataError("variance: expected positive numbers.")

    monkeypatch.setattr(agp.AlignedGP, "training_scores", fail)
    done = run("fit", "job.toml", "--out", "new", "--quiet")
    assert (done.code, done.err) == (1, "aligngp: variance: expected positive numbers.\n")
    assert sorted(contents(started / "new")) == ["log-unfinished.txt", "model.agp"]
    assert agp.load(started / "new" / "model.agp").tasks == ("fine", "coarse")
    assert run("fit", "job.toml", "--out", "new", "--resume").code == 2


def test_a_disk_that_is_full_leaves_the_old_run(run, started, monkeypatch):
    before = contents(started / "job-run")

    def fail(*arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", fail)
    done = run("fit", "job.toml", "--force", "--quiet")
    assert (done.code, done.err) == (1, "aligngp: no space left on device\n")
    after = contents(started / "job-run")
    assert after.pop("log-unfinished.txt")
    assert after == before


def test_warnings_are_one_line_each_and_in_the_log(run, tmp_path):
    rows = "".join(f"{x},1,{x * x}\n" for x in range(6))
    (tmp_path / "fine.csv").write_text("a,b,y\n" + rows)
    (tmp_path / "job.toml").write_text('output = "y"\n[tasks]\nfine = "fine.csv"\n')
    done = run("fit", "job.toml", "--quiet")
    told = "task 'fine': constant input columns tell nothing: 'b'. Leave them out."
    assert (done.code, done.err) == (0, f"aligngp: warning: {told}\n")
    assert f"WARNING {told}" in (tmp_path / "job-run" / "log.txt").read_text()


def test_a_mapping_and_a_setting_of_the_job_are_used(run, started):
    text = (started / "job.toml").read_text()
    text = text.replace("[mappings]", "[mappings]\nfine = { affine = { A = [[0, 0, 1, 0], [0, 0, 0, 2]] } }")
    (started / "other.toml").write_text(text.replace("seed = 0", 'seed = 4\nhyperparameters = "map"'))
    assert run("fit", "other.toml", "--quiet").code == 0
    gp = agp.load(started / "other-run" / "model.agp")
    assert (gp.settings.seed, gp.settings.hyperparameters) == (4, "map")
    np.testing.assert_allclose(gp.nominal("fine", np.array([[1.0, 2.0, 3.0, 4.0]])), [[3.0, 8.0]])
    assert read_job("other-run/job.toml").digest() == read_job("other.toml").digest()
