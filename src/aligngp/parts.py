"""A fitted model with its frame: predictions and terms of the objective, from raw rows to the units of the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aligngp import predict
from aligngp.data.tasks import TaskData
from aligngp.errors import DataError
from aligngp.fit.adam import History, bound, take
from aligngp.fit.collapse import Objective
from aligngp.fit.collapse import terms as exact_terms
from aligngp.fit.initialise import cast
from aligngp.fit.pipeline import Fitted
from aligngp.frame import Frame
from aligngp.mappings.contract import Rows
from aligngp.objective.elbo import TaskBatch
from aligngp.objective.prior import log_prior
from aligngp.parameters import resolve
from aligngp.runtime import computing

_ROWS_AT_ONCE = 8192
"""Most new rows that are standardised, mapped and predicted at a time."""
_ELBO_ROWS = 8192
"""Most rows of a task in one evaluation of the objective."""
_WHOLE = ("latent_kl", "residual_kl", "mapping_penalty")
"""Terms that do not depend on the rows."""


@dataclass(frozen=True)
class Part:
    """One fitted model and the tasks it serves: all of them, or one where nothing is shared."""

    frame: Frame
    fitted: Fitted
    rows: tuple[int, ...]
    """Number of training rows of each task."""

    @property
    def dtype(self) -> str:
        """Return the working precision of the model."""
        return str(self.fitted.model.latents[0].inducing.dtype)

    def noise(self, task: int) -> float:
        """Return a task's noise variance, standardised."""
        return float(resolve(self.fitted.model.likelihoods[task]).variance)


@dataclass(frozen=True)
class Moments:
    """What is known of a task's output at new rows, in its units."""

    mean: np.ndarray
    variance: np.ndarray
    covariance: Callable[[], np.ndarray]
    """Gives the full covariance over the rows, shape (n, n)."""
    draws: Callable[[int, int], np.ndarray]
    """Gives draws of shape (number, n) from number and seed, joint over the rows."""


def training_batches(frame: Frame, tasks: Sequence[TaskData], dtype: str) -> tuple[TaskBatch, ...]:
    """Return all tasks' training rows, standardised, in the working precision."""
    return tuple(_cast(frame.batch(at, task.X, task.y), dtype) for at, task in enumerate(tasks))


def predicted(part: Part, task: int, X: np.ndarray, *, latent: bool, num_samples: int, seed: int) -> Moments:
    """Return a task's moments at raw rows, with the noise variance unless ``latent``.

    Memory does not grow with the rows but for the answer itself; what is joint over the rows waits until asked for.
    """
    model, scaler, key = part.fitted.model, part.frame.outputs[task], jax.random.key(seed)
    analytic = resolve(model).closed_form()
    mean, variance = np.empty(X.shape[0]), np.empty(X.shape[0])
    for start in range(0, X.shape[0], _ROWS_AT_ONCE):
        chosen = slice(start, start + _ROWS_AT_ONCE)
        rows = _rows(part, task, X[chosen], part.dtype)
        block = jax.random.fold_in(key, start)
        mean[chosen], variance[chosen] = predict.moments(
            model, task, rows, analytic=analytic, num_samples=num_samples, key=block
        )
    noise = 0.0 if latent else part.noise(task)

    # What is joint needs factors of n x n matrices, which seldom exist in single precision: float64 whatever the model.
    def covariance() -> np.ndarray:
        with computing():
            rows, double = _rows(part, task, X, "float64"), cast(model, "float64")
            _, joint = predict.joint_moments(double, task, rows, num_samples=num_samples, key=key)
        joint = _with_diagonal(joint, variance)
        joint[np.diag_indices_from(joint)] += noise
        return scaler.inverse_variance(joint[..., None])[..., 0]

    def draws(number: int, seed: int) -> np.ndarray:
        with computing():
            rows, double = _rows(part, task, X, "float64"), cast(model, "float64")
            function, extra = jax.random.split(jax.random.key(seed))
            values = predict.joint_draws(double, task, rows, number=number, key=function)
            values = values + np.sqrt(noise) * np.asarray(jax.random.normal(extra, values.shape))
        return scaler.inverse(values[..., None])[..., 0]

    return Moments(
        scaler.inverse(mean[:, None])[:, 0],
        scaler.inverse_variance(variance[:, None] + noise)[:, 0],
        covariance,
        draws,
    )


