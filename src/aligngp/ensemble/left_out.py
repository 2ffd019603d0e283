"""Leave one row out of the mixture, its forms being weighted without that row too.

The weights of the forms are themselves fitted to left-out densities and evidences, so mixing the forms' left-out
moments with them flatters the family with more forms. A row i is therefore predicted with the weights that the other
rows alone would give, in closed form: from the evidence without it, ``log p(y) - log p(y_i | y_-i)``, and from the
left-out densities of the others without it, which leave two rows out,

    y_ij | y_-ij, h ~ N(y_ij - S [K^-1 y]_ij, S),   S = ([K^-1]_ij,ij)^-1,

the draws h weighted by 1 / p(y_i, y_j | y_-ij, h), truncated as with one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from aligngp.dense import factored, log_normal
from aligngp.ensemble.members import Member, observed_covariance
from aligngp.ensemble.target import Target
from aligngp.ensemble.weights import form_weights

WEIGHED_ROWS = 300
"""Most rows of a target whose weights are found again without each row; one of more moves them by next to nothing."""


def left_out_moments(target: Target, rows: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance (n,) of those observed training rows, each given all the others."""
    weights = np.tile(target.weights, (len(rows), 1))
    if len(target.members) > 1 and len(target.y) <= WEIGHED_ROWS:
        weights = weights_without(target, rows, seed)
    means = np.stack([member.left_out_mean[rows] for member in target.members], axis=1)
    variances = np.stack([member.left_out_variance[rows] for member in target.members], axis=1)
    mean = np.sum(weights * means, axis=1)
    return mean, np.sum(weights * (variances + (means - mean[:, None]) ** 2), axis=1)


def weights_without(target: Target, rows: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return the weights (n, K) of the forms that all rows but one give, for each of those rows."""
    members, size = target.members, len(target.y)
    if size == 1:
        return np.full((len(rows), len(members)), 1.0 / len(members))
    seen = target.given.see(target.own, target.nominal)
    pair = target.given.pair(seen, seen)
    densities = np.empty((len(rows), len(members), size - 1))
    for k, member in enumerate(members):
        root = np.linalg.inv(factored(observed_covariance(member.prior, member.z, pair)))
        precision = np.swapaxes(root, 1, 2) @ root
        pulled = precision @ (target.y - member.prior.centre(seen.side))
        for at, row in enumerate(rows):
            densities[at, k] = two_left_out(precision, pulled, int(row))
    marginal = _marginal(members)
    result = np.empty((len(rows), len(members)))
    for at, row in enumerate(rows):
        evidence = np.array([member.evidence - member.leave_one_out[row] for member in members]) if marginal else None
        result[at] = form_weights(densities[at], evidence, np.random.default_rng(seed))
    return result


def reweighed(target: Target, seed: int | Sequence[int] = 0) -> Target:
    """Return a target with the weights that its members have among themselves."""
    densities = np.stack([member.leave_one_out for member in target.members])
    evidences = np.array([member.evidence for member in target.members]) if _marginal(target.members) else None
    return replace(target, weights=form_weights(densities, evidences, np.random.default_rng(seed)))


def _marginal(members: Sequence[Member]) -> bool:
    """Tell whether hyperparameters are marginalised: evidences can be compared then."""
    return all(len(member.z) > 1 for member in members)


def two_left_out(precision: np.ndarray, pulled: np.ndarray, row: int) -> np.ndarray:
    """Return log p(y_j | y_-ij) (N - 1,) of every row j but i, from ``K^-1`` (P, N, N) and ``K^-1 y`` (P, N)."""
    others = np.arange(precision.shape[1]) != row
    first = precision[:, row, row][:, None]
    second = np.diagonal(precision, axis1=1, axis2=2)[:, others]
    between = precision[:, row, others]
    a, b = pulled[:, row][:, None], pulled[:, others]
    determinant = np.maximum(first * second - between**2, 1e-12 * first * second)
    error = (first * b - between * a) / determinant
    own = log_normal(error, np.zeros_like(error), first / determinant)
    square = (second * a**2 - 2.0 * between * a * b + first * b**2) / determinant
    joint = 0.5 * np.log(determinant) - np.log(2.0 * np.pi) - 0.5 * square
    weight = np.exp(joint.min(axis=0) - joint)
    weight = np.minimum(weight, weight.mean(axis=0) * np.sqrt(len(weight)))
    return np.asarray(logsumexp(own, axis=0, b=weight / weight.sum(axis=0)))
