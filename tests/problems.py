"""Small models of the package, each beside the same model in the words of the oracles.

A sparse GP is whitened with a relative jitter, the oracles are not and want an absolute one, so

    jitter = relative * mean(diag K),   L L' = K + jitter I,   m = L v,   S = L C C' L'.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import oracles
from aligngp.gp.sparse import SparseGP
from aligngp.kernels import AbstractKernel, Linear, Matern12, Matern32, Matern52, SquaredExponential
from aligngp.likelihoods import Gaussian
from aligngp.linalg import DEFAULT_JITTER
from aligngp.mappings.contract import AbstractMapping, Rows
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch, elbo

KEY = jax.random.key(7)
STATIONARY = {
    "se": (SquaredExponential, oracles.se),
    "matern12": (Matern12, oracles.matern12),
    "matern32": (Matern32, oracles.matern32),
    "matern52": (Matern52, oracles.matern52),
}
KERNELS = (*STATIONARY, "linear", "se + linear", "matern32 * se", "se * linear + matern12")

quick = partial(jax.jit, compiler_options={"xla_backend_optimization_level": "0"})
"""Compiles in half the time; what is compared here are formulas, not how well they are compiled."""

bound = quick(elbo, static_argnames=("num_samples", "expectation"))


@partial(quick, static_argnames=("num_samples", "expectation"))
def bound_and_gradient(model: Model, batches: Sequence[TaskBatch], key: jax.Array, **settings):
    """The terms of the bound and the gradient of their total for every parameter."""

    def total(model):
        terms = elbo(model, batches, key, **settings)
        return terms.total, terms

    gradient, terms = jax.grad(total, has_aux=True)(model)
    return terms, gradient


def kernel(name: str, rng: np.random.Generator, dims: int, amplitude: float = 1.0) -> tuple[AbstractKernel, Callable]:
    """A resolved kernel with random parameters, and the oracle's function of one pair of points."""
    if " + " in name:
        (a, first), (b, second) = (kernel(part, rng, dims) for part in name.split(" + "))
        return a + b, lambda x, z: first(x, z) + second(x, z)
    if " * " in name:
        (a, first), (b, second) = (kernel(part, rng, dims) for part in name.split(" * "))
        return a * b, lambda x, z: first(x, z) * second(x, z)
    scales, variance = rng.uniform(0.8, 1.6, dims), amplitude * rng.uniform(0.7, 1.5)
    if name == "linear":
        return Linear(jnp.asarray(scales)), partial(oracles.linear, variances=scales)
    ours, theirs = STATIONARY[name]
    return ours(jnp.asarray(scales), jnp.asarray(variance, float)), partial(
        theirs, lengthscales=scales, variance=variance
    )


def factors(rng: np.random.Generator, count: int, size: int) -> np.ndarray:
    """Lower triangular factors (count, size, size) with a positive diagonal."""
    lower = np.tril(0.3 * rng.normal(size=(count, size, size)), -1)
    return lower + np.eye(size) * rng.uniform(0.3, 0.9, (count, size))[:, :, None]


def sparse(
    rng: np.random.Generator,
    name: str,
    size: int,
    dims: int,
    outputs: int = 1,
    jitter: float = DEFAULT_JITTER,
    spread: float = 1.3,
    amplitude: float = 1.0,
) -> tuple[SparseGP, list[dict]]:
    """A resolved sparse GP with a random q(u), and the oracle's description of every output."""
    ours, theirs = kernel(name, rng, dims, amplitude)
    Z, v, C = spread * rng.normal(size=(size, dims)), rng.normal(size=(size, outputs)), factors(rng, outputs, size)
    gp = SparseGP(ours, jnp.asarray(Z), jnp.asarray(v), jnp.asarray(C), jitter)
    return gp, [described(theirs, Z, v[:, p], C[p], jitter) for p in range(outputs)]


def described(theirs: Callable, Z: np.ndarray, v: np.ndarray, C: np.ndarray, relative: float) -> dict:
    """The oracle's latent for a whitened q(u): v (M,), C (M, M)."""
    gram = oracles.gram(theirs, Z, Z)
    jitter = relative * np.mean(np.diag(gram))
    L = np.linalg.cholesky(gram + jitter * np.eye(len(Z)))
    return {"kernel": theirs, "Z": Z, "m": L @ v, "S": L @ C @ C.T @ L.T, "jitter": jitter}


