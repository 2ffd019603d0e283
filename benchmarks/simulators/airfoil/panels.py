"""Lift by the panel method of Hess and Smith: a source strength a panel, one vortex strength, the Kutta condition.

Inviscid and incompressible; a Mach number enters by the rule of Prandtl and Glauert, CL / sqrt(1 - M^2).
"""

import numpy as np


def lift(points: np.ndarray, angle: float, mach: float = 0.0) -> float:
    """Return CL of a closed outline (N + 1, 2), from the trailing edge over the lower side and back, angle in degrees.

    The speed along panel i from a unit source or vortex on panel j, beta the angle that j is seen under from the
    middle of i, r_ij its distance to the start of j:  u_source = -log(r_i,j+1 / r_ij) / 2 pi along j and
    beta / 2 pi across it; a vortex has the same two, turned by a right angle.
    """
    start, end = points[:-1], points[1:]
    middle = 0.5 * (start + end)
    length = np.linalg.norm(end - start, axis=1)
    slope = np.arctan2(*(end - start).T[::-1])
    count = len(length)

    to_start = middle[:, None] - start
    to_end = middle[:, None] - end
    log = 0.5 * np.log(np.square(to_end).sum(axis=-1) / np.square(to_start).sum(axis=-1))
    cross = to_start[..., 0] * to_end[..., 1] - to_start[..., 1] * to_end[..., 0]
    beta = np.arctan2(cross, (to_start * to_end).sum(axis=-1))
    np.fill_diagonal(beta, np.pi)
    turn = slope[:, None] - slope
    sine, cosine = np.sin(turn), np.cos(turn)
    normal_source = (sine * log + cosine * beta) / (2.0 * np.pi)
    along_source = (sine * beta - cosine * log) / (2.0 * np.pi)

    # A vortex on j: along i what a source has across it, across i minus what a source has along it.
    normal_vortex, along_vortex = -along_source, normal_source
    system = np.empty((count + 1, count + 1))
    system[:count, :count] = normal_source
    system[:count, count] = normal_vortex.sum(axis=1)
    ends = [0, count - 1]
    system[count, :count] = along_source[ends].sum(axis=0)
    system[count, count] = along_vortex[ends].sum()
    stream = np.deg2rad(angle) - slope
    right = np.append(-np.sin(stream), -np.cos(stream[ends]).sum())
    strengths = np.linalg.solve(system, right)

    # Pressure, not circulation, gives the force: CL of the outline's own pressure distribution.
    speed = np.cos(stream) + along_source @ strengths[:-1] + along_vortex.sum(axis=1) * strengths[-1]
    pressure = 1.0 - speed**2
    force = -(pressure * length) @ np.column_stack([-np.sin(slope), np.cos(slope)])
    chord = np.ptp(points[:, 0])
    incidence = np.deg2rad(angle)
    incompressible = (force[1] * np.cos(incidence) - force[0] * np.sin(incidence)) / chord
    return float(incompressible / np.sqrt(1.0 - mach**2))


def outline(upper: np.ndarray, lower: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the closed outline of two sides given at x (N,) from leading to trailing edge, (2 N - 1, 2)."""
    return np.concatenate([np.column_stack([x, lower])[::-1], np.column_stack([x, upper])[1:]])
