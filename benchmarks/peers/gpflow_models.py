"""HSVLMC-g0 and HSVLMC written with GPflow's own parts, in the forms that are timed.

"lmc" is GPflow's multi-output form (LinearCoregionalization over SeparateIndependentInducingVariables);
"plain" calls its single-output conditional once a latent and mixes by hand. Both see the rows of all tasks at
once, so each K_zz is factored once a step. Everything is trainable: kernels, inducing inputs, q(u), mixing,
noise, nu_g0.
"""

import gpflow
import numpy as np
import tensorflow as tf
from gpflow.conditionals import conditional
from gpflow.inducing_variables import InducingPoints, SeparateIndependentInducingVariables
from gpflow.kullback_leiblers import gauss_kl
from gpflow.utilities import positive, triangular

FORMS = ("plain", "lmc")
MODELS = ("g0", "hsvlmc")


def se_kernel(variance, lengthscales):
    """k(x, x') = v exp(-1/2 sum_d (x_d - x'_d)^2 / l_d^2)."""
    return gpflow.kernels.SquaredExponential(variance=variance, lengthscales=lengthscales)


class PlainLatents(tf.Module):
    """Q single-output sparse GPs, mixed by hand."""

    def __init__(self, values):
        super().__init__()
        self.kernels = [se_kernel(*pair) for pair in zip(values["variance"], values["lengthscales"], strict=True)]
        self.inducing = [InducingPoints(z) for z in values["Z"]]
        self.q_mu = [gpflow.Parameter(column[:, None]) for column in values["q_mu"].T]
        self.q_sqrt = [gpflow.Parameter(factor[None], transform=triangular()) for factor in values["q_sqrt"]]
        self.mixing = gpflow.Parameter(values["mixing"])

    def marginals(self, groups):
        """Moments (N_t,) of each task's function at its own rows: sum_q a_q mu_q, sum_q a_q^2 nu_q."""
        rows, sizes = tf.concat(groups, 0), [group.shape[0] for group in groups]
        parts = zip(self.inducing, self.kernels, self.q_mu, self.q_sqrt, strict=True)
        moments = [conditional(rows, z, k, m, q_sqrt=s, white=True) for z, k, m, s in parts]
        means = tf.split(tf.concat([mean for mean, _ in moments], 1), sizes)  # T x (N_t, Q)
        variances = tf.split(tf.concat([variance for _, variance in moments], 1), sizes)
        mixing = tf.unstack(tf.convert_to_tensor(self.mixing))
        return [
            (tf.linalg.matvec(mean, a), tf.linalg.matvec(variance, a**2))
            for mean, variance, a in zip(means, variances, mixing, strict=True)
        ]

    def kl(self):
        """sum_q KL[q(u_q) || N(0, I)]."""
        return tf.add_n([gauss_kl(*pair) for pair in zip(self.q_mu, self.q_sqrt, strict=True)])


class CoregionalLatents(tf.Module):
    """GPflow's multi-output sparse GP over a linear coregionalisation."""

    def __init__(self, values):
        super().__init__()
        kernels = [se_kernel(*pair) for pair in zip(values["variance"], values["lengthscales"], strict=True)]
        self.kernel = gpflow.kernels.LinearCoregionalization(kernels, W=values["mixing"])
        self.inducing = SeparateIndependentInducingVariables([InducingPoints(z) for z in values["Z"]])
        self.q_mu = gpflow.Parameter(values["q_mu"])
        self.q_sqrt = gpflow.Parameter(values["q_sqrt"], transform=triangular())

    def marginals(self, groups):
        """Moments (N_t,) of each task's function at its own rows: its column of the multi-output moments."""
        rows, sizes = tf.concat(groups, 0), [group.shape[0] for group in groups]
        mean, variance = conditional(rows, self.inducing, self.kernel, self.q_mu, q_sqrt=self.q_sqrt, white=True)
        pairs = zip(tf.split(mean, sizes), tf.split(variance, sizes), strict=True)
        return [(m[:, task], v[:, task]) for task, (m, v) in enumerate(pairs)]

    def kl(self):
        """sum_q KL[q(u_q) || N(0, I)]."""
        return gauss_kl(self.q_mu, self.q_sqrt)


