"""What all commands have in common, and the small ones."""

import json
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import aligngp as agp
from aligngp.cli import app
from aligngp.data.files import read_table
from aligngp.job import SCHEMA, read_job

COMMANDS = ("init", "fit", "predict", "report", "serve", "demo", "benchmark", "schema", "version")


def test_help_lists_the_commands():
    text = CliRunner().invoke(app, ["--help"]).output
    assert set(COMMANDS) <= set(re.findall(r"^\W*(\w+)", text, re.MULTILINE))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(command):
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"Example: aligngp {command}" in result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_be_quiet_and_debugged(command):
    text = CliRunner().invoke(app, [command, "--help"]).output
    assert "--quiet" in text
    assert "--debug" in text


def test_the_version(run):
    assert run("version").out == f"aligngp {agp.__version__}\n"
    assert run("version", "--quiet").out == f"{agp.__version__}\n"


def test_the_schema(run):
    assert json.loads(run("schema").out) == json.loads(SCHEMA.read_text(encoding="utf-8"))


@pytest.mark.parametrize("arguments", [["fit"], ["fit", "job.toml", "--nonsense"], ["nonsense"]])
def test_misuse_is_code_2(run, arguments):
    assert run(*arguments).code == 2


def test_errors_are_one_line_and_a_traceback_on_request(run):
    done = run("fit", "jop.toml")
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(r"aligngp: jop\.toml: there is no such file\. Name a job file.*\n", done.err)
    with pytest.raises(agp.SettingError, match="there is no such file"):
        run("fit", "jop.toml", "--debug")


def test_what_failed_is_code_1(run, tmp_path):
    (tmp_path / "job.toml").write_text('output = "y"\n[tasks]\nfine = "fine.csv"\n')
    done = run("fit", "job.toml")
    assert done.code == 1
    assert done.err.startswith("aligngp: job.toml:3: tasks.fine: fine.csv: there is no such file")
    assert [file.name for file in tmp_path.iterdir()] == ["job.toml"]


def test_it_is_a_module_and_completes_in_a_shell():
    command = [sys.executable, "-m", "aligngp.cli"]
    done = subprocess.run([*command, "version"], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == f"aligngp {agp.__version__}\n"
    result = CliRunner().invoke(
        app,
        [],
        prog_name="aligngp",
        env={"_ALIGNGP_COMPLETE": "complete_bash", "COMP_WORDS": "aligngp pre", "COMP_CWORD": "1"},
    )
    assert result.output.split() == ["predict"]


# ---- init ----------------------------------------------------------------------------------------------------------


def test_init_writes_a_job_that_can_be_read(run, tmp_path):
    done = run("init", "turbine")
    assert done.code == 0
    assert "Next:  aligngp fit turbine/job.toml" in done.out
    tasks, test = read_job(tmp_path / "turbine" / "job.toml").read()
    case = agp.datasets.park(num_test=20)
    assert (tasks["fine"].X.num_rows, tasks["coarse"].X.num_rows, test["fine"].X.num_rows) == (6, 100, 20)
    assert abs(tasks["fine"].X.column("zeta").to_numpy() - case.tasks["high"][1]).max() < 1e-6
    new = read_table(tmp_path / "turbine" / "new.csv")
    assert (new.column_names, new.num_rows) == (["x1", "x2", "x3", "x4"], 5)


def test_what_init_has_in_comments_can_be_read_too(run, tmp_path):
    run("init")
    text = (tmp_path / "job.toml").read_text()
    for line in re.findall(r"^# (fine = .*)$", text, re.MULTILINE):
        table = "tasks" if "file =" in line else "mappings"
        lines = [one for one in text.splitlines() if not one.startswith("fine =") or table != "tasks"]
        at = next(number for number, one in enumerate(lines) if one.startswith(f"[{table}]"))
        (tmp_path / "other.toml").write_text("\n".join([*lines[: at + 1], line, *lines[at + 1 :]]))
        job = read_job(tmp_path / "other.toml")
        assert job.tasks["fine"].noise == 0.1 if table == "tasks" else "fine" in job.mappings


def test_init_replaces_nothing_unless_forced(run, tmp_path):
    (tmp_path / "coarse.csv").write_text("mine")
    done = run("init")
    assert done.code == 2
    assert "coarse.csv is there already. Pass --force" in done.err
    assert [file.name for file in tmp_path.iterdir()] == ["coarse.csv"]
    assert run("init", "--force", "--quiet").out == ""
    assert (tmp_path / "coarse.csv").read_text().startswith("x3,x4,zeta\n")


def test_what_comes_next_can_be_pasted_into_a_shell(run):
    assert "Next:  aligngp fit 'my turbine/job.toml'\n" in run("init", "my turbine").out
