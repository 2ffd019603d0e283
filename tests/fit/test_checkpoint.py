"""States of a training on disk: what comes back is what would have been, whatever happened to the newest."""

import os
import resource
import subprocess
from contextlib import contextmanager
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import aligngp as agp
from aligngp.fit import checkpoint as module
from aligngp.fit.adam import train
from aligngp.fit.checkpoint import Checkpoint, Checkpoints, identity
from aligngp.fit.natural import NaturalSettings, train_natural
from streams import table, write
from training import KEY, QUICK, assert_same, case

PROBLEM = case()
TREE = {"a": jnp.arange(6.0).reshape(2, 3), "b": (jnp.int32(7), jnp.zeros((0, 2)))}
IDENTITY = identity({"seed": 0}, TREE)


class Killed(BaseException):
    """What no code catches."""


def natural(checkpoints=None, progress=None):
    settings = NaturalSettings(iterations=200, learning_rate=1e-2, window=1000)
    return train_natural(PROBLEM.start("none"), PROBLEM.data(None, 4), KEY, 3, settings, progress, checkpoints)[:2]


def adam(checkpoints=None, progress=None):
    return train(PROBLEM.start("none"), PROBLEM.data(None, 4), KEY, 3, QUICK_200, progress, checkpoints)


QUICK_200 = replace(QUICK, iterations=200)


def kept(folder, resume=False, every=0.0):
    return Checkpoints(Checkpoint(folder, every, resume), IDENTITY)


def killed_at(step):
    def progress(done, total, objective):
        if done >= step:
            raise Killed

    return progress


def files(folder):
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("training", [natural, adam])
def test_a_training_goes_on_to_the_very_result(tmp_path, training):
    model, history = training()
    with pytest.raises(Killed):
        training(kept(tmp_path), killed_at(150))
    assert len(files(tmp_path)) == 2 and all(name.endswith(".checkpoint") for name in files(tmp_path))
    steps = []
    again, resumed = training(kept(tmp_path, True), lambda done, total, objective: steps.append(done))
    assert 50 < steps[0] <= 200
    assert_same(again, model)
    np.testing.assert_array_equal(resumed.objective, history.objective)
    assert np.all(np.diff(resumed.seconds) > 0)


def test_a_damaged_newest_falls_back_and_says_so(tmp_path):
    model, _ = natural()
    with pytest.raises(Killed):
        natural(kept(tmp_path), killed_at(150))
    old, new = (tmp_path / name for name in files(tmp_path))
    content = bytearray(new.read_bytes())
    content[-20] ^= 1
    new.write_bytes(bytes(content))
    words = rf"{new.name}: this checkpoint cannot be read \(wrong checksum\); the one before it, {old.name}, is used"
    with pytest.warns(agp.AligngpWarning, match=words):
        assert_same(natural(kept(tmp_path, True))[0], model)


@pytest.mark.parametrize("content", [b"", b"half", None])
def test_what_is_half_written_is_not_taken_for_a_state(tmp_path, content):
    one = kept(tmp_path)
    one.write(10, TREE, [np.arange(3.0)], {"drops": 1})
    one.write(20, TREE, [np.arange(4.0)], {"drops": 2})
    newest = tmp_path / files(tmp_path)[-1]
    newest.write_bytes(newest.read_bytes()[:-7] if content is None else content)
    with pytest.warns(agp.AligngpWarning, match="cannot be read .*the one before it"):
        _, (records,), facts = kept(tmp_path, True).load(TREE)
    assert facts["drops"] == 1
    np.testing.assert_array_equal(records, np.arange(3.0))
    for name in files(tmp_path):
        (tmp_path / name).write_bytes(b"")
    again = kept(tmp_path, True)
    assert not again.usable()
    with pytest.warns(agp.AligngpWarning) as told:
        assert again.load(TREE) is None
    assert "there is no other, so training begins anew" in str(told[-1].message)


def test_what_goes_in_comes_out(tmp_path):
    one = kept(tmp_path)
    for step in (10, 20, 30):
        one.write(step, TREE, [], {"best_value": -1.5})
    assert files(tmp_path) == ["step-000000000020.checkpoint", "step-000000000030.checkpoint"]
    assert kept(tmp_path, True).usable()
    tree, records, facts = kept(tmp_path, True).load(TREE)
    assert records == [] and facts["best_value"] == -1.5
    np.testing.assert_array_equal(tree["a"], TREE["a"])
    assert tree["b"][0].dtype == np.int32 and tree["b"][1].shape == (0, 2)


def test_states_of_another_fit_are_refused(tmp_path):
    kept(tmp_path).write(10, TREE, [], {})
    other = identity({"seed": 1}, TREE)
    with pytest.raises(agp.SettingError, match="this checkpoint is of another fit: its settings differ"):
        Checkpoints(Checkpoint(tmp_path, 0.0, True), other).load(TREE)
    moved = identity({"seed": 0}, {**TREE, "a": TREE["a"] + 1.0})
    with pytest.raises(agp.SettingError, match="its data differ"):
        Checkpoints(Checkpoint(tmp_path, 0.0, True), moved).usable()
    with pytest.raises(agp.SettingError, match=r"holds checkpoints already\. Pass resume=True"):
        kept(tmp_path)


