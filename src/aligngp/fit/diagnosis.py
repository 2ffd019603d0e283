"""Why training could not go on, said to a person: which term, which task, which parameters, what to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aligngp.errors import TrainingError
from aligngp.likelihoods import Gaussian
from aligngp.mappings.fixed import Nominal
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch, Terms, elbo
from aligngp.parameters import join, resolve
from aligngp.typing import Expectation, PRNGKeyArray

_PER_TASK = ("expected_log_likelihood", "alignment_penalty", "mapping_penalty", "residual_kl")


def explain(
    trainable: Any,
    rest: Model,
    batches: Sequence[TaskBatch],
    names: Sequence[str],
    key: PRNGKeyArray,
    *,
    num_samples: int,
    expectation: Expectation,
    iteration: int,
    learning_rate: float,
) -> TrainingError:
    """Return the error for a step whose bound or whose update is not finite.

    ``trainable`` are the parameters in front of the step, ``batches`` and ``key`` its rows and its random key.
    """

    def terms_of(trainable: Any, task: int) -> Terms:
        model, chosen = only(resolve(join(trainable, rest)), batches, task)
        return elbo(model, chosen, key, num_samples=num_samples, expectation=expectation)

    wrong = _wrong_terms(terms_of, trainable, names)
    parameters = _not_finite(trainable)
    if wrong:
        what = f"The objective became NaN or infinite at iteration {iteration}: {'; '.join(wrong)}."
    else:
        wrong, parameters = _wrong_gradients(terms_of, trainable, names)
        terms = "; ".join(wrong) or "the step that Adam takes from it"
        what = f"The gradient of the objective stopped being finite at iteration {iteration}: {terms}."
    where = f" Parameters concerned: {', '.join(parameters)}." if parameters else ""
    return TrainingError(
        f"{what}{where} Try a smaller learning_rate (now {learning_rate:g}), longer initial lengthscales, a larger "
        "initial_noise, or fewer num_inducing; look for extreme values in the data of the task named."
    )


def _wrong_terms(terms_of, trainable: Any, names: Sequence[str]) -> list[str]:
    """Name the terms that are not finite, and their values."""
    values = {}
    for task, name in enumerate(names):
        terms = eqx.filter_jit(terms_of)(trainable, task)
        values |= {_named(term, name): float(getattr(terms, term)[task]) for term in _PER_TASK}
        values |= {f"latent_kl of latent GP {q + 1}": float(kl) for q, kl in enumerate(terms.latent_kl)}
    return [f"{name} is {value}" for name, value in values.items() if not np.isfinite(value)]


def _wrong_gradients(terms_of, trainable: Any, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Name the terms whose gradient is not finite, and the parameters in which it is not."""

    @eqx.filter_jit
    def of_task(task: int) -> dict[str, Any]:
        def value(tree: Any, term: str):
            return getattr(terms_of(tree, task), term)[task]

        return {_named(term, names[task]): jax.grad(value)(trainable, term) for term in _PER_TASK}

    @eqx.filter_jit
    def of_latents() -> dict[str, Any]:  # they share no parameter, so the parameters say which of them it is
        return {"latent_kl": jax.grad(lambda tree: jnp.sum(terms_of(tree, 0).latent_kl))(trainable)}

    gradients = of_latents()
    for task in range(len(names)):
        gradients |= of_task(task)
    found = {name: _not_finite(gradient) for name, gradient in gradients.items()}
    return [name for name, paths in found.items() if paths], sorted({p for paths in found.values() for p in paths})


def only(model: Model, batches: Sequence[TaskBatch], task: int) -> tuple[Model, tuple[TaskBatch, ...]]:
    """Return a resolved model and batches in which the other tasks have one row of zeros and no parameters.

    What is not finite in them would make other tasks' terms and gradients so too: all rows are centred together, and
    zero times an infinite derivative is NaN. The task keeps its place, and with it its random draws.
    """
    mappings, likelihoods, chosen = list(model.mappings), list(model.likelihoods), list(batches)
    for t in (t for t in range(len(batches)) if t != task):
        mappings[t], likelihoods[t] = Nominal(), Gaussian(jnp.ones(()))
        rows, y = jax.tree.map(lambda leaf: jnp.zeros_like(leaf[:1]), (batches[t].rows, batches[t].y))
        chosen[t] = TaskBatch(rows, y)
    residuals = tuple(residual if t == task else None for t, residual in enumerate(model.residuals))
    alone = replace(model, mappings=tuple(mappings), likelihoods=tuple(likelihoods), residuals=residuals)
    return alone, tuple(chosen)


def _not_finite(tree: Any) -> list[str]:
    """Return the paths of the arrays of a tree that are not finite, as they stand below ``gp.model``."""
    return [
        jax.tree_util.keystr(path).lstrip(".")
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
        if not np.all(np.isfinite(np.asarray(leaf)))
    ]


def _named(term: str, task: str) -> str:
    return f"{term} of task {task!r}"
