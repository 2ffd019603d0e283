"""The flow of one design in OpenFOAM: dictionaries, the run in slices until zeta stands still, and what is read back.

Steady, incompressible steam of the inlet's density; SIMPLE, first-order upwind, standard k-epsilon with wall functions.

    zeta = (P1t - P2t) / (rho v1^2 / 2),   P_t the average of p + rho |u|^2 / 2 weighted with the volume flux
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.simulators.exhaust.geometry import INLET_HUB, INLET_TIP, NOMINAL, diffuser
from benchmarks.simulators.exhaust.mesh import HALF_ANGLE, Resolution, block_mesh, header
from benchmarks.simulators.table import SimulationError

MASS_FLOW = 74.736
DENSITY = 0.0467
OUTLET_PRESSURE = 6000.0
VISCOSITY = 1.03e-5 / DENSITY
"""Kinematic; 1.03e-5 Pa s is the dynamic viscosity of steam at low pressure and about 37 degrees Celsius."""
INTENSITY, LENGTH_SCALE = 0.05, 0.07
INLET_SPEED = MASS_FLOW / (DENSITY * np.pi * (INLET_TIP**2 - INLET_HUB**2))
INLET_K = 1.5 * (INTENSITY * INLET_SPEED) ** 2
INLET_EPSILON = 0.09**0.75 * INLET_K**1.5 / LENGTH_SCALE

SLICE, LONGEST = 100, 3000
"""Iterations between two looks at zeta, and after which a run that still moves is given up."""
DRIFT = 2e-4
"""A run has converged when two slices in a row change zeta by less than this fraction of it."""

PLACES = ("/usr/share/openfoam", "/usr/lib/openfoam", "/opt/openfoam")
TOOLS = ("blockMesh", "potentialFoam", "simpleFoam")


class FlowError(SimulationError):
    """OpenFOAM stopped with an error, or what it wrote makes no sense."""


@dataclass(frozen=True)
class Flow:
    """What a run gives: `backflow` is the volume flux that comes back in through the outlet over the net one, `yplus`
    the smallest, median and largest y+ of all walls' faces, `history` zeta after every slice.
    """

    zeta: float
    iterations: int
    cells: int
    backflow: float
    yplus: tuple[float, float, float]
    history: tuple[float, ...]

    @property
    def drift(self) -> float:
        """Return the largest relative change of zeta in one of the last two slices."""
        return float(np.abs(np.diff(self.history[-3:])).max() / self.zeta) if len(self.history) > 2 else np.inf

    @property
    def converged(self) -> bool:
        """Return whether zeta stands still."""
        return self.drift < DRIFT


def missing_tools() -> list[str]:
    """Return which of OpenFOAM's programs are not on the path."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def field(name: str, kind: str, dimensions: str, value: str, patches: dict[str, str]) -> str:
    """Return the text of a starting field; wedges and walls that are not named get what suits them."""
    rows = {"back": "type wedge;", "front": "type wedge;", **patches}
    boundary = "\n".join(f"    {patch} {{ {row} }}" for patch, row in rows.items())
    return (
        f"{header(name, kind)}\ndimensions {dimensions};\ninternalField uniform {value};\n"
        f"boundaryField\n{{\n{boundary}\n}}\n"
    )


def walls(row: str) -> dict[str, str]:
    """Return the same condition for every wall."""
    return dict.fromkeys(("hub", "tip", "collector"), row)


