"""The collapsed bound (:mod:`aligngp.objective.evidence`) with its gradient written by hand, in NumPy and LAPACK.

With ``C_q = k_q(x, Z_q)`` of unit variance, ``R_q = L_q^-1`` of its inducing covariance, ``w_t = scale_t / noise_t``:

    T = [sqrt(w) y, sqrt(w v_q) a_q o C_q R_q', ...]   a row for every row of the data
    F = T' T = [[y' W y, b'], [b, B]],  P = I + B,  c = P^-1 b
    bound = density + b' c / 2 - sum_j log|P_jj| / 2 - (sum_i w_i k_i - tr B) / 2

    d bound / dF = [[0, c'], [c, I - c c' - diag_j(P_jj^-1)]] / 2 = J / 2,   d bound / dT = T J

Only three products are as wide as the data: ``C R'``, ``T' T`` and ``T [J R]``, which is the gradient by ``C`` but for
a factor a row. That by ``C_zz`` needs none, as ``dR R' = (J F)_qq`` for the factor of a lower triangle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aligngp import dense
from aligngp.gaussian import LOG_2PI
from aligngp.kernels import radial
from aligngp.objective.direct.hyperpriors import add_log_prior
from aligngp.objective.direct.reading import Gp, Reading


@dataclass(frozen=True, eq=False)
class _Part:
    """The inducing variables of one GP: which rows, tasks and columns of the table are its own."""

    gp: Gp
    latent: int | None
    """The number of a latent; None for a residual."""
    tasks: slice
    rows: slice
    columns: slice
    """In the table of features, which a residual shares with those of other tasks."""
    block: slice
    """In the products of all columns."""
    centre: np.ndarray
    basis: np.ndarray
    """Of its rows, around the centre."""
    lower: np.ndarray
    """What leaves of a square the lower triangle and half of the diagonal."""


@dataclass(frozen=True, eq=False)
class _Features:
    """One GP's kernel at its rows, and what its gradient needs."""

    centred: np.ndarray
    """Inducing inputs."""
    basis: np.ndarray
    """Theirs."""
    cross: np.ndarray
    cross_slope: np.ndarray
    gram_slope: np.ndarray
    root: np.ndarray
    """R."""
    amplitude: np.ndarray
    """``a_q sqrt(w v_q)`` of its tasks."""
    weight: np.ndarray
    """The same of its rows, as a column."""


@dataclass(frozen=True, eq=False)
class _State:
    """What the value is made of."""

    features: list[_Features]
    table: np.ndarray
    products: np.ndarray
    """F."""
    factor: np.ndarray
    """Of P."""
    linear: np.ndarray
    """b."""
    root_weights: np.ndarray
    """``sqrt(w)`` of the tasks."""


