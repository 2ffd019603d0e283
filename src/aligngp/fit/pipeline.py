"""From standardised data to a fitted model: what is trained, in which order, and which start is kept."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace

import jax
import numpy as np

from aligngp.data.batches import resolve_batch_sizes
from aligngp.data.processes import process_index
from aligngp.data.stream import Stream
from aligngp.data.tasks import TaskData
from aligngp.errors import AligngpWarning, SettingError, TrainingError
from aligngp.fit.adam import AdamSettings, History, ended, train
from aligngp.fit.all_rows import best_over_all_rows
from aligngp.fit.checkpoint import Checkpoints, identity
from aligngp.fit.choose import Inference, Problem, choose
from aligngp.fit.collapse import Objective, train_deterministic
from aligngp.fit.feed import StreamedTask, TrainingData, take
from aligngp.fit.imc import calibrate
from aligngp.fit.initialise import MOST_INDUCING, Start, default_inducing, elsewhere, initial_model
from aligngp.fit.lbfgs import LbfgsSettings
from aligngp.fit.long import SHORT, LongRun
from aligngp.fit.natural import NaturalSettings, train_natural
from aligngp.frame import Frame, affine_in_frame, alone
from aligngp.kernels import SquaredExponential, as_kernel
from aligngp.mappings.fixed import AffineMap, Nominal
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch
from aligngp.parameters import in_precision
from aligngp.settings import Settings
from aligngp.typing import Expectation, Progress

log = logging.getLogger("aligngp")

_ANALYTIC_ENTRIES = 1_000_000
"""Most psi statistics a step, B M^2 Q (Q + 1) / 2 over the calibrated tasks, that are taken instead of samples.

Each costs some 20 ns with its gradient: at this size about what the rest of the step does.
"""
_SEEDS = 2**32
_STARTS = 3
"""Starts that a deterministic training screens unless told otherwise."""
_FEW_ROWS = 2000
"""Rows up to which that many starts are screened, and of the subset from which stochastic training warms up."""
_BATCH = 512
"""Rows a task and step of stochastic training, where there are more."""


@dataclass(frozen=True)
class Fitted:
    """A trained model, how it was trained, and the objective's history."""

    model: Model
    history: History
    adam: AdamSettings
    """How the bound is evaluated, and for plain Adam how it was trained."""
    inference: Inference = "adam"
    prior: bool = False
    """Whether priors on hyperparameters are part of the objective."""
    interrupted: bool = False


ProgressOf = Callable[[str], Progress | None]
"""Gives the progress callback of a named stage."""


@dataclass(frozen=True)
class _Fit:
    """What a training works on: the tables as one frame, their rows, and the settings."""

    frame: Frame
    batches: tuple[TaskBatch, ...]
    noises: tuple[float | None, ...]
    kinds: tuple[str, ...]
    settings: Settings
    progress: ProgressOf
    label: str
    streams: tuple[StreamedTask | None, ...]
    long: LongRun = SHORT

    @property
    def rows(self) -> tuple[int, ...]:
        """Return the number of all rows of every task; of a streamed one, ``batches`` holds a sample."""
        return TrainingData(self.batches, (), (), self.streams).rows

    def start(self, bases: dict[int, AffineMap], sparse: bool = True) -> Model:
        """Return the initial model."""
        starts = [_start(self.settings, name, sparse) for name in self.frame.names]
        return initial_model(self.frame, self.batches, self.kinds, self.noises, starts, self.settings.seed, bases)

    def starts(self, bases: dict[int, AffineMap], number: int, sparse: bool = True) -> list[Model]:
        """Return the initial model and others that begin elsewhere."""
        first, start = self.start(bases, sparse), _start(self.settings, self.frame.names[self.frame.common])
        return [elsewhere(first, start, at, self.settings.seed) for at in range(number)]


