"""The paper's equations as slow, obvious NumPy loops: what every fast path of the package is compared with.

Nothing here is whitened, batched or clever, and nothing here imports the package. Kernels are callables of
one pair of points `(x, z) -> float`; tasks and latents are dictionaries of plain NumPy arrays.

A task has "y" (N,) and optionally "scale" (N_t / B_t, default 1). Its aligned inputs are either known,
"aligned" (N, D), or Gaussian, "mean" (N, D) and "variance" (N, D), with the nominal inputs "nominal" (N, D).
A latent has "kernel", "Z" (M, D), "m" (M,), "S" (M, M) and "jitter" (absolute, on the diagonal of K_uu).
"""

from .elbo import (
    elbo_g0,
    elbo_hsvlmc,
    elbo_hsvlmc_em,
    expected_log_observation_row,
    kl_aligned_row,
    kl_gaussians,
    mapping_marginals,
    predictive_moments,
    sparse_marginal,
)
from .exact import (
    collapsed_bound,
    exact_evidence,
    exact_posterior,
    imc_objective,
    optimal_factorised,
)
from .expectations import (
    expected_kernel,
    expected_kernel_product,
    gauss_hermite_grid,
)
from .kernels import gram, linear, matern12, matern32, matern52, se

__all__ = [
    "collapsed_bound",
    "elbo_g0",
    "elbo_hsvlmc",
    "elbo_hsvlmc_em",
    "exact_evidence",
    "exact_posterior",
    "expected_kernel",
    "expected_kernel_product",
    "expected_log_observation_row",
    "gauss_hermite_grid",
    "gram",
    "imc_objective",
    "kl_aligned_row",
    "kl_gaussians",
    "linear",
    "mapping_marginals",
    "matern12",
    "matern32",
    "matern52",
    "optimal_factorised",
    "predictive_moments",
    "se",
    "sparse_marginal",
]
