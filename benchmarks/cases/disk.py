"""disk: largest displacement of a rotating disk by two finite-element models, six inputs beside three.

The lengths of its section in m, the displacement in mm. The high fidelity has 96 x 8 quadratic elements; the low one
12 x 1 linear elements, and knows the three lengths that the high fidelity depends on most (Sobol indices): the others
are at the middle of their range. The paper's solvers and sample are not published: these are ours, see data/disk.md.
"""

from functools import lru_cache

from benchmarks.cases.files import samples
from benchmarks.cases.instance import Instance, Table
from benchmarks.cases.sampled import split

INPUTS = ("rb", "rh", "rw", "th", "tw", "tr")
LOW_INPUTS = ("rw", "tw", "tr")
ROWS = {"high": 8, "low": 300}
TEST_ROWS = 100


@lru_cache(maxsize=1)
def disks() -> dict[str, Table]:
    """Return inputs and displacements of the high and of the low sample."""
    return {
        "high": samples("disk_high.csv", INPUTS, "displacement"),
        "low": samples("disk_low.csv", LOW_INPUTS, "displacement"),
    }


def draw(seed: int) -> Instance:
    """Return the instance of a seed: N1=8, N2=300, 100 test rows of each task."""
    tasks, test = split(seed, disks(), ROWS, TEST_ROWS)
    return Instance(
        name="disk",
        tasks=tasks,
        test=test,
        names={"high": INPUTS, "low": LOW_INPUTS},
        common="low",
        targets=("high",),
        mappings={"high": list(LOW_INPUTS)},
        description="Largest displacement of a rotating disk; the coarse model knows three of the six lengths.",
        paper={"num_inducing": 100, "initial_lengthscale": 0.1},
    )
