"""From standardised data to a fitted model: what is trained, in which order, and which start is kept."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import jax
import numpy as np

from aligngp.data.batches import resolve_batch_sizes
from aligngp.data.tasks import TaskData
from aligngp.errors import AligngpWarning, SettingError, TrainingError
from aligngp.fit.adam import AdamSettings, History, TrainingData, ended, train
from aligngp.fit.imc import calibrate
from aligngp.fit.initialise import Start, initial_model
from aligngp.frame import Frame, affine_in_frame, alone
from aligngp.kernels import as_kernel
from aligngp.mappings.fixed import AffineMap
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch
from aligngp.settings import Settings
from aligngp.typing import Expectation, Progress

log = logging.getLogger("aligngp")

_ANALYTIC_ENTRIES = 1_000_000
"""Most psi statistics a step, B M^2 Q (Q + 1) / 2 over the calibrated tasks, that are taken instead of samples.

Each costs some 20 ns with its gradient: at this size about what the rest of the step does.
"""
_SEEDS = 2**32


@dataclass(frozen=True)
class Fitted:
    """A trained model, how it was trained, and the objective's history."""

    model: Model
    history: History
    adam: AdamSettings


ProgressOf = Callable[[str], Progress | None]
"""Gives the progress callback of a named stage."""


def fit_model(
    frame: Frame,
    tasks: tuple[TaskData, ...],
    batches: tuple[TaskBatch, ...],
    settings: Settings,
    progress: ProgressOf,
) -> Fitted:
    """Fit the model that the settings describe; of several restarts the one with the best final bound is kept.

    A restart that fails is left out with a warning; Ctrl-C leaves out those that have not begun.
    """
    number = settings.restarts or 1
    best: Fitted | None = None
    for restart in range(number):
        label = f"restart {restart + 1} of {number}" if number > 1 else "training"
        seeded = replace(settings, seed=(settings.seed + restart) % _SEEDS)
        try:
            fitted = _fit_once(frame, tasks, batches, seeded, progress, label)
        except TrainingError as error:
            if best is None and restart == number - 1:
                raise
            warnings.warn(f"{label} failed and is left out. {error}", AligngpWarning, stacklevel=2)
            continue
        log.info("%s: final objective %.6g", label, _final(fitted.history))
        if best is None or _final(fitted.history) > _final(best.history):
            best = fitted
        if not ended(fitted.history, fitted.adam):
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


def _fit_once(frame, tasks, batches, settings: Settings, progress: ProgressOf, label: str) -> Fitted:
    kinds = calibrations(frame, settings)
    noises = tuple(task.noise for task in tasks)
    starts = [_start(settings, name) for name in frame.names]
    sizes = resolve_batch_sizes(settings.batch_size, frame.names, [batch.y.shape[0] for batch in batches])
    bases: dict[int, AffineMap] = {}
    if "linear" in kinds:
        low = _low_fidelity(frame, batches, noises, sizes, settings, progress)
        for task in (t for t, kind in enumerate(kinds) if kind == "linear"):
            first = affine_in_frame(frame, task, tasks[task].X)
            bases[task] = calibrate(low, batches[task], first, settings.imc_penalty)
    model = initial_model(frame, batches, kinds, noises, starts, settings.seed, bases)
    adam = _adam(settings, model, kinds, batches, sizes)
    data = TrainingData(batches, sizes, frame.names)
    model, history = train(model, data, jax.random.key(settings.seed), settings.seed, adam, progress(label))
    return Fitted(model, history, adam)


def _low_fidelity(frame: Frame, batches, noises, sizes, settings: Settings, progress: ProgressOf) -> Model:
    """Return a single-task GP of the common task: IMC's first stage."""
    at = frame.common
    name, only, size = frame.names[at], (batches[at],), (sizes[at],)
    model = initial_model(alone(frame, at), only, ("none",), (noises[at],), [_start(settings, name)], settings.seed, {})
    adam = _adam(settings, model, ("none",), only, size)
    key = jax.random.key(settings.seed)
    stage = progress(f"single-task GP of {name!r}")
    return train(model, TrainingData(only, size, (name,)), key, settings.seed, adam, stage)[0]


def _start(settings: Settings, task: str) -> Start:
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
    )


def _adam(settings: Settings, model: Model, kinds: Sequence[str], batches, sizes) -> AdamSettings:
    return AdamSettings(
        iterations=settings.iterations,
        learning_rate=settings.learning_rate,
        num_samples=settings.num_samples,
        expectation=_expectation(settings, model, kinds, batches, sizes),
        patience=settings.patience,
    )


def _expectation(settings: Settings, model: Model, kinds: Sequence[str], batches, sizes) -> Expectation:
    """Return how expectations over aligned inputs are taken; ``"auto"`` counts what the closed form would cost."""
    if settings.expectation == "analytic" and not model.closed_form():
        raise SettingError(
            f"expectation='analytic' has a closed form for the SE kernel only, got kernel={settings.kernel!r}. Pass "
            "kernel='se' or expectation='sampled'."
        )
    if settings.expectation != "auto":
        return "analytic" if settings.expectation == "analytic" else "sampled"
    stochastic = [t for t, kind in enumerate(kinds) if kind in ("bayes", "embedded", "free")]
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
