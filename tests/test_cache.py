"""Compiled functions on disk: where, when, and that a second process finds them."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aligngp import cache
from aligngp.runtime import computing

SCRIPT = """
import jax, jax.numpy as jnp
from jax import monitoring
from aligngp.runtime import computing
events = []
monitoring.register_event_listener(lambda name, **more: events.append(name.split("/")[-1]))
def own(x):
    return jnp.tanh(x) @ x.T
with computing():
    value = float(jax.jit(own)(jnp.full((3, 4), 0.5)).sum())
inside = events.count("cache_hits"), events.count("cache_misses")
jax.jit(lambda x: jnp.cos(x) * 3.0)(jnp.ones(7)).block_until_ready()
outside = events.count("cache_hits") + events.count("cache_misses") - sum(inside)
print(*inside, outside, value, jax.config.jax_compilation_cache_dir)
"""


def run(**variables: str) -> tuple[list[str], str]:
    """The words that a new process prints, and what it says on standard error."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ALIGNGP_", "JAX_"))}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


@pytest.fixture
def closed(monkeypatch):
    """No cache of anybody's, and none of ours yet."""
    for name in ("ALIGNGP_CACHE", "ALIGNGP_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert jax.config.jax_compilation_cache_dir is None
    return monkeypatch


def test_a_second_process_compiles_nothing_anew(tmp_path):
    (hits, misses, outside, first, given), _ = run(ALIGNGP_CACHE_DIR=str(tmp_path))
    assert (hits, outside, given) == ("0", "0", "None") and int(misses) >= 2
    (kept,) = tmp_path.iterdir()
    entries = sorted(file.name for file in kept.iterdir())
    assert len([name for name in entries if name.startswith("jit_own")]) == 1
    (hits, again, outside, second, given), said = run(ALIGNGP_CACHE_DIR=str(tmp_path))
    assert (hits, again, outside, given) == (misses, "0", "0", "None")
    assert first == second and said == ""
    assert sorted(file.name for file in kept.iterdir()) == entries


def test_it_can_be_switched_off(tmp_path):
    words, _ = run(ALIGNGP_CACHE_DIR=str(tmp_path), ALIGNGP_CACHE="off")
    assert words[:3] == ["0", "0", "0"]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_the_callers_own_is_used_instead(tmp_path):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    words, _ = run(ALIGNGP_CACHE_DIR=str(ours), JAX_COMPILATION_CACHE_DIR=str(theirs))
    assert words[4] == str(theirs) and not ours.exists()


def test_a_broken_entry_is_compiled_anew(tmp_path):
    expected, _ = run(ALIGNGP_CACHE_DIR=str(tmp_path))
    for file in next(tmp_path.iterdir()).iterdir():
        file.write_bytes(file.read_bytes()[:20])  # as one that another process is writing
    words, _ = run(ALIGNGP_CACHE_DIR=str(tmp_path))
    assert words[0] == "0" and words[3] == expected[3]


@pytest.mark.parametrize("obstacle", ["a file", "refused"])
def test_a_folder_that_cannot_be_written_is_harmless(closed, tmp_path, obstacle):
    if obstacle == "a file":
        (tmp_path / "file").write_text("")
        closed.setenv("ALIGNGP_CACHE_DIR", str(tmp_path / "file"))
    else:
        closed.setenv("ALIGNGP_CACHE_DIR", str(tmp_path))

        def refuse(**given):
            raise PermissionError("read-only")

        closed.setattr(cache.tempfile, "TemporaryFile", refuse)
    with computing():
        assert jax.config.jax_compilation_cache_dir is None
        np.testing.assert_allclose(jax.jit(lambda x: 2.0 * x)(jnp.ones(2)), 2.0)


def test_it_is_entered_and_left_with_the_scope(closed, tmp_path):
    closed.setenv("ALIGNGP_CACHE_DIR", str(tmp_path))
    before = jax.config.jax_persistent_cache_min_compile_time_secs
    with computing():
        with computing():
            pass
        assert Path(jax.config.jax_compilation_cache_dir).parent == tmp_path
        assert jax.config.jax_persistent_cache_min_compile_time_secs == 0.0
    assert jax.config.jax_compilation_cache_dir is None
    assert jax.config.jax_persistent_cache_min_compile_time_secs == before


def test_where_it_stands():
    assert cache.folder({"ALIGNGP_CACHE": "off"}) is None
    assert cache.folder({"ALIGNGP_CACHE": "OFF", "ALIGNGP_CACHE_DIR": "x"}) is None
    named = cache.folder({"ALIGNGP_CACHE_DIR": "elsewhere"})
    assert named is not None and named.parent == Path("elsewhere") and jax.__version__ in named.name
    if sys.platform == "linux":
        assert cache.folder({"XDG_CACHE_HOME": "base"}).parent == Path("base/aligngp")
        assert cache.folder({}).parent == Path.home() / ".cache" / "aligngp"


def test_the_oldest_goes_when_it_grows_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "_MOST_BYTES", 100)
    for age, name in enumerate("abcde"):
        (tmp_path / name).write_bytes(bytes(25))
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    assert cache._usable(tmp_path) == tmp_path
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b"]
    assert cache._usable(tmp_path) == tmp_path
    assert len(list(tmp_path.iterdir())) == 2
