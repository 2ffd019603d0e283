"""Every mapping beside what the oracles say of it: its law, its penalties and its joint law over rows."""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from aligngp.mappings.contract import AbstractMapping, Rows
from aligngp.mappings.fixed import AffineMap, Nominal
from aligngp.mappings.free import FreeRows
from aligngp.mappings.gaussian import EmbeddedGP, ResidualGP
from aligngp.objective.elbo import TaskBatch
from oracles import expected_log_observation_row, gram, kl_aligned_row, kl_gaussians, mapping_marginals
from problems import Problem, prior_of, problem, some_batch, sparse

Moments = tuple[np.ndarray, np.ndarray | None]
"""Mean (N, D) and variance (N, D); None where the aligned inputs are known."""
NU_G0, OBSERVATION, STRENGTH = 0.3, 0.07, 0.8


@dataclass(frozen=True)
class Twin:
    """A resolved mapping and the oracles' account of it."""

    mapping: AbstractMapping
    nominal: Callable[[Rows], np.ndarray]
    """What the law is held against: g0, or the base mapping's points."""
    posterior: Callable[[Rows], Moments]
    predictive: Callable[[Rows], Moments]
    penalty: Callable[[Rows], np.ndarray]
    cost: float
    gps: tuple[dict, ...] = ()
    """The oracle's description of every output of the mapping's GP."""


def nominal(rng: np.random.Generator, rows: Rows) -> Twin:
    """g0 as it is."""

    def law(rows):
        return np.asarray(rows.nominal), None

    return Twin(Nominal(), lambda rows: np.asarray(rows.nominal), law, law, _nothing, 0.0)


def affine(rng: np.random.Generator, rows: Rows) -> Twin:
    """A x + b away from its start."""
    dims, own = rows.nominal.shape[1], rows.own.shape[1]
    A, b = rng.normal(size=(dims, own)), rng.normal(size=dims)
    A0, b0 = A + 0.3 * rng.normal(size=A.shape), b + 0.3 * rng.normal(size=dims)
    start = jnp.asarray(A0), jnp.asarray(b0)
    cost = STRENGTH * (np.linalg.norm(A - A0, "fro") ** 2 + np.linalg.norm(b - b0) ** 2)

    def points(rows):
        return np.array([A @ x + b for x in np.asarray(rows.own)])

    def law(rows):
        return points(rows), None

    mapping = AffineMap(jnp.asarray(A), jnp.asarray(b), start, STRENGTH)
    return Twin(mapping, points, law, law, _nothing, cost)


def residual(kernel: str = "se", weight: float = 1.0, on: Callable = nominal) -> Callable:
    """HSVLMC's calibration on top of another mapping."""

    def build(rng, rows):
        base = on(rng, rows)
        gp, outputs = _gp(rng, rows, kernel)
        mapping = ResidualGP(base.mapping, gp, jnp.asarray(NU_G0, float), weight)

        def law(rows):
            return _marginals(outputs, rows, base.nominal(rows))

        def penalty(rows):
            told = zip(*law(rows), base.nominal(rows), strict=True)
            return weight * np.array([kl_aligned_row(*row, NU_G0) for row in told])

        return Twin(mapping, base.nominal, law, law, penalty, base.cost + _divergence(outputs), outputs)

    return build


def embedded(rng: np.random.Generator, rows: Rows) -> Twin:
    """HSVLMC-EM's mapping."""
    gp, outputs = _gp(rng, rows, "se")

    def law(rows):
        return _marginals(outputs, rows, np.zeros(rows.nominal.shape))

    def penalty(rows):
        told = zip(np.asarray(rows.nominal), *law(rows), strict=True)
        return np.array([-expected_log_observation_row(*row, OBSERVATION) for row in told])

    def observed(rows):
        return np.asarray(rows.nominal)

    mapping = EmbeddedGP(gp, jnp.asarray(OBSERVATION, float))
    return Twin(mapping, observed, law, law, penalty, _divergence(outputs), outputs)


