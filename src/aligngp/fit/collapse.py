"""Training without noise in the objective: L-BFGS on the exact evidence or on the collapsed bound.

Neither has a q(u) to train. The best one of the collapsed bound follows in closed form and is handed to the sparse
model at the end, so prediction, files and further training go on from it; the exact evidence leaves the factorisation
that predictions need.

Where aligned inputs are known, both go through :mod:`aligngp.objective.direct`, which compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from aligngp.errors import TrainingError
from aligngp.fit.adam import History
from aligngp.fit.diagnosis import only
from aligngp.fit.gps import with_gps, without_inducing, without_posterior
from aligngp.fit.lbfgs import LbfgsSettings, Optimum, maximise
from aligngp.gp.sparse import SparseGP
from aligngp.model import Model
from aligngp.objective import direct, exact
from aligngp.objective.buckets import bucketed
from aligngp.objective.direct.reading import Kind
from aligngp.objective.elbo import TaskBatch
from aligngp.objective.evidence import best_posterior, collapsed_bound
from aligngp.objective.flat import Flat
from aligngp.objective.prior import log_prior
from aligngp.parameters import Triangular, as_array, as_arrays, join, resolve, split
from aligngp.typing import Progress, Scalar

SCREENING = 12
"""Iterations of every start before the best is finished."""


@dataclass(frozen=True)
class Objective:
    """Which objective, and whether priors on hyperparameters count (MAP) or not (maximum of the evidence)."""

    kind: Kind = "collapsed"
    prior: bool = False


def train_collapsed(
    model: Model, batches: tuple[TaskBatch, ...], settings: LbfgsSettings, progress: Progress | None = None
) -> tuple[Model, History]:
    """Maximise the collapsed bound from one start; return the model with its best q(u), and the history."""
    found, history, _ = train_deterministic([model], batches, Objective(), settings, progress)
    return found, history


def train_deterministic(
    starts: Sequence[Model],
    batches: tuple[TaskBatch, ...],
    objective: Objective,
    settings: LbfgsSettings,
    progress: Progress | None = None,
    names: Sequence[str] = (),
) -> tuple[Model, History, bool]:
    """Screen the starts for a few iterations and finish the best; return it with its posterior, and the history.

    The last value tells whether Ctrl-C ended the training early. Starts that fail are left out while there is another.
    ``names`` are the tasks', for an error to name the one that it comes from.
    """
    batches = as_arrays(batches)
    try:
        first = _screened(starts, batches, objective) if len(starts) > 1 else starts[0]
        found, optimum = _search(first, batches, objective, settings, progress)
    except TrainingError as error:
        raise TrainingError(f"{_culprits(starts[-1], batches, objective, names)}{error}") from error
    return with_posterior(found, batches, objective.kind), optimum.history, optimum.interrupted


def with_posterior(model: Model, batches: tuple[TaskBatch, ...], kind: Kind) -> Model:
    """Return the model with what the data say at its hyperparameters: the best q(u), or the exact posterior."""
    if kind == "collapsed":
        return with_best_posterior(model, batches)
    if direct.applies(model, batches, kind):
        return replace(model, exact=direct.exact_posterior(_chosen(model, kind), model, batches))
    return replace(model, exact=_exact_posterior(model, batches))


def with_best_posterior(model: Model, batches: tuple[TaskBatch, ...]) -> Model:
    """Return the model with the q(u) that maximises the bound at its other parameters."""
    if direct.applies(model, batches, "collapsed"):
        means, scales = direct.best_posterior(_chosen(model, "collapsed"), model, batches)
    else:
        means, scales = _posterior(model, bucketed(model.mappings, batches))
    return with_moments(model, means, scales)


def with_moments(model: Model, means: Sequence[Any], scales: Sequence[Any]) -> Model:
    """Return the model with mean and lower factor of the q(u) of every latent, then of every residual."""
    found = iter(zip(means, scales, strict=True))

    def placed(gp: SparseGP) -> SparseGP:
        mean, scale = next(found)
        return replace(gp, mean=as_array(mean), scale=Triangular(as_array(scale)))

    return with_gps(model, placed)


def terms(model: Model, batches: tuple[TaskBatch, ...], objective: Objective) -> dict[str, float]:
    """Return the named terms of the objective at a model's parameters, and their ``"total"``."""
    found = _terms(model, _compiled_for(model, batches, objective), objective)
    return {name: float(value) for name, value in found.items()}


def _culprits(model: Model, batches, objective: Objective, names: Sequence[str]) -> str:
    """Return a sentence that names the tasks and terms that are not finite at a model's parameters, or nothing."""
    found = []
    for task in range(len(batches)):
        alone = only(resolve(model), batches, task)
        name = repr(names[task]) if names else f"number {task}"
        values = terms(*alone, objective)
        found += [
            f"{term} of task {name} is {v}" for term, v in values.items() if term != "total" and not np.isfinite(v)
        ]
    return f"{'; '.join(found)}. " if found else ""


