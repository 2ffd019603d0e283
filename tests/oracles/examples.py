"""Small problems the oracles are tested on."""

import functools

import numpy as np

from .kernels import matern32, se

SMOOTH = functools.partial(se, lengthscales=np.array([0.7, 1.1]), variance=1.3)
ROUGH = functools.partial(matern32, lengthscales=np.array([0.9, 0.6]), variance=0.8)
MIXING = np.array([[0.9, -0.4], [0.5, 1.2]])
NOISE = np.array([0.05, 0.11])


def spd(rng, size):
    """A well-conditioned random covariance."""
    factor = rng.normal(size=(size, size))
    return factor @ factor.T / size + 0.3 * np.eye(size)


def two_tasks(rng):
    """Two tasks of 4 and 6 rows on a common domain of two dimensions."""
    return [
        {"aligned": rng.uniform(-1, 1, (4, 2)), "y": rng.normal(size=4)},
        {"aligned": rng.uniform(-1, 1, (6, 2)), "y": rng.normal(size=6)},
    ]


def two_latents(rng):
    """Two latents with their own kernels, 3 and 4 inducing points and arbitrary Gaussians q(u)."""
    return [
        {
            "kernel": kernel,
            "Z": rng.uniform(-1, 1, (size, 2)),
            "m": rng.normal(size=size),
            "S": spd(rng, size),
            "jitter": 1e-6,
        }
        for kernel, size in ((SMOOTH, 3), (ROUGH, 4))
    ]


def gaussian_tasks(rng, **settings):
    """One task with Gaussian aligned inputs beside one with known ones."""
    nominal = rng.uniform(-1, 1, (3, 2))
    stochastic = {
        "y": rng.normal(size=3),
        "nominal": nominal,
        "mean": nominal + 0.2 * rng.normal(size=(3, 2)),
        "variance": rng.uniform(0.02, 0.2, (3, 2)),
        "nu_g0": 0.3,
        "observation_variance": 0.07,
    }
    return [stochastic | settings, two_tasks(rng)[1]]
