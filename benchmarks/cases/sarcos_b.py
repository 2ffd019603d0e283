"""sarcos_b: 50 rows of torque 4 on 21 inputs and 50 others of torque 7 on 16 principal components; both are scored."""

from benchmarks.cases import sarcos
from benchmarks.cases.instance import Instance, streams

ROWS = 50


def draw(seed: int) -> Instance:
    """Return the instance of a seed: N1=N2=50, 4449 test rows of each task."""
    (stream,) = streams(seed, 1)
    chosen = stream.choice(len(sarcos.arm().index), 2 * ROWS, replace=False)
    rows = chosen[:ROWS], chosen[ROWS:]
    description = "Robot arm: 50 rows of torque 4 on 21 inputs, 50 of torque 7 on 16 principal components."
    return sarcos.instance("sarcos_b", ("tau4", "tau7"), rows, description)
