"""rotor_fea: largest displacement of two impellers by finite elements, twenty design variables beside seven.

The fourth stage of a compressor (20 inputs) is the target, the first stage (7 inputs) the source: two parts that share
no column, in one physics. The files give the variables no names, so the prior mapping knows one thing: each part's
displacement falls with one input above all (Spearman -0.98 with x10 of the fourth stage, -0.83 with x2 of the first).
The one becomes the other; the other six inputs of the first stage are put at the middle of their range. That choice was
read off all rows of the data. Not the paper's disk. Data: GitHub diegozilli/StructutalOptimizationCaseStudies, no
licence stated, so they are not in this repository.
"""

import gzip
from functools import lru_cache

import numpy as np

import aligngp as agp
from benchmarks.cases.files import data_file
from benchmarks.cases.instance import Instance, Table
from benchmarks.cases.sampled import split

FILES = {"fourth": ("impeller_stage4_20d.csv.gz", 20), "first": ("impeller_stage1_7d.csv.gz", 7)}
NAMES = {name: tuple(f"{name}_x{i}" for i in range(1, inputs + 1)) for name, (_, inputs) in FILES.items()}
"""x2 of one part is not x2 of the other: the names say so."""
STRONGEST = {"fourth": "fourth_x10", "first": "first_x2"}
ROWS = {"fourth": 10, "first": 100}
TEST_ROWS = 58
OUTPUT = "disp"


@lru_cache(maxsize=1)
def impellers() -> dict[str, Table]:
    """Return inputs, scaled to [0, 1], and displacements of both parts; rows without a displacement are left out."""
    found = {}
    for name, (file, inputs) in FILES.items():
        with gzip.open(data_file("rotor_fea", file), "rt") as lines:
            columns = lines.readline().strip().split(",")
            values = np.genfromtxt(lines, delimiter=",")
        y = values[:, columns.index(OUTPUT)]
        known = np.isfinite(y)
        found[name] = values[known][:, [columns.index(f"x{i}") for i in range(1, inputs + 1)]], y[known]
    return found


def mapping() -> agp.Affine:
    """Return the map from the fourth stage's inputs to the first stage's."""
    A, b = np.zeros((len(NAMES["first"]), len(NAMES["fourth"]))), np.full(len(NAMES["first"]), 0.5)
    at = NAMES["first"].index(STRONGEST["first"])
    A[at, NAMES["fourth"].index(STRONGEST["fourth"])], b[at] = 1.0, 0.0
    return agp.Affine(A, b)


def draw(seed: int) -> Instance:
    """Return the instance of a seed: N1=10, N2=100, 58 test rows of each task."""
    tasks, test = split(seed, impellers(), ROWS, TEST_ROWS)
    return Instance(
        name="rotor_fea",
        tasks=tasks,
        test=test,
        names=dict(NAMES),
        common="first",
        targets=("fourth",),
        mappings={"fourth": mapping()},
        description="Largest displacement of two impellers with 20 and 7 unnamed design variables.",
        paper={"num_inducing": 100, "initial_lengthscale": 1.0},
    )
