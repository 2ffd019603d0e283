"""Expectations of SE kernels under Gaussian inputs against quadrature; sums over rows in blocks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aligngp.gp import psi
from aligngp.gp.psi import expected_cross, expected_product, summed_product
from oracles import expected_kernel, expected_kernel_product, gram
from problems import kernel, quick

POINTS = 30  # nodes a dimension: exact to 1e-12 for variances below the squared lengthscales


def setting(dims, rows=2, seed=0):
    """Two kernels as (ours, theirs), two sets of inducing inputs, and Gaussian rows."""
    rng = np.random.default_rng(seed)
    kernels = kernel("se", rng, dims), kernel("se", rng, dims)
    z, c = rng.normal(size=(3, dims)), rng.normal(size=(2, dims))
    return kernels, z, c, rng.normal(size=(rows, dims)), rng.uniform(0.05, 0.5, (rows, dims))


@pytest.mark.parametrize("dims", [1, 2])
def test_expected_kernel_is_the_integral(dims):
    ((ours, theirs), _), z, _, mean, variance = setting(dims)
    expected = [[expected_kernel(theirs, m, s, one, POINTS) for one in z] for m, s in zip(mean, variance, strict=True)]
    found = expected_cross(ours, *map(jnp.asarray, (mean, variance, z)))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("dims", [1, 2])
def test_expected_product_of_two_kernels_is_the_integral(dims):
    ((first, theirs), (second, others)), z, c, mean, variance = setting(dims)
    expected = [
        [[expected_kernel_product(theirs, others, m, s, a, b, POINTS) for b in c] for a in z]
        for m, s in zip(mean, variance, strict=True)
    ]
    found = expected_product(first, jnp.asarray(z), second, jnp.asarray(c), jnp.asarray(mean), jnp.asarray(variance))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_one_kernel_with_itself_is_the_textbook_formula():
    # v^2 prod (1 + 2 s / l^2)^(-1/2) exp(-(z - c)^2 / (4 l^2) - (m - (z + c) / 2)^2 / (l^2 + 2 s))
    ((ours, _), _), z, c, mean, variance = setting(2)
    squared, v = np.asarray(ours.lengthscale) ** 2, float(ours.variance)
    expected = np.zeros((2, 3, 2))
    for i, j, k in np.ndindex(expected.shape):
        apart = (z[j] - c[k]) ** 2 / (4 * squared)
        off = (mean[i] - (z[j] + c[k]) / 2) ** 2 / (squared + 2 * variance[i])
        expected[i, j, k] = v**2 * np.prod((1 + 2 * variance[i] / squared) ** -0.5 * np.exp(-apart - off))
    found = expected_product(ours, *map(jnp.asarray, (z,)), ours, *map(jnp.asarray, (c, mean, variance)))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_certain_inputs_give_the_kernels_themselves():
    ((first, theirs), (second, others)), z, c, mean, variance = setting(2)
    still = jnp.zeros(variance.shape)
    found = expected_cross(first, jnp.asarray(mean), still, jnp.asarray(z))
    np.testing.assert_allclose(found, gram(theirs, mean, z), rtol=1e-12)
    product = expected_product(first, jnp.asarray(z), second, jnp.asarray(c), jnp.asarray(mean), still)
    expected = gram(theirs, mean, z)[:, :, None] * gram(others, mean, c)[:, None, :]
    np.testing.assert_allclose(product, expected, rtol=1e-12)


@pytest.mark.parametrize("rows", [8, 11])
def test_sum_over_rows_does_not_depend_on_the_blocks(rows, monkeypatch):
    monkeypatch.setattr(psi, "_ROWS_AT_ONCE", 4)  # two blocks with nothing left, two and a rest
    ((first, _), (second, _)), z, c, mean, variance = setting(2, rows)
    weights = np.random.default_rng(1).normal(size=(3, 2))

    def weighed(function):
        def value(mean, variance):
            return jnp.sum(weights * function(first, jnp.asarray(z), second, jnp.asarray(c), mean, variance))

        return quick(jax.value_and_grad(value, argnums=(0, 1)))(jnp.asarray(mean), jnp.asarray(variance))

    found = weighed(summed_product)
    expected = weighed(lambda *arguments: jnp.sum(expected_product(*arguments), axis=0))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    for part in (0, 1):
        np.testing.assert_allclose(found[1][part], expected[1][part], rtol=1e-10, atol=1e-14)
