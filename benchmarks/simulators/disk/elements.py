"""Linear elasticity of a spinning body of revolution by finite elements, on the half section above its middle plane.

integral of sigma(u) : epsilon(v) r dr dz  =  integral of rho omega^2 r v_r r dr dz,   u_z = 0 at z = 0
epsilon = (du_r/dr, du_z/dz, u_r/r, du_r/dz + du_z/dr),   sigma = isotropic
"""

import numpy as np
from skfem import (
    Basis,
    BilinearForm,
    ElementQuad1,
    ElementQuad2,
    ElementVector,
    LinearForm,
    MeshQuad,
    asm,
    condense,
    solve,
)

YOUNG, POISSON, DENSITY = 210e9, 0.3, 7850.0
"""Steel: Pa, -, kg/m^3."""
SPEED = 1200.0
"""rad/s."""
POINTS = 5
"""Displacements are looked at on this many points a side of each element, corners included."""


@BilinearForm
def stiffness(u, v, w):
    """Twice the strain energy's density, times the radius."""
    radius = w.x[0]
    first = YOUNG * POISSON / ((1.0 + POISSON) * (1.0 - 2.0 * POISSON))
    shear = YOUNG / (2.0 * (1.0 + POISSON))

    def strains(field):
        gradient = field.grad
        return gradient[0, 0], gradient[1, 1], field[0] / radius, gradient[0, 1] + gradient[1, 0]

    one, other = strains(u), strains(v)
    volume = sum(one[:3]) * sum(other[:3])
    normal = sum(a * b for a, b in zip(one[:3], other[:3], strict=True))
    return (first * volume + 2.0 * shear * normal + shear * one[3] * other[3]) * radius


@LinearForm
def centrifugal(v, w):
    """The centrifugal force's work, times the radius."""
    return DENSITY * SPEED**2 * w.x[0] ** 2 * v[0]


def section(r: np.ndarray, half_thickness: np.ndarray, rows: int) -> MeshQuad:
    """Return the mesh of a half section: columns of cells between radii (N,), `rows` cells up to the surface there."""
    share = np.linspace(0.0, 1.0, rows + 1)
    points = np.stack([np.repeat(r, rows + 1), (half_thickness[:, None] * share).ravel()])
    first = (np.arange(len(r) - 1)[:, None] * (rows + 1) + np.arange(rows)).ravel()
    return MeshQuad(points, np.stack([first, first + rows + 1, first + rows + 2, first + 1]))


def displacements(mesh: MeshQuad, quadratic: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return places (2, N) and displacements (2, N) on a grid of points in every element."""
    basis = Basis(mesh, ElementVector(ElementQuad2() if quadratic else ElementQuad1()))
    middle = basis.get_dofs(lambda x: np.isclose(x[1], 0.0)).all("u^2")
    solution = solve(*condense(asm(stiffness, basis), asm(centrifugal, basis), D=middle))
    side = np.linspace(0.0, 1.0, POINTS)
    grid = np.stack(np.meshgrid(side, side)).reshape(2, -1)
    # Weights are not used: the basis is only asked for values at these points of every element.
    looked_at = Basis(mesh, basis.elem, quadrature=(grid, np.ones(grid.shape[1])))
    field = looked_at.interpolate(solution)
    return mesh.mapping().F(grid).reshape(2, -1), np.asarray(field).reshape(2, -1)


def largest(mesh: MeshQuad, quadratic: bool) -> float:
    """Return the largest length of a displacement in the mesh, m."""
    _, moved = displacements(mesh, quadratic)
    return float(np.hypot(*moved).max())


def annulus(r: np.ndarray, inner: float, outer: float) -> np.ndarray:
    """Return the radial displacement of a thin flat ring, plane stress (Timoshenko and Goodier), (N,).

    u(r) = (3 + nu)(1 - nu) rho w^2 r / (8 E) (a^2 + b^2 - (1 + nu)/(3 + nu) r^2 + (1 + nu)/(1 - nu) a^2 b^2 / r^2)
    """
    shape = (
        inner**2
        + outer**2
        - (1.0 + POISSON) / (3.0 + POISSON) * r**2
        + (1.0 + POISSON) / (1.0 - POISSON) * inner**2 * outer**2 / r**2
    )
    return (3.0 + POISSON) * (1.0 - POISSON) * DENSITY * SPEED**2 * r / (8.0 * YOUNG) * shape
