"""A fitted model with its frame: how it comes about, and predictions and terms, from raw rows to the data's units."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from scipy.special import logsumexp

from aligngp import predict
from aligngp.data.stream import Stream
from aligngp.data.tasks import TaskData, TaskSchema, read_inputs_and_output
from aligngp.ensemble import Ensemble, fit_ensemble
from aligngp.errors import DataError, SettingError
from aligngp.fit.adam import History, bound, take
from aligngp.fit.all_rows import filled
from aligngp.fit.collapse import Objective
from aligngp.fit.collapse import terms as exact_terms
from aligngp.fit.initialise import cast
from aligngp.fit.jitter import warn_of_jitter
from aligngp.fit.long import SHORT, LongRun
from aligngp.fit.pipeline import Fitted, ProgressOf, fit_model
from aligngp.frame import Frame, build_frame
from aligngp.kernels.radial import KERNELS as ENSEMBLE_KERNELS
from aligngp.mappings.contract import Rows
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch
from aligngp.objective.prior import log_prior
from aligngp.parameters import in_precision, resolve
from aligngp.prediction import JOINT_ROWS
from aligngp.runtime import computing
from aligngp.settings import Settings

log = logging.getLogger("aligngp")

_ROWS_AT_ONCE = 8192
"""Most new rows that are standardised, mapped and predicted at a time."""
_ELBO_ROWS = 8192
"""Most rows of a task in one evaluation of the objective."""
ENSEMBLE_ROWS = 2000
"""Where every task has more rows, a sparse model uses more of them than the mixture of exact GPs would."""
_ENSEMBLE_TAKES: dict[str, tuple] = {
    "inference": ("auto",),
    "hyperparameters": ("auto", "map", "marginalize"),
    "batch_size": (None,),
    "num_inducing": (None,),
    "expectation": ("auto",),
    "mapping_kl_weight": (None,),
    "dtype": ("float64",),
}
"""Values with which the mixture of exact GPs stands behind ``calibration="auto"``: others ask for sparse models."""
_WHOLE = ("latent_kl", "residual_kl", "mapping_penalty")
"""Terms that do not depend on the rows."""


@dataclass(frozen=True)
class FittedEnsemble:
    """A mixture of exact GPs, the best evidence of each task as its history."""

    ensemble: Ensemble
    history: History
    interrupted: bool = False


@dataclass(frozen=True)
class Part:
    """One fitted model and the tasks it serves: all of them, or one where nothing is shared."""

    frame: Frame
    fitted: Fitted | FittedEnsemble
    rows: tuple[int, ...]
    """Number of training rows of each task."""

    @property
    def model(self) -> Model | Ensemble:
        """Return the fitted model, its parameters wrapped."""
        return self.fitted.ensemble if isinstance(self.fitted, FittedEnsemble) else self.fitted.model

    @property
    def dtype(self) -> str:
        """Return the working precision of the model."""
        return "float64" if isinstance(self.model, Ensemble) else str(self.model.latents[0].inducing.dtype)

    def noise(self, task: int) -> float:
        """Return a task's noise variance, standardised."""
        if isinstance(self.model, Ensemble):
            return self.model.noise(task)
        return float(resolve(self.model.likelihoods[task]).variance)


@dataclass(frozen=True)
class Moments:
    """What is known of a task's output at new rows, in its units."""

    mean: np.ndarray
    variance: np.ndarray
    covariance: Callable[[], np.ndarray]
    """Gives the full covariance over the rows, shape (n, n)."""
    draws: Callable[[int, int], np.ndarray]
    """Gives draws of shape (number, n) from number and seed, joint over the rows."""


def fit_part(tasks: tuple[TaskData, ...], settings: Settings, progress: ProgressOf, long: LongRun = SHORT) -> Part:
    """Fit tasks that share a common domain."""
    frame = build_frame(tasks, settings.common, settings.mappings, settings.standardize)
    settings.check_common(frame.names[frame.common])
    rows = tuple(task.rows for task in tasks)
    refused = no_ensemble(frame, settings, rows)
    if refused is None:
        batches = training_batches(frame, tasks, "float64")
        for task in (task for task in tasks if task.stream is not None):
            log.info("task %r: the mixture of exact GPs learns from a sample of %d rows", task.name, task.y.size)
        return Part(frame, _fit_ensemble(frame, tasks, batches, settings, progress), rows)
    if settings.hyperparameters == "marginalize":
        raise SettingError(
            "hyperparameters='marginalize' is done by the mixture of exact GPs behind calibration='auto', which cannot "
            f"be had here: {refused}. Change that, or pass hyperparameters='map'."
        )
    if "auto" in {settings.asked(name) for name in frame.names}:
        log.info("a sparse model with a calibrated mapping stands for the mixture of exact GPs: %s", refused)
    batches = training_batches(frame, tasks, settings.dtype)
    fitted = fit_model(frame, tasks, batches, settings, progress, long)
    warn_of_jitter(fitted.model, frame.names, stacklevel=3)
    return Part(frame, fitted, rows)


