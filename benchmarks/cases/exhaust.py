"""exhaust: total pressure loss of a steam turbine's exhaust diffuser, fourteen coordinates beside six.

The fine task moves all fourteen coordinates of the Bezier curves of tip and hub and is computed on a fine mesh; the
coarse one moves the six that matter most (elementary effects) and is computed on a coarse mesh. The paper's exhaust, a
half model in three dimensions in ANSYS CFX, is not published: this is an axisymmetric one in OpenFOAM, see
data/exhaust.md.
"""

from functools import lru_cache

from benchmarks.cases.files import samples
from benchmarks.cases.instance import Instance, Table
from benchmarks.cases.sampled import split

INPUTS = (
    *("tip_r1", "tip_x2", "tip_r2", "tip_x3", "tip_r3", "tip_x4", "tip_r4"),
    *("hub_r1", "hub_x2", "hub_r2", "hub_x3", "hub_r3", "hub_x4", "hub_r4"),
)
COARSE_INPUTS = ("tip_r1", "tip_x2", "tip_r2", "tip_x4", "hub_r1", "hub_x4")
ROWS = {"fine": 10, "coarse": 200}
TEST_ROWS = 20


@lru_cache(maxsize=1)
def diffusers() -> dict[str, Table]:
    """Return coordinates in m and loss coefficients of the fine and of the coarse sample."""
    return {
        "fine": samples("exhaust_fine.csv", INPUTS, "zeta"),
        "coarse": samples("exhaust_coarse.csv", COARSE_INPUTS, "zeta"),
    }


def draw(seed: int) -> Instance:
    """Return the instance of a seed: N1=10, N2=200, 20 test rows of each task."""
    tasks, test = split(seed, diffusers(), ROWS, TEST_ROWS)
    return Instance(
        name="exhaust",
        tasks=tasks,
        test=test,
        names={"fine": INPUTS, "coarse": COARSE_INPUTS},
        common="coarse",
        targets=("fine",),
        mappings={"fine": list(COARSE_INPUTS)},
        description="Total pressure loss of an exhaust diffuser; the coarse model moves six of fourteen coordinates.",
        paper={
            "num_inducing": 200,
            "initial_lengthscale": 1.0,
            "initial_mapping_lengthscale": 1.0,
            "initial_mapping_variance": 0.1,
        },
    )