def fit_model(
    frame: Frame,
    tasks: tuple[TaskData, ...],
    batches: tuple[TaskBatch, ...],
    settings: Settings,
    progress: ProgressOf,
    long: LongRun = SHORT,
) -> Fitted:
    """Fit the model that the settings describe.

    Plain Adam fits every restart and keeps the best final bound; the others screen their starts for a few iterations
    and finish the best. A restart that fails is left out with a warning; Ctrl-C leaves out those that have not begun.
    """
    kinds = calibrations(frame, settings)
    noises = tuple(task.noise for task in tasks)
    streams = tuple(_streamed(frame, at, task, settings.dtype) for at, task in enumerate(tasks))
    fit = _Fit(frame, batches, noises, kinds, settings, progress, "training", streams, long)
    chosen = _chosen(fit)
    if chosen != "adam":
        return _fit_once(fit, tasks, chosen)
    number = settings.restarts or 1
    best: Fitted | None = None
    for restart in range(number):
        label = f"restart {restart + 1} of {number}" if number > 1 else "training"
        seeded = replace(settings, seed=(settings.seed + restart) % _SEEDS)
        try:
            own = replace(fit, settings=seeded, label=label, long=long.of(f"restart{restart}") if restart else long)
            fitted = _fit_once(own, tasks, chosen)
        except TrainingError as error:
            if best is None and restart == number - 1:
                raise
            warnings.warn(f"{label} failed and is left out. {error}", AligngpWarning, stacklevel=2)
            continue
        log.info("%s: final objective %.6g", label, _final(fitted.history))
        if best is None or _final(fitted.history) > _final(best.history):
            best = fitted
        if fitted.interrupted:
            break
    assert best is not None
    return best


def calibrations(frame: Frame, settings: Settings) -> tuple[str, ...]:
    """Return what is done with each task's mapping."""
    result = []
    for task, name in enumerate(frame.names):
        asked = settings.calibration_of(name)
        if task == frame.common:
            result.append("none")
        elif frame.priors[task].kind == "tabulated":
            if asked != "embedded" and _explicit(settings, name):
                raise SettingError(
                    f"Task {name!r}: agp.Tabulated knows the aligned inputs at the training rows only, so "
                    f"calibration={asked!r} cannot predict at new rows. Pass calibration='embedded', or a mapping "
                    "that is known everywhere."
                )
            result.append("embedded")
        else:
            result.append(asked)
    return tuple(result)


def _explicit(settings: Settings, task: str) -> bool:
    asked = settings.calibration
    return (asked if isinstance(asked, str) else asked.get(task, "auto")) != "auto"


def _streamed(frame: Frame, at: int, task: TaskData, dtype: str) -> StreamedTask | None:
    """Return a task's stream with what standardises its rows, None where they are in memory."""
    if task.stream is None:
        return None
    return StreamedTask(task.stream, lambda X, y: in_precision(frame.batch(at, X, y), dtype))


def _chosen(fit: _Fit) -> Inference:
    """Return the inference of a fit."""
    settings, rows = fit.settings, fit.rows
    latents = settings.num_latents if len(rows) > 1 else 1
    shared = settings.num_inducing or default_inducing(sum(rows))
    own = settings.num_inducing or MOST_INDUCING
    residuals = [
        min(own, n)
        for task, (name, n) in enumerate(zip(fit.frame.names, rows, strict=True))
        if task != fit.frame.common and settings.has_residual(name)
    ]
    problem = Problem(
        rows=rows,
        uncertain=[n for n, kind in zip(rows, fit.kinds, strict=True) if kind in ("bayes", "embedded", "free")],
        inducing=[*([min(shared, sum(rows))] * latents), *residuals],
        latents=latents,
        closed=isinstance(as_kernel(settings.kernel), SquaredExponential),
    )
    streamed = [name for name, one in zip(fit.frame.names, fit.streams, strict=True) if one is not None]
    if "free" in (kind for kind, one in zip(fit.kinds, fit.streams, strict=True) if one is not None):
        raise SettingError(
            f"task {streamed[0]!r}: calibration='free' has parameters for every row, and its rows are streamed. Pass "
            "another calibration, or agp.Parquet(..., stream=False)."
        )
    return choose(settings, problem, fit.label, streamed)


def _fit_once(fit: _Fit, tasks: tuple[TaskData, ...], chosen: Inference) -> Fitted:
    bases: dict[int, AffineMap] = {}
    if "linear" in fit.kinds:
        low = _low_fidelity(fit, chosen)
        for task in (t for t, kind in enumerate(fit.kinds) if kind == "linear"):
            first = affine_in_frame(fit.frame, task, tasks[task].X)
            bases[task] = calibrate(low, fit.batches[task], first, fit.settings.imc_penalty)
    return _trained(fit, bases, chosen)


def _low_fidelity(fit: _Fit, chosen: Inference) -> Model:
    """Return a single-task GP of the common task: IMC's first stage."""
    at = fit.frame.common
    name = fit.frame.names[at]
    single = replace(
        fit,
        streams=(fit.streams[at],),
        long=fit.long.of("single-task"),
        frame=alone(fit.frame, at),
        batches=(fit.batches[at],),
        noises=(fit.noises[at],),
        kinds=("none",),
        label=f"single-task GP of {name!r}",
    )
    # What follows asks for its q(u), which the exact posterior does not have.
    return _trained(single, {}, "collapsed" if chosen == "exact" else chosen).model


