"""Expectations under a diagonal Gaussian by tensor Gauss-Hermite quadrature (a few dimensions only)."""

import itertools
import math

import numpy as np


def gauss_hermite_grid(mean, variance, points):
    """Return [(weight, x)] with sum_k weight_k h(x_k) ~ E h(x), x ~ N(mean, diag variance), mean (D,).

    Exact for polynomials up to degree 2 `points` - 1 in each dimension; `points` ** D nodes.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    grid = []
    for index in itertools.product(range(points), repeat=len(mean)):
        x = np.zeros(len(mean))
        weight = 1.0
        for d, k in enumerate(index):
            x[d] = mean[d] + math.sqrt(variance[d]) * nodes[k]
            weight *= weights[k] / math.sqrt(2.0 * math.pi)
        grid.append((weight, x))
    return grid


def expected_kernel(kernel, mean, variance, z, points):
    """E k(x, z) for x ~ N(mean, diag variance); mean, variance and z have shape (D,), D <= 3."""
    total = 0.0
    for weight, x in gauss_hermite_grid(mean, variance, points):
        total += weight * kernel(x, z)
    return total


def expected_kernel_product(kernel_a, kernel_b, mean, variance, z, z2, points):
    """E k_a(x, z) k_b(x, z2) for x ~ N(mean, diag variance); points have shape (D,), D <= 3."""
    total = 0.0
    for weight, x in gauss_hermite_grid(mean, variance, points):
        total += weight * kernel_a(x, z) * kernel_b(x, z2)
    return total