class ResidualMapping(tf.Module):
    """The paper's MSGP of task 1: D outputs share kernel and inducing inputs; the mean is g0."""

    def __init__(self, values):
        super().__init__()
        self.X, self.nominal = tf.constant(values["X"][0]), tf.constant(values["aligned"][0])
        self.kernel = se_kernel(values["mapping_variance"], values["mapping_lengthscales"])
        self.inducing = InducingPoints(values["mapping_Z"])
        self.q_mu = gpflow.Parameter(values["mapping_q_mu"])
        self.q_sqrt = gpflow.Parameter(values["mapping_q_sqrt"], transform=triangular())
        self.row_variance = gpflow.Parameter(values["row_variance"], transform=positive())

    def draw(self, eps):
        """One draw of the aligned rows (N, D), and KL[q(u_g)||p(u_g)] + KL[q(X_bar)||N(g0, nu_g0 I)]."""
        # one kernel and D columns of q_mu: GPflow factors K_zz once for all outputs
        residual, variance = conditional(self.X, self.inducing, self.kernel, self.q_mu, q_sqrt=self.q_sqrt, white=True)
        prior = tf.convert_to_tensor(self.row_variance)
        ratio = variance / prior
        row_kl = 0.5 * tf.reduce_sum(ratio - tf.math.log(ratio) - 1.0 + residual**2 / prior)
        rows = self.nominal + residual + tf.sqrt(variance) * eps
        return rows, gauss_kl(self.q_mu, self.q_sqrt) + row_kl


class Bound(tf.Module):
    """The negative bound, equation (elbo_hsvlmc_g0) or, with one draw, (elbo_hsvlmc_final)."""

    def __init__(self, values, model, form):
        super().__init__()
        self.latents = {"plain": PlainLatents, "lmc": CoregionalLatents}[form](values)
        self.mapping = {"g0": None, "hsvlmc": ResidualMapping(values)}[model]
        self.likelihoods = [gpflow.likelihoods.Gaussian(variance) for variance in values["noise"]]
        self.aligned = [tf.constant(rows) for rows in values["aligned"]]
        self.y = [tf.constant(y[:, None]) for y in values["y"]]
        self.batch = values["batch"]

    def sampled(self):
        """The negative bound on a step's rows: a fresh draw, and `batch` random rows of the second task."""
        rows, y, scale = self.aligned[1], self.y[1], 1.0
        if self.batch is not None:
            count = rows.shape[0]
            picks = tf.random.uniform([self.batch], maxval=count, dtype=tf.int32)
            rows, y, scale = tf.gather(rows, picks), tf.gather(y, picks), count / self.batch
        eps = tf.random.normal(self.aligned[0].shape, dtype=gpflow.default_float()) if self.mapping else None
        return self(rows, y, scale, eps)

    def full(self, eps):
        """The negative bound on all rows at a given draw: the value that both sides must agree on."""
        return self(self.aligned[1], self.y[1], 1.0, tf.constant(np.asarray(eps)))

    def __call__(self, rows, y, scale, eps):
        """KL terms minus the expected log likelihood, the second task's scaled by N_2 / B_2."""
        first, penalty = self.mapping.draw(eps) if self.mapping else (self.aligned[0], 0.0)
        moments = self.latents.marginals([first, rows])
        total = self.latents.kl() + penalty
        targets = zip(self.likelihoods, moments, [first, rows], [self.y[0], y], [1.0, scale], strict=True)
        for likelihood, (mean, variance), inputs, target, weight in targets:
            terms = likelihood.variational_expectations(inputs, mean[:, None], variance[:, None], target)
            total -= weight * tf.reduce_sum(terms)
        return total
