"""`aligngp benchmark`: what is planned, several processes, going on after a kill, what is left, and its errors."""

import csv
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks.cases.files import DataMissingError
from benchmarks.pool import Pace, Process, WorkerError
from benchmarks.runner import Plan, names
from instances import small

from aligngp import SettingError
from aligngp.cli import main
from benchmarks import accuracy, pool, rows, runner, studies

ROOT = Path(__file__).parents[2]
KEYS = ("case", "model", "seed", "iterations")


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def keys(path):
    return [tuple(row[key] for key in KEYS) for row in read(path)]


def planned(cases, models, repeats, iterations, tell):
    return Plan.of(cases, models, repeats, iterations).rows(tell)


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """The command in the test's process; returns exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["aligngp", "benchmark", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
            raise SystemExit(0)
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


class StandIn:
    """In place of a worker's process: rows with the SMSE 1 + seed, and how many were asked of each."""

    made: list["StandIn"] = []  # noqa: RUF012

    def __init__(self):
        self.asked, self.ended = [], False
        StandIn.made.append(self)

    def measure(self, wanted):
        self.asked.append(dict(wanted))
        time.sleep(0.01)
        row = accuracy.failed(wanted, "")
        return {**row, "smse": f"{1.0 + wanted['seed']}", "smll": "0", "seconds": "3", "note": ""}

    def end(self):
        self.ended = True


@pytest.fixture
def stand_in(monkeypatch):
    StandIn.made.clear()
    monkeypatch.setattr(pool, "Process", StandIn)
    for module in (accuracy, runner):
        monkeypatch.setattr(module, "CASES", {"small": small, "other": small})
    monkeypatch.setattr(studies, "VARIED", {"small_8": small})
    monkeypatch.setattr(accuracy, "VARIED", {"small_8": small})


# ---- what is planned ----------------------------------------------------------------------------------------------


def test_names_and_groups_between_commas_and_one_an_option():
    known = ("a", "b, c", "d", "e")
    groups = {"all": known, "some": ("d", "e")}
    assert names("models", ["e,a", "b, c"], groups, known) == ["a", "b, c", "e"]
    assert names("models", ["some, a"], groups, known) == ["a", "d", "e"]
    assert names("models", ["all"], groups, known) == list(known)
    with pytest.raises(SettingError, match=r"--models: there is no 'b'.*Name some of 'all', 'some', 'a', 'b, c'"):
        names("models", ["a,b, c"], groups, known)
    with pytest.raises(SettingError, match=r"there is no 'sme' \(did you mean 'some'\?\)"):
        names("models", ["sme"], groups, known)
    with pytest.raises(SettingError, match="expected a name, got nothing"):
        names("models", [","], groups, known)


def test_studies_have_models_of_their_own_where_all_are_asked(stand_in):
    found = planned(["all"], ["all"], 1, None, print)
    models = {case: [row["model"] for row in found if row["case"] == case] for case in ("small", "other", "small_8")}
    assert models["small"] == models["other"] == list(runner.MODELS)
    assert models["small_8"] == [model for model in runner.MODELS if model in studies.MODELS]
    asked = planned(["studies"], ["IMC"], 2, 7, print)
    assert asked == [{"case": "small_8", "model": "IMC", "seed": seed, "iterations": 7} for seed in (0, 1)]


def test_cases_without_data_are_told_and_left_out(stand_in, monkeypatch):
    def lacks(seed):
        raise DataMissingError("small: expected the file x.")

    monkeypatch.setattr(accuracy, "CASES", {"small": lacks, "other": small})
    said = []
    found = planned(["cases"], ["SOGP"], 1, None, said.append)
    assert [row["case"] for row in found] == ["other"]
    assert said == ["left out: small: expected the file x."]


def test_every_level_of_a_study_can_be_drawn():
    known = {*runner.CASES, *studies.VARIED}
    assert {case for study in studies.STUDIES for case in study.levels.values()} <= known
    assert {study.name for study in studies.STUDIES} >= {"dimensions", "correlation"}


