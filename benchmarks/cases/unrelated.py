"""unrelated: a source that has nothing to do with the target, though their columns have the same names.

Target on x in [0, 1]^3: y(x) = sin(3 x1) + x2^2 + 0.5 x1 x3. Source on (x1, x2): a random smooth function, a draw of a
Gaussian process (SE, lengthscale 0.2, by 200 random Fourier features) of the instance's own seed, independent of the
target. Both carry noise of standard deviation 0.02. The right thing to do is to leave the source alone.
"""

import numpy as np

from benchmarks.cases.instance import Instance, streams

TARGET_ROWS, SOURCE_ROWS, TEST_ROWS = 12, 100, 500
NOISE = 0.02
LENGTHSCALE, FEATURES = 0.2, 200


def target(X: np.ndarray) -> np.ndarray:
    """Return the noise-free target at rows (N, 3)."""
    x1, x2, x3 = X.T
    return np.sin(3.0 * x1) + x2**2 + 0.5 * x1 * x3


class RandomFunction:
    """A draw of a Gaussian process on the plane, sqrt(2 / F) sum_f w_f cos(omega_f z + b_f)."""

    def __init__(self, stream: np.random.Generator):
        self.frequencies = stream.standard_normal((FEATURES, 2)) / LENGTHSCALE
        self.phases = stream.uniform(0.0, 2.0 * np.pi, FEATURES)
        self.weights = stream.standard_normal(FEATURES) * np.sqrt(2.0 / FEATURES)

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        """Return the function at rows (N, 2)."""
        return np.cos(Z @ self.frequencies.T + self.phases) @ self.weights


def draw(seed: int) -> Instance:
    """Return the instance of a seed: N1=12, N2=100, 500 test rows of each task."""
    function, *rest = streams(seed, 5)
    source = RandomFunction(function)
    draws = []
    sizes = ((TARGET_ROWS, 3, target), (SOURCE_ROWS, 2, source), (TEST_ROWS, 3, target), (TEST_ROWS, 2, source))
    for stream, (rows, dims, truth) in zip(rest, sizes, strict=True):
        X = stream.uniform(size=(rows, dims))
        draws.append((X, truth(X) + NOISE * stream.standard_normal(rows)))
    return Instance(
        name="unrelated",
        tasks={"target": draws[0], "source": draws[1]},
        test={"target": draws[2], "source": draws[3]},
        names={"target": ("x1", "x2", "x3"), "source": ("x1", "x2")},
        common="source",
        targets=("target",),
        mappings={"target": ["x1", "x2"]},
        description="The source is a random function, independent of the target: it cannot help and must not hurt.",
        paper={"num_inducing": 30, "initial_lengthscale": 0.1},
    )
