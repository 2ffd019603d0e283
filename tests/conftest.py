"""Shared by all tests: double precision, no plots on a screen."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")

import jax

jax.config.update("jax_enable_x64", True)