def _trained(fit: _Fit, bases: dict[int, AffineMap], chosen: Inference) -> Fitted:
    if chosen == "adam":
        return _by_adam(fit, bases)
    settings = fit.settings
    prior = settings.hyperparameters != "ml"
    if chosen == "svi":
        return _by_natural_gradients(fit, bases, prior)
    number = settings.restarts or (_STARTS if sum(fit.rows) <= _FEW_ROWS else 1)
    starts = fit.starts(bases, number, sparse=chosen != "exact")
    limits = LbfgsSettings(1000 if settings.max_iterations is None else settings.max_iterations)
    objective = Objective(chosen, prior)
    model, history, interrupted = train_deterministic(
        starts, fit.batches, objective, limits, fit.progress(fit.label), fit.frame.names
    )
    bound = replace(_adam(fit, model, (None,) * len(fit.batches)), expectation=_closed(model))
    return Fitted(model, history, bound, chosen, prior, interrupted)


def _by_adam(fit: _Fit, bases: dict[int, AffineMap]) -> Fitted:
    """Train as the paper does."""
    model, sizes, seed = fit.start(bases), _sizes(fit, None), fit.settings.seed
    adam = _adam(fit, model, sizes)
    data = TrainingData(fit.batches, sizes, fit.frame.names)
    kept = _checkpoints(fit, sizes, adam)
    model, history = train(model, data, jax.random.key(seed), seed, adam, fit.progress(fit.label), kept)
    return Fitted(model, history, adam, "adam", False, not ended(history, adam))


def _by_natural_gradients(fit: _Fit, bases: dict[int, AffineMap], prior: bool) -> Fitted:
    """Train on minibatches, warmed up by a collapsed fit to a subset where that has a closed form."""
    settings, sizes = fit.settings, _sizes(fit, _BATCH)
    starts = fit.starts(bases, settings.restarts or 1)
    model = starts[0]
    expectation = _adam(fit, model, sizes).expectation
    known = [_is_known(model, task) for task in range(len(fit.batches))]
    svi = NaturalSettings(
        iterations=settings.iterations,
        num_samples=settings.num_samples,
        expectation=expectation,
        prior=prior,
        **({} if settings.learning_rate is None else {"learning_rate": settings.learning_rate}),
        **({} if settings.patience is None else {"window": settings.patience}),
    )
    kept = _checkpoints(fit, sizes, svi)
    warm = expectation == "analytic" or all(known)
    if warm and not (kept is not None and kept.usable()):  # a checkpoint has the parameters that this leads to
        model = _warmed_up(fit, starts, Objective("collapsed", prior))
    data = TrainingData(fit.batches, sizes, fit.frame.names, fit.streams)
    key, progress = jax.random.key(settings.seed), fit.progress(fit.label)
    trained = train_natural(model, data, key, settings.seed, svi, progress, kept, fit.long.devices)
    model, history, interrupted = trained
    uncertain = [one for one, point in zip(fit.streams, known, strict=True) if one is not None and not point]
    if warm and not uncertain:  # one pass over all rows gives the best q(u) at the hyperparameters that were found
        model = best_over_all_rows(model, data, fit.long.devices)
    return Fitted(model, history, _adam(fit, model, sizes), "svi", prior, interrupted)


def _warmed_up(fit: _Fit, starts: Sequence[Model], objective: Objective) -> Model:
    """Return the model that a collapsed fit to a subset of every task's rows leads to."""
    scaled = tuple(
        replace(part, scale=rows / part.y.shape[0])
        for part, rows in zip(_subset(fit.batches, fit.settings.seed), fit.rows, strict=True)
    )
    few, progress = (
        LbfgsSettings(min(100, fit.settings.iterations), 1e-6),
        fit.progress(f"{fit.label}: start from a subset"),
    )
    return train_deterministic(starts, scaled, objective, few, progress, fit.frame.names)[0]


