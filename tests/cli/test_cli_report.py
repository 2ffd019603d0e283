"""``aligngp report``: the page of a run with its training rows, and what it says where they are not to be had."""

import re

import pytest

import aligngp as agp
from aligngp import report
from aligngp.data.files import read_table


def body(path) -> str:
    """A page without plotly.js and without what differs between two moments."""
    text = re.sub(r"<script>.*?</script>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"written \d{4}[^<]*", "", text)


def test_the_page_is_what_python_writes_after_the_fit(run, started):
    done = run("report", "job-run")
    assert (done.code, done.out) == (0, "Report: report.html\n")
    tasks = {name: read_table(f"{name}.csv") for name in ("fine", "coarse")}
    gp = agp.AlignedGP("coarse", seed=0, progress=False).fit(tasks, output="zeta")
    own = report.write(gp, started / "own.html", test={"fine": read_table("fine_test.csv")})
    assert body(started / "report.html") == body(own)
    assert "20 test" in body(own)
    assert "left out" in body(own)


def test_a_common_task_that_was_found_is_no_change(run, started):
    text = (started / "job.toml").read_text()
    (started / "job.toml").write_text(re.sub(r"^common.*\n", "", text, flags=re.MULTILINE))
    assert run("fit", "job.toml", "--out", "found", "--quiet").code == 0
    assert run("report", "found", "--no-transfer", "--out", "a.html").out == "Report: a.html\n"
    assert "holds no training rows" not in body(started / "a.html")


@pytest.mark.parametrize("change", ["another value", "gone", "a damaged job", "a model file"])
def test_without_the_rows_of_the_fit_it_says_so(run, started, change):
    model, told = "job-run", "job-run: its data files or its job.toml are not those of the fit"
    if change == "another value":
        (started / "fine.csv").write_text((started / "fine.csv").read_text().replace("12.68", "12.69"))
    elif change == "gone":
        (started / "coarse.csv").unlink()
        told = "job-run: the training rows cannot be read again: job-run/job.toml:8: tasks.coarse.file: job-run/.."
        told += "/coarse.csv: there is no such file"
    elif change == "a damaged job":
        (started / "job-run" / "job.toml").write_text("[")
        told = "job-run: the training rows cannot be read again: job-run/job.toml:1:2: not TOML"
    else:
        model, told = "job-run/model.agp", "job-run/model.agp: a model file holds no training rows"
    done = run("report", model, "--out", "a.html")
    first, second = done.out.splitlines()
    assert (done.code, second) == (0, "Report: a.html")
    assert first.startswith(told)
    assert "Left out are the scores of left-out rows" in body(started / "a.html")
    assert run("report", model, "--out", "a.html", "--force", "--quiet").out == ""


def test_a_page_is_not_replaced_unless_forced(run, started):
    (started / "report.html").write_text("mine")
    done = run("report", "job-run")
    assert (done.code, done.err) == (
        2,
        "aligngp: report.html is there already. Pass --force to replace it, or another --out.\n",
    )
    assert (started / "report.html").read_text() == "mine"
    assert run("report", "job-run", "--out", "no/report.html").code == 1
    assert (
        run("report", "nowhere", "--out", "a.html").err
        == "aligngp: nowhere: there is no such file. Expected one that gp.save(...) wrote.\n"
    )
