"""airfoil_phasta: normal-force coefficient of perturbed NACA 4412 airfoils by a fine and a coarse flow computation.

500 airfoils with inputs m (camber), p (its position), t (thickness) and alpha (angle of attack), each computed by both.
The fine task has all four; the coarse one is given m and alpha alone, the two that the fine coefficient depends on
most (Spearman 0.27 and 0.97), so the others act on it as noise. N1=4 and N2=300 rows of different airfoils, the
remaining 196 airfoils are the test rows of both tasks. This is not the paper's airfoil case (52 inputs, not published),
and it is easier: the fine coefficient is nearly linear. Data: GitHub felixnewberry/Low-Fidelity-Design, no licence
stated, so it is not in this repository.
"""

import gzip
from functools import lru_cache

import numpy as np

from benchmarks.cases.files import data_file
from benchmarks.cases.instance import Instance, streams

FINE_ROWS, COARSE_ROWS = 4, 300
INPUTS = ("m", "p", "t", "alpha_deg")
COARSE_INPUTS = ("m", "alpha_deg")


@lru_cache(maxsize=1)
def airfoils() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs (500, 4) and the coarse and the fine coefficient, each (500,)."""
    with gzip.open(data_file("airfoil_phasta", "airfoil_phasta.csv.gz"), "rt") as file:
        columns = file.readline().strip().split(",")
        values = np.loadtxt(file, delimiter=",")
    at = [columns.index(name) for name in INPUTS]
    return values[:, at], values[:, columns.index("cn_lo")], values[:, columns.index("cn_hi")]


def draw(seed: int) -> Instance:
    """Return the instance of a seed: N1=4, N2=300, 196 test rows of each task."""
    X, coarse, fine = airfoils()
    (stream,) = streams(seed, 1)
    order = stream.permutation(len(X))
    few, many, rest = np.split(order, [FINE_ROWS, FINE_ROWS + COARSE_ROWS])
    at = [INPUTS.index(name) for name in COARSE_INPUTS]
    return Instance(
        name="airfoil_phasta",
        tasks={"fine": (X[few], fine[few]), "coarse": (X[many][:, at], coarse[many])},
        test={"fine": (X[rest], fine[rest]), "coarse": (X[rest][:, at], coarse[rest])},
        names={"fine": INPUTS, "coarse": COARSE_INPUTS},
        common="coarse",
        targets=("fine",),
        mappings={"fine": list(COARSE_INPUTS)},
        description="Airfoils by a fine and a coarse flow computation; the coarse task knows camber and angle alone.",
        paper={"num_inducing": 100, "initial_lengthscale": 0.1},
    )