def free(weight: float = 1.0, on: Callable = nominal) -> Callable:
    """A Gaussian of its own for every training row."""

    def build(rng, rows):
        base, shape = on(rng, rows), rows.nominal.shape
        mean, variance = base.nominal(rows) + 0.3 * rng.normal(size=shape), rng.uniform(0.02, 0.2, shape)
        mapping = FreeRows(base.mapping, jnp.asarray(mean), jnp.asarray(variance), jnp.asarray(NU_G0, float), weight)

        def posterior(rows):
            index = np.asarray(rows.index)
            return mean[index], variance[index]

        def predictive(rows):
            return base.nominal(rows), np.full(rows.nominal.shape, NU_G0)

        def penalty(rows):
            told = zip(*posterior(rows), base.nominal(rows), strict=True)
            return weight * np.array([kl_aligned_row(*row, NU_G0) for row in told])

        return Twin(mapping, base.nominal, posterior, predictive, penalty, base.cost)

    return build


MAPPINGS: dict[str, Callable[[np.random.Generator, Rows], Twin]] = {
    "nominal": nominal,
    "affine": affine,
    "residual": residual(),
    "residual, weight 0": residual(weight=0.0),
    "residual of Matern kernel on affine, weight 0.25": residual("matern32", 0.25, affine),
    "embedded": embedded,
    "free": free(),
    "free on affine, weight 0.25": free(0.25, affine),
}


def joint_covariance(outputs: tuple[dict, ...], X: np.ndarray) -> np.ndarray:
    """The covariance (D, N, N) over rows of every output of a sparse GP."""
    answer = []
    for one in outputs:
        K = prior_of(one)
        cross = gram(one["kernel"], X, one["Z"]) @ np.linalg.inv(K)
        answer.append(gram(one["kernel"], X, X) + cross @ (one["S"] - K) @ cross.T)
    return np.array(answer)


def _nothing(rows: Rows) -> np.ndarray:
    return np.zeros(rows.own.shape[0])


def _gp(rng, rows, kernel):
    """A GP of the own inputs with as many outputs as the common domain has dimensions.

    It moves less than the latents' lengthscales, so that quadrature needs few nodes.
    """
    gp, outputs = sparse(rng, kernel, 4, rows.own.shape[1], rows.nominal.shape[1], spread=0.7, amplitude=0.2)
    return gp, tuple(outputs)


def _marginals(outputs, rows, offset):
    first = outputs[0]
    means, covariances = (np.array([one[part] for one in outputs]) for part in ("m", "S"))
    X = np.asarray(rows.own)
    return mapping_marginals(X, first["kernel"], first["Z"], means, covariances, offset, first["jitter"])


def _divergence(outputs):
    return sum(kl_gaussians(one["m"], one["S"], prior_of(one)) for one in outputs)


ZOO = {
    "sampled": (nominal, affine, residual("se", 0.25, affine), embedded, free()),
    "analytic": (nominal, residual("se", 0.25, affine)),
}
"""The tasks of a model, by how expectations are taken; in closed form a law is like another, and compiling is long."""


def zoo(expectation: str) -> tuple[Problem, list[Twin]]:
    """One model with a task of every kind, ragged; the last task's rows are half of what it has."""
    rng, kinds = np.random.default_rng(0), ZOO[expectation]
    batches = [some_batch(rng, number) for number in (5, 2, 3, 4, 2)[: len(kinds)]]
    batches[-1] = TaskBatch(batches[-1].rows, batches[-1].y, 2.0)
    twins = [build(rng, batch.rows) for build, batch in zip(kinds, batches, strict=True)]
    sizes = (3,) if expectation == "sampled" else (3, 4)  # the closed form has terms across two latents
    return problem(rng, [twin.mapping for twin in twins], batches, sizes=sizes), twins
