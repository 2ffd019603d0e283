"""The diffuser's outline: tip and hub as quartic Bezier curves in the (x, r) half plane, x along the axis, in m.

Each curve starts at a fixed point of the inlet annulus and has four further control points. The axial place of the
first one is fixed, so seven coordinates are free on either curve: fourteen in all.
"""

from dataclasses import dataclass
from math import comb

import numpy as np

INLET_TIP, INLET_HUB = 2.0, 1.0
"""Radii of the inlet annulus at x = 0."""
TIP_X1, HUB_X1 = 0.25, 0.60
"""Axial places of the first free control points."""
OUTLET_RADIUS = 5.0
FRONT_FOOT, FRONT_HEAD = 0.6, 1.4
"""Axial places of the collector's front wall, at the tip's end and at the outlet. It leans, so that the outlet ends
about where the separated flow behind the tip begins: with an upright wall a quarter of the flow came back in through
the outlet. The back wall is upright and stands at the hub's end.
"""

DESIGN = {
    # name: (nominal, half width)
    "tip_r1": (2.06, 0.06),
    "tip_x2": (0.55, 0.12),
    "tip_r2": (2.28, 0.12),
    "tip_x3": (0.85, 0.12),
    "tip_r3": (2.55, 0.12),
    "tip_x4": (1.00, 0.15),
    "tip_r4": (2.95, 0.15),
    "hub_r1": (1.02, 0.06),
    "hub_x2": (1.30, 0.20),
    "hub_r2": (1.15, 0.12),
    "hub_x3": (1.90, 0.15),
    "hub_r3": (1.60, 0.20),
    "hub_x4": (2.10, 0.15),
    "hub_r4": (2.60, 0.20),
}
INPUTS = tuple(DESIGN)
NOMINAL = np.array([nominal for nominal, _ in DESIGN.values()])
LOWER = NOMINAL - np.array([half for _, half in DESIGN.values()])
UPPER = NOMINAL + np.array([half for _, half in DESIGN.values()])


@dataclass(frozen=True, eq=False)
class Diffuser:
    """Control points of the two curves, each (5, 2) with columns x and r."""

    tip: np.ndarray
    hub: np.ndarray


def diffuser(design: np.ndarray) -> Diffuser:
    """Return the control points of the fourteen coordinates in the order of INPUTS."""
    tip, hub = np.asarray(design, dtype=float).reshape(2, 7)
    return Diffuser(
        np.vstack([(0.0, INLET_TIP), (TIP_X1, tip[0]), tip[1:].reshape(3, 2)]),
        np.vstack([(0.0, INLET_HUB), (HUB_X1, hub[0]), hub[1:].reshape(3, 2)]),
    )


def bezier(points: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return the curve at parameters (N,), (N, 2): sum_i C(n, i) (1 - t)^(n - i) t^i P_i."""
    n = len(points) - 1
    t = np.asarray(t, dtype=float)[:, None]
    return sum(comb(n, i) * (1.0 - t) ** (n - i) * t**i * points[i] for i in range(n + 1))


def even(points: np.ndarray, count: int) -> np.ndarray:
    """Return `count` points of the curve, ends included, at equal distances along it, (count, 2)."""
    t = np.linspace(0.0, 1.0, 2001)
    curve = bezier(points, t)
    length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=1))])
    return bezier(points, np.interp(np.linspace(0.0, length[-1], count), length, t))
