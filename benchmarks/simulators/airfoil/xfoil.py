"""XFOIL on the airfoils of the high fidelity's sample: what NeuralFoil was trained on, asked itself.

Free transition (n = 9), Karman and Tsien's rule for compressibility. Debian's binary stops where a division overflows
on the way to convergence; a library of one line, compiled here and loaded before it, lets it go on.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks import rows
from benchmarks.cases.files import OK, SAMPLES
from benchmarks.simulators.airfoil.samples import CHORD, SOUND, VISCOSITY, flight, points
from benchmarks.simulators.table import Row, SimulationError

SHIM = "void _gfortran_set_fpe(int options) { (void)options; }\n"
ITERATIONS, SECONDS = 300, 60


def missing_tools() -> list[str]:
    """Return which programs are not on the path."""
    return [tool for tool in ("xfoil", "cc") if shutil.which(tool) is None]


def commands(reynolds: float, mach: float, angle: float) -> str:
    """Return what is typed into XFOIL; the angle is approached in steps of a degree, each a start for the next."""
    steps = [*np.arange(min(angle, 1.0), angle, 1.0), angle]
    lines = ["PLOP", "G F", "", "LOAD airfoil.dat", "", "PANE", "OPER", f"VISC {reynolds:.6g}", f"MACH {mach:.6g}"]
    lines += [f"ITER {ITERATIONS}", *(f"ALFA {step:.6f}" for step in steps[:-1])]
    return "\n".join([*lines, "PACC", "polar.txt", "", f"ALFA {angle:.6f}", "PACC", "", "QUIT", ""])


def lift(row: Row) -> Row:
    """Return XFOIL's lift coefficient of a row."""
    upper, lower, speed, angle = flight(row)
    with TemporaryDirectory() as name:
        folder = Path(name)
        # XFOIL wants the upper side first, from the trailing edge to the nose and back.
        np.savetxt(folder / "airfoil.dat", points(upper, lower)[::-1], header="airfoil", comments="", fmt="%.8f")
        (folder / "shim.c").write_text(SHIM)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", "shim.so", "shim.c"], cwd=folder, check=True)
        typed = commands(speed * CHORD / VISCOSITY, speed / SOUND, angle)
        environment = {**os.environ, "LD_PRELOAD": str(folder / "shim.so")}
        try:
            subprocess.run(
                ["xfoil"], cwd=folder, env=environment, input=typed, text=True, capture_output=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            raise SimulationError(f"XFOIL did not end in {SECONDS} seconds") from None
        polar = folder / "polar.txt"
        values = re.findall(r"^ +-?\d+\.\d+ +(-?\d+\.\d+) ", polar.read_text() if polar.exists() else "", re.MULTILINE)
    if not values:
        raise SimulationError("XFOIL did not converge")
    return {"lift": float(values[-1])}


def comparison(table: Sequence[Row]) -> str:
    """Return how the high fidelity's sample and XFOIL's answers differ, on the rows where both came out well."""
    high = {row["row"]: float(row["lift"]) for row in rows.read(SAMPLES / "airfoil_high.csv") if row["status"] == OK}
    well = [row for row in table if row["status"] == OK and row["row"] in high]
    ours, theirs = (
        np.array([float(of(row)) for row in well]) for of in (lambda r: high[r["row"]], lambda r: r["lift"])
    )
    difference = ours - theirs
    return (
        f"{len(well)} rows, standard deviation of XFOIL's lift {theirs.std():.4f}; NeuralFoil - XFOIL: "
        f"mean {difference.mean():+.4f}, median absolute {np.median(np.abs(difference)):.4f}, "
        f"largest {np.abs(difference).max():.4f}; correlation {np.corrcoef(ours, theirs)[0, 1]:.4f}"
    )