def _screened(starts: Sequence[Model], batches, objective: Objective) -> Model:
    """Return the start that is best after a few iterations; the first of equals."""
    few, best, value, failure = LbfgsSettings(SCREENING), None, -np.inf, None
    for start in starts:
        try:
            found, optimum = _search(start, batches, objective, few, None)
        except TrainingError as error:
            failure = error
            continue
        if best is None or optimum.value > value:
            best, value = found, optimum.value
        if optimum.interrupted:
            break
    if best is None:
        assert failure is not None
        raise failure
    return best


def _search(
    model: Model, batches, objective: Objective, settings: LbfgsSettings, progress: Progress | None
) -> tuple[Model, Optimum]:
    trainable, rest = split(model)
    chosen = _without_posterior(trainable, objective.kind)
    flat = Flat(chosen)
    if direct.applies(model, batches, objective.kind):
        evaluate = direct.objective(chosen, model, batches, objective.kind, objective.prior)
    else:
        evaluate = _compiled(chosen, trainable, rest, _compiled_for(model, batches, objective), objective)
    optimum = maximise(evaluate, flat.start, settings, progress)
    return join(eqx.combine(flat.restore(optimum.parameters), trainable), rest), optimum


def _compiled_for(model: Model, batches, objective: Objective) -> tuple[TaskBatch, ...]:
    """Return the rows that an objective is compiled for: as many as in few numbers, except for the exact evidence."""
    return bucketed(model.mappings, batches) if objective.kind == "collapsed" else batches


def _compiled(chosen, trainable, rest, batches, objective: Objective) -> Callable[[np.ndarray], Any]:
    """Return the compiled objective of a flat vector.

    Everything else is flattened once and not at every call: for small problems that costs more than the mathematics.
    """
    arrays, static = eqx.partition((chosen, trainable, rest, batches), eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    fixed = _Static(structure, *jax.tree.flatten(static), objective)
    dtype = leaves[0].dtype if leaves else float

    def evaluate(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _value_and_gradient(np.asarray(vector, dtype), leaves, fixed)
        return float(value), np.asarray(gradient, float)

    return evaluate


@dataclass(frozen=True)
class _Static:
    """What a compiled objective is compiled for, hashable."""

    arrays: Any
    leaves: Any
    structure: Any
    objective: Objective

    def __post_init__(self) -> None:
        object.__setattr__(self, "leaves", tuple(self.leaves))

    def join(self, leaves) -> Any:
        """Return the trees that the leaves were taken from."""
        arrays = jax.tree.unflatten(self.arrays, leaves)
        return eqx.combine(arrays, jax.tree.unflatten(self.structure, self.leaves))


@eqx.filter_jit
def _posterior(model: Model, batches):
    return best_posterior(resolve(model), batches)


@eqx.filter_jit
def _exact_posterior(model: Model, batches):
    return exact.posterior(resolve(model), batches)


@eqx.filter_jit
def _terms(model: Model, batches, objective: Objective):
    return _named(resolve(model), batches, objective)


def _jitted(vector, leaves, fixed: _Static):
    chosen, trainable, rest, batches = fixed.join(leaves)
    _, restore = ravel_pytree(chosen)

    def total(vector) -> Scalar:
        model = resolve(join(eqx.combine(restore(vector), trainable), rest))
        return _named(model, batches, fixed.objective)["total"]

    return jax.value_and_grad(total)(vector)


_value_and_gradient = jax.jit(_jitted, static_argnums=2)


def _named(model: Model, batches, objective: Objective) -> dict[str, Scalar]:
    """Return the terms of the objective of a resolved model; total is the first plus the second less the others."""
    prior = log_prior(model) if objective.prior else jnp.zeros(())
    if objective.kind == "exact":
        evidence = exact.log_evidence(model, batches)
        alignment, mapping = jnp.zeros(()), sum((m.global_penalty() for m in model.mappings), jnp.zeros(()))
    else:
        found = collapsed_bound(model, batches)
        evidence = found.evidence
        alignment, mapping = jnp.sum(found.alignment_penalty), jnp.sum(found.mapping_penalty)
    return {
        "evidence": evidence,
        "log_prior": prior,
        "alignment_penalty": alignment,
        "mapping_penalty": mapping,
        "total": evidence + prior - alignment - mapping,
    }


def _chosen(model: Model, kind: Kind) -> Model:
    """Return the part of a model that the objective depends on and that is trained."""
    return _without_posterior(split(model)[0], kind)


def _without_posterior(trainable: Model, kind: Kind) -> Model:
    """Leave out what the objective does not depend on: q(u), and for the exact evidence the inducing inputs."""
    bare = with_gps(trainable, without_posterior)
    return with_gps(bare, without_inducing) if kind == "exact" else bare
