"""A fitted mixture of exact GPs given further rows, its hyperparameters and weights as they are.

What a batch of suggestions needs (each given the ones before), and what a loop needs between two fits. The rows join
the task's own, and those of the sources of all others.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from aligngp.ensemble import Ensemble
from aligngp.ensemble.sources import _OFFSET as OFFSET
from aligngp.ensemble.sources import Sources
from aligngp.ensemble.target import Target
from aligngp.parts import FittedEnsemble, Part


def conditioned(part: Part, task: int, X: np.ndarray, y: np.ndarray) -> Part:
    """Return a part whose task has further rows X (n, Dt) with outputs y (n,), both in the data's units."""
    scaled = part.frame.outputs[task].transform(y[:, None])[:, 0]
    return _conditioned(part, task, X, scaled, scaled)


def believed(part: Part, task: int, X: np.ndarray) -> Part:
    """Return a part that has seen what it expects at further rows of a task (the kriging believer)."""
    return _conditioned(part, task, X, None, None)


def _conditioned(part: Part, task: int, X: np.ndarray, own: np.ndarray | None, theirs: np.ndarray | None) -> Part:
    fitted = part.fitted
    assert isinstance(fitted, FittedEnsemble)
    rows = part.frame.rows(task, X)
    new: dict[int, Sources] = {}
    targets: list[Target] = []
    for at, target in enumerate(fitted.ensemble.targets):
        if at == task:
            y = target.moments(rows)[0] if own is None else own
            seen = target._see(np.asarray(rows.own), np.asarray(rows.nominal))
            target = replace(
                target,
                own=np.concatenate([target.own, seen.side.own]),
                nominal=np.concatenate([target.nominal, seen.nominal]),
                y=np.concatenate([target.y, y]),
            )
        sources = target.given.sources
        if sources is not None and task in sources.tasks:
            if id(sources) not in new:
                aligned = _aligned(fitted.ensemble.targets[task], rows)
                new[id(sources)] = _with_rows(sources, sources.tasks.index(task), aligned, theirs)
            target = replace(target, given=replace(target.given, sources=new[id(sources)]))
        targets.append(target)
    counts = list(part.rows)
    counts[task] += len(X)
    ensemble = Ensemble(fitted.ensemble.names, tuple(targets))
    return replace(part, fitted=replace(fitted, ensemble=ensemble), rows=tuple(counts))


def _aligned(target: Target, rows) -> np.ndarray:
    return target._see(np.asarray(rows.own), np.asarray(rows.nominal)).nominal


def _with_rows(sources: Sources, source: int, aligned: np.ndarray, given: np.ndarray | None) -> Sources:
    # what is believed is the function's mean and that of the source's constant c_s
    expected = sources.value(aligned)[:, source] + OFFSET * sources._alpha[sources.of == source].sum()
    y = expected if given is None else given
    return replace(
        sources,
        rows=np.concatenate([sources.rows, aligned]),
        of=np.concatenate([sources.of, np.full(len(aligned), source)]),
        y=np.concatenate([sources.y, y]),
    )
