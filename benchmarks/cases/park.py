"""park: the paper's multi-fidelity toy case, six 4-D rows beside a hundred of a cheap 2-D function; no noise."""

from aligngp import datasets
from benchmarks.cases.instance import Instance, from_case


def draw(seed: int) -> Instance:
    """Return the instance of a seed: N1=6, N2=100, 1000 test rows of each task."""
    return from_case(datasets.park(seed=seed), num_inducing=30, initial_lengthscale=0.1)
