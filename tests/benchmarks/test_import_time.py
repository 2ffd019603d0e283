"""The import time benchmark: what a new process says, medians without the first round, the limit."""

import sys

import pytest

from benchmarks import import_time, rows


def test_a_new_process_measures_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "slow.py").write_text(
        "import time\n__version__ = '3.1'\nend = time.process_time() + 0.2\n"
        "while time.process_time() < end: pass\ntime.sleep(0.1)\n"
    )
    found = import_time.timed(sys.executable, "slow")
    assert found["version"] == "3.1"
    assert 0.2 <= float(found["processor_seconds"]) < float(found["seconds"]) - 0.05
    assert int(found["modules"]) > 20
    assert float(found["memory_mib"]) > 3
    (tmp_path / "broken.py").write_text("raise OSError('no luck')")
    with pytest.raises(RuntimeError, match=r"(?s)import broken ended with code 1: .*no luck"):
        import_time.timed(sys.executable, "broken")


def measured(monkeypatch, out, seconds, *arguments):
    """Run the benchmark with processes that say those seconds of aligngp, one after the other, and half of others."""
    left = list(seconds)
    monkeypatch.setattr(import_time.environment, "is_current", lambda peer: peer == "torch")

    def timed(python, module):
        used = left.pop(0) if module == "aligngp" else 0.5
        return {
            **{"version": "1.0", "processor_seconds": str(used), "seconds": str(2 * used)},
            **{"modules": "10", "memory_mib": "20", "load": "0.5"},
        }

    monkeypatch.setattr(import_time, "timed", timed)
    monkeypatch.setattr(sys, "argv", ["import_time", "--out", str(out), *arguments])
    monkeypatch.setattr(import_time.os, "sched_setaffinity", lambda *_: None, raising=False)
    import_time.main()
    assert not left


def test_medians_leave_the_first_round_out_and_rounds_are_resumed(tmp_path, monkeypatch, capsys):
    out = tmp_path / "import_time.csv"
    measured(monkeypatch, out, [9.0, 1.0], "--rounds", "2")
    measured(monkeypatch, out, [1.2, 1.4], "--rounds", "4")
    found = rows.read(out)
    assert [row["processor_seconds"] for row in found if row["module"] == "aligngp"] == ["9.0", "1.0", "1.2", "1.4"]
    assert {row["module"] for row in found} == {"numpy", "jax", "aligngp", "botorch"}
    assert "gpflow: its environment is not there" in capsys.readouterr().out
    assert "| aligngp | 1.0 | 3 | 1.20 | 10 | 20 |" in out.with_suffix(".md").read_text()


def test_an_import_that_takes_too_long_fails(tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match=r"importing aligngp takes more than 1\.5 s"):
        measured(monkeypatch, tmp_path / "a.csv", [1.0, 1.6], "--rounds", "2")
    assert (tmp_path / "a.md").exists()
