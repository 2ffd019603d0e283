"""Initial values of a model, from standardised training data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import numpy as np
from threadpoolctl import threadpool_limits

from aligngp.frame import Frame, affine_in_frame
from aligngp.gp.sparse import SparseGP
from aligngp.kernels import AbstractKernel
from aligngp.likelihoods import Gaussian
from aligngp.linalg import DEFAULT_JITTER
from aligngp.mappings.contract import AbstractMapping
from aligngp.mappings.fixed import AffineMap, Nominal
from aligngp.mappings.free import FreeRows
from aligngp.mappings.gaussian import EmbeddedGP, ResidualGP
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch
from aligngp.parameters import Triangular, as_array, frozen, is_frozen, positive, resolve

NOISE_FLOOR = 1e-6
"""Smallest noise variance in standardised units; without a floor a noise-free task drives the bound to infinity."""
SINGLE_PRECISION_JITTER = 1e-4
MOST_INDUCING = 100
"""The paper's number for all but its toy cases."""
_KMEANS_ROWS = 10_000
_STANDING_IN = 30
_FIRST_NOISE = 0.1
_OTHER_NOISES, _OTHER_LENGTHS = (0.1, 0.01, 1.0), (1.0, 0.5, 2.0)
"""Of later starts, the lengths as factors; the first of each is that of the first start."""


@dataclass(frozen=True)
class Start:
    """Where training begins; None lets the dimensions decide."""

    kernel: AbstractKernel
    mapping_kernel: AbstractKernel
    num_latents: int
    num_inducing: int | None
    lengthscale: float | None
    mapping_lengthscale: float | None
    mapping_variance: float
    noise: float | None
    mapping_kl_weight: float
    dtype: str
    residual: bool = False
    sparse: bool = True
    """Whether inducing inputs matter; otherwise some rows stand for them, without looking for clusters."""


def initial_model(
    frame: Frame,
    batches: Sequence[TaskBatch],
    calibrations: Sequence[str],
    noises: Sequence[float | None],
    starts: Sequence[Start],
    seed: int,
    bases: Mapping[int, AffineMap],
) -> Model:
    """Return a model at its initial values.

    Known noises (standard deviations, raw units) are frozen; ``bases`` are affine maps that replace the prior
    mapping of the tasks they are given for.
    """
    rng = np.random.default_rng(seed)
    start = starts[frame.common]
    mappings = tuple(
        _mapping(frame, task, batch, calibrations[task], starts[task], seed, bases.get(task))
        for task, batch in enumerate(batches)
    )
    aligned = [
        np.asarray(resolve(bases[task]).predictive(batch.rows).value) if task in bases else batch.rows.nominal
        for task, batch in enumerate(batches)
    ]
    rows = np.concatenate(aligned)
    if start.sparse:
        inducing = inducing_inputs(rows, start.num_inducing or default_inducing(rows.shape[0]), seed)
    else:
        inducing = _some_rows(rows)
    lengthscale = start.lengthscale or default_lengthscale(inducing.shape[1])
    # One task alone is a plain GP: a mixing would only repeat the kernel's variance.
    single = len(batches) == 1
    residuals = tuple(_residual(frame, task, batch, starts[task], seed) for task, batch in enumerate(batches))
    latents = 1 if single else start.num_latents
    mixing = frozen(as_array(np.ones((1, 1)))) if single else as_array(rng.standard_normal((len(batches), latents)))
    model = Model(
        mappings=mappings,
        latents=tuple(sparse_gp(start.kernel, inducing, 1, lengthscale, start.dtype) for _ in range(latents)),
        mixing=mixing,
        likelihoods=tuple(
            _likelihood(noise, float(frame.outputs[task].scale[0]), start.noise) for task, noise in enumerate(noises)
        ),
        residuals=residuals if any(residual is not None for residual in residuals) else (),
    )
    return cast(model, start.dtype)


def elsewhere(model: Model, start: Start, number: int, seed: int) -> Model:
    """Return another start, for a search that may end in a local optimum: the first is the model itself.

    Noise variances and lengthscales are others where they are not given, the mixing is drawn again.
    """
    if number == 0:
        return model
    noise, factor = _OTHER_NOISES[number % len(_OTHER_NOISES)], _OTHER_LENGTHS[number % len(_OTHER_LENGTHS)]
    latents, likelihoods, mixing = model.latents, model.likelihoods, model.mixing
    if start.lengthscale is None:
        size = latents[0].inducing.shape[1]
        kernel = start.kernel.sized(size, factor * default_lengthscale(size))
        latents = tuple(replace(latent, kernel=kernel) for latent in latents)
    if start.noise is None:
        likelihoods = tuple(
            one if is_frozen(one.variance) else Gaussian(positive(noise, NOISE_FLOOR)) for one in likelihoods
        )
    if not is_frozen(mixing):
        rng = np.random.default_rng((seed + number) % 2**32)
        mixing = as_array(rng.standard_normal(mixing.shape))
    return cast(replace(model, latents=latents, likelihoods=likelihoods, mixing=mixing), start.dtype)


