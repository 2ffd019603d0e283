"""A small instance, as a case draws it."""

import numpy as np
from benchmarks.cases.instance import Instance


def small(seed, targets=("fine",)):
    """Three rows of a 2-D task, four of a 1-D one."""
    stream = np.random.default_rng(seed)

    def table(rows, dims):
        return stream.uniform(size=(rows, dims)), stream.standard_normal(rows) + 3.0

    return Instance(
        name="small",
        tasks={"fine": table(3, 2), "coarse": table(4, 1)},
        test={"fine": table(5, 2), "coarse": table(6, 1)},
        names={"fine": ("a", "b"), "coarse": ("b",)},
        common="coarse",
        targets=targets,
        mappings={"fine": ["b"]},
        description="A small case.",
        paper={"num_inducing": 7},
    )