def test_it_is_due_by_the_clock(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    one = kept(tmp_path, every=60.0)
    now[0] = 159.0
    assert not one.due()
    now[0] = 160.0
    assert one.due()
    one.write(1, TREE, [], {})
    assert not one.due()


def test_what_a_killed_writer_left_is_removed(tmp_path):
    left = tmp_path / ".step-000000000010.checkpoint.0123"
    left.write_bytes(b"half")
    (tmp_path / "other").write_text("not ours")
    kept(tmp_path)
    assert files(tmp_path) == ["other"]


def test_a_folder_that_cannot_be_written_to_is_told_before_anything_starts(tmp_path):
    (tmp_path / "file").write_text("")
    words = r"checkpoints cannot be written there \(Not a directory\)\. Nothing was started"
    with pytest.raises(agp.SettingError, match=words):
        kept(tmp_path / "file" / "inside")


@contextmanager
def no_file_larger_than(size):
    """What a full disk is to a writer: an error in the middle of a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_told_once_and_costs_nothing(tmp_path):
    one = kept(tmp_path)
    one.write(10, TREE, [], {})
    with no_file_larger_than(100):
        with pytest.warns(agp.AligngpWarning, match=r"no checkpoint could be written at step 20 \(File too large\)"):
            one.write(20, TREE, [], {})
        one.write(30, TREE, [], {})  # says nothing more: warnings are errors here
    assert files(tmp_path) == ["step-000000000010.checkpoint"]
    one.write(40, TREE, [], {})
    assert files(tmp_path)[-1] == "step-000000000040.checkpoint"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 kB, where one may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True).returncode:
        pytest.skip("no file system may be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_small_disk_fills_up_and_is_read_only(small_disk):
    one, large = kept(small_disk), {"a": jnp.zeros(5000)}
    one.write(10, TREE, [], {})
    with pytest.warns(agp.AligngpWarning, match=r"step 20 \(No space left on device\).*Make room"):
        one.write(20, large, [np.zeros(5000)], {})
    assert files(small_disk) == ["step-000000000010.checkpoint"]
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.warns(agp.AligngpWarning, match=r"Read-only file system"):
        one.write(30, TREE, [], {})
    with pytest.raises(agp.SettingError, match=r"cannot be written there \(Read-only file system\)"):
        kept(small_disk, True)
    assert files(small_disk) == ["step-000000000010.checkpoint"]


def test_a_streamed_fit_goes_on_to_the_very_predictions(tmp_path, monkeypatch):
    path = write(tmp_path / "coarse.parquet", table(2500, seed=1), 200)
    tasks = {"fine": table(30, seed=2, dimensions=3), "coarse": agp.Parquet(path, stream=True, shards=2)}
    keywords = {"calibration": "none", "num_inducing": 8, "max_iterations": 200, "batch_size": 32, "patience": 1000}

    def fitted(checkpoint=None):
        gp = agp.AlignedGP("coarse", progress=False, **keywords)
        return gp.fit(tasks, output="zeta", checkpoint=checkpoint)

    whole = fitted()
    writes = []
    write_state = Checkpoints.write

    def killed(self, step, *rest):
        write_state(self, step, *rest)
        writes.append(step)
        if len(writes) == 3:
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Checkpoints, "write", killed)
        fitted(Checkpoint(tmp_path / "states", 0.0))
    assert writes == [50, 100, 150]
    again = fitted(Checkpoint(tmp_path / "states", 0.0, resume=True))
    new = table(100, seed=7).select(["x1", "x2"])
    np.testing.assert_array_equal(again.predict("coarse", new).mean, whole.predict("coarse", new).mean)
    np.testing.assert_array_equal(again.predict("coarse", new).variance, whole.predict("coarse", new).variance)
    np.testing.assert_array_equal(again.history.objective, whole.history.objective)
    with pytest.raises(agp.SettingError, match="of another fit: its settings, data differ"):
        agp.AlignedGP("coarse", progress=False, seed=1, **keywords).fit(
            {**tasks, "fine": table(31, seed=2, dimensions=3)},
            output="zeta",
            checkpoint=Checkpoint(tmp_path / "states", 0.0, resume=True),
        )


def test_ctrl_c_leaves_a_state(tmp_path):
    def stop(done, total, objective):
        if done >= 100:
            raise KeyboardInterrupt

    with pytest.warns(agp.AligngpWarning, match="interrupted after 100 of 200"):
        natural(kept(tmp_path, every=1e9), stop)
    assert files(tmp_path) == ["step-000000000100.checkpoint"]
    assert_same(natural(kept(tmp_path, True))[0], natural()[0])
