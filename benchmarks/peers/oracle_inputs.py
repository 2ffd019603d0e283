"""Random data and parameters for the oracle's problems; NumPy alone."""

import numpy as np


def outputs(aligned, rng):
    """Targets (N,): a smooth function of the aligned rows, and noise."""
    return np.sin(2.0 * aligned.sum(1)) + 0.3 * aligned[:, 0] + 0.1 * rng.normal(size=len(aligned))


def factors(count, size, rng):
    """Lower triangular (count, size, size) with a positive diagonal."""
    lower = np.tril(0.3 * rng.normal(size=(count, size, size)), -1)
    return lower + np.eye(size) * rng.uniform(0.3, 1.2, (count, size))[:, :, None]


def latent_model(seed, kernel, rows, latents, dims, inducing, variance, mixing=None):
    """Aligned rows, targets and every parameter of an LMC, as arrays.

    Keys and shapes: aligned T x (N_t, D), y T x (N_t,), Z (Q, M, D), lengthscales (Q, D), variance, mixing
    (T, Q), noise (T,), q_mu (M, Q), q_sqrt (Q, M, M), new T x (4, D).
    """
    rng = np.random.default_rng(seed)
    tasks = len(rows)
    aligned = [rng.normal(size=(n, dims)) for n in rows]
    return {
        "kernel": kernel,
        "aligned": aligned,
        "y": [outputs(rows_of_task, rng) for rows_of_task in aligned],
        "Z": 1.5 * rng.normal(size=(latents, inducing, dims)),
        "lengthscales": rng.uniform(0.6, 1.6, (latents, dims)),
        "variance": variance,
        "mixing": rng.normal(size=(tasks, latents)) if mixing is None else np.array(mixing),
        "noise": rng.uniform(0.05, 0.4, tasks),
        "q_mu": rng.normal(size=(inducing, latents)),
        "q_sqrt": factors(latents, inducing, rng),
        "new": [rng.normal(size=(4, dims)) for _ in range(tasks)],
    }


def mapping_model(seed, rows, own_dims, dims, inducing, variance, samples):
    """The residual mapping of one task: X (N, D_t), Z (M_g, D_t), draws eps (S, N, D) and every parameter."""
    rng = np.random.default_rng(seed)
    return {
        "X": rng.normal(size=(rows, own_dims)),
        "Z": rng.normal(size=(inducing, own_dims)),
        "lengthscales": rng.uniform(0.8, 2.0, own_dims),
        "variance": variance,
        "q_mu": rng.normal(size=(inducing, dims)),
        "q_sqrt": factors(dims, inducing, rng),
        "eps": rng.normal(size=(samples, rows, dims)),
    }