def aligned(part: Part, task: int, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance (n, D) of the aligned inputs at raw rows, in the common domain's units."""
    mean, variance = predict.aligned(part.fitted.model, task, _rows(part, task, X, part.dtype))
    scaler = part.frame.aligned_scaler()
    return scaler.inverse(mean), scaler.inverse_variance(variance)


def terms(part: Part, tasks: Sequence[tuple[np.ndarray, np.ndarray]], seed: int) -> dict[str, float]:
    """Return the named terms of the objective on all training rows (X, y) of every task, and their total.

    ``total = expected_log_likelihood - alignment_penalty - latent_kl - residual_kl - mapping_penalty + log_prior``,
    each summed over the tasks; of an exact fit ``evidence - mapping_penalty + log_prior``.
    """
    for at, (schema, (_, y)) in enumerate(zip(part.frame.tasks, tasks, strict=True)):
        if y.size != part.rows[at]:
            raise DataError(
                f"task {schema.name!r}: expected its {part.rows[at]} training rows, got {y.size} rows. The objective "
                "is one of the rows that the model was fitted to; for other rows see gp.score(...)."
            )
    batches = [_cast(part.frame.batch(at, X, y), part.dtype) for at, (X, y) in enumerate(tasks)]
    if part.fitted.inference == "exact":
        return exact_terms(part.fitted.model, tuple(batches), Objective("exact", part.fitted.prior))
    blocks = max(1, -(-max(part.rows) // _ELBO_ROWS))
    sums = {"expected_log_likelihood": 0.0, "alignment_penalty": 0.0}
    whole: dict[str, float] = {}
    key = jax.random.key(seed)
    for block in range(blocks):
        pieces = [np.array_split(np.arange(batch.y.shape[0]), blocks)[block] for batch in batches]
        chosen = tuple(take(batch, piece, 1.0) for batch, piece in zip(batches, pieces, strict=True))
        values = bound(part.fitted.model, chosen, jax.random.fold_in(key, block), part.fitted.adam)
        for name in sums:
            sums[name] += float(np.sum(getattr(values, name)))
        whole = {name: float(np.sum(getattr(values, name))) for name in _WHOLE}
    total = sums["expected_log_likelihood"] - sums["alignment_penalty"] - sum(whole.values())
    prior = float(log_prior(resolve(part.fitted.model))) if part.fitted.prior else 0.0
    return {**sums, **whole, "log_prior": prior, "total": total + prior}


def one_history(histories: Sequence[History]) -> History:
    """Return histories as one, their iterations and seconds one after the other."""
    iteration = np.cumsum([0, *(history.iteration.size for history in histories)])
    seconds = np.cumsum([0.0, *(max(history.seconds, default=0.0) for history in histories)])
    return History(
        np.concatenate([history.iteration + before for history, before in zip(histories, iteration, strict=False)]),
        np.concatenate([history.objective for history in histories]),
        np.concatenate([history.seconds + before for history, before in zip(histories, seconds, strict=False)]),
    )


def _rows(part: Part, task: int, X: np.ndarray, dtype: str) -> Rows:
    return _cast(part.frame.rows(task, X), dtype)


def _cast(tree: Any, dtype: str) -> Any:
    """Return the floating arrays of a tree in that precision."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if getattr(leaf, "dtype", None) == np.float64 else leaf, tree)


def _with_diagonal(covariance: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return a covariance ``D C D`` whose diagonal is the variance, D being diagonal.

    Over uncertain aligned inputs C comes from draws, the variance does not: draws then give the correlations alone.
    """
    found = np.diagonal(covariance)
    usable = found > 1e-12 * np.max(found, initial=0.0)
    scale = np.sqrt(np.divide(variance, found, out=np.ones_like(found), where=usable))
    result = covariance * scale[:, None] * scale[None, :]
    np.fill_diagonal(result, variance)
    return result
