"""lossless: a target that depends on g0(x) alone, related to the source; the truth is known and no information is lost.

Source on z in [0, 1]^2: s(z) = sin(2 pi z1) + 2 (z2 - 0.4)^2 + z1 z2. Target on x in [0, 1]^5 with g0(x) = [x2, x4]:
y(x) = 1.5 s(g0(x)) + 0.5 x2 - 1, so the task-specific part is small. Both carry noise of standard deviation 0.05. A
model that trusts g0 is right here, and calibrating it can only do harm.
"""

import numpy as np

from benchmarks.cases.instance import Instance, streams

TARGET_ROWS, SOURCE_ROWS, TEST_ROWS = 8, 100, 500
NOISE = 0.05


def source(Z: np.ndarray) -> np.ndarray:
    """Return the noise-free source at rows (N, 2)."""
    z1, z2 = Z.T
    return np.sin(2.0 * np.pi * z1) + 2.0 * (z2 - 0.4) ** 2 + z1 * z2


def target(X: np.ndarray) -> np.ndarray:
    """Return the noise-free target at rows (N, 5)."""
    return 1.5 * source(X[:, [1, 3]]) + 0.5 * X[:, 1] - 1.0


def draw(seed: int) -> Instance:
    """Return the instance of a seed: N1=8, N2=100, 500 test rows of each task."""
    draws = []
    sizes = ((TARGET_ROWS, 5, target), (SOURCE_ROWS, 2, source), (TEST_ROWS, 5, target), (TEST_ROWS, 2, source))
    for stream, (rows, dims, function) in zip(streams(seed, 4), sizes, strict=True):
        X = stream.uniform(size=(rows, dims))
        draws.append((X, function(X) + NOISE * stream.standard_normal(rows)))
    return Instance(
        name="lossless",
        tasks={"target": draws[0], "source": draws[1]},
        test={"target": draws[2], "source": draws[3]},
        names={"target": ("x1", "x2", "x3", "x4", "x5"), "source": ("x2", "x4")},
        common="source",
        targets=("target",),
        mappings={"target": ["x2", "x4"]},
        description="The target is a function of g0(x) alone and related to the source; three inputs are useless.",
        paper={"num_inducing": 30, "initial_lengthscale": 0.1},
    )
