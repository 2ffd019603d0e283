"""The stationary kernels of NumPy: slopes, distances by products, and the kernels of JAX."""

import jax.numpy as jnp
import numpy as np
import pytest

from aligngp.kernels import NAMES, radial
from aligngp.kernels.radial import KERNELS, by_log_lengthscale, correlation, decay, slope, squared_distance

rng = np.random.default_rng(0)
X, Z, LENGTHSCALE = rng.normal(size=(5, 2)), rng.normal(size=(4, 2)), np.array([0.7, 1.3])


@pytest.mark.parametrize("kernel", KERNELS)
def test_slopes_are_derivatives(kernel):
    squared = np.array([0.3, 1.0, 4.0])
    step = 1e-6
    numeric = (correlation(kernel, squared + step) - correlation(kernel, squared - step)) / (2.0 * step)
    np.testing.assert_allclose(slope(kernel, squared), numeric, rtol=1e-6)
    shared = decay(kernel, squared)
    np.testing.assert_array_equal(slope(kernel, squared, shared), slope(kernel, squared))
    np.testing.assert_array_equal(correlation(kernel, squared, shared), correlation(kernel, squared))


@pytest.mark.parametrize("kernel", KERNELS)
def test_distances_and_kernels_are_those_of_jax(kernel):
    expected = np.sum(((X[:, None] - Z) / LENGTHSCALE) ** 2, axis=2)
    np.testing.assert_allclose(squared_distance(X, Z, LENGTHSCALE), expected, rtol=1e-12)
    found = radial.squared_to(kernel, radial.basis(X), Z, LENGTHSCALE)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    ours = NAMES[kernel](jnp.asarray(LENGTHSCALE), jnp.ones(()))
    np.testing.assert_allclose(correlation(kernel, found), ours.cross(X, Z), rtol=1e-12)


def test_the_gradient_by_lengthscales():
    weight = rng.normal(size=(5, 4))

    def total(logarithms):
        return np.sum(weight * squared_distance(X, Z, np.exp(logarithms)))

    steps = 1e-6 * np.eye(2)
    numeric = [(total(np.log(LENGTHSCALE) + step) - total(np.log(LENGTHSCALE) - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(by_log_lengthscale(weight, X, Z, LENGTHSCALE), numeric, rtol=1e-6)
