"""Training on the collapsed bound: L-BFGS on everything but q(u), which follows in closed form.

The best q(u) is handed to the sparse model at the end, so prediction, files and further training go on from it.
"""

from __future__ import annotations

import equinox as eqx
import jax

from aligngp.fit.adam import History
from aligngp.fit.lbfgs import LbfgsSettings, maximise
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch
from aligngp.objective.evidence import best_posterior, collapsed_bound
from aligngp.parameters import Triangular, join, resolve, split
from aligngp.typing import Progress


def train_collapsed(
    model: Model, batches: tuple[TaskBatch, ...], settings: LbfgsSettings, progress: Progress | None = None
) -> tuple[Model, History]:
    """Maximise the collapsed bound; return the model with its best q(u), and the history."""
    trainable, rest = split(model)
    chosen = _without_posterior(trainable)

    def objective(parameters):
        return _value_and_gradient(parameters, trainable, rest, batches)

    found, history = maximise(objective, chosen, settings, progress)
    return with_best_posterior(join(eqx.combine(found, trainable), rest), batches), history


def with_best_posterior(model: Model, batches: tuple[TaskBatch, ...]) -> Model:
    """Return the model with the q(u) that maximises the bound at its other parameters."""
    means, scales = _posterior(model, batches)
    return eqx.tree_at(_posterior_of, model, [*means, *(Triangular(scale) for scale in scales)])


def _posterior_of(model: Model) -> list:
    return [latent.mean for latent in model.latents] + [latent.scale for latent in model.latents]


def _without_posterior(trainable: Model) -> Model:
    nothing = [None] * len(trainable.latents)
    return eqx.tree_at(_posterior_of, trainable, nothing + nothing)


@eqx.filter_jit
def _posterior(model: Model, batches):
    return best_posterior(resolve(model), batches)


@eqx.filter_jit
def _value_and_gradient(parameters, trainable, rest, batches):
    def bound(chosen):
        return collapsed_bound(resolve(join(eqx.combine(chosen, trainable), rest)), batches).total

    return jax.value_and_grad(bound)(parameters)
