"""The paper's two toy cases, drawn afresh from a seed.

Training and test rows, and each task's inputs and noise, come from random streams of their own: another
number of rows here changes nothing there, and a smaller draw is the beginning of a larger one.
"""

from dataclasses import dataclass

import numpy as np

from aligngp.errors import DataError, SettingError

NOISE_VARIANCE = 0.04
"""Variance of the noise on the target task of the noisy case: eps ~ N(0, 0.04)."""


@dataclass(frozen=True, eq=False)
class Case:
    """A problem with known truth: training and test tables of every task, and what an expert says of them.

    `tasks` and `test` map a task's name to (X, y), float64 of shapes (N, Dt) and (N,); `names` maps it to its
    columns. `mappings` lists the columns that take a task to the domain of the `common` one, the prior
    mapping g0; the common task itself needs none.
    """

    name: str
    tasks: dict[str, tuple[np.ndarray, np.ndarray]]
    test: dict[str, tuple[np.ndarray, np.ndarray]]
    names: dict[str, tuple[str, ...]]
    common: str
    target: str
    mappings: dict[str, list[str]]
    description: str


def _columns(function: str, X: np.ndarray, columns: int) -> list[np.ndarray]:
    """Return the columns of X (N, columns), each (N,)."""
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != columns:
        raise DataError(f"{function}: expected inputs of shape (N, {columns}), got {X.shape}. One row a point.")
    return list(X.T)


def park_high(X: np.ndarray) -> np.ndarray:
    """Park's high-fidelity function of x1..x4 in [0, 1], (N, 4) -> (N,).

    x1/2 (sqrt(1 + (x2 + x3^2) x4 / x1^2) - 1) + (x1 + 3 x4) exp(1 + sin x3), with x1 taken under the root, so
    that the limit at x1 = 0 needs no case of its own.
    """
    x1, x2, x3, x4 = _columns("park_high", X, 4)
    root = np.sqrt(x1**2 + (x2 + x3**2) * x4)
    return 0.5 * (root - x1) + (x1 + 3.0 * x4) * np.exp(1.0 + np.sin(x3))


def park_low(X: np.ndarray) -> np.ndarray:
    """Park's low-fidelity function of x3, x4 in [0, 1], (N, 2) -> (N,).

    (1 + sin(x3) / 10) high(0.5, 0.5, x3, x4) - 2 x3 + x4^2 + 0.75.
    """
    x3, x4 = _columns("park_low", X, 2)
    half = np.full_like(x3, 0.5)
    high = park_high(np.column_stack([half, half, x3, x4]))
    return (1.0 + np.sin(x3) / 10.0) * high - 2.0 * x3 + x4**2 + 0.75


def _latent_functions(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the four functions that both tasks of the noisy case mix; x (N,)."""
    return (
        0.5 * np.sin(3.0 * x) + x,
        3.0 * np.cos(x) - x,
        2.5 * np.cos(5.0 * x - 1.0),
        np.sin(1.5 * x),
    )


def noisy_target(X: np.ndarray) -> np.ndarray:
    """The noise-free target function of the noisy case, (N, 2) -> (N,); the second input has no effect.

    0.5 f1(x1) - 0.4 f2(x1) + 0.6 f3(x1) + 0.6 f4(x1).
    """
    x1, _ = _columns("noisy_target", X, 2)
    f1, f2, f3, f4 = _latent_functions(x1)
    return 0.5 * f1 - 0.4 * f2 + 0.6 * f3 + 0.6 * f4


def noisy_source(X: np.ndarray) -> np.ndarray:
    """The (noise-free) source function of the noisy case, (N, 1) -> (N,).

    -0.3 f1(x1) + 0.43 f2(x1) - 0.5 f3(x1) + 0.1 f4(x1).
    """
    (x1,) = _columns("noisy_source", X, 1)
    f1, f2, f3, f4 = _latent_functions(x1)
    return -0.3 * f1 + 0.43 * f2 - 0.5 * f3 + 0.1 * f4


def _streams(seed: int, parts: int) -> list[tuple[np.random.Generator, np.random.Generator]]:
    """Return for each part two independent generators, of its inputs and of its noise."""
    streams = []
    for part in np.random.SeedSequence(seed).spawn(parts):
        inputs, noise = part.spawn(2)
        streams.append((np.random.default_rng(inputs), np.random.default_rng(noise)))
    return streams


def _check(**settings: int) -> None:
    """Refuse numbers of rows below one and a negative seed."""
    for name, value in settings.items():
        least = 0 if name == "seed" else 1
        if value < least:
            raise SettingError(f"{name}: expected an integer >= {least}, got {value}.")


def park(num_high: int = 6, num_low: int = 100, num_test: int = 1000, seed: int = 0) -> Case:
    """The paper's multi-fidelity case: few rows of a 4-D function, more of a cheap 2-D one, without noise.

    Inputs are uniform on the unit cube; `num_test` rows of each task.
    """
    _check(num_high=num_high, num_low=num_low, num_test=num_test, seed=seed)
    draws = []
    for (inputs, _), rows, (function, dims) in zip(
        _streams(seed, 4),
        (num_high, num_low, num_test, num_test),
        ((park_high, 4), (park_low, 2)) * 2,
        strict=True,
    ):
        X = inputs.uniform(size=(rows, dims))
        draws.append((X, function(X)))
    return Case(
        name="park",
        tasks={"high": draws[0], "low": draws[1]},
        test={"high": draws[2], "low": draws[3]},
        names={"high": ("x1", "x2", "x3", "x4"), "low": ("x3", "x4")},
        common="low",
        target="high",
        mappings={"high": ["x3", "x4"]},
        description="Park's function in two fidelities: the high one has four inputs, the low one x3 and x4.",
    )


def noisy(num_target: int = 5, num_source: int = 100, num_test: int = 100, seed: int = 0) -> Case:
    """The paper's noisy case: a target with a useless second input and noise, and a clean 1-D source.

    Inputs are uniform on [-5, 5]. The target's outputs carry noise of *variance* 0.04 in training and in
    test rows alike (it is the task's output); the source has none. `num_test` rows of each task.
    """
    _check(num_target=num_target, num_source=num_source, num_test=num_test, seed=seed)
    draws = []
    for (inputs, noises), rows, (function, dims, variance) in zip(
        _streams(seed, 4),
        (num_target, num_source, num_test, num_test),
        ((noisy_target, 2, NOISE_VARIANCE), (noisy_source, 1, 0.0)) * 2,
        strict=True,
    ):
        X = inputs.uniform(-5.0, 5.0, size=(rows, dims))
        draws.append((X, function(X) + np.sqrt(variance) * noises.standard_normal(rows)))
    return Case(
        name="noisy",
        tasks={"target": draws[0], "source": draws[1]},
        test={"target": draws[2], "source": draws[3]},
        names={"target": ("x1", "x2"), "source": ("x1",)},
        common="source",
        target="target",
        mappings={"target": ["x1"]},
        description="Two mixtures of four 1-D functions; the target is noisy and has a useless input x2.",
    )
