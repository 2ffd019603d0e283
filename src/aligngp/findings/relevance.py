"""How much each input can move a task's function, by the fitted kernels.

A GP of variance v and lengthscales l has slopes with ``E (df / dx_d)^2 = v / l_d^2`` (SE; other stationary kernels but
for a constant), a linear kernel with weights w_d has ``v w_d``. With standardised inputs and outputs the square root of
their sum is a typical slope: standard deviations of the output for one of the input. What reaches the task through the
common domain is told apart from what comes of its own inputs:

    common domain    sum_q a_q^2 v_q / l_qd^2
    own inputs       v / l_d^2 of the own-space residual GP

Of a mixture of exact GPs the former has the sources' A for a, times tau; the latter has every form's terms, weighted,
and a term that displaces the aligned inputs counts times the squared slope of the sources, in units of their reach; a
term on the aligned inputs belongs to the common domain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aligngp.ensemble import Ensemble
from aligngp.ensemble.prior import Hyperparameters, Prior
from aligngp.ensemble.target import Target
from aligngp.errors import SettingError
from aligngp.findings.view import View
from aligngp.kernels import AbstractKernel
from aligngp.model import Model
from aligngp.parameters import resolve
from aligngp.runtime import computes


@dataclass(frozen=True, eq=False)
class Relevance:
    """Typical slopes of a task's function; an empty array where a route does not exist."""

    task: str
    columns: tuple[str, ...]
    own: np.ndarray
    """By own input (Dt,)."""
    common_columns: tuple[str, ...]
    common: np.ndarray
    """By input of the common domain (D,)."""


@computes
def relevance(gp: View, task: str) -> Relevance:
    """Return the typical slopes of a task."""
    part, at = gp._part(task)
    frame, model = part.frame, part.model
    own, common = _of_target(model.targets[at]) if isinstance(model, Ensemble) else _of_model(resolve(model), at, task)
    return Relevance(task, frame.tasks[at].columns, np.sqrt(own), frame.common_columns, np.sqrt(common))


def _of_model(model: Model, at: int, task: str) -> tuple[np.ndarray, np.ndarray]:
    """Return squared slopes by own and by common inputs."""
    common = sum(
        float(weight) ** 2 * _slopes(latent.kernel, task)
        for weight, latent in zip(np.asarray(model.mixing[at]), model.latents, strict=True)
    )
    residual = model.residual(at)
    return np.zeros(0) if residual is None else _slopes(residual.kernel, task), np.asarray(common)


def _slopes(kernel: AbstractKernel, task: str) -> np.ndarray:
    lengthscale, variance = (getattr(kernel, name, None) for name in ("lengthscale", "variance"))
    if lengthscale is None or variance is None:
        raise SettingError(
            f"task {task!r}: relevance needs stationary kernels with lengthscales, and {type(kernel).__name__} has "
            "none of its own. gp.plot.partial_dependence(...) shows what an input does with any kernel."
        )
    return float(variance) / np.asarray(lengthscale, float) ** 2


def _of_target(target: Target) -> tuple[np.ndarray, np.ndarray]:
    """Return squared slopes of a mixture of exact GPs, averaged over its forms and their draws."""
    sources = target.given.sources
    own, common = np.zeros(target.own.shape[1]), np.zeros(target.nominal.shape[1] if sources else 0)
    through, steepness = np.zeros((0, common.size)), np.zeros(0)
    if sources is not None:
        through = sources.mixing**2 @ sources.lengthscale**-2.0  # sum_q A_sq^2 / l_qd^2, (S, D)
        _, gradient = sources.mean(_placed_rows(target))
        steepness = np.mean(np.sum((gradient * sources.reach) ** 2, axis=2), axis=0)
    for weight, member in zip(target.weights, target.members, strict=True):
        h = member.prior.read(member.z)
        by_own, by_common = _of_terms(member.prior, h, (own.size, common.size), steepness)
        own, common = own + weight * by_own, common + weight * by_common
        if member.prior.sources:
            by_place = h.scale[:, None] * (member.prior.weights(h)[1] @ through)  # (P, D)
            if h.map is None:
                common += weight * by_place.mean(axis=0)
            else:  # x_bar = W x + w: the slope by an own input goes through every common one
                own += weight * np.mean(np.sum(h.map[:, :, :-1] ** 2 * by_place[:, :, None], axis=1), axis=0)
    return own, common


def _of_terms(
    prior: Prior, h: Hyperparameters, sizes: tuple[int, int], steepness: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return what the terms of a form give by own (Dt,) and by common inputs (D,), averaged over the draws."""
    own, common = (np.zeros(size) for size in sizes)
    for term, v, width in zip(prior.form.terms, h.variances, h.widths, strict=True):
        slopes = width / width.shape[1] if term.linear else 1.0 / width**2
        size = h.scale * v * (h.shares @ steepness if term.calibrates else 1.0)
        slopes = (size[:, None] * slopes).mean(axis=0)
        if term.aligned:
            common = common + slopes
        else:
            own = own + slopes
    return own, common


def _placed_rows(target: Target) -> np.ndarray:
    return target.nominal[np.all(np.isfinite(target.nominal), axis=1)]
