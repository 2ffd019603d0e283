"""airfoil: lift coefficient of airfoils by two solvers, six inputs beside three.

50 ordinates, speed and angle of attack vary together and are compressed to six principal components. The high fidelity
is NeuralFoil, viscous; the low one a panel method that knows the three components that the high fidelity depends on
most (Sobol indices). The paper's airfoils and solvers are not published: these are ours, see data/airfoil.md.
"""

from functools import lru_cache

from benchmarks.cases.files import samples
from benchmarks.cases.instance import Instance, Table
from benchmarks.cases.sampled import split

INPUTS = ("pc1", "pc2", "pc3", "pc4", "pc5", "pc6")
LOW_INPUTS = ("pc1", "pc4", "pc5")
HIGH_ROWS, LOW_ROWS, TEST_ROWS = 4, 1000, 300


@lru_cache(maxsize=1)
def airfoils() -> dict[str, Table]:
    """Return inputs and lift coefficients of the high and of the low sample."""
    return {
        "high": samples("airfoil_high.csv", INPUTS, "lift"),
        "low": samples("airfoil_low.csv", LOW_INPUTS, "lift"),
    }


def draw(seed: int, rows: int = HIGH_ROWS) -> Instance:
    """Return the instance of a seed: N1=`rows`, N2=1000, 300 test rows of each task.

    Another number of rows leaves all else as it is, and more rows contain fewer.
    """
    tasks, test = split(seed, airfoils(), {"high": rows, "low": LOW_ROWS}, TEST_ROWS)
    return Instance(
        name="airfoil",
        tasks=tasks,
        test=test,
        names={"high": INPUTS, "low": LOW_INPUTS},
        common="low",
        targets=("high",),
        mappings={"high": list(LOW_INPUTS)},
        description="Lift coefficient of airfoils; the panel method knows three of the six principal components.",
        paper={"num_inducing": 100, "initial_lengthscale": 0.1},
    )