def start() -> dict[str, str]:
    """Return the files of time 0: name -> text."""
    pressure = OUTLET_PRESSURE / DENSITY
    velocity = f"( {INLET_SPEED:.9g} 0 0 )"
    k, epsilon = f"{INLET_K:.9g}", f"{INLET_EPSILON:.9g}"

    def scalar(name: str, dimensions: str, value: str, wall: str, inlet: str, outlet: str) -> str:
        return field(name, "volScalarField", dimensions, value, {"inlet": inlet, "outlet": outlet, **walls(wall)})

    def transported(value: str) -> tuple[str, str]:
        return f"type fixedValue; value uniform {value};", (
            f"type inletOutlet; inletValue uniform {value}; value uniform {value};"
        )

    outlet = "type pressureInletOutletVelocity; value uniform ( 0 0 0 );"
    return {
        "U": field(
            "U",
            "volVectorField",
            "[ 0 1 -1 0 0 0 0 ]",
            "( 0 0 0 )",
            {"inlet": f"type fixedValue; value uniform {velocity};", "outlet": outlet, **walls("type noSlip;")},
        ),
        "p": scalar(
            "p",
            "[ 0 2 -2 0 0 0 0 ]",
            f"{pressure:.9g}",
            "type zeroGradient;",
            "type zeroGradient;",
            f"type fixedValue; value uniform {pressure:.9g};",
        ),
        "k": scalar("k", "[ 0 2 -2 0 0 0 0 ]", k, f"type kqRWallFunction; value uniform {k};", *transported(k)),
        "epsilon": scalar(
            "epsilon",
            "[ 0 2 -3 0 0 0 0 ]",
            epsilon,
            f"type epsilonWallFunction; value uniform {epsilon};",
            *transported(epsilon),
        ),
        "nut": scalar(
            "nut",
            "[ 0 2 -1 0 0 0 0 ]",
            "0",
            "type nutkWallFunction; value uniform 0;",
            "type calculated; value uniform 0;",
            "type calculated; value uniform 0;",
        ),
    }


def control(end: int) -> str:
    """Return system/controlDict of a run that goes on until an iteration and writes its fields there."""
    return f"""{header("controlDict")}
application simpleFoam;
startFrom latestTime;
startTime 0;
stopAt endTime;
endTime {end};
deltaT 1;
writeControl timeStep;
writeInterval {SLICE};
purgeWrite 1;
writeFormat ascii;
writePrecision 12;
timeFormat general;
runTimeModifiable false;
functions
{{
    yPlus {{ type yPlus; libs ( fieldFunctionObjects ); executeControl writeTime; writeControl writeTime; }}
    total
    {{
        type pressure; mode total; result total; libs ( fieldFunctionObjects );
        rho rhoInf; rhoInf {DENSITY:g}; pRef 0; executeControl writeTime; writeControl writeTime;
    }}
}}
"""


SCHEMES = f"""{header("fvSchemes")}
ddtSchemes {{ default steadyState; }}
gradSchemes {{ default Gauss linear; }}
divSchemes
{{
    default none;
    div(phi,U) bounded Gauss upwind;
    div(phi,k) bounded Gauss upwind;
    div(phi,epsilon) bounded Gauss upwind;
    div((nuEff*dev2(T(grad(U))))) Gauss linear;
    div(div(phi,U)) Gauss linear;
}}
laplacianSchemes {{ default Gauss linear corrected; }}
interpolationSchemes {{ default linear; }}
snGradSchemes {{ default corrected; }}
wallDist {{ method meshWave; }}
"""

SOLUTION = f"""{header("fvSolution")}
solvers
{{
    p {{ solver GAMG; smoother GaussSeidel; tolerance 1e-9; relTol 0.05; }}
    Phi {{ solver GAMG; smoother GaussSeidel; tolerance 1e-7; relTol 0.01; }}
    "(U|k|epsilon)" {{ solver smoothSolver; smoother symGaussSeidel; tolerance 1e-10; relTol 0.1; }}
}}
potentialFlow {{ nNonOrthogonalCorrectors 5; }}
SIMPLE {{ consistent yes; nNonOrthogonalCorrectors 0; }}
relaxationFactors {{ fields {{ p 1.0; }} equations {{ U 0.9; "(k|epsilon)" 0.8; }} }}
"""

TRANSPORT = f"""{header("transportProperties")}
transportModel Newtonian;
nu {VISCOSITY:.9g};
"""

TURBULENCE = f"""{header("turbulenceProperties")}
simulationType RAS;
RAS {{ RASModel kEpsilon; turbulence on; printCoeffs off; }}
"""


def write_case(folder: Path, design: np.ndarray, mesh: Resolution) -> None:
    """Write every dictionary of a design."""
    texts = {
        "system/blockMeshDict": block_mesh(diffuser(design), mesh),
        "system/controlDict": control(SLICE),
        "system/fvSchemes": SCHEMES,
        "system/fvSolution": SOLUTION,
        "constant/transportProperties": TRANSPORT,
        "constant/turbulenceProperties": TURBULENCE,
        **{f"0/{name}": text for name, text in start().items()},
    }
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def call(folder: Path, *command: str) -> str:
    """Run one of OpenFOAM's programs in a case and return what it printed."""
    environment = dict(os.environ)
    place = next((place for place in PLACES if Path(place, "etc").is_dir()), None)
    if "WM_PROJECT_DIR" not in environment and place:
        environment["WM_PROJECT_DIR"] = place
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = " ".join((done.stdout + done.stderr).split()[-60:])
        raise FlowError(f"{command[0]} ended with code {done.returncode}: {tail}")
    return done.stdout


