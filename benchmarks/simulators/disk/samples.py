"""The disk: six lengths of its section, the largest displacement on a fine quadratic and on a coarse linear mesh.

The section, from the bore rb outward: a hub of thickness th up to rh, a web of thickness tw up to rw, a rim of
thickness tr up to the outer radius. The thickness changes linearly over SLOPE, inside the hub and inside the rim.
"""

import numpy as np

from benchmarks.simulators.disk.elements import largest, section
from benchmarks.simulators.table import Row, SimulationError

OUTER, SLOPE = 0.25, 0.015
BOUNDS = {
    # m
    "rb": (0.03, 0.06),
    "rh": (0.08, 0.11),
    "rw": (0.19, 0.22),
    "th": (0.04, 0.08),
    "tw": (0.008, 0.02),
    "tr": (0.03, 0.06),
}
INPUTS = tuple(BOUNDS)
LOWER, UPPER = np.array(list(BOUNDS.values())).T
NOMINAL = 0.5 * (LOWER + UPPER)
LOW_INPUTS = ("rw", "tw", "tr")
HIGH_MESH, LOW_MESH = (96, 8), (12, 1)
SEEDS = {"high": 20260711, "low": 20260712, "sensitivity": 20260713}
OUTPUTS = ("displacement",)


def profile(design: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the radii (6,) at which the section's outline bends, and half the thickness there (6,)."""
    rb, rh, rw, th, tw, tr = design
    radii = np.array([rb, rh - SLOPE, rh, rw, rw + SLOPE, OUTER])
    if np.any(np.diff(radii) <= 0):
        raise SimulationError(f"the radii of the section do not grow: {radii}")
    return radii, 0.5 * np.array([th, th, tw, tw, tr, tr])


def columns(radii: np.ndarray, cells: int) -> np.ndarray:
    """Return cells + 1 radii that contain the given ones: cells are shared out by length, at least one a piece."""
    length = np.diff(radii)
    share = np.maximum(1, np.floor(length / length.sum() * cells).astype(int))
    while share.sum() < cells:
        share[np.argmax(length / share)] += 1
    while share.sum() > cells:
        share[np.argmin(np.where(share > 1, length / share, np.inf))] -= 1
    pieces = [np.linspace(a, b, n, endpoint=False) for a, b, n in zip(radii[:-1], radii[1:], share, strict=True)]
    return np.append(np.concatenate(pieces), radii[-1])


def displacement(design: np.ndarray, cells: tuple[int, int], quadratic: bool) -> float:
    """Return the largest displacement of a design on a mesh of (radial, axial) cells, mm."""
    radii, half = profile(design)
    r = columns(radii, cells[0])
    return 1e3 * largest(section(r, np.interp(r, radii, half), cells[1]), quadratic)


def vector(row: Row) -> np.ndarray:
    """Return the six lengths of a row; what it does not have is nominal."""
    return np.array([float(row.get(name, nominal)) for name, nominal in zip(INPUTS, NOMINAL, strict=True)])


def high(row: Row) -> Row:
    """Return the high fidelity of a row: quadratic elements, 96 x 8."""
    return {"displacement": displacement(vector(row), HIGH_MESH, quadratic=True)}


def low(row: Row) -> Row:
    """Return the low fidelity of a row: linear elements, 12 x 1."""
    return {"displacement": displacement(vector(row), LOW_MESH, quadratic=False)}