def sparse_gp(kernel: AbstractKernel, inducing: np.ndarray, outputs: int, lengthscale: float, dtype: str) -> SparseGP:
    """Return a sparse GP whose q(u) is the prior: zero mean and identity covariance in whitened coordinates."""
    size = inducing.shape[0]
    identity = as_array(np.broadcast_to(np.eye(size), (outputs, size, size)))
    jitter = DEFAULT_JITTER if dtype == "float64" else SINGLE_PRECISION_JITTER
    sized = kernel.sized(inducing.shape[1], lengthscale)
    return SparseGP(sized, as_array(inducing), as_array(np.zeros((size, outputs))), Triangular(identity), jitter)


def default_inducing(rows: int) -> int:
    """Return a quarter of the rows, between the paper's 30 for toy cases and its 100 for others."""
    return min(max(rows // 4, 30), MOST_INDUCING)


def default_lengthscale(dimensions: int) -> float:
    """Return a start that sees neighbours in any dimension: 1, growing with the distance of standardised points."""
    return max(1.0, 0.5 * dimensions**0.5)


def inducing_inputs(rows: np.ndarray, number: int, seed: int) -> np.ndarray:
    """Return cluster centres (k-means), or the distinct rows where there are no more than asked for."""
    from sklearn.cluster import KMeans  # takes a second to import, so only where it is needed

    distinct = np.unique(rows, axis=0)
    if distinct.shape[0] <= number:
        return distinct
    if rows.shape[0] > _KMEANS_ROWS:
        rows = rows[np.sort(np.random.default_rng(seed).choice(rows.shape[0], _KMEANS_ROWS, replace=False))]
        distinct = np.unique(rows, axis=0)
        if distinct.shape[0] <= number:
            return distinct
    with threadpool_limits(1):  # sums in one order, so that runs repeat bit for bit
        return KMeans(number, n_init="auto", random_state=seed).fit(rows).cluster_centers_


def _some_rows(rows: np.ndarray) -> np.ndarray:
    distinct = np.unique(rows, axis=0)
    return distinct[:: -(-distinct.shape[0] // _STANDING_IN)]


def cast(model: Model, dtype: str) -> Model:
    """Return the model with every floating array in the working precision."""
    return jax.tree.map(
        lambda leaf: as_array(leaf, dtype) if eqx.is_inexact_array_like(leaf) and hasattr(leaf, "dtype") else leaf,
        model,
    )


def _residual(frame: Frame, task: int, batch: TaskBatch, start: Start, seed: int) -> SparseGP | None:
    """Return a task's GP on its own inputs; those of the common task are the common domain, which the latents have."""
    if task == frame.common or not start.residual:
        return None
    own = np.asarray(batch.rows.own)
    most = start.num_inducing or MOST_INDUCING
    inducing = inducing_inputs(own, most, seed) if start.sparse else _some_rows(own)
    return sparse_gp(start.kernel, inducing, 1, default_lengthscale(own.shape[1]), start.dtype)


def _likelihood(known: float | None, scale: float, start: float | None) -> Gaussian:
    if known is not None:
        return Gaussian(frozen(as_array(max((known / scale) ** 2, NOISE_FLOOR))))
    return Gaussian(positive(_FIRST_NOISE if start is None else start, NOISE_FLOOR))


def _mapping(
    frame: Frame,
    task: int,
    batch: TaskBatch,
    calibration: str,
    start: Start,
    seed: int,
    base: AffineMap | None,
) -> AbstractMapping:
    """Return the mapping of one task: the prior one, as it is or as the base of a calibration."""
    if task == frame.common:
        return Nominal()
    prior = _base(frame, task, batch) if base is None else base
    if calibration in ("none", "linear"):
        return prior
    if calibration == "free":
        nominal = as_array(batch.rows.nominal)
        spread = positive(np.full(nominal.shape, 0.1))
        return FreeRows(prior, nominal, spread, positive(start.mapping_variance), start.mapping_kl_weight)
    own = np.asarray(batch.rows.own)
    inducing = inducing_inputs(own, start.num_inducing or MOST_INDUCING, seed)
    lengthscale = start.mapping_lengthscale or default_lengthscale(own.shape[1])
    gp = sparse_gp(start.mapping_kernel, inducing, batch.rows.nominal.shape[1], lengthscale, start.dtype)
    if calibration == "embedded":
        return EmbeddedGP(gp, positive(0.01, NOISE_FLOOR))
    return ResidualGP(prior, gp, positive(start.mapping_variance), start.mapping_kl_weight)


def _base(frame: Frame, task: int, batch: TaskBatch) -> Nominal | AffineMap:
    learned = frame.priors[task].learned
    if learned is None:
        return Nominal()
    X = frame.inputs[task].inverse(np.asarray(batch.rows.own))
    matrix, offset = (as_array(part) for part in affine_in_frame(frame, task, X))
    return AffineMap(matrix, offset, frozen((matrix, offset)), learned.strength)