class Bound:
    """The bound as a function of one vector; and the best q(u)."""

    def __init__(self, reading: Reading, prior: bool) -> None:
        self._reading, self._prior = reading, prior
        self._parts = _parts(reading)
        self._tasks, self._starts = reading.tasks, reading.ends[:-1]
        self._squares = np.add.reduceat(reading.y**2, self._starts)
        shared = 1 + sum(part.gp.inducing.shape[0] for part in self._parts if part.latent is not None)
        self._groups = _groups(reading, self._parts, shared)
        self._width = max(part.columns.stop for part in self._parts)
        self._size = max(part.block.stop for part in self._parts)

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Return value and gradient, NaN where a covariance cannot be factored."""
        with np.errstate(all="ignore"):
            values = self._reading.flat.values(vector)
            state = self._state(values)
            found = None if state is None else self._value_and_pull(state, values)
            if state is None or found is None:
                return np.nan, np.full_like(vector, np.nan)
            value, pull = found
            gradient = np.zeros_like(vector)
            self._add_gradient(state, pull, values, gradient)
            if self._prior:
                value += add_log_prior(self._reading, values, gradient)
            return value, self._reading.flat.chain(vector, gradient)

    def best_posterior(self, vector: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return mean (M, 1) and lower factor (1, M, M) of the best q(v) of every latent, then of every residual."""
        with np.errstate(all="ignore"):
            state = self._state(self._reading.flat.values(vector))
            sizes = [part.gp.inducing.shape[0] for part in self._parts]
            if state is None:
                return [(np.full((size, 1), np.nan), np.full((1, size, size), np.nan)) for size in sizes]
            mean = dense.solved(state.factor, state.linear)
            precision = state.products + np.eye(self._size)
            found = []
            for part, size in zip(self._parts, sizes, strict=True):
                scale = dense.covariance_factor(precision[part.block, part.block])
                scale = np.full((size, size), np.nan) if scale is None else scale
                found.append((mean[part.block.start - 1 : part.block.stop - 1, None], scale[None]))
            return found

    def _state(self, values: np.ndarray) -> _State | None:
        reading = self._reading
        roots = np.sqrt(reading.scales / np.array([float(noise.of(values)) for noise in reading.noises]))
        table = np.empty((len(reading.y), self._width))
        np.multiply(reading.y, roots[self._tasks], out=table[:, 0])
        features = []
        for part in self._parts:
            found = self._features(part, values, roots)
            if found is None:
                return None
            projected = found.cross @ found.root.T
            np.multiply(projected, found.weight, out=table[part.rows, part.columns])
            features.append(found)
        products = self._products(table)
        precision = products[1:, 1:].copy()
        precision.flat[:: self._size] += 1.0
        factor = dense.lower_factor(precision)
        if factor is None:
            return None
        return _State(features, table, products, factor, products[1:, 0], roots)

    def _features(self, part: _Part, values: np.ndarray, roots: np.ndarray) -> _Features | None:
        gp = part.gp
        centred = gp.inducing.of(values) - part.centre
        basis, lengthscale = radial.basis(centred), gp.lengthscale.of(values)
        value, slope = _kernel(gp.kernel, np.concatenate([part.basis, basis]), centred, lengthscale)
        number = len(part.basis)
        factor = dense.jittered_factor(value[number:], gp.jitter)
        if factor is None:
            return None
        amplitude = np.sqrt(gp.variance.of(values)) * roots[part.tasks]
        if part.latent is not None:
            amplitude = amplitude * self._reading.mixing.of(values)[:, part.latent]
        weight = np.repeat(amplitude, self._reading.counts[part.tasks])[:, None]
        cross = value[:number]
        slopes = (cross if slope is value else slope[:number]), slope[number:]
        return _Features(centred, basis, cross, *slopes, dense.inverse_of_factor(factor), amplitude, weight)

    def _products(self, table: np.ndarray) -> np.ndarray:
        """Return ``T' T``; the residuals of two tasks have no row in common."""
        if len(self._groups) == 1:
            rows, columns = self._groups[0]
            part = table[rows, : len(columns)]
            return part.T @ part
        products = np.zeros((self._size, self._size))
        for rows, columns in self._groups:
            part = table[rows, : len(columns)]
            products[np.ix_(columns, columns)] += part.T @ part
        return products

    def _value_and_pull(self, state: _State, values: np.ndarray) -> tuple[float, np.ndarray] | None:
        """Return the bound without priors, and twice its derivative by F."""
        reading = self._reading
        mean = dense.solved(state.factor, state.linear)
        pull = np.empty_like(state.products)
        np.multiply(mean[:, None], -mean, out=pull[1:, 1:])
        pull.flat[:: self._size + 1] += 1.0
        pull[0, 0], pull[0, 1:], pull[1:, 0] = 0.0, mean, mean
        half_determinant = 0.0
        for part in self._parts:
            factor = state.factor
            if len(self._parts) > 1:
                block = state.products[part.block, part.block].copy()
                block.flat[:: len(block) + 1] += 1.0
                factor = dense.lower_factor(block)
            if factor is None:
                return None
            half_determinant += dense.half_log_determinant(factor)
            pull[part.block, part.block] -= dense.inverse_of(factor)
        trace = self._prior_variance(state, values) - float(np.trace(state.products[1:, 1:]))
        fit = 0.5 * float(state.linear @ mean) - half_determinant - 0.5 * trace
        return float(np.sum(self._density(values))) + fit - reading.penalty, pull

    def _density(self, values: np.ndarray) -> np.ndarray:
        """Return ``scale_t sum_i log N(y_i | 0, noise)`` of every task."""
        reading = self._reading
        noise = np.array([float(slot.of(values)) for slot in reading.noises])
        each = reading.counts * (LOG_2PI + np.log(noise)) + self._squares / noise
        return -0.5 * reading.scales * each

    def _prior_variance(self, state: _State, values: np.ndarray) -> float:
        """Return ``sum_i w_i k_i``; an amplitude squared is what a row of its task adds to it."""
        pairs = zip(self._parts, state.features, strict=True)
        return float(sum(self._reading.counts[part.tasks] @ found.amplitude**2 for part, found in pairs))

    def _add_gradient(self, state: _State, pull: np.ndarray, values: np.ndarray, gradient: np.ndarray) -> None:
        """Add the gradient by all values."""
        reading = self._reading
        by_table = self._by_table(state, pull)
        by_log_weight = 0.5 * np.add.reduceat(state.table[:, 0] * by_table[:, 0], self._starts)
        for part, found in zip(self._parts, state.features, strict=True):
            by_amplitude = self._add_features(part, found, state, pull, by_table, gradient, values)
            # sum_i w_i k_i is the sum of the squares of the amplitudes.
            by_amplitude -= reading.counts[part.tasks] * found.amplitude
            self._add_amplitude(part, by_amplitude, state, values, gradient)
            by_log_weight[part.tasks] += 0.5 * by_amplitude * found.amplitude
        for task, slot in enumerate(reading.noises):
            noise = float(slot.of(values))
            density = -0.5 * reading.scales[task] * (reading.counts[task] - self._squares[task] / noise)
            slot.add(gradient, (density - by_log_weight[task]) / noise)

    def _by_table(self, state: _State, pull: np.ndarray) -> np.ndarray:
        """Return ``T [J R]``: the gradient by the first column, and those by every C but for the amplitudes."""
        lifted = pull.copy()
        for part, found in zip(self._parts, state.features, strict=True):
            lifted[:, part.block] = pull[:, part.block] @ found.root
        if len(self._groups) == 1:
            return state.table @ lifted
        result = np.empty_like(state.table)
        for rows, columns in self._groups:
            result[rows, : len(columns)] = state.table[rows, : len(columns)] @ lifted[np.ix_(columns, columns)]
        return result

    def _add_features(self, part, found: _Features, state, pull, by_table, gradient, values) -> np.ndarray:
        """Add the gradient by inducing inputs and lengthscales; return the one by the amplitudes, from T alone."""
        gp, dims = part.gp, found.centred.shape[1]
        moved = by_table[part.rows, part.columns]
        weighted = moved * found.cross_slope
        if found.cross_slope is found.cross:
            each = weighted @ np.ones(weighted.shape[1])
        else:
            each = np.einsum("nm,nm->n", moved, found.cross)
        starts = self._starts[part.tasks] - part.rows.start
        moments = weighted.T @ (found.weight * part.basis)
        product = pull[part.block] @ state.products[:, part.block]
        product *= part.lower
        by_gram = found.root.T @ (product + product.T) @ found.root
        among = -(by_gram * found.gram_slope) @ found.basis  # both sides of a pair are inducing inputs: twice a half
        lengthscale = gp.lengthscale.of(values)
        both = moments + among
        gp.inducing.add(gradient, (both[:, :dims] - both[:, -1:] * found.centred) / lengthscale**2)
        once = moments + 0.5 * among
        spread = once[:, -1:] * found.centred**2 + once[:, dims:-1] - 2.0 * found.centred * once[:, :dims]
        gp.lengthscale.add(gradient, np.sum(spread, axis=0) / lengthscale**3)
        return np.add.reduceat(each, starts)

    def _add_amplitude(self, part: _Part, by_amplitude: np.ndarray, state: _State, values, gradient) -> None:
        """Add the gradient by mixing and variance, whose product the amplitudes are."""
        variance = float(part.gp.variance.of(values))
        along = np.sqrt(variance) * state.root_weights[part.tasks] * by_amplitude
        if part.latent is None:
            part.gp.variance.add(gradient, 0.5 * np.sum(along) / variance)
            return
        mixing = self._reading.mixing.of(values)
        by_mixing = np.zeros_like(mixing)
        by_mixing[:, part.latent] = along
        self._reading.mixing.add(gradient, by_mixing)
        part.gp.variance.add(gradient, 0.5 * np.sum(along * mixing[:, part.latent]) / variance)