def patch_values(path: Path, patch: str) -> np.ndarray:
    """Return the values of a field on a patch from OpenFOAM's ASCII file, (faces,) or (faces, 3)."""
    text = path.read_text()
    found = re.search(rf"\b{patch}\s*\{{(.*?)\n    \}}", text[text.index("boundaryField") :], re.DOTALL)
    if not found:
        raise FlowError(f"{path.name} has no patch {patch}")
    entry = re.search(r"\bvalue\s+(uniform|nonuniform List<\w+>\s*\d+)\s*(.*)", found[1], re.DOTALL)
    if not entry:
        raise FlowError(f"{path.name} has no values on the patch {patch}")
    rows = re.findall(r"\(([^()]*)\)", entry[2]) if "List<scalar>" not in entry[1] else None
    if rows:
        values = np.array([[float(number) for number in row.split()] for row in rows])
    else:
        values = np.array([float(number) for number in re.findall(r"-?\d[\d.e+-]*", entry[2])])
    return values


def total_pressure(time: Path, patch: str) -> tuple[float, np.ndarray]:
    """Return the flux-weighted total pressure on a patch in Pa, and the volume flux of its faces."""
    flux = patch_values(time / "phi", patch)
    total = np.broadcast_to(patch_values(time / "total", patch), len(flux))
    return float(flux @ total / flux.sum()), flux


def loss(time: Path) -> tuple[float, float]:
    """Return zeta and the share of the outlet's flux that comes back in."""
    before, inflow = total_pressure(time, "inlet")
    after, outflow = total_pressure(time, "outlet")
    wedge = MASS_FLOW / DENSITY * HALF_ANGLE / np.pi
    if not np.allclose([-inflow.sum(), outflow.sum()], wedge, rtol=5e-3):
        raise FlowError(f"fluxes {-inflow.sum():g} in and {outflow.sum():g} out, expected {wedge:g}")
    backflow = -outflow[outflow < 0].sum() / outflow.sum()
    return (before - after) / (0.5 * DENSITY * INLET_SPEED**2), float(backflow)


def simulate(
    folder: Path, design: np.ndarray, mesh: Resolution, fields: dict[str, str] | None = None, longest: int = LONGEST
) -> Flow:
    """Compute the flow of one design in an empty folder, slice by slice, until zeta stands still or `longest` comes.

    It starts from `fields`, those of another design on the same mesh (all designs have the same cells, moved), or from
    the potential flow.
    """
    write_case(folder, design, mesh)
    call(folder, "blockMesh")
    if fields:
        for name, text in fields.items():
            (folder / "0" / name).write_text(text)
    else:
        call(folder, "potentialFoam", "-initialiseUBCs")
        (folder / "0" / "phi").unlink(missing_ok=True)
    history: list[float] = []
    flow = None
    for end in range(SLICE, longest + 1, SLICE):
        (folder / "system" / "controlDict").write_text(control(end))
        call(folder, "simpleFoam")
        time = folder / str(end)
        zeta, backflow = loss(time)
        if not (np.isfinite(zeta) and 0.0 < zeta < 10.0):
            raise FlowError(f"zeta {zeta:g} after {end} iterations")
        history.append(zeta)
        wall = np.concatenate([np.atleast_1d(patch_values(time / "yPlus", patch)) for patch in walls("")])
        yplus = (float(wall.min()), float(np.median(wall)), float(wall.max()))
        flow = Flow(zeta, end, mesh.cells, backflow, yplus, tuple(history))
        if flow.converged:
            break
    assert flow is not None
    return flow


def nominal_fields(mesh: Resolution) -> dict[str, str]:
    """Return the fields of the nominal design on a mesh, name -> text: the flow that the others start from."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        flow = simulate(folder, NOMINAL, mesh)
        return {field: (folder / str(flow.iterations) / field).read_text() for field in start()}
