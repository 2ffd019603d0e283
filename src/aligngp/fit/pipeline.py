"""From standardised data to a fitted model: what is trained, in which order, and which start is kept."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import numpy as np

from aligngp.data.batches import resolve_batch_sizes
from aligngp.data.tasks import TaskData
from aligngp.errors import SettingError
from aligngp.fit.adam import AdamSettings, History, TrainingData, train
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

_ANALYTIC_ENTRIES = 20_000_000
"""Largest N_t M^2 (summed over calibrated tasks) for which psi statistics are taken instead of samples."""


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
    """Fit the model that the settings describe; of several restarts the one with the best final bound is kept."""
    best: Fitted | None = None
    for restart in range(settings.restarts or 1):
        label = f"restart {restart + 1} of {settings.restarts}" if (settings.restarts or 1) > 1 else "training"
        fitted = _fit_once(frame, tasks, batches, replace(settings, seed=settings.seed + restart), progress, label)
        log.info("%s: final objective %.6g", label, _final(fitted.history))
        if best is None or _final(fitted.history) > _final(best.history):
            best = fitted
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
    bases: dict[int, AffineMap] = {}
    if "linear" in kinds:
        low = _low_fidelity(frame, batches, noises, settings, progress)
        for task in (t for t, kind in enumerate(kinds) if kind == "linear"):
            first = affine_in_frame(frame, task, tasks[task].X)
            bases[task] = calibrate(low, batches[task], first, settings.imc_penalty)
    model = initial_model(frame, batches, kinds, noises, starts, settings.seed, bases)
    adam = _adam(settings, model, kinds, batches)
    data = TrainingData(
        batches,
        resolve_batch_sizes(settings.batch_size, frame.names, [batch.y.shape[0] for batch in batches]),
        frame.names,
    )
    key = jax.random.key(settings.seed)
    model, history = train(model, data, key, settings.seed, adam, progress(label))
    return Fitted(model, history, adam)


def _low_fidelity(frame: Frame, batches, noises, settings: Settings, progress: ProgressOf) -> Model:
    """Return a single-task GP of the common task: IMC's first stage."""
    at = frame.common
    only = (batches[at],)
    name = frame.names[at]
    model = initial_model(alone(frame, at), only, ("none",), (noises[at],), [_start(settings, name)], settings.seed, {})
    sizes = resolve_batch_sizes(settings.batch_size, frame.names, [batch.y.shape[0] for batch in batches])
    data = TrainingData(only, (sizes[at],), (name,))
    adam = _adam(settings, model, ("none",), only)
    key = jax.random.key(settings.seed)
    return train(model, data, key, settings.seed, adam, progress(f"single-task GP of {name!r}"))[0]


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


def _adam(settings: Settings, model: Model, kinds: tuple[str, ...], batches: tuple[TaskBatch, ...]) -> AdamSettings:
    return AdamSettings(
        iterations=settings.iterations,
        learning_rate=settings.learning_rate,
        num_samples=settings.num_samples,
        expectation=_expectation(settings, model, kinds, batches),
        patience=settings.patience,
    )


def _expectation(settings: Settings, model: Model, kinds, batches) -> Expectation:
    """Return how expectations over aligned inputs are taken; ``"auto"`` counts what the closed form would cost."""
    stochastic = [t for t, kind in enumerate(kinds) if kind in ("bayes", "embedded", "free")]
    if settings.expectation == "analytic" and not model.closed_form():
        raise SettingError(
            f"expectation='analytic' has a closed form for the SE kernel only, got kernel={settings.kernel!r}. Pass "
            "kernel='se' or expectation='sampled'."
        )
    if settings.expectation != "auto":
        return "analytic" if settings.expectation == "analytic" else "sampled"
    if not stochastic or not model.closed_form():
        return "sampled"
    latents = len(model.latents)
    inducing = model.latents[0].inducing.shape[0]
    entries = sum(batches[t].y.shape[0] for t in stochastic) * inducing**2 * latents * (latents + 1) // 2
    choice = "analytic" if entries <= _ANALYTIC_ENTRIES else "sampled"
    log.info("expectation over aligned inputs: %s (%d psi entries a step)", choice, entries)
    return choice


def _final(history: History) -> float:
    """Return the mean bound over the last tenth of the iterations, which sampling noise hardly moves."""
    values = history.objective
    return float(np.mean(values[-max(1, values.size // 10) :])) if values.size else -np.inf