def test_a_case_that_joins_brings_its_study():
    def draw(seed, rows=4):
        return seed, rows

    (study,) = studies.found({"airfoil": draw})
    assert study.levels == {"N1 = 4": "airfoil", "N1 = 8": "airfoil_n8", "N1 = 16": "airfoil_n16"}
    assert {name: one(3) for name, one in study.draws.items()} == {"airfoil_n8": (3, 8), "airfoil_n16": (3, 16)}


# ---- several processes --------------------------------------------------------------------------------------------


def test_every_row_is_measured_once_and_told_with_what_is_left(stand_in, tmp_path):
    todo = planned(["small"], ["SOGP", "IMC"], 6, None, print)
    told = []
    pool.run(todo, tmp_path / "rows.csv", 3, lambda row, done, total, left: told.append((done, total, left)))
    assert sorted(keys(tmp_path / "rows.csv")) == sorted(
        ("small", model, str(seed), "") for model in ("SOGP", "IMC") for seed in range(6)
    )
    assert len(StandIn.made) == 3 and all(one.asked and one.ended for one in StandIn.made)
    assert [done for done, _, _ in told] == list(range(1, 13)) and told[-1][1:] == (12, 0.0)
    assert all(0.0 < left < 1.0 for _, _, left in told[:-1])


def test_a_fault_ends_the_run_and_keeps_the_rows_before(stand_in, monkeypatch, tmp_path):
    def measure(self, wanted):
        if wanted["seed"] == 2:
            raise WorkerError("benchmark: it broke.")
        return StandIn.measure(self, wanted)

    class Broken(StandIn):
        pass

    Broken.measure = measure
    monkeypatch.setattr(pool, "Process", Broken)
    with pytest.raises(WorkerError, match="it broke"):
        pool.run(planned(["small"], ["SOGP"], 5, None, print), tmp_path / "rows.csv", 1, lambda *_: None)
    assert [row["seed"] for row in read(tmp_path / "rows.csv")] == ["0", "1"]
    assert all(one.ended for one in StandIn.made)


def test_the_time_left_is_that_of_like_rows():
    def row(case, model, seconds=""):
        return {"case": case, "model": model, "seed": 0, "seconds": seconds}

    pace = Pace([row("a", "x", "1"), row("a", "x", "3"), row("a", "x", "20"), row("b", "x", "7"), row("b", "y")])
    assert pace.left([row("a", "x"), row("b", "x")], 1) == pytest.approx(3 + 7)
    assert pace.left([row("a", "x"), row("b", "x")], 4) == pytest.approx((3 + 7) / 2)
    assert pace.left([row("c", "z")] * 2, 1) == pytest.approx(2 * (3 + 7) / 2)
    pace.add(row("a", "x"), 30.0)
    assert pace.left([row("a", "x")], 1) == pytest.approx((3 + 20) / 2)
    assert (pace.left([], 2), Pace([]).left([row("a", "x")], 1)) == (0.0, None)


def test_a_worker_that_is_killed_leaves_a_failed_row_and_another_takes_over(monkeypatch):
    script = "import os, sys\nfor line in sys.stdin:\n    os.kill(os.getpid(), 9)"
    wanted = {"case": "small", "model": "SOGP", "seed": 4, "iterations": 3}
    worker, real = Process(), subprocess.Popen
    monkeypatch.setattr(pool.subprocess, "Popen", lambda command, **more: real([sys.executable, "-c", script], **more))
    row = worker.measure(wanted)
    assert (row["smse"], row["seed"], row["note"]) == ("", 4, "failed: the process ended with signal 9")
    answer = "import sys\nfor line in sys.stdin:\n    print(line, end='', flush=True)"
    monkeypatch.setattr(pool.subprocess, "Popen", lambda command, **more: real([sys.executable, "-c", answer], **more))
    assert worker.measure({**wanted, "iterations": ""}) == {**wanted, "iterations": None}
    worker.end()