def no_ensemble(frame: Frame, settings: Settings, rows: Sequence[int]) -> str | None:
    """Return why the mixture of exact GPs is not the model of these tasks, None where it is."""
    for name in frame.names:
        if name != frame.names[frame.common] and settings.asked(name) != "auto":
            return f"calibration={settings.asked(name)!r} is asked for"
    if len(rows) == 1 and settings.asked(frame.names[0]) != "auto":
        return f"calibration={settings.asked(frame.names[0])!r} is asked for"
    for keyword, usual in _ENSEMBLE_TAKES.items():
        if getattr(settings, keyword) not in usual:
            return f"{keyword}={getattr(settings, keyword)!r}"
    if not isinstance(settings.kernel, str) or settings.kernel not in ENSEMBLE_KERNELS:
        return f"kernel={settings.kernel!r}"
    if min(rows) > ENSEMBLE_ROWS:
        return f"every task has more than {ENSEMBLE_ROWS} rows"
    return None


def _fit_ensemble(
    frame: Frame, tasks: tuple[TaskData, ...], batches: tuple[TaskBatch, ...], settings: Settings, progress: ProgressOf
) -> FittedEnsemble:
    start = time.perf_counter()
    values: list[float] = []
    seconds: list[float] = []
    shown = progress("mixture of exact GPs")

    def watch(done: int, total: int, objective: float) -> None:
        values.append(objective)
        seconds.append(time.perf_counter() - start)
        if shown is not None:
            shown(done, total, objective)

    ensemble = fit_ensemble(
        frame,
        tasks,
        batches,
        kernel=settings.kernel,
        seed=settings.seed,
        hyperparameters=settings.hyperparameters,
        residual=settings.residual is not False,
        progress=watch,
        log=log.info,
    )
    return FittedEnsemble(ensemble, History(np.arange(1, len(values) + 1), np.array(values), np.array(seconds)))


def training_batches(frame: Frame, tasks: Sequence[TaskData], dtype: str) -> tuple[TaskBatch, ...]:
    """Return all tasks' training rows, standardised, in the working precision."""
    return tuple(in_precision(frame.batch(at, task.X, task.y), dtype) for at, task in enumerate(tasks))


def predicted(part: Part, task: int, X: np.ndarray, *, latent: bool, num_samples: int, seed: int) -> Moments:
    """Return a task's moments at raw rows, with the noise variance unless ``latent``.

    Memory does not grow with the rows but for the answer itself; what is joint over the rows waits until asked for.
    """
    model, scaler, key = part.model, part.frame.outputs[task], jax.random.key(seed)
    mean, variance = np.empty(X.shape[0]), np.empty(X.shape[0])
    for start in range(0, X.shape[0], _ROWS_AT_ONCE):
        chosen = slice(start, start + _ROWS_AT_ONCE)
        rows = _rows(part, task, X[chosen], part.dtype)
        if isinstance(model, Ensemble):
            mean[chosen], variance[chosen] = model.moments(task, rows)
        else:
            block, analytic = jax.random.fold_in(key, start), resolve(model).closed_form()
            mean[chosen], variance[chosen] = predict.moments(
                model, task, rows, analytic=analytic, num_samples=num_samples, key=block
            )
    noise = 0.0 if latent else part.noise(task)
    X = X.copy() if X.shape[0] <= JOINT_ROWS else X  # read again below, when the caller's array may be another

    # What is joint needs factors of n x n matrices, which seldom exist in single precision: float64 whatever the model.
    def covariance() -> np.ndarray:
        with computing():
            rows = _rows(part, task, X, "float64")
            if isinstance(model, Ensemble):
                _, joint = model.joint(task, rows)
            else:
                double = cast(model, "float64")
                _, joint = predict.joint_moments(double, task, rows, num_samples=num_samples, key=key)
        joint = _with_diagonal(joint, variance)
        joint[np.diag_indices_from(joint)] += noise
        return scaler.inverse_variance(joint[..., None])[..., 0]

    def draws(number: int, seed: int) -> np.ndarray:
        with computing():
            rows = _rows(part, task, X, "float64")
            function, extra = jax.random.split(jax.random.key(seed))
            if isinstance(model, Ensemble):
                values = model.draws(task, rows, number, function)
            else:
                values = predict.joint_draws(cast(model, "float64"), task, rows, number=number, key=function)
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
    model, rows = part.model, _rows(part, task, X, part.dtype)
    mean, variance = model.aligned(task, rows) if isinstance(model, Ensemble) else predict.aligned(model, task, rows)
    scaler = part.frame.aligned_scaler()
    return scaler.inverse(mean), scaler.inverse_variance(variance)


