"""Shared by all tests: double precision, no plots on a screen, compiled functions let go after every module."""

import gc
import os
import signal

os.environ.setdefault("MPLBACKEND", "Agg")

import jax
import pytest

jax.config.update("jax_enable_x64", True)
# A run that was started in the background ignores Ctrl-C, and Python then leaves it at that; tests raise it themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def _let_go():
    """A compiled function holds several memory maps; a process may have 65530 and ends in a crash beyond them."""
    yield
    jax.clear_caches()
    gc.collect()
