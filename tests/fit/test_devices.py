"""Several processes, or several devices of one, fit the model that one device fits."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import aligngp as agp
from aligngp.data import processes
from streams import table, write

SCRIPT = Path(__file__).with_name("distributed_fit.py")
TESTS = SCRIPT.parents[1]


def started(folder, number=1, process=0, port=0, devices="", flags=""):
    environment = {**os.environ, "XLA_FLAGS": flags, "OMP_NUM_THREADS": "1"}
    places = [str(TESTS.parent / "src"), str(TESTS), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(places)
    command = [sys.executable, str(SCRIPT), str(folder), str(number), str(process), str(port), devices]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(process):
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, err[-3000:]
    return json.loads(out.splitlines()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ten row groups, which two shards share."""
    place = tmp_path_factory.mktemp("rows")
    write(place / "coarse.parquet", table(1000, seed=1), 100)
    return place


@pytest.fixture(scope="module")
def alone(folder):
    """What one process with one device finds."""
    return said(started(folder))


def assert_same(found, expected):
    for name in ("mean", "variance", "objective"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-8, err_msg=name)


def test_two_processes_find_what_one_does_and_read_half_each(folder, alone):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    both = [said(one) for one in [started(folder, 2, process, port, "all") for process in (0, 1)]]
    assert [one["processes"] for one in both] == [2, 2]
    for one in both:
        assert_same(one, alone)
    assert both[0]["mean"] == both[1]["mean"]
    # The pass for scaling takes every other row group; training and the last pass take a shard of five.
    assert alone["groups"] == list(range(10))
    assert sorted({*both[0]["groups"], *both[1]["groups"]}) == list(range(10))


def test_two_devices_of_one_process_find_what_one_does(folder, alone):
    found = said(started(folder, devices="all", flags="--xla_force_host_platform_device_count=2"))
    assert (found["devices"], found["processes"]) == (2, 1)
    assert_same(found, alone)


def test_processes_that_cannot_find_each_other_say_so(monkeypatch):
    def fail(**arguments):
        raise ValueError("coordinator_address should be defined.")

    monkeypatch.setattr(processes.jax.distributed, "initialize", fail)
    monkeypatch.setattr(processes.jax.config, "update", lambda *arguments: None)
    with pytest.raises(
        agp.SettingError, match=r"coordinator_address should be defined\)\. Start them by Slurm, MPI or"
    ):
        processes.start(None, None, None)


def test_what_devices_may_be_is_said():
    with pytest.raises(agp.SettingError, match="devices: expected 'all' or None, got 'gpu'"):
        agp.AlignedGP().fit({"a": table(5)}, output="zeta", devices="gpu")