Known = tuple[np.ndarray, np.ndarray] | Stream
"""A task's raw inputs and outputs in memory, or streamed."""


def known_rows(schema: TaskSchema, data: Any) -> Known:
    """Return rows with known outputs, as arrays or, where they are a stream, as that."""
    return data if isinstance(data, Stream) else read_inputs_and_output(schema, data)


def terms(part: Part, tasks: Sequence[Known], seed: int) -> dict[str, float]:
    """Return the named terms of the objective on all training rows of every task, and their total.

    ``total = expected_log_likelihood - alignment_penalty - latent_kl - residual_kl - mapping_penalty + log_prior``,
    each summed over the tasks; of an exact fit ``evidence - mapping_penalty + log_prior``; of a mixture of exact GPs
    the log evidence of every task given its sources, its forms being equally likely.
    """
    for at, (schema, known) in enumerate(zip(part.frame.tasks, tasks, strict=True)):
        size = known.rows if isinstance(known, Stream) else known[1].size
        if size != part.rows[at]:
            raise DataError(
                f"task {schema.name!r}: expected its {part.rows[at]} training rows, got {size} rows. The objective "
                "is one of the rows that the model was fitted to; for other rows see gp.score(...)."
            )
    fitted = part.fitted
    if isinstance(fitted, FittedEnsemble):
        evidence = {
            f"evidence of {name!r}": float(logsumexp(values) - np.log(len(values)))
            for at, name in enumerate(part.frame.names)
            if (values := list(fitted.ensemble.evidence(at).values()))
        }
        return {**evidence, "total": sum(evidence.values())}
    if fitted.inference == "exact":
        return exact_terms(fitted.model, tuple(_batches(part, tasks)), Objective("exact", fitted.prior))
    sums = {"expected_log_likelihood": 0.0, "alignment_penalty": 0.0}
    whole: dict[str, float] = {}
    key = jax.random.key(seed)
    for block, chosen in enumerate(_blocks(part, tasks)):
        values = bound(fitted.model, chosen, jax.random.fold_in(key, block), fitted.adam)
        for name in sums:
            sums[name] += float(np.sum(getattr(values, name)))
        whole = {name: float(np.sum(getattr(values, name))) for name in _WHOLE}
    total = sums["expected_log_likelihood"] - sums["alignment_penalty"] - sum(whole.values())
    prior = float(log_prior(resolve(fitted.model))) if fitted.prior else 0.0
    return {**sums, **whole, "log_prior": prior, "total": total + prior}


def _batches(part: Part, tasks: Sequence[Known]) -> list[TaskBatch]:
    """Return the rows in memory, standardised; of a stream none."""
    pairs = [
        (np.empty((0, len(schema.columns))), np.empty(0)) if isinstance(known, Stream) else known
        for schema, known in zip(part.frame.tasks, tasks, strict=True)
    ]
    return [in_precision(part.frame.batch(at, X, y), part.dtype) for at, (X, y) in enumerate(pairs)]


def _blocks(part: Part, tasks: Sequence[Known]) -> Iterator[tuple[TaskBatch, ...]]:
    """Give all rows of all tasks in blocks: those in memory together, then those of every stream by itself."""
    batches = _batches(part, tasks)
    blocks = max(1, -(-max(batch.y.shape[0] for batch in batches) // _ELBO_ROWS))
    for block in range(blocks):
        pieces = [np.array_split(np.arange(batch.y.shape[0]), blocks)[block] for batch in batches]
        yield tuple(take(batch, piece, 1.0) for batch, piece in zip(batches, pieces, strict=True))
    nothing = [take(batch, np.arange(0), 1.0) for batch in batches]
    for at, known in enumerate(tasks):
        for rows in known.blocks() if isinstance(known, Stream) else ():
            batch = in_precision(part.frame.batch(at, rows[:, :-1], rows[:, -1]), part.dtype)
            yield (*nothing[:at], filled(batch), *nothing[at + 1 :])


def one_history(histories: Sequence[History]) -> History:
    """Return histories as one, their iterations and seconds one after the other."""
    iteration = np.cumsum([0, *(history.iteration.size for history in histories)])
    seconds = np.cumsum([0.0, *(max(history.seconds, default=0.0) for history in histories)])
    return History(
        np.concatenate([history.iteration + before for history, before in zip(histories, iteration, strict=False)]),
        np.concatenate([history.objective for history in histories]),
        np.concatenate([history.seconds + before for history, before in zip(histories, seconds, strict=False)]),
        np.concatenate([history.terms for history in histories]),
    )


def _rows(part: Part, task: int, X: np.ndarray, dtype: str) -> Rows:
    return in_precision(part.frame.rows(task, X), dtype)


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
