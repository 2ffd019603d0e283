"""One task given its sources: the mixture of its forms, and what it predicts.

With weights w_k of forms and draws h of their hyperparameters, a prediction is the mixture of Gaussians

    f(x) | y, h ~ N(c(x) + k' K^-1 (y - c),  k(x, x) - k' K^-1 k)

(c the prior mean, zero in most forms) whose mean and variance are those of the mixture. Under the forms that move the
aligned inputs, the displacement ``delta = sum_s u_s delta_s`` (u the direction of the posterior mean of the mixing a)
has the prior covariance v k(x, x') in each dimension, in units of the sources' reach, and the covariance ``tau^(1/2) v
k(x, x_j) sum_s u_s lambda_s^(1/2) d m_s(x_j)`` with the outputs; the aligned input is g0(x) plus its conditional.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from aligngp.dense import factored
from aligngp.ensemble.given import Given, Seen
from aligngp.ensemble.mapped import placed
from aligngp.ensemble.members import Member, observed_covariance
from aligngp.ensemble.prior import Hyperparameters
from aligngp.mappings.contract import Rows

_BLOCK = 4_000_000
"""Most entries of the largest array of a block of rows."""
_NEGLIGIBLE = 1e-3
"""A form of less weight is left out of predictions."""


@dataclass(frozen=True, eq=False)
class Target:
    """The fitted mixture of one task."""

    given: Given
    own: np.ndarray
    nominal: np.ndarray
    y: np.ndarray
    members: tuple[Member, ...]
    weights: np.ndarray
    """Of the members, (K,)."""
    placement: tuple[Target, ...] = ()
    """Where g0 is known at training rows only: a GP of every aligned input on own inputs."""

    @cached_property
    def _seen(self) -> Seen:
        return self.given.see(self.own, self.nominal)

    @cached_property
    def _active(self) -> list[tuple[float, Member, Hyperparameters, np.ndarray, np.ndarray]]:
        """Weight, member, hyperparameters, inverse factors (P, N, N) and K^-1 (y - c) (P, N) of what predicts."""
        kept = np.flatnonzero(self.weights >= _NEGLIGIBLE)
        shares = self.weights[kept] / self.weights[kept].sum()
        pair = self.given.pair(self._seen, self._seen)
        result = []
        for share, member in zip(shares, (self.members[k] for k in kept), strict=True):
            root = np.linalg.inv(factored(observed_covariance(member.prior, member.z, pair)))
            alpha = np.einsum("pij,pi->pj", root, root @ (self.y - member.prior.centre(self._seen.side)))
            result.append((float(share), member, member.prior.read(member.z), root, alpha))
        return result

    @property
    def _reach(self) -> np.ndarray:
        return np.ones(self.nominal.shape[1]) if self.given.sources is None else self.given.sources.reach

    @property
    def noise(self) -> float:
        """The noise variance, averaged over the mixture."""
        return float(sum(share * h.noise.mean() for share, _, h, _, _ in self._active))

    def moments(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance (n,) of the noise-free output."""
        parts = [self._moments(seen) for seen in self._blocks(rows)]
        mean, variance = (np.concatenate(column) for column in zip(*parts, strict=True))
        return mean, variance

    def _moments(self, seen: Seen) -> tuple[np.ndarray, np.ndarray]:
        pair, unknown = self.given.pair(seen, self._seen), self.given.unknown_variance(seen)
        first, second = np.zeros(len(seen.nominal)), np.zeros(len(seen.nominal))
        for share, member, h, root, alpha in self._active:
            cross = member.prior.covariance(h, pair)
            mean = member.prior.centre(seen.side) + np.einsum("pxn,pn->px", cross, alpha)
            taken = np.sum((cross @ np.swapaxes(root, 1, 2)) ** 2, axis=2)
            variance = np.maximum(member.prior.variance(h, seen.side, unknown, self.given.offset) - taken, 0.0)
            first += share * mean.mean(axis=0)
            second += share * (variance + mean**2).mean(axis=0)
        return first, np.maximum(second - first**2, 0.0)

    def components(self, rows: Rows) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
        """Give weight, mean (n,) and covariance (n, n) of every component of the mixture."""
        seen = self._see(np.asarray(rows.own), np.asarray(rows.nominal))
        pair, among = self.given.pair(seen, self._seen), self.given.pair(seen, seen)
        for share, member, _, root, alpha in self._active:
            for p in range(len(alpha)):
                one = member.prior.read(member.z[p : p + 1])
                cross = member.prior.covariance(one, pair)[0]
                half = cross @ root[p].T
                covariance = member.prior.covariance(one, among)[0] - half @ half.T
                if member.prior.sources:
                    added = member.prior.weights(one)[1][0] @ seen.unplaced
                    covariance[np.diag_indices_from(covariance)] += one.scale[0] * added
                yield share / len(alpha), member.prior.centre(seen.side) + cross @ alpha[p], covariance

    def joint(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (n,) and covariance (n, n) of the noise-free outputs."""
        size = len(rows.own)
        first, second = np.zeros(size), np.zeros((size, size))
        for share, mean, covariance in self.components(rows):
            first += share * mean
            second += share * (covariance + mean[:, None] * mean)
        return first, second - first[:, None] * first

    def draws(self, rows: Rows, number: int, rng: np.random.Generator) -> np.ndarray:
        """Return joint draws (number, n) of the noise-free outputs: a component each, then a draw of it."""
        size = len(rows.own)
        shares = np.concatenate([np.full(len(a), share / len(a)) for share, _, _, _, a in self._active])
        counts = rng.multinomial(number, shares / shares.sum())
        result = []
        for count, (_, mean, covariance) in zip(counts, self.components(rows), strict=True):
            if count:
                values, vectors = np.linalg.eigh(covariance)
                half = vectors * np.sqrt(np.maximum(values, 0.0))
                result.append(mean + rng.standard_normal((count, size)) @ half.T)
        return rng.permutation(np.concatenate(result)) if result else np.zeros((0, size))

    def aligned(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance (n, D) of the aligned inputs."""
        parts = [self._aligned(seen) for seen in self._blocks(rows)]
        mean, variance = (np.concatenate(column) for column in zip(*parts, strict=True))
        return mean, variance

    def _aligned(self, seen: Seen) -> tuple[np.ndarray, np.ndarray]:
        nominal = seen.nominal
        pair, reach = self.given.pair(seen, self._seen), self._reach
        first, second = np.zeros_like(nominal), np.zeros_like(nominal)
        slopes = self._seen.side.gradient  # (N, S, D)
        for share, member, h, root, alpha in self._active:
            if h.map is not None:
                moved = placed(h.map, seen.side.own) - nominal
                first += share * moved.mean(axis=0)
                second += share * (moved**2).mean(axis=0)
                continue
            if not member.prior.sources:
                continue  # nothing is moved where no source is seen
            direction = self._direction(member, h, alpha)
            slope = np.einsum("ps,nsd->pnd", direction * np.sqrt(h.shares), slopes)
            for cross, before in member.prior.displacement(h, pair):
                cross = np.sqrt(h.scale)[:, None, None] * cross  # (P, n, N), without the slope
                for d in range(nominal.shape[1]):
                    held = cross * slope[:, None, :, d]
                    mean = np.einsum("pxn,pn->px", held, alpha)
                    variance = np.maximum(before - np.sum((held @ np.swapaxes(root, 1, 2)) ** 2, axis=2), 0.0)
                    first[:, d] += share * reach[d] * mean.mean(axis=0)
                    second[:, d] += share * reach[d] ** 2 * (variance + mean**2).mean(axis=0)
        return nominal + first, np.maximum(second - first**2, 0.0)

    def _direction(self, member: Member, h: Hyperparameters, alpha: np.ndarray) -> np.ndarray:
        """Return the direction (P, S) of the posterior mean of the mixing a."""
        mixing = member.prior.weights(h)[0] * (alpha @ self._seen.side.mean) * np.sqrt(h.scale)[:, None]
        if member.prior.likeness is not None:
            mixing[:, member.prior.likeness.source] += 1.0
        return mixing / np.maximum(np.linalg.norm(mixing, axis=1, keepdims=True), 1e-300)

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance (N,) of every observed training row, each without itself."""
        mean = sum(w * m.left_out_mean for w, m in zip(self.weights, self.members, strict=True))
        second = sum(
            w * (m.left_out_variance + m.left_out_mean**2) for w, m in zip(self.weights, self.members, strict=True)
        )
        return np.asarray(mean), np.asarray(second - mean**2)

    def _see(self, own: np.ndarray, nominal: np.ndarray) -> Seen:
        if not self.placement or np.all(np.isfinite(nominal)):
            return self.given.see(own, nominal)
        found = [target.moments(Rows(own, nominal, np.full(len(own), -1))) for target in self.placement]
        mean, spread = (np.column_stack(columns) for columns in zip(*found, strict=True))
        return self.given.see(own, mean, spread)

    def _blocks(self, rows: Rows) -> Iterator[Seen]:
        own, nominal = np.asarray(rows.own), np.asarray(rows.nominal)
        conditioned = 0 if self.given.sources is None else len(self.given.sources.y) * len(self.given.sources.noise)
        draws = max(len(alpha) * (len(self.y) + own.shape[1]) for *_, alpha in self._active)
        if any(h.map is not None for _, _, h, _, _ in self._active):
            draws += conditioned * max(len(alpha) for *_, alpha in self._active)
        size = max(_BLOCK // max(conditioned, draws, 1), 1)
        for start in range(0, max(len(own), 1), size):
            yield self._see(own[start : start + size], nominal[start : start + size])