def test_a_fault_in_a_worker_is_told_with_the_row(monkeypatch):
    real = subprocess.Popen
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    monkeypatch.setattr(pool.subprocess, "Popen", lambda _, **more: real(command, **more))
    with pytest.raises(WorkerError, match="case small, model SOGP, seed 4: the worker ended with code 3"):
        Process().measure({"case": "small", "model": "SOGP", "seed": 4, "iterations": ""})


def test_botorchs_environment_is_made_once_before_the_workers_start(stand_in, monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr(runner.environment, "ensure", lambda peer: made.append((peer, len(StandIn.made))))
    todo = planned(["small"], ["SOGP"], 2, None, print)
    runner.run(todo, tmp_path / "rows.csv", 2, lambda *_: None)
    assert made == []
    before = len(StandIn.made)
    runner.run([{**row, "model": "BoTorch imputation"} for row in todo], tmp_path / "rows.csv", 2, lambda *_: None)
    assert made == [("torch", before)] and len(StandIn.made) == before + 2

    def fails(peer):
        raise subprocess.CalledProcessError(3, ["pip"])

    monkeypatch.setattr(runner.environment, "ensure", fails)
    with pytest.raises(WorkerError, match=r"BoTorch's environment could not be made: pip ended with code 3.*--models"):
        runner.run([{**todo[0], "model": "BoTorch imputation"}], tmp_path / "rows.csv", 2, lambda *_: None)


# ---- the command --------------------------------------------------------------------------------------------------


def test_rows_that_are_there_are_kept_replaced_or_refused(stand_in, command, tmp_path):
    out = tmp_path / "there" / "rows.csv"
    options = ("rows", "--cases", "small", "--models", "SOGP,IMC", "--out", out)
    code, said, progress = command(*options, "--repeats", 1)
    assert (code, said) == (0, f"Rows: {out}\n") and "2 rows wanted, 0 are there" in progress
    assert "[1/2" in progress and "small, SOGP, seed 0: SMSE 1.0" in progress
    before = out.read_bytes()
    code, _, said = command(*options, "--repeats", 2)
    assert code == 2 and said.count("\n") == 1
    assert f"aligngp: {out} has rows already. Pass --resume to keep them" in said and out.read_bytes() == before
    assert command(*options, "--repeats", 2, "--resume", "--quiet") == (0, "", "")
    assert out.read_bytes().startswith(before)
    assert [key[1:3] for key in keys(out)] == [("SOGP", "0"), ("IMC", "0"), ("SOGP", "1"), ("IMC", "1")]
    assert command(*options, "--repeats", 1, "--force")[0] == 0
    assert [key[1:3] for key in keys(out)] == [("SOGP", "0"), ("IMC", "0")]


@pytest.mark.parametrize(
    "options, said",
    [
        (("--cases", "nosy"), r"--cases: there is no 'nosy' \(did you mean 'noisy'\?\)"),
        (("--models", "HSVLM"), r"--models: there is no 'HSVLM' \(did you mean 'HSVLMC'\?\)"),
        (("--out", "."), r"\.: this is a folder, expected a CSV file"),
        (
            ("tables", "--out", "no.csv"),
            r"no\.csv: there is no such file\. Measure rows first: aligngp benchmark rows --out",
        ),
        (("figures", "--out", "no.csv"), r"no\.csv: there is no such file"),
    ],
)
def test_errors_are_one_line(command, options, said):
    code, out, err = command(*options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("aligngp: ")
    assert re.search(said, err)


def test_on_a_terminal_a_bar_stands_below_the_rows(monkeypatch, capsys):
    module = importlib.import_module("aligngp.cli.benchmark")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    row = {"case": "park", "model": "HSVLMC", "smse": "0.25", "smll": "-1", "seconds": "3", "note": ""}
    with module._progress(False) as tell:
        tell({**row, "seed": 0}, 1, 4, 200.0)
        tell({**row, "seed": 1, "smse": "", "note": "failed: " + "x" * 80}, 2, 4, None)
    first, second, last = capsys.readouterr().err.split("\n")
    assert first == "\r\033[Kpark, HSVLMC, seed 0: SMSE 0.25, SMLL -1, 3 s"
    assert second.startswith(f"{'━' * 5}{' ' * 15} 1/4, 3 min left\r\033[Kpark, HSVLMC, seed 1: failed: xxx")
    assert len(second.partition("\033[K")[2]) == 59
    assert last == f"{'━' * 10}{' ' * 10} 2/4\r\033[K"


def test_numbers_are_checked(command):
    assert command("--repeats", 0)[0] == 2
    assert command("--jobs", 0)[0] == 2


def test_without_the_repository_it_says_what_to_do(command, monkeypatch):
    module = importlib.import_module("aligngp.cli.benchmark")
    monkeypatch.setattr(module, "__file__", "/lib/site-packages/aligngp/cli/benchmark.py")
    code, _, said = command("--cases", "noisy")
    assert code == 2 and "clone the repository, and call the command in the clone" in said and said.count("\n") == 1
    monkeypatch.chdir(ROOT)
    assert "there is no 'nosy'" in command("--cases", "nosy")[2]


# ---- a real kill --------------------------------------------------------------------------------------------------


def test_killed_and_restarted_it_goes_on(tmp_path):
    out = tmp_path / "rows.csv"
    models = ("SOGP", "exact GP", "HSVLMC-g0")
    command = [
        sys.executable,
        "-m",
        "aligngp.cli",
        "benchmark",
        "rows",
        "--cases",
        "noisy",
        "--repeats",
        "4",
        "--jobs",
        "2",
    ]
    command += ["--models", ",".join(models), "--iterations", "2", "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    started = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    end = time.monotonic() + 240
    while not (out.exists() and len(read(out)) >= 2):
        assert started.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    started.send_signal(signal.SIGKILL)
    started.wait()
    there = out.read_bytes()
    assert there.endswith(b"\r\n") and 2 <= len(keys(out)) < 12
    with out.open("ab") as file:
        file.write(b"noisy,SOGP,3,2,0.5")  # half a row, as of a machine that stopped
    done = subprocess.run(
        [*command, "--resume"], env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    kept = len(there.splitlines()) - 1
    assert f"12 rows wanted, {kept} are there" in done.stderr
    assert out.read_bytes().startswith(there)
    assert sorted(keys(out)) == sorted(("noisy", model, str(seed), "2") for model in models for seed in range(4))
    assert all(np.isfinite(float(row["smse"])) and row["seconds"] and row["aligngp"] for row in read(out))
    assert {row["steps"] for row in read(out)} == {"2", ""}  # exact GPs make no Adam steps


def test_a_worker_ends_with_its_parent():
    command = [sys.executable, "-m", "benchmarks.worker"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    worker = subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)
    asked = {"case": "noisy", "model": "SOGP", "seed": 1, "iterations": 2}
    answer, _ = worker.communicate(json.dumps(asked) + "\n", timeout=240)
    (line,) = answer.splitlines()
    expected = accuracy.measure(accuracy.Worker(), **asked)
    assert {key: json.loads(line)[key] for key in ("smse", "smll", *KEYS)} == {
        key: expected[key] for key in ("smse", "smll", *KEYS)
    }
    assert worker.returncode == 0


# ---- rows ---------------------------------------------------------------------------------------------------------


def test_new_columns_join_a_file_and_lost_ones_are_refused(tmp_path):
    path = tmp_path / "rows.csv"
    rows.append(path, {"a": 1, "note": "x, y"})
    rows.append(path, {"a": 2, "note": "", "steps": 5})
    rows.append(path, {"steps": 6, "note": "", "a": 3})
    assert read(path) == [
        {"a": "1", "note": "x, y", "steps": ""},
        {"a": "2", "note": "", "steps": "5"},
        {"a": "3", "note": "", "steps": "6"},
    ]
    with pytest.raises(ValueError, match=r"has columns \['note', 'steps'\] that the new row lacks"):
        rows.append(path, {"a": 4})
