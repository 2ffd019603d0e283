"""The paper's lower bounds, term by term and row by row."""

import math

import numpy as np

from .expectations import gauss_hermite_grid
from .kernels import gram


def sparse_marginal(x, kernel, Z, m, S, jitter):
    """q(f(x)) at one point, (mean, variance): (eq_mu_qi^t) and (eq_nu_qi^t).

    mean = k(x, Z) K^-1 m,  variance = k(x, x) + k(x, Z) K^-1 [S K^-1 - I] k(Z, x),  K = k(Z, Z) + jitter I.
    Shapes: x (D,), Z (M, D), m (M,), S (M, M).
    """
    inverse = np.linalg.inv(gram(kernel, Z, Z) + jitter * np.eye(len(Z)))
    k = np.array([kernel(x, z) for z in Z])
    mean = k @ inverse @ m
    variance = kernel(x, x) + k @ inverse @ (S @ inverse - np.eye(len(Z))) @ k
    return float(mean), float(variance)


def kl_gaussians(m, S, K):
    """KL[N(m, S) || N(0, K)], (eq_kl_u_q) and (eq_kl_u_g^td): m (M,), S and K (M, M), K with its jitter.

    1/2 [log |K| / |S| + m' K^-1 m + Tr(K^-1 S - I)].
    """
    inverse = np.linalg.inv(K)
    log_ratio = np.linalg.slogdet(K)[1] - np.linalg.slogdet(S)[1]
    return float(0.5 * (log_ratio + m @ inverse @ m + np.trace(inverse @ S - np.eye(len(m)))))


def kl_aligned_row(mu_g, nu_g, mu_g0, nu_g0):
    """KL[N(mu_g, diag nu_g) || N(mu_g0, nu_g0 I)] of one row, (eq_kl_x_i^t): vectors (D,), nu_g0 a number."""
    total = 0.0
    for d in range(len(mu_g)):
        total += math.log(nu_g0) - math.log(nu_g[d]) - 1.0
        total += nu_g[d] / nu_g0 + (mu_g[d] - mu_g0[d]) ** 2 / nu_g0
    return 0.5 * total


def expected_log_observation_row(x_bar, mean, variance, s2):
    """E log N(x_bar | f_bar, s2 I) under f_bar ~ N(mean, diag variance): one row of (eq_elbo_hsvlmc_em).

    sum_d -1/2 [log(2 pi s2) + ((x_bar_d - mean_d)^2 + variance_d) / s2]; vectors (D,).
    """
    total = 0.0
    for d in range(len(x_bar)):
        total -= 0.5 * math.log(2.0 * math.pi * s2)
        total -= 0.5 * ((x_bar[d] - mean[d]) ** 2 + variance[d]) / s2
    return total


def mapping_marginals(X, kernel, Z, means, covariances, nominal, jitter):
    """Mean and variance (N, D) of the aligned inputs: (eq_msgp) with the residual (eq_qx_mu_gp_residual).

    X (N, Dt), Z (M, Dt), means (D, M), covariances (D, M, M), nominal (N, D) = g0(X); nominal = 0 gives the
    embedded mapping. The kernel and the pseudo inputs are shared by the D outputs.
    """
    mean, variance = np.zeros(np.shape(nominal)), np.zeros(np.shape(nominal))
    for i in range(len(X)):
        for d in range(len(means)):
            residual, nu = sparse_marginal(X[i], kernel, Z, means[d], covariances[d], jitter)
            mean[i, d] = residual + nominal[i][d]
            variance[i, d] = nu
    return mean, variance


def _log_likelihood_row(y, x_bar, latents, weights, noise):
    """E log N(y | sum_q a_q f_q(x_bar), noise) under q(f) at one known x_bar: the summand of the bounds."""
    mean, spread = 0.0, 0.0
    for q, latent in enumerate(latents):
        mu, nu = sparse_marginal(x_bar, latent["kernel"], latent["Z"], latent["m"], latent["S"], latent["jitter"])
        mean += weights[q] * mu
        spread += weights[q] ** 2 * nu
    log_density = -0.5 * (math.log(2.0 * math.pi * noise) + (y - mean) ** 2 / noise)
    return log_density - spread / (2.0 * noise)


def _aligned_grid(task, i):
    """Weighted values of row i's aligned input: one point, equally weighted draws, or quadrature nodes."""
    if "aligned" in task:
        return [(1.0, task["aligned"][i])]
    mean, variance = task["mean"][i], task["variance"][i]
    if "quadrature" in task:
        return gauss_hermite_grid(mean, variance, task["quadrature"])
    draws = task["draws"]
    return [(1.0 / len(draws), mean + np.sqrt(variance) * draws[s][i]) for s in range(len(draws))]


