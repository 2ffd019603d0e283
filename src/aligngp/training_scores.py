"""How well a fitted model predicts its own training rows: left out one by one where that has a closed form."""

from __future__ import annotations

from typing import Any

from aligngp.data.tasks import TaskData
from aligngp.ensemble import Ensemble
from aligngp.metrics import scores
from aligngp.parts import Part, predicted
from aligngp.refits import MixtureRefits, Plan, Predicted, SparseRefits
from aligngp.settings import Settings


def training_scores(part: Part, tasks: tuple[TaskData, ...], settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the scores of every task of a part, with ``"scored"`` and ``"rows"`` among them.

    See :meth:`aligngp.AlignedGP.training_scores`; ``tasks`` are the part's tables, in its order.
    """
    plan = Plan(rows=max(task.y.size for task in tasks))
    refits = (MixtureRefits if isinstance(part.model, Ensemble) else SparseRefits)(part, tasks, settings, plan)
    result: dict[str, dict[str, Any]] = {}
    for at, task in enumerate(tasks):
        left_out = refits.kept(at) == "left out" and task.y.size > 1  # nothing is left of a single row
        if left_out:
            others = tuple(other for other in range(len(tasks)) if other != at)
            found = refits.predictions(at, others, lambda done, total, objective: None)
        else:
            moments = predicted(part, at, task.X, latent=False, num_samples=100, seed=settings.seed)
            found = Predicted(task.y, moments.mean, moments.variance)
        mean, variance = (float(value) for value in part.frame.training_outputs[at])
        result[task.name] = {
            "scored": "left out" if left_out else "training",
            "rows": found.y.size,
            **scores(found.y, found.mean, found.variance, mean, variance),
        }
    return result