def _kernel(kernel: str, rows: np.ndarray, z: np.ndarray, lengthscale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the kernel of unit variance, and -2 times its slope: for SE the same array."""
    squared = radial.squared_to(kernel, rows, z, lengthscale)
    shared = radial.decay(kernel, squared)
    value = radial.correlation(kernel, squared, shared)
    return value, value if kernel == "se" else -2.0 * radial.slope(kernel, squared, shared)


def _parts(reading: Reading) -> list[_Part]:
    parts, end = [], 1
    aligned = np.concatenate(reading.aligned)
    for q, gp in enumerate(reading.latents):
        columns = slice(end, end + gp.inducing.shape[0])
        parts.append(_part(gp, q, slice(0, len(reading.counts)), slice(0, len(aligned)), columns, columns, aligned))
        end = columns.stop
    shared = end
    for task, gp in reading.residuals:
        size = gp.inducing.shape[0]
        columns, block = slice(shared, shared + size), slice(end, end + size)
        rows, tasks = reading.rows(task), slice(task, task + 1)
        parts.append(_part(gp, None, tasks, rows, columns, block, reading.own[task]))
        end = block.stop
    return parts


def _part(gp: Gp, latent: int | None, tasks, rows, columns, block, inputs: np.ndarray) -> _Part:
    centre, size = inputs.mean(axis=0), gp.inducing.shape[0]
    lower = np.tri(size) - 0.5 * np.eye(size)
    return _Part(gp, latent, tasks, rows, columns, block, centre, radial.basis(inputs - centre), lower)


def _groups(reading: Reading, parts: list[_Part], shared: int) -> list[tuple[slice, np.ndarray]]:
    """Return sets of rows with the columns that are not zero in them: all of them, or a task's with its residual."""
    if not reading.residuals:
        return [(slice(0, len(reading.y)), np.arange(shared))]
    blocks = {part.tasks.start: part.block for part in parts if part.latent is None}
    groups = []
    for task in range(len(reading.counts)):
        own = np.arange(blocks[task].start, blocks[task].stop) if task in blocks else np.zeros(0, int)
        groups.append((reading.rows(task), np.concatenate([np.arange(shared), own])))
    return groups
