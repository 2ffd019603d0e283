"""What an evaluation of another task would do to the target's predictions.

With the hyperparameters held, an evaluation of source s at x moves the posterior means of the sources by

    d m_s'(z) = cov[F_s'(z), y_s(x)] / sd[y_s(x)]   for every standard deviation by which it surprises,

given all rows of the sources. The target's mean at a row r follows, to first order, by

    d mu(r) = dc(r) + dk(r)' a - k(r)' K^-1 (dK a + dc(X)),   a = K^-1 (y - c(X)),
    dk = tau w (dm(r) m(X) + m(r) dm(X)), dK likewise,         dc = dm where a source has the target's units,

averaged over the mixture. That is linear in d m at the rows r and X, hence a linear combination of kernel evaluations
at x, whose weights are found here once. Its absolute value is the standard deviation of the change of mu(r): what
expected improvement, entropy search and the reduction of the target's variance need of an evaluation elsewhere. The
slopes by which a calibrated form is linearised are held too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aligngp.ensemble import Ensemble
from aligngp.ensemble.mapped import placed
from aligngp.ensemble.sources import _OFFSET as OFFSET
from aligngp.ensemble.sources import Sources
from aligngp.ensemble.target import Target
from aligngp.mappings.contract import Rows
from aligngp.parts import Part
from aligngp.suggest.mixture import padded
from aligngp.suggest.radial import correlation, squared_distance
from aligngp.suggest.surface import chained, mapping_slopes

_PADDING = 64


@dataclass(frozen=True, eq=False)
class Response:
    """The change of the target's mean at rows r for one standard deviation of surprise of a source."""

    part: Part
    task: int
    kernel: str
    arrays: tuple[Any, ...]
    """Of :func:`_change`; points and the sources' rows are padded, with weight zero."""

    def change(self, X: np.ndarray) -> np.ndarray:
        """Return the changes (n, R) that evaluations at raw rows X (n, Dt) of the source would cause."""
        nominal = np.asarray(self.part.frame.rows(self.task, X).nominal)
        return np.asarray(_change(self.kernel, self.arrays, jnp.asarray(nominal)))

    def slopes(self, X: np.ndarray, value: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return ``value`` (a function of changes (n, R) to (n,), in JAX) at raw rows, and its derivatives (n, Dt)."""
        nominal = jnp.asarray(self.part.frame.rows(self.task, X).nominal)
        values, by_nominal = _value_slopes(self.kernel, value, self.arrays, nominal)
        by_nominal = np.asarray(by_nominal)
        matrix = mapping_slopes(self.part, self.task, X)
        return np.asarray(values), chained(self.part, self.task, matrix, np.zeros_like(X), by_nominal)


def sources_of(part: Part, target: int) -> tuple[int, ...]:
    """Return the tasks whose evaluations tell the model something of a target."""
    if not isinstance(part.model, Ensemble):
        return ()
    sources = part.model.targets[target].given.sources
    return () if sources is None else sources.tasks


def make_response(part: Part, target: int, task: int, X: np.ndarray) -> Response:
    """Return how a target's mean at raw rows X (R, Dt) answers to evaluations of a task, one of its sources."""
    assert isinstance(part.model, Ensemble)
    mixture = part.model.targets[target]
    sources = mixture.given.sources
    assert sources is not None
    rows = part.frame.rows(target, X)
    points, weights = _operator(mixture, sources, rows)
    source, a, number = sources.tasks.index(task), sources.mixing, len(sources.y)
    # d mu(r) = sum_ms W_rms cov[F_s(p_m), y(x)]: prior covariances at the points, less what the sources' rows know.
    direct = np.einsum("rms,sq->qrm", weights, a)
    known = np.einsum("rms,snm->rn", weights, sources.whitened(points))
    total, size = (-(-length // _PADDING) * _PADDING for length in (len(points), number))
    arrays = (
        jnp.asarray(sources.lengthscale),
        jnp.asarray(a[source]),
        padded(direct, (*direct.shape[:2], total)),
        padded(points, (total,)),
        padded(known, (len(known), size)),
        padded(np.linalg.inv(sources._factor), (size, size)),
        padded(a[sources.of], (size,)),
        padded(sources.rows, (size,)),
        padded(OFFSET * (sources.of == source), (size,)),
        jnp.asarray(OFFSET + sources.noise[source]),
    )
    return Response(part, task, sources.kernel, arrays)


def _operator(target: Target, sources: Sources, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return points (M, D) of the common domain, and weights (R, M, S) of the sources' changes there."""
    seen = target._see(np.asarray(rows.own), np.asarray(rows.nominal))
    pair = target.given.pair(seen, target._seen)
    mean, training = seen.side.mean, target._seen.side.mean
    number, size = len(mean), len(training)
    shared = np.zeros((number, number + size, mean.shape[1]))
    points, weights = [np.concatenate([seen.nominal, target.nominal])], [shared]
    for share, member, h, root, alpha in target._active:
        prior = member.prior
        if not prior.sources:
            continue
        held = (prior.covariance(h, pair) @ np.swapaxes(root, 1, 2)) @ root  # k' K^-1, (P, R, N)
        known = h.scale[:, None] * prior.weights(h)[0]
        like = np.zeros(prior.sources)
        if prior.likeness is not None:
            like[prior.likeness.source] = prior.likeness.scale
        part = share / len(alpha)
        maps = [None] * len(alpha) if h.map is None else np.broadcast_to(h.map, (len(alpha), *h.map.shape[1:]))
        for p, one in enumerate(maps):
            if one is None:
                shared += part * _weights(known[p], like, mean, training, held[p], alpha[p])
                continue
            at, at_training = (placed(one[None], own)[0] for own in (seen.side.own, target.own))
            points.append(np.concatenate([at, at_training]))
            means = sources.value(at), sources.value(at_training)
            weights.append(part * _weights(known[p], like, *means, held[p], alpha[p]))
    return np.concatenate(points), np.concatenate(weights, axis=1)


def _weights(
    known: np.ndarray, like: np.ndarray, mean: np.ndarray, training: np.ndarray, held: np.ndarray, alpha: np.ndarray
) -> np.ndarray:
    """Return the weights (R, R + N, S) of d m at the rows and at the training rows, of one component."""
    number = len(mean)
    pulled = like + known * (alpha @ training)  # (S,): the posterior mean of the mixing, as far as it counts
    left = known * (mean - held @ training)  # (R, S): what is not known of the mixing, seen at the rows
    result = np.zeros((number, number + len(training), mean.shape[1]))
    result[np.arange(number), np.arange(number)] = pulled
    result[:, number:] = alpha[None, :, None] * left[:, None, :] - held[:, :, None] * pulled
    return result


def _change(kernel: str, arrays: tuple[Any, ...], x: Any) -> Any:
    lengthscale, a, direct, points, known, root, of, rows, constant, own = arrays
    total, cross = 0.0, constant[:, None]
    for q in range(len(lengthscale)):
        total += a[q] * (correlation(kernel, squared_distance(x, points, lengthscale[q])) @ direct[q].T)
        cross += a[q] * of[:, q, None] * correlation(kernel, squared_distance(rows, x, lengthscale[q]))
    whitened = root @ cross
    left = jnp.maximum(jnp.sum(a**2) + own - jnp.sum(whitened**2, axis=0), 1e-12)
    return (total - whitened.T @ known.T) / jnp.sqrt(left)[:, None]


@partial(jax.jit, static_argnames=("kernel", "value"))
def _value_slopes(kernel: str, value: Any, arrays: tuple[Any, ...], x: Any) -> Any:
    def function(x: Any) -> Any:
        values = value(_change(kernel, arrays, x))
        return jnp.sum(values), values

    (_, values), slopes = jax.value_and_grad(function, has_aux=True)(x)
    return values, slopes
