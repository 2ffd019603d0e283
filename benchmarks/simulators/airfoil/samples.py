"""The airfoil's two solvers on the six principal components, and the rows of their samples.

high   NeuralFoil (its largest network), trained on XFOIL: viscous, with its own rule for compressibility
low    panels of Hess and Smith with the rule of Prandtl and Glauert, on three components; the others are 0
"""

from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.cases.files import SAMPLES
from benchmarks.simulators.airfoil import panels, shape
from benchmarks.simulators.airfoil.shape import COMPONENTS, INPUTS, LIMIT, VARIABLES
from benchmarks.simulators.table import Row, SimulationError, write

SOUND, CHORD, VISCOSITY = 340.3, 1.0, 1.461e-5
"""Air at sea level: speed of sound in m/s and kinematic viscosity in m^2/s; the chord in m."""
NETWORK = "xxxlarge"
CONFIDENCE = 0.3
"""Below this, NeuralFoil's own confidence in its answer makes the row a failed one."""
PANELS_A_SIDE = 60
LOWER, UPPER = np.full(COMPONENTS, -LIMIT), np.full(COMPONENTS, LIMIT)
LOW_INPUTS = ("pc1", "pc4", "pc5")
OUTPUTS = ("lift",)
HIGH_OUTPUTS = ("lift", "confidence")
SEEDS = {"high": 20260721, "low": 20260722, "sensitivity": 20260723}
MATRIX = SAMPLES / "airfoil_components.csv"
"""The six components: their direction times the root of their eigenvalue, a column each, for the 52 variables."""


def write_matrix(path: Path = MATRIX) -> None:
    """Write the components' matrix: variable, mean, scale, and a column for each component."""
    mean, scale, _ = shape.population()
    values, directions = shape.components()
    matrix = np.sqrt(values)[:, None] * directions
    write(
        path,
        [
            {"variable": name, "mean": float(mean[i]), "scale": float(scale[i])}
            | {INPUTS[k]: float(matrix[k, i]) for k in range(COMPONENTS)}
            for i, name in enumerate(VARIABLES)
        ],
    )


@lru_cache(maxsize=1)
def components() -> np.ndarray:
    """Return the committed matrix (6, 52)."""
    table = np.genfromtxt(MATRIX, delimiter=",", names=True, dtype=None, encoding="utf-8")
    return np.array([table[name] for name in INPUTS])


def flight(row: Row) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Return upper and lower weights (8,), speed and angle of a row; a component that it does not have is 0."""
    found = shape.variables([[float(row.get(name, 0.0)) for name in INPUTS]], components())
    upper, lower = shape.weights(found)
    return upper[0], lower[0], float(found[0, -2]), float(found[0, -1])


def network(row: Row) -> Row:
    """Return NeuralFoil's lift coefficient of a row, and how sure it is of it."""
    from aerosandbox import KulfanAirfoil

    upper, lower, speed, angle = flight(row)
    airfoil = KulfanAirfoil(
        lower_weights=lower,
        upper_weights=upper,
        leading_edge_weight=shape.LEADING_EDGE_WEIGHT,
        TE_thickness=0.0,
    )
    found = airfoil.get_aero_from_neuralfoil(
        alpha=angle, Re=speed * CHORD / VISCOSITY, mach=speed / SOUND, model_size=NETWORK
    )
    lift, confidence = (float(np.squeeze(found[name])) for name in ("CL", "analysis_confidence"))
    return {"lift": lift, "confidence": round(confidence, 4)}


def high(row: Row) -> Row:
    """Return NeuralFoil's lift coefficient of a row; where it is not sure, the run has failed."""
    found = network(row)
    if found["confidence"] < CONFIDENCE:
        raise SimulationError(f"NeuralFoil's confidence is {found['confidence']:.2f}, expected at least {CONFIDENCE}")
    return found


def points(upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Return the outline of an airfoil, points closer together at both edges."""
    x = 0.5 * (1.0 - np.cos(np.linspace(0.0, np.pi, PANELS_A_SIDE + 1)))
    return panels.outline(shape.ordinates(upper, x), shape.ordinates(lower, x), x)


def low(row: Row) -> Row:
    """Return the panel method's lift coefficient of a row."""
    upper, lower, speed, angle = flight(row)
    return {"lift": panels.lift(points(upper, lower), angle, speed / SOUND)}
