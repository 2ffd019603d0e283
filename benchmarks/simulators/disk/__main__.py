"""Compute the disk's samples: python -m benchmarks.simulators.disk [FILE ...] [--jobs 2] [--rows high=900].

high and low are the samples; sensitivity is the Sobol study of the high fidelity that chose the low one's three inputs.
A file that is there is continued.
"""

import sys

from benchmarks.simulators import command
from benchmarks.simulators.disk import samples
from benchmarks.simulators.disk.samples import INPUTS, LOW_INPUTS, LOWER, OUTPUTS, SEEDS, UPPER
from benchmarks.simulators.sensitivity import listing, sobol_design, sobol_indices
from benchmarks.simulators.table import design

LOW_AT = [INPUTS.index(name) for name in LOW_INPUTS]

FILES = {
    "sensitivity": command.File(
        lambda base: sobol_design(INPUTS, LOWER, UPPER, base, SEEDS["sensitivity"]),
        lambda: samples.high,
        OUTPUTS,
        128,
        lambda found: listing(sobol_indices(INPUTS, LOWER, UPPER, found, "displacement")),
    ),
    "high": command.File(
        lambda count: design(INPUTS, LOWER, UPPER, count, SEEDS["high"]),
        lambda: samples.high,
        OUTPUTS,
        600,
    ),
    "low": command.File(
        lambda count: design(LOW_INPUTS, LOWER[LOW_AT], UPPER[LOW_AT], count, SEEDS["low"]),
        lambda: samples.low,
        OUTPUTS,
        700,
    ),
}


def main(arguments: list[str] | None = None) -> int:
    """Fill the files that are asked for."""
    return command.run("disk", __doc__, FILES, arguments)


if __name__ == "__main__":
    sys.exit(main())
