"""What the bounds are bounds of: the dense LMC, the bound with its best q(u), and the objective of IMC."""

import numpy as np
from scipy.stats import multivariate_normal

from .kernels import gram


def _rows(tasks):
    """Return [(task index, aligned input)] of all rows, and all outputs, in the order of the tasks."""
    rows, outputs = [], []
    for t, task in enumerate(tasks):
        for i in range(len(task["y"])):
            rows.append((t, task["aligned"][i]))
            outputs.append(task["y"][i])
    return rows, np.array(outputs)


def _lmc_covariance(rows_a, rows_b, kernels, mixing):
    """Cov[f^t(x), f^t'(x')] = sum_q a_q^t a_q^t' k_q(x, x') of two lists of (task index, point)."""
    covariance = np.zeros((len(rows_a), len(rows_b)))
    for i, (t, x) in enumerate(rows_a):
        for j, (s, z) in enumerate(rows_b):
            for q, kernel in enumerate(kernels):
                covariance[i, j] += mixing[t][q] * mixing[s][q] * kernel(x, z)
    return covariance


def _noise_matrix(rows, noise):
    """Diagonal matrix of the noise variance of each row's task."""
    return np.diag([noise[t] for t, _ in rows])


def exact_evidence(tasks, kernels, mixing, noise):
    """log p(y) = log N(y | 0, K_ff + noise) of the LMC on known aligned inputs; mixing (T, Q), noise (T,)."""
    rows, y = _rows(tasks)
    covariance = _lmc_covariance(rows, rows, kernels, mixing) + _noise_matrix(rows, noise)
    return float(multivariate_normal.logpdf(y, mean=np.zeros(len(y)), cov=covariance))


def exact_posterior(tasks, kernels, mixing, noise, task_index, X_new):
    """Posterior mean (n,) and covariance (n, n) of one task's noise-free function at X_new (n, D)."""
    rows, y = _rows(tasks)
    new = [(task_index, x) for x in X_new]
    covariance = _lmc_covariance(rows, rows, kernels, mixing) + _noise_matrix(rows, noise)
    cross = _lmc_covariance(new, rows, kernels, mixing)
    mean = cross @ np.linalg.solve(covariance, y)
    prior = _lmc_covariance(new, new, kernels, mixing)
    return mean, prior - cross @ np.linalg.solve(covariance, cross.T)


def _joint_inducing(rows, latents, mixing):
    """K_uu (block diagonal) and K_fu of the stacked inducing variables u = (u_1, ..., u_Q)."""
    sizes = [len(latent["Z"]) for latent in latents]
    starts = [sum(sizes[:q]) for q in range(len(sizes))]
    K_uu, K_fu = np.zeros((sum(sizes), sum(sizes))), np.zeros((len(rows), sum(sizes)))
    for q, latent in enumerate(latents):
        block = slice(starts[q], starts[q] + sizes[q])
        K_uu[block, block] = gram(latent["kernel"], latent["Z"], latent["Z"])
        K_uu[block, block] += latent["jitter"] * np.eye(sizes[q])
        for i, (t, x) in enumerate(rows):
            for j, z in enumerate(latent["Z"]):
                K_fu[i, starts[q] + j] = mixing[t][q] * latent["kernel"](x, z)
    return K_uu, K_fu, starts, sizes


def collapsed_bound(tasks, latents, mixing, noise):
    """The best value of (eq_elbo_hsvlmc_g0) over one JOINT Gaussian q(u_1, ..., u_Q), and that Gaussian.

    value = log N(y | 0, Q_ff + noise) - sum_i 1 / (2 nu_i) (k_ii - Q_ii),  Q_ff = K_fu K_uu^-1 K_uf,
    m = K_uu P^-1 K_uf noise^-1 y,  S = K_uu P^-1 K_uu,  P = K_uu + K_uf noise^-1 K_fu.
    Latents need "kernel", "Z" and "jitter" only. Returns {"total", "m" (QM,), "S" (QM, QM)}; with Q = 1 this
    is the best factorised q too.
    """
    rows, y = _rows(tasks)
    K_uu, K_fu, _, _ = _joint_inducing(rows, latents, mixing)
    Q_ff = K_fu @ np.linalg.solve(K_uu, K_fu.T)
    noises = _noise_matrix(rows, noise)
    total = float(multivariate_normal.logpdf(y, mean=np.zeros(len(y)), cov=Q_ff + noises))
    for i, (t, x) in enumerate(rows):
        k_ii = sum(mixing[t][q] ** 2 * latent["kernel"](x, x) for q, latent in enumerate(latents))
        total -= (k_ii - Q_ff[i, i]) / (2.0 * noise[t])
    weighted = K_fu.T @ np.linalg.inv(noises)
    P = K_uu + weighted @ K_fu
    return {
        "total": total,
        "m": K_uu @ np.linalg.solve(P, weighted @ y),
        "S": K_uu @ np.linalg.solve(P, K_uu),
    }


def optimal_factorised(tasks, latents, mixing, noise):
    """Latents with the best "m" and "S" of the paper's q(u) = prod_q q(u_q) for (eq_elbo_hsvlmc_g0).

    The bound sees the means as the joint bound does, so they are the joint optimum's; it separates in the
    covariances, so each S_q = K_q P_qq^-1 K_q with its own block of P. The value of the bound there is
    `elbo_g0` of what is returned.
    """
    rows, _ = _rows(tasks)
    joint = collapsed_bound(tasks, latents, mixing, noise)
    K_uu, K_fu, starts, sizes = _joint_inducing(rows, latents, mixing)
    P = K_uu + K_fu.T @ np.linalg.inv(_noise_matrix(rows, noise)) @ K_fu
    best = []
    for q, latent in enumerate(latents):
        block = slice(starts[q], starts[q] + sizes[q])
        S = K_uu[block, block] @ np.linalg.solve(P[block, block], K_uu[block, block])
        best.append(latent | {"m": joint["m"][block], "S": S})
    return best


def imc_objective(X_high, y_high, low_mean_callable, A, b, A0, b0, alpha):
    """IMC's objective: sum_i (y_i - y_low(A x_i + b))^2 + alpha ||[A, b] - [A0, b0]||_F^2.

    X_high (N, Dt), y_high (N,), A (D, Dt), b (D,); `low_mean_callable` maps one point (D,) to a number.
    """
    total = 0.0
    for x, y in zip(X_high, y_high, strict=True):
        total += (y - low_mean_callable(A @ x + b)) ** 2
    for d in range(len(b)):
        total += alpha * (b[d] - b0[d]) ** 2
        for e in range(A.shape[1]):
            total += alpha * (A[d, e] - A0[d, e]) ** 2
    return float(total)
