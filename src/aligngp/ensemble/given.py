"""Rows of a target as its forms see them: its own and its aligned inputs, and what the sources say at the latter."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from aligngp.ensemble.sources import Sources

_BOUND = 3.0


@dataclass(frozen=True, eq=False)
class Side:
    """Rows of a target as the forms see them."""

    own: np.ndarray
    """(n, Dt)."""
    nominal: np.ndarray
    """(n, D)."""
    mean: np.ndarray
    """Posterior means of the sources (n, S)."""
    gradient: np.ndarray
    """Gradients of those means times the sources' reach, (n, S, D)."""
    sources: Sources | None
    bounded: np.ndarray = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "bounded", self.own / np.sqrt(1.0 + self.own**2 / _BOUND**2))


@dataclass(frozen=True, eq=False)
class Pair:
    """Two sets of rows, and what their covariance has in every form, by source."""

    x: Side
    z: Side
    known: np.ndarray
    """``m_s(x) m_s(z)``, (S, n, m)."""
    unknown: np.ndarray
    """``C_s(x, z)``, (S, n, m)."""
    gradients: np.ndarray
    """``grad m_s(x) . grad m_s(z)``, (S, n, m)."""
    offset: float
    """var(b)."""
    placed: dict[bytes, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict, repr=False)
    """``known`` and ``unknown`` where another given map places the rows, by the map's bytes."""


@dataclass(frozen=True, eq=False)
class Seen:
    """Rows with the sources' posterior at their aligned inputs."""

    side: Side
    nominal: np.ndarray
    whitened: np.ndarray
    """(S, N_sources, n), see Sources.whitened."""
    unplaced: np.ndarray
    """Variance (S, n) that uncertain aligned inputs add to each source, to first order."""


@dataclass(frozen=True, eq=False)
class Likeness:
    """The source whose outputs a target's are closest to when both are in the units of the data.

    ``y = shift + scale F`` is then the same quantity, F being the source standardised, y the target standardised.
    """

    source: int
    scale: float
    shift: float

    def mean(self, means: np.ndarray) -> np.ndarray:
        """Return the source's posterior mean, of means (n, S), in the target's units (n,)."""
        return self.shift + self.scale * means[:, self.source]


@dataclass(frozen=True, eq=False)
class Given:
    """What the sources know, and var(b): all that rows need to be seen by the forms."""

    sources: Sources | None
    offset: float
    likeness: Likeness | None = None

    @property
    def number(self) -> int:
        """The number of sources, S."""
        return 0 if self.sources is None else len(self.sources.noise)

    def see(self, own: np.ndarray, nominal: np.ndarray, spread: np.ndarray | float = 0.0) -> Seen:
        """Return rows with own inputs (n, Dt) and aligned ones (n, D), known up to variances (n, D)."""
        rows = len(own)
        if self.sources is None:
            nothing = np.zeros((rows, 0))
            side = Side(own, nominal, nothing, nothing[:, :, None], None)
            return Seen(side, nominal, np.zeros((0, 0, rows)), nothing.T)
        mean, gradient = self.sources.mean(nominal)
        side = Side(own, nominal, mean, gradient * self.sources.reach, self.sources)
        unplaced = np.sum(gradient**2 * np.broadcast_to(spread, nominal.shape)[:, None], axis=2).T
        return Seen(side, nominal, self.sources.whitened(nominal), unplaced)

    def pair(self, x: Seen, z: Seen) -> Pair:
        """Return two sets of rows together."""
        known = x.side.mean.T[:, :, None] * z.side.mean.T[:, None, :]
        unknown = np.zeros_like(known)
        if self.sources is not None:
            unknown = self.sources.covariance(x.nominal, z.nominal, x.whitened, z.whitened)
        gradients = np.einsum("nsd,msd->snm", x.side.gradient, z.side.gradient, optimize=True)
        return Pair(x.side, z.side, known, unknown, gradients, self.offset)

    def unknown_variance(self, x: Seen) -> np.ndarray:
        """Return the diagonal (S, n) of the rows' ``unknown``, and what uncertain aligned inputs add."""
        return x.unplaced if self.sources is None else x.unplaced + self.sources.variance(x.whitened)
