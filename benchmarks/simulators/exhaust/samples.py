"""The exhaust's samples: fine rows with fourteen inputs, coarse ones with six, and the two studies behind the choices.

mesh         the nominal design on five meshes
sensitivity  elementary effects (Morris) of the fourteen inputs on the coarse mesh: they choose the six
fine         all fourteen inputs on the fine mesh
coarse       six inputs on the coarse mesh, the others at their nominal values
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.cases.files import OK
from benchmarks.simulators.exhaust.flow import DRIFT, FlowError, nominal_fields, simulate
from benchmarks.simulators.exhaust.geometry import INPUTS, LOWER, NOMINAL, UPPER
from benchmarks.simulators.exhaust.mesh import resolution
from benchmarks.simulators.sensitivity import problem
from benchmarks.simulators.table import Row, Simulator, as_rows, design

COARSE_LEVEL, FINE_LEVEL = 1.0, 1.75
LEVELS = (0.71, 1.0, 1.41, 1.75, 2.45)
COARSE_INPUTS = ("tip_r1", "tip_x2", "tip_r2", "tip_x4", "hub_r1", "hub_x4")
OUTPUTS = ("zeta", "iterations", "drift", "backflow", "yplus_min", "yplus_median", "yplus_max")
MESH_OUTPUTS = ("cells", *OUTPUTS)
TRAJECTORIES, MORRIS_LEVELS = 6, 4
SEEDS = {"fine": 20260701, "coarse": 20260702, "sensitivity": 20260703}


def vector(row: Row) -> np.ndarray:
    """Return the fourteen coordinates of a row; what it does not have is nominal."""
    return np.array([float(row.get(name, nominal)) for name, nominal in zip(INPUTS, NOMINAL, strict=True)])


def outcome(row: Row, level: float | None = None, fields: dict[str, str] | None = None) -> Row:
    """Return the outputs of a row on the mesh of a level, its own one by default; `fields` are where the run starts."""
    with TemporaryDirectory(prefix="exhaust-") as name:
        flow = simulate(Path(name), vector(row), resolution(float(row["level"]) if level is None else level), fields)
    small, middle, large = flow.yplus
    return {
        "zeta": flow.zeta,
        "cells": flow.cells,
        "iterations": flow.iterations,
        "drift": float(f"{flow.drift:.2g}"),
        "backflow": round(flow.backflow, 5) + 0.0,
        "yplus_min": round(small, 1),
        "yplus_median": round(middle, 1),
        "yplus_max": round(large, 1),
        "status": OK if flow.converged else f"zeta still moves by more than {DRIFT:g}",
    }


def from_nominal(level: float) -> Simulator:
    """Return the simulator of a level's mesh: its runs start from the nominal design's flow, computed here."""
    return partial(outcome, level=level, fields=nominal_fields(resolution(level)))


def fine_design(count: int) -> list[Row]:
    """Return the rows of the fine task."""
    return design(INPUTS, LOWER, UPPER, count, SEEDS["fine"])


def coarse_design(count: int) -> list[Row]:
    """Return the rows of the coarse task: its six inputs alone."""
    at = [INPUTS.index(name) for name in COARSE_INPUTS]
    return design(COARSE_INPUTS, LOWER[at], UPPER[at], count, SEEDS["coarse"])


def mesh_design(count: int) -> list[Row]:
    """Return the first levels of the mesh study."""
    return [{"row": number, "level": value} for number, value in enumerate(LEVELS[:count])]


def sensitivity_design(count: int) -> list[Row]:
    """Return Morris's trajectories: each of 15 rows, one input changed from row to row."""
    from SALib.sample import morris

    inputs = problem(INPUTS, LOWER, UPPER)
    return as_rows(INPUTS, morris.sample(inputs, count, num_levels=MORRIS_LEVELS, seed=SEEDS["sensitivity"]))


def effects(table: Sequence[Row]) -> list[tuple[str, float, float]]:
    """Return (input, mean absolute elementary effect, its spread) of the sensitivity study, the largest first.

    A trajectory with a failed run gives no effects and is left out whole.
    """
    from SALib.analyze import morris

    length = len(INPUTS) + 1
    kept = [
        table[first : first + length]
        for first in range(0, len(table) - length + 1, length)
        if all(row["status"] == OK for row in table[first : first + length])
    ]
    if not kept:
        raise FlowError("the sensitivity study has no trajectory without a failed run")
    rows = [row for trajectory in kept for row in trajectory]
    X = np.array([vector(row) for row in rows])
    y = np.array([float(row["zeta"]) for row in rows])
    found = morris.analyze(problem(INPUTS, LOWER, UPPER), X, y, num_levels=MORRIS_LEVELS, scaled=False, seed=0)
    order = np.argsort(found["mu_star"])[::-1]
    return [(INPUTS[i], float(found["mu_star"][i]), float(found["sigma"][i])) for i in order]


def effects_listing(table: Sequence[Row]) -> str:
    """Return the effects as lines of text."""
    return "\n".join(
        f"{name:8s} mean absolute effect {mean:.4f}, spread {spread:.4f}" for name, mean, spread in effects(table)
    )