def _expected_log_likelihoods(tasks, latents, mixing, noise):
    """Return for each task its minibatch scale times the sum over rows of the expected log likelihood."""
    totals = []
    for t, task in enumerate(tasks):
        total = 0.0
        for i in range(len(task["y"])):
            for weight, x_bar in _aligned_grid(task, i):
                total += weight * _log_likelihood_row(task["y"][i], x_bar, latents, mixing[t], noise[t])
        totals.append(task.get("scale", 1.0) * total)
    return totals


def _latent_kl(latents):
    """Sum over latents of KL[q(u_q) || p(u_q)], (eq_kl_u_q)."""
    total = 0.0
    for latent in latents:
        K = gram(latent["kernel"], latent["Z"], latent["Z"]) + latent["jitter"] * np.eye(len(latent["Z"]))
        total += kl_gaussians(latent["m"], latent["S"], K)
    return total


def elbo_g0(tasks, latents, mixing, noise):
    """HSVLMC-g0's bound and its terms: (eq_elbo_hsvlmc_g0), with "scale" in a task (eq_elbo_hsvlmc_g0_B).

    Shapes: mixing (T, Q), noise (T,).
    """
    per_task = _expected_log_likelihoods(tasks, latents, mixing, noise)
    latent_kl = _latent_kl(latents)
    return {
        "expected_log_likelihood": sum(per_task),
        "expected_log_likelihood_per_task": per_task,
        "latent_kl": latent_kl,
        "total": sum(per_task) - latent_kl,
    }


def _with_penalties(terms, tasks, row_penalty, mapping_posteriors):
    """Add the penalties of the aligned inputs to the terms of the g0 bound.

    Penalties of rows are scaled as their task's likelihood is; those of inducing variables never are.
    """
    alignment = []
    for task in tasks:
        total = 0.0
        if "aligned" not in task:
            for i in range(len(task["y"])):
                total += row_penalty(task, i)
        alignment.append(task.get("scale", 1.0) * total)
    mapping = 0.0
    for m, S, K in mapping_posteriors:
        mapping += kl_gaussians(m, S, K)
    return terms | {
        "alignment_penalty": sum(alignment),
        "alignment_penalty_per_task": alignment,
        "mapping_penalty": mapping,
        "total": terms["total"] - sum(alignment) - mapping,
    }


def elbo_hsvlmc(tasks, latents, mixing, noise, mapping_posteriors=(), kl_weight=1.0):
    """HSVLMC's bound and its terms: (eq_elbo_hsvlmc_final); without mapping_posteriors, the free variant.

    A task with Gaussian aligned inputs has "nu_g0" and either "draws" (S, N, D), standard normal, or
    "quadrature", the number of nodes in each dimension. `mapping_posteriors` lists (m, S, K) of every output
    of every mapping, K with its jitter, (eq_kl_u_g^td). `kl_weight` multiplies the sum of (eq_kl_x_i^t).
    """

    def row_penalty(task, i):
        return kl_weight * kl_aligned_row(task["mean"][i], task["variance"][i], task["nominal"][i], task["nu_g0"])

    return _with_penalties(elbo_g0(tasks, latents, mixing, noise), tasks, row_penalty, mapping_posteriors)


def elbo_hsvlmc_em(tasks, latents, mixing, noise, mapping_posteriors=()):
    """HSVLMC-EM's bound and its terms: (eq_elbo_hsvlmc_em).

    As `elbo_hsvlmc`, but the nominal inputs are observations of f_bar ~ N("mean", "variance") with variance
    "observation_variance" (instead of "nu_g0"), and the alignment penalty is minus the expected log density
    of those observations.
    """

    def row_penalty(task, i):
        return -expected_log_observation_row(
            task["nominal"][i], task["mean"][i], task["variance"][i], task["observation_variance"]
        )

    return _with_penalties(elbo_g0(tasks, latents, mixing, noise), tasks, row_penalty, mapping_posteriors)


def predictive_moments(mean, variance, latents, weights, noise, points):
    """Mean and variance of y* = sum_q a_q f_q(x_bar) + eps when x_bar ~ N(mean, diag variance), mean (D,).

    The paper's prediction (mu*, nu* = sum_q a_q^2 nu_q + nu_eps) at a fixed x_bar, then the moments of the
    mixture: E y = E mu(x_bar), Var y = E nu(x_bar) + E mu(x_bar)^2 - (E mu(x_bar))^2. With zero variance it
    is the prediction at the point itself; `noise` = 0 gives the noise-free function.
    """
    first, second, within = 0.0, 0.0, 0.0
    for weight, x in gauss_hermite_grid(mean, variance, points):
        mu, nu = 0.0, noise
        for q, latent in enumerate(latents):
            mu_q, nu_q = sparse_marginal(x, latent["kernel"], latent["Z"], latent["m"], latent["S"], latent["jitter"])
            mu += weights[q] * mu_q
            nu += weights[q] ** 2 * nu_q
        first += weight * mu
        second += weight * mu**2
        within += weight * nu
    return first, within + second - first**2
