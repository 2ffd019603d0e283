"""``aligngp demo``: what it prints and writes, and what it leaves alone."""

import re
import sys

import pytest

import aligngp as agp
from aligngp.cli.demo import FIGURE, REPORT

MODELS = ("SOGP (one task alone)", "HSVLMC-g0", "HSVLMC", "aligngp's default")


def test_scores_a_figure_and_a_report(run, tmp_path):
    done = run("demo", "--iterations", "3", "--out", "deep/er")
    assert done.code == 0
    for model in MODELS:
        assert f"fitting {model} ..." in done.out
    assert f"Figure: deep/er/{FIGURE}\nReport: deep/er/{REPORT}\n" in done.out
    assert (tmp_path / "deep/er" / FIGURE).read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "deep/er" / REPORT).read_text(encoding="utf-8")
    assert "Model of high, low" in page
    assert "1000 test" in page
    case = agp.datasets.park(seed=0)
    tasks = {name: agp.Task(*case.tasks[name], names=case.names[name]) for name in case.tasks}
    score = agp.AlignedGP(case.common, mappings=case.mappings).fit(tasks).score("high", case.test["high"])
    row = re.search(r"│ aligngp's default\s+│ (.*?) │", done.out)
    assert row is not None
    assert row[1].strip() == f"{score['smse']:.3f}"


@pytest.mark.parametrize("name", [FIGURE, REPORT])
def test_what_is_there_is_replaced_only_if_forced(run, tmp_path, name):
    (tmp_path / name).write_text("mine")
    done = run("demo", "--out", ".")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"aligngp: {name} is there already. Pass --force to replace it, or another --out.\n"
    assert (tmp_path / name).read_text() == "mine"
    assert run("demo", "--out", ".", "--iterations", "1", "--force", "--quiet").code == 0
    assert (tmp_path / name).stat().st_size > 10_000


def test_without_the_extras_it_says_what_to_install(run, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] in ("matplotlib", "plotly")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "plotly", None)
    done = run("demo", "--iterations", "1", "--quiet")
    assert done.code == 0
    assert (
        'No figure: figures need matplotlib, which is not installed. Install it: pip install "aligngp[plot]".'
        in done.out
    )
    assert (
        'No report: the report needs plotly, which is not installed. Install it: pip install "aligngp[report]".'
        in done.out
    )
    assert list((tmp_path / "demo").iterdir()) == []
