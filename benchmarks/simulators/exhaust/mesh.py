"""OpenFOAM's blockMeshDict of the diffuser and its collector: a wedge of 5 degrees in three blocks, one cell thick.

passage    from the inlet annulus along tip and hub to the diffuser's end
collector  from there outward, between the tip's end and the back wall, to the outlet's radius
front      beside the collector, from the front wall to the tip's end: the step behind the tip
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.simulators.exhaust.geometry import FRONT_FOOT, FRONT_HEAD, OUTLET_RADIUS, Diffuser, even

HALF_ANGLE = np.deg2rad(2.5)
CURVE_POINTS = 61
FRONT_SHARE = 0.25
"""Which share of the outlet belongs to the front block."""


@dataclass(frozen=True)
class Resolution:
    """Cells along the passage, across it, outward, and across the front block; how much finer cells at walls are."""

    along: int
    across: int
    outward: int
    front: int
    wall_ratio: float = 4.0

    @property
    def cells(self) -> int:
        """Return the number of cells."""
        return self.along * self.across + self.outward * (self.across + self.front)


def resolution(level: float) -> Resolution:
    """Return the mesh of a level: about 2000 L^2 cells at level L.

    Wall functions want the first cell centre at y+ of 30 to 300, so the grading falls as the mesh becomes finer, and
    cells at walls shrink less than others.
    """
    return Resolution(
        along=round(32 * level),
        across=round(28 * level),
        outward=round(28 * level),
        front=round(11 * level),
        wall_ratio=max(1.0, 5.0 / level),
    )


def numbers(values) -> str:
    """Return a list in OpenFOAM's notation: a word and a bracket without a blank between would be one word to it."""
    return "( " + " ".join(f"{value:.9g}" for value in values) + " )"


def block_mesh(shape: Diffuser, mesh: Resolution) -> str:
    """Return the text of system/blockMeshDict."""
    tip_end, hub_end = shape.tip[-1], shape.hub[-1]
    plane = np.array(
        [
            shape.hub[0],
            hub_end,
            tip_end,
            shape.tip[0],
            (hub_end[0], OUTLET_RADIUS),
            (FRONT_HEAD + FRONT_SHARE * (hub_end[0] - FRONT_HEAD), OUTLET_RADIUS),
            (FRONT_FOOT, tip_end[1]),
            (FRONT_HEAD, OUTLET_RADIUS),
        ]
    )
    count = len(plane)

    def at(points: np.ndarray, side: int) -> np.ndarray:
        """Put (x, r) points on the wedge's back (-1) or front (+1) plane."""
        x, r = points.T
        return np.column_stack([x, r * np.cos(HALF_ANGLE), side * r * np.sin(HALF_ANGLE)])

    vertices = [numbers(vertex) for side in (-1, 1) for vertex in at(plane, side)]
    edges = []
    for first, last, points in ((0, 1, shape.hub), (3, 2, shape.tip)):
        inner = even(points, CURVE_POINTS)[1:-1]
        for side, shift in ((-1, 0), (1, count)):
            curve = " ".join(numbers(point) for point in at(inner, side))
            edges.append(f"polyLine {first + shift} {last + shift} ( {curve} )")

    both = f"( ( 0.5 0.5 {mesh.wall_ratio:g} ) ( 0.5 0.5 {1 / mesh.wall_ratio:g} ) )"
    # Outward, cells grow from the fine ones at the diffuser's end; their growth fades with the wall's refinement.
    grow = f"{mesh.wall_ratio:g}"

    def block(corners: tuple[int, ...], cells: tuple[int, int], grading: str) -> str:
        names = " ".join(str(corner) for corner in (*corners, *(corner + count for corner in corners)))
        return f"hex ( {names} ) ( {cells[0]} {cells[1]} 1 ) simpleGrading ( {grading} 1 )"

    blocks = [
        # first direction along the flow, second from hub to tip (and on to the front wall)
        block((0, 1, 2, 3), (mesh.along, mesh.across), f"1 {both}"),
        block((1, 4, 5, 2), (mesh.outward, mesh.across), f"{grow} {both}"),
        block((2, 5, 7, 6), (mesh.outward, mesh.front), f"{grow} {both}"),
    ]

    def faces(*pairs: tuple[int, int]) -> str:
        return "( " + " ".join(f"( {a} {b} {b + count} {a + count} )" for a, b in pairs) + " )"

    def planes(shift: int) -> str:
        quads = ((0, 1, 2, 3), (1, 4, 5, 2), (2, 5, 7, 6))
        return "( " + " ".join("( " + " ".join(str(corner + shift) for corner in quad) + " )" for quad in quads) + " )"

    patches = {
        "inlet": ("patch", faces((0, 3))),
        "outlet": ("patch", faces((4, 5), (5, 7))),
        "hub": ("wall", faces((0, 1))),
        "tip": ("wall", faces((3, 2))),
        "collector": ("wall", faces((1, 4), (2, 6), (6, 7))),
        "back": ("wedge", planes(0)),
        "front": ("wedge", planes(count)),
    }
    boundary = "\n".join(
        f"    {name}\n    {{\n        type {kind};\n        faces {where};\n    }}"
        for name, (kind, where) in patches.items()
    )
    lists = {"vertices": vertices, "blocks": blocks, "edges": edges}
    body = "\n\n".join(f"{name}\n(\n    " + "\n    ".join(rows) + "\n);" for name, rows in lists.items())
    return f"{header('blockMeshDict')}\nscale 1;\n\n{body}\n\nboundary\n(\n{boundary}\n);\n\nmergePatchPairs ( );\n"


def header(name: str, kind: str = "dictionary") -> str:
    """Return the heading that every file of OpenFOAM has."""
    return f"FoamFile\n{{\n    version 2.0;\n    format ascii;\n    class {kind};\n    object {name};\n}}\n"
