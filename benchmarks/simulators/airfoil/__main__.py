"""Compute the airfoil's samples: python -m benchmarks.simulators.airfoil [FILE ...] [--jobs 2] [--rows low=2000].

high and low are the samples; sensitivity is the Sobol study of the high fidelity that chose the low one's three inputs,
xfoil computes the first airfoils of high by XFOIL and compares. A file that is there is continued. --components writes
the matrix of the components first. high and sensitivity need NeuralFoil, xfoil needs xfoil and a C compiler.
"""

import sys
from importlib.util import find_spec

from benchmarks.simulators import command
from benchmarks.simulators.airfoil import samples, xfoil
from benchmarks.simulators.airfoil.samples import LOW_INPUTS, LOWER, SEEDS, UPPER
from benchmarks.simulators.airfoil.shape import INPUTS
from benchmarks.simulators.sensitivity import listing, sobol_design, sobol_indices
from benchmarks.simulators.table import design

NETWORK = "" if find_spec("neuralfoil") else "NeuralFoil is not installed: pip install aligngp[simulators]"
XFOIL = f"not on the path: {', '.join(missing)}" if (missing := xfoil.missing_tools()) else ""
LOW_AT = [INPUTS.index(name) for name in LOW_INPUTS]

FILES = {
    "sensitivity": command.File(
        lambda base: sobol_design(INPUTS, LOWER, UPPER, base, SEEDS["sensitivity"]),
        lambda: samples.network,  # every row is needed, the unsure ones too
        samples.HIGH_OUTPUTS,
        512,
        lambda found: listing(sobol_indices(INPUTS, LOWER, UPPER, found, "lift")),
        NETWORK,
    ),
    "high": command.File(
        lambda count: design(INPUTS, LOWER, UPPER, count, SEEDS["high"]),
        lambda: samples.high,
        samples.HIGH_OUTPUTS,
        1000,
        needs=NETWORK,
    ),
    "low": command.File(
        lambda count: design(LOW_INPUTS, LOWER[LOW_AT], UPPER[LOW_AT], count, SEEDS["low"]),
        lambda: samples.low,
        samples.OUTPUTS,
        1400,
    ),
    "xfoil": command.File(
        lambda count: design(INPUTS, LOWER, UPPER, count, SEEDS["high"]),
        lambda: xfoil.lift,
        samples.OUTPUTS,
        100,
        xfoil.comparison,
        XFOIL,
    ),
}


def main(arguments: list[str] | None = None) -> int:
    """Fill the files that are asked for."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if "--components" in arguments:
        samples.write_matrix()
        samples.components.cache_clear()
        arguments = [argument for argument in arguments if argument != "--components"]
    return command.run("airfoil", __doc__, FILES, arguments)


if __name__ == "__main__":
    sys.exit(main())
