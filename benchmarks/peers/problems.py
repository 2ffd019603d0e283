"""The problems that one training step is timed on; NumPy alone, so that every side can read it.

`problem(case, seed)` gives two tasks' data and every initial value. Both sides must start from these values:
then the objective before the first step is one number, and a side that times another model is found out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Size:
    """How large a case is; `batch` rows of the second task a step, None for all of them."""

    rows: tuple[int, int]
    own_dims: tuple[int, int]
    inducing: int
    batch: int | None = None


CASES = {
    "n106": Size(rows=(6, 100), own_dims=(4, 2), inducing=30),
    "n1004": Size(rows=(4, 1000), own_dims=(6, 3), inducing=100),
    "b532": Size(rows=(20, 22892), own_dims=(21, 16), inducing=100, batch=512),
}
LATENTS = 2
RELATIVE_JITTER = 1e-8
LEARNING_RATE = 5e-3


def problem(case: str, seed: int = 0) -> dict:
    """Data and initial values of a case: T = 2 tasks, Q = 2 latents; task 2 is the common one.

    Keys: `X` list of (N_t, D_t); `aligned` list of (N_t, D), the nominal mapping picks the first D columns;
    `y` list of (N_t,); `batch` rows of task 2 a step or None; `Z` (Q, M, D); `lengthscales` (Q, D);
    `variance` (Q,); `mixing` (T, Q); `noise` (T,); `q_mu` (M, Q) and `q_sqrt` (Q, M, M), whitened; for the
    residual mapping of task 1 `mapping_Z` (M_g, D_1), `mapping_lengthscales` (D_1,), `mapping_variance`,
    `mapping_q_mu` (M_g, D), `mapping_q_sqrt` (D, M_g, M_g), `row_variance` (the paper's nu_g0) and `eps` (1,
    N_1, D), the draw for comparing values; `relative_jitter` (times the mean diagonal of K) and
    `learning_rate`.
    """
    if case not in CASES:
        raise ValueError(f"There is no case {case!r}; there are {', '.join(CASES)}.")
    size = CASES[case]
    rng = np.random.default_rng(seed)
    dims = size.own_dims[1]
    X = [rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), shape) for shape in zip(size.rows, size.own_dims, strict=True)]
    aligned = [x[:, :dims] for x in X]
    return {
        "case": case,
        "X": X,
        "aligned": aligned,
        "y": _outputs(X, dims, rng),
        "batch": size.batch,
        **_latent_values(aligned, size.inducing, rng),
        **_mapping_values(X[0], dims, rng),
        "relative_jitter": RELATIVE_JITTER,
        "learning_rate": LEARNING_RATE,
    }


def _outputs(X: list[Array], dims: int, rng: np.random.Generator) -> list[Array]:
    """A smooth function of the common columns, the first task adds its other columns; standardised."""
    weights = rng.normal(size=(2, dims)) / np.sqrt(dims)
    outputs = []
    for x in X:
        phase = x[:, :dims] @ weights.T
        y = np.sin(2.0 * phase[:, 0]) + 0.5 * phase[:, 1] ** 2
        y = y + 0.3 * np.sum(x[:, dims:], axis=1) / np.sqrt(max(x.shape[1] - dims, 1))
        y = y + 0.05 * rng.normal(size=y.shape)
        outputs.append((y - y.mean()) / y.std())
    return outputs


def _latent_values(aligned: list[Array], inducing: int, rng: np.random.Generator) -> dict:
    """Initial latents, mixing and noise; q(u) is away from N(0, I) so that values tell right from wrong."""
    dims = aligned[1].shape[1]
    rows = np.concatenate(aligned)
    picks = [rng.choice(len(rows), inducing, replace=False) for _ in range(LATENTS)]
    spread = np.linspace(0.9, 1.1, LATENTS)[:, None] * np.linspace(0.8, 1.2, dims)[None, :]
    return {
        "Z": np.stack([rows[pick] for pick in picks]),
        "lengthscales": max(1.0, np.sqrt(dims) / 2.0) * spread,
        "variance": np.ones(LATENTS),
        "mixing": np.array([[0.9, 0.4], [0.7, -0.5]]),
        "noise": np.array([0.1, 0.2]),
        "q_mu": 0.1 * rng.normal(size=(inducing, LATENTS)),
        "q_sqrt": _factors(LATENTS, inducing, rng),
    }


def _mapping_values(X: Array, dims: int, rng: np.random.Generator) -> dict:
    """Initial residual mapping of task 1; inducing inputs at the training rows, as in the appendix."""
    rows = len(X)
    return {
        "mapping_Z": X.copy(),
        "mapping_lengthscales": np.sqrt(X.shape[1]) * np.linspace(0.8, 1.2, X.shape[1]),
        "mapping_variance": 1.0,
        "mapping_q_mu": 0.1 * rng.normal(size=(rows, dims)),
        "mapping_q_sqrt": _factors(dims, rows, rng),
        "row_variance": 1.0,
        "eps": rng.normal(size=(1, rows, dims)),
    }


def _factors(count: int, size: int, rng: np.random.Generator) -> Array:
    """Lower triangular factors (count, size, size) near half the identity."""
    return 0.5 * np.eye(size) + 0.05 * np.tril(rng.normal(size=(count, size, size))) / np.sqrt(size)
