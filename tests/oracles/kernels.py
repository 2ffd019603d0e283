"""Kernels of one pair of points, and the Gram matrix by two loops."""

import math

import numpy as np


def _scaled_distance(x, z, lengthscales):
    """Return r = sqrt(sum_d (x_d - z_d)^2 / l_d^2) for two points of shape (D,)."""
    total = 0.0
    for d in range(len(x)):
        total += ((x[d] - z[d]) / lengthscales[d]) ** 2
    return math.sqrt(total)


def se(x, z, lengthscales, variance):
    """Squared exponential: v exp(-r^2 / 2)."""
    return variance * math.exp(-0.5 * _scaled_distance(x, z, lengthscales) ** 2)


def matern12(x, z, lengthscales, variance):
    """Matern 1/2: v exp(-r)."""
    return variance * math.exp(-_scaled_distance(x, z, lengthscales))


def matern32(x, z, lengthscales, variance):
    """Matern 3/2: v (1 + sqrt(3) r) exp(-sqrt(3) r)."""
    s = math.sqrt(3.0) * _scaled_distance(x, z, lengthscales)
    return variance * (1.0 + s) * math.exp(-s)


def matern52(x, z, lengthscales, variance):
    """Matern 5/2: v (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r)."""
    r = _scaled_distance(x, z, lengthscales)
    s = math.sqrt(5.0) * r
    return variance * (1.0 + s + 5.0 * r**2 / 3.0) * math.exp(-s)


def linear(x, z, variances):
    """Linear: sum_d v_d x_d z_d."""
    total = 0.0
    for d in range(len(x)):
        total += variances[d] * x[d] * z[d]
    return total


def gram(kernel, X, Z):
    """Return the matrix of k(x_i, z_j), shape (N, M), for X (N, D) and Z (M, D)."""
    matrix = np.zeros((len(X), len(Z)))
    for i in range(len(X)):
        for j in range(len(Z)):
            matrix[i, j] = kernel(X[i], Z[j])
    return matrix
