"""noisy: the paper's first toy case, five noisy 2-D rows beside a clean 1-D source; g0 drops the useless input."""

from aligngp import datasets
from benchmarks.cases.instance import Instance, from_case


def draw(seed: int) -> Instance:
    """Return the instance of a seed: N1=5, N2=100, 100 test rows of each task."""
    return from_case(datasets.noisy(seed=seed), num_inducing=30, initial_lengthscale=0.1)