def whitened(latent: dict) -> tuple[jax.Array, jax.Array]:
    """The whitened v (M, 1) and C (1, M, M) of an oracle's latent."""
    Z = latent["Z"]
    L = np.linalg.cholesky(oracles.gram(latent["kernel"], Z, Z) + latent["jitter"] * np.eye(len(Z)))
    half = np.linalg.solve(L, latent["m"])
    inner = np.linalg.solve(L, np.linalg.solve(L, latent["S"]).T)
    return jnp.asarray(half[:, None]), jnp.asarray(np.linalg.cholesky(0.5 * (inner + inner.T))[None])


def prior_of(latent: dict) -> np.ndarray:
    """K_zz with its jitter."""
    return oracles.gram(latent["kernel"], latent["Z"], latent["Z"]) + latent["jitter"] * np.eye(len(latent["Z"]))


def some_rows(rng: np.random.Generator, number: int, own_dims: int, dims: int) -> Rows:
    """Training rows; the nominal inputs are a smooth function of the own ones."""
    own = rng.uniform(-1.2, 1.2, (number, own_dims))
    nominal = np.sin(own @ rng.normal(size=(own_dims, dims))) + 0.2 * rng.normal(size=dims)
    return Rows(jnp.asarray(own), jnp.asarray(nominal), jnp.arange(number))


def some_batch(rng: np.random.Generator, number: int, own_dims: int = 3, dims: int = 2) -> TaskBatch:
    """Rows and outputs of one task."""
    return TaskBatch(some_rows(rng, number, own_dims, dims), jnp.asarray(rng.normal(size=number)))


@dataclass(frozen=True)
class Problem:
    """A resolved model with its data, and the oracles' latents, mixing (T, Q) and noise (T,)."""

    model: Model
    batches: tuple[TaskBatch, ...]
    latents: list[dict]
    mixing: np.ndarray
    noise: np.ndarray

    def task(self, number: int, law: tuple[np.ndarray, np.ndarray | None], **settings) -> dict:
        """The oracle's task: y and its aligned inputs, whose law is (mean, variance or None)."""
        mean, variance = law
        batch = self.batches[number]
        told = {"y": np.asarray(batch.y), "scale": float(batch.scale)}
        if variance is None:
            return told | {"aligned": mean}
        return told | {"mean": mean, "variance": variance, "nominal": np.asarray(batch.rows.nominal)} | settings

    def noise_of_draws(self, number: int, samples: int) -> np.ndarray:
        """The standard normal draws (S, N, D) that the bound uses for a task under KEY."""
        shape = self.batches[number].rows.nominal.shape
        return np.asarray(jax.random.normal(jax.random.fold_in(KEY, number), (samples, *shape)))


def problem(
    rng: np.random.Generator,
    mappings: Sequence[AbstractMapping],
    batches: Sequence[TaskBatch],
    kernels: Sequence[str] = ("se", "se"),
    sizes: Sequence[int] = (3, 4),
    jitter: float = DEFAULT_JITTER,
) -> Problem:
    """A model with random latents, mixing and noise around the mappings of its tasks."""
    dims = batches[0].rows.nominal.shape[1]
    pairs = [sparse(rng, name, size, dims, jitter=jitter) for name, size in zip(kernels, sizes, strict=False)]
    mixing = rng.normal(size=(len(batches), len(pairs)))
    noise = rng.uniform(0.1, 0.4, len(batches))
    model = Model(
        mappings=tuple(mappings),
        latents=tuple(gp for gp, _ in pairs),
        mixing=jnp.asarray(mixing),
        likelihoods=tuple(Gaussian(jnp.asarray(variance)) for variance in noise),
    )
    return Problem(model, tuple(batches), [theirs[0] for _, theirs in pairs], mixing, noise)


def central(function: Callable[[float], np.ndarray], step: float = 1e-3) -> np.ndarray:
    """The derivative at 0 by central differences of sixth order: an error of step^6, so 1e-8 is within reach."""
    weights = {1: 45.0, 2: -9.0, 3: 1.0}
    parts = [w * (np.asarray(function(k * step)) - np.asarray(function(-k * step))) for k, w in weights.items()]
    return sum(parts) / (60.0 * step)
