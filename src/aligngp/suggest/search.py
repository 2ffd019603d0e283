"""Maximising over a space: Sobol screening, gradients from several starts at once, and steps of what is not real."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from aligngp.suggest.space import Space

SCREENED, STARTS = 256, 8
_ITERATIONS, _ROUNDS, _STEPS = 40, 4, 8

Value = Callable[[np.ndarray], np.ndarray]
"""Of rows (n, columns), to (n,)."""
Slopes = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""The same with the derivatives by the rows (n, columns)."""


def maximise(
    space: Space, value: Value, slopes: Slopes, seed: int, extra: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return local maxima (k, columns) of a function over a space and its values (k,), best first.

    ``extra`` rows (m, columns) are screened beside the Sobol rows.
    """
    rows = space.sample(SCREENED, seed)
    if extra is not None and len(extra):
        rows = np.concatenate([rows, extra])
    values = _finite(value(rows))
    rows, values = _starts(space, rows, values, seed)
    for _ in range(_ROUNDS):
        rows, values = _climbed(space, rows, values, slopes)
        moved = False
        for _ in range(_STEPS):
            rows, values, again = _stepped(space, rows, values, value)
            moved = moved or again
            if not again:
                break
        if not moved:
            break
    order = np.argsort(-values)
    return rows[order], values[order]


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), values, -1e12)


def _starts(space: Space, rows: np.ndarray, values: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the best row, and others drawn in proportion to the exponential of their standardised values."""
    best = int(np.argmax(values))
    spread = np.std(values)
    weights = np.exp(2.0 * (values - values.max()) / (spread if spread > 0 else 1.0))
    weights[best] = 0.0
    number = min(STARTS - 1, int(np.sum(weights > 0)))
    others = np.zeros(0, int)
    if number:
        rng = np.random.default_rng(seed)
        others = rng.choice(len(rows), number, replace=False, p=weights / weights.sum())
    chosen = np.append(best, others)
    chosen = np.append(chosen, np.full(STARTS - len(chosen), best))  # always as many: nothing is compiled again
    return rows[chosen], values[chosen]


def _climbed(space: Space, rows: np.ndarray, values: np.ndarray, slopes: Slopes) -> tuple[np.ndarray, np.ndarray]:
    """Return rows after L-BFGS-B on all real variables of all rows at once; each is the best that was seen of it."""
    reals = space.reals
    if not reals.size:
        return rows, values
    best_rows, best_values = rows.copy(), values.copy()

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        at, widths = space.with_unit(rows, flat.reshape(len(rows), -1))
        found, by_rows = slopes(at)
        sound = np.isfinite(found) & np.isfinite(by_rows).all(axis=1)
        better = sound & (found > best_values)
        best_rows[better], best_values[better] = at[better], found[better]
        gradient = np.where(sound[:, None], by_rows[:, reals] * widths, 0.0)
        return -float(np.sum(np.where(sound, found, -1e12))), -gradient.ravel()

    unit = space.to_unit(rows)
    options = {"maxiter": _ITERATIONS, "maxfun": 2 * _ITERATIONS}
    minimize(objective, unit.ravel(), jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * unit.size, options=options)
    return best_rows, best_values


def _stepped(space: Space, rows: np.ndarray, values: np.ndarray, value: Value) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return rows after the best change of one whole number or choice each, and whether there was one."""
    rows, values = rows.copy(), values.copy()
    near = [space.neighbours(row) for row in rows]
    if not sum(map(len, near)):
        return rows, values, False
    found = np.split(_finite(value(np.concatenate(near))), np.cumsum([len(some) for some in near])[:-1])
    moved = False
    for at, (some, theirs) in enumerate(zip(near, found, strict=True)):
        if len(some) and theirs.max() > values[at] + 1e-9 * max(1.0, abs(values[at])):
            rows[at], values[at], moved = some[np.argmax(theirs)], theirs.max(), True
    return rows, values, moved
