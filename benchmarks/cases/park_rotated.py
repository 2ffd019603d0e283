"""park_rotated: park with the low-fidelity inputs turned by 20 degrees, so that equal names do not mean equal inputs.

The low task is observed at z = c + R(20 degrees) ((x3, x4) - c), c = (1/2, 1/2), while its columns are still called x3
and x4. The nominal mapping g0 = [x3, x4] is therefore slightly wrong, and a good calibration turns it by 20 degrees.
"""

from dataclasses import replace

import numpy as np

from benchmarks.cases import park
from benchmarks.cases.instance import Instance, Table

ANGLE = np.deg2rad(20.0)
CENTRE = 0.5


def rotate(X: np.ndarray, angle: float) -> np.ndarray:
    """Return rows (N, 2) turned about (1/2, 1/2), against the clock."""
    c, s = np.cos(angle), np.sin(angle)
    return CENTRE + (X - CENTRE) @ np.array([[c, s], [-s, c]])


def draw(seed: int) -> Instance:
    """Return the instance of a seed: that of park, with the low task's inputs turned."""
    instance = park.draw(seed)

    def turned(tables: dict[str, Table]) -> dict[str, Table]:
        X, y = tables["low"]
        return {**tables, "low": (rotate(X, ANGLE), y)}

    return replace(
        instance,
        name="park_rotated",
        tasks=turned(instance.tasks),
        test=turned(instance.test),
        description=f"Park with low-fidelity inputs rotated by {np.rad2deg(ANGLE):.0f} degrees: g0 is slightly wrong.",
    )
