"""Compute the exhaust's samples: python -m benchmarks.simulators.exhaust [FILE ...] [--jobs 2] [--rows fine=90].

mesh is the refinement study, sensitivity the one that chose the six inputs, fine and coarse are the samples. A file
that is there is continued. Needs OpenFOAM's blockMesh, potentialFoam and simpleFoam.
"""

import sys

from benchmarks.simulators import command
from benchmarks.simulators.exhaust import flow, samples
from benchmarks.simulators.exhaust.samples import (
    COARSE_LEVEL,
    FINE_LEVEL,
    MESH_OUTPUTS,
    OUTPUTS,
    TRAJECTORIES,
    from_nominal,
)

MISSING = flow.missing_tools()
NEEDS = f"{', '.join(MISSING)} of OpenFOAM not on the path; on Debian: apt-get install openfoam" if MISSING else ""

FILES = {
    "mesh": command.File(samples.mesh_design, lambda: samples.outcome, MESH_OUTPUTS, len(samples.LEVELS), needs=NEEDS),
    "sensitivity": command.File(
        samples.sensitivity_design,
        lambda: from_nominal(COARSE_LEVEL),
        OUTPUTS,
        TRAJECTORIES,
        samples.effects_listing,
        NEEDS,
    ),
    "fine": command.File(samples.fine_design, lambda: from_nominal(FINE_LEVEL), OUTPUTS, 60, needs=NEEDS),
    "coarse": command.File(samples.coarse_design, lambda: from_nominal(COARSE_LEVEL), OUTPUTS, 280, needs=NEEDS),
}


def main(arguments: list[str] | None = None) -> int:
    """Fill the files that are asked for."""
    return command.run("exhaust", __doc__, FILES, arguments)


if __name__ == "__main__":
    sys.exit(main())