def _checkpoints(
    fit: _Fit, sizes: Sequence[int | None], training: AdamSettings | NaturalSettings
) -> Checkpoints | None:
    """Return where the states of a training are kept, None where they are not."""
    if fit.long.checkpoint is None:
        return None
    left_out = ("mappings", "progress")  # what mappings do stands in the rows
    plain = {one.name: repr(getattr(fit.settings, one.name)) for one in fields(Settings) if one.name not in left_out}
    names = {"tasks": list(fit.frame.names), "rows": list(fit.rows), "batch_sizes": list(sizes)}
    said = {**plain, **names, "training": asdict(training), "kinds": list(fit.kinds)}
    scalers = [(one.mean, one.scale) for one in (*fit.frame.inputs, *fit.frame.outputs)]
    shards = [None if one is None else one.stream.shards for one in fit.streams]
    known = identity({**said, "shards": shards}, (scalers, fit.batches, fit.frame.training_outputs))
    return Checkpoints(fit.long.checkpoint, known, writes=process_index() == 0)


def _subset(batches: Sequence[TaskBatch], seed: int) -> tuple[TaskBatch, ...]:
    """Return at most so many rows of every task, drawn at random."""
    rng = np.random.default_rng(seed)
    result = []
    for batch in batches:
        rows = batch.y.shape[0]
        chosen = np.sort(rng.choice(rows, _FEW_ROWS, replace=False)) if rows > _FEW_ROWS else None
        result.append(take(batch, chosen, 1.0))
    return tuple(result)


def _is_known(model: Model, task: int) -> bool:
    """Tell whether a task's aligned inputs are points."""
    return isinstance(model.mappings[task], Nominal | AffineMap)


def _sizes(fit: _Fit, default: int | None) -> tuple[int | None, ...]:
    """Return rows a step of every task."""
    asked = default if fit.settings.batch_size is None else fit.settings.batch_size
    found = resolve_batch_sizes(asked, fit.frame.names, fit.rows)
    return tuple(
        size if one is None else _of_stream(one.stream, size, asked is not default)
        for size, one in zip(found, fit.streams, strict=True)
    )


def _of_stream(stream: Stream, size: int | None, given: bool) -> int:
    """Return rows a step of a stream: as given, else about as many as usual, the same of every shard."""
    if size is not None and given:
        return size
    usual = min(size or _BATCH, stream.rows)
    return max(1, usual // stream.shards) * stream.shards


def _start(settings: Settings, task: str, sparse: bool = True) -> Start:
    return Start(
        kernel=as_kernel(settings.kernel),
        mapping_kernel=as_kernel(settings.mapping_kernel),
        num_latents=settings.num_latents,
        num_inducing=settings.num_inducing,
        lengthscale=settings.initial_lengthscale,
        mapping_lengthscale=settings.initial_mapping_lengthscale,
        mapping_variance=settings.initial_mapping_variance,
        noise=settings.initial_noise,
        mapping_kl_weight=settings.kl_weight_of(task),
        dtype=settings.dtype,
        residual=settings.has_residual(task),
        sparse=sparse,
    )


def _adam(fit: _Fit, model: Model, sizes) -> AdamSettings:
    settings = fit.settings
    return AdamSettings(
        iterations=settings.iterations,
        learning_rate=5e-3 if settings.learning_rate is None else settings.learning_rate,
        num_samples=settings.num_samples,
        expectation=_expectation(fit, model, sizes),
        patience=settings.patience,
    )


def _closed(model: Model) -> Expectation:
    return "analytic" if model.closed_form() else "sampled"


def _expectation(fit: _Fit, model: Model, sizes) -> Expectation:
    """Return how expectations over aligned inputs are taken; ``"auto"`` counts what the closed form would cost."""
    settings, batches = fit.settings, fit.batches
    if settings.expectation == "analytic" and not model.closed_form():
        raise SettingError(
            f"expectation='analytic' has a closed form for the SE kernel only, got kernel={settings.kernel!r}. Pass "
            "kernel='se' or expectation='sampled'."
        )
    if settings.expectation != "auto":
        return "analytic" if settings.expectation == "analytic" else "sampled"
    stochastic = [t for t, kind in enumerate(fit.kinds) if kind in ("bayes", "embedded", "free")]
    if not stochastic or not model.closed_form():
        return "sampled"
    rows = sum(sizes[t] or batches[t].y.shape[0] for t in stochastic)
    inducing, latents = model.latents[0].inducing.shape[0], len(model.latents)
    entries = rows * inducing**2 * latents * (latents + 1) // 2
    choice = "analytic" if entries <= _ANALYTIC_ENTRIES else "sampled"
    log.info("expectation over aligned inputs: %s (%d psi statistics a step)", choice, entries)
    return choice


def _final(history: History) -> float:
    """Return the mean bound over the last tenth of the iterations, which sampling noise hardly moves."""
    values = history.objective
    return float(np.mean(values[-max(1, values.size // 10) :])) if values.size else -np.inf
