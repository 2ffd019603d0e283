"""The SARCOS robot arm: 21 inputs, seven torques; what both sarcos cases share.

The published test rows are every tenth row of the training file, so training is on rows with index % 10 != 0 alone:
22892 rows are to be had. The rows come from other public copies (see the data's own README; it is not in this
repository). Rows are neighbours in time, 100 a second, so even this split is optimistic.

The domain of torque 7 is the first 16 principal components of the 21 standardised inputs, fitted once on those 22892
training inputs: the domain belongs to the case and does not change with the seed. No test row is in it.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import aligngp as agp
from benchmarks.cases.files import data_file
from benchmarks.cases.instance import Instance, Table

INPUTS = tuple(f"{kind}{joint}" for kind in ("q", "qd", "qdd") for joint in range(1, 8))
COMPONENTS = 16
LEAK = 10
"""Every tenth row of the training file is a test row."""


@dataclass(frozen=True, eq=False)
class Arm:
    """Inputs (N, 21) and torques (N, 7) of the training rows and of the test rows, and the training rows' numbers."""

    X: np.ndarray
    torques: np.ndarray
    index: np.ndarray
    X_test: np.ndarray
    torques_test: np.ndarray


@lru_cache(maxsize=1)
def arm() -> Arm:
    """Return the rows that may be trained on, and the test rows."""
    with np.load(data_file("sarcos", "sarcos_train_recovered.npz")) as file:
        data, index = file["data"], file["index"]
    with np.load(data_file("sarcos", "sarcos_test.npz")) as file:
        test = file["data"]
    allowed = index % LEAK != 0
    data = data[allowed]
    return Arm(data[:, :21], data[:, 21:], index[allowed], test[:, :21], test[:, 21:])


@lru_cache
def projection(components: int = COMPONENTS) -> agp.Affine:
    """Return the map from the 21 inputs to their first principal components, fitted on the training rows."""
    X = arm().X
    mean, scale = X.mean(axis=0), X.std(axis=0)
    _, _, directions = np.linalg.svd((X - mean) / scale, full_matrices=False)
    # A component's sign is arbitrary: the largest weight is made positive.
    largest = np.abs(directions).argmax(axis=1)
    directions = directions * np.sign(directions[np.arange(len(largest)), largest])[:, None]
    A = directions[:components] / scale
    return agp.Affine(A, -A @ mean)


def project(X: np.ndarray, components: int = COMPONENTS) -> np.ndarray:
    """Return the first components of rows (N, 21)."""
    affine = projection(components)
    return X @ affine.A.T + affine.b


def instance(
    name: str,
    targets: tuple[str, ...],
    rows: tuple[np.ndarray, np.ndarray],
    description: str,
    components: int = COMPONENTS,
    torque: int = 4,
) -> Instance:
    """Return a torque on 21 inputs at the first rows, torque 7 on components at the second, and all test rows."""
    data = arm()
    own = f"tau{torque}"

    def tables(X: np.ndarray, torques: np.ndarray, X7: np.ndarray, torques7: np.ndarray) -> dict[str, Table]:
        return {own: (X, torques[:, torque - 1]), "tau7": (project(X7, components), torques7[:, 6])}

    first, second = rows
    return Instance(
        name=name,
        tasks=tables(data.X[first], data.torques[first], data.X[second], data.torques[second]),
        test=tables(data.X_test, data.torques_test, data.X_test, data.torques_test),
        names={own: INPUTS, "tau7": tuple(f"pc{number}" for number in range(1, components + 1))},
        common="tau7",
        targets=targets,
        mappings={own: projection(components)},
        description=description,
        paper={"num_inducing": 100, "initial_lengthscale": 1.0, "batch_size": 512},
    )
