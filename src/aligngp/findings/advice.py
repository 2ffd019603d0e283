"""What is usable about a fitted model but should be known: one plain sentence each, with what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from aligngp.ensemble import Ensemble
from aligngp.findings.alignment import Alignment, alignment
from aligngp.findings.known import Known, binomial_interval, closed_form, known
from aligngp.findings.view import View, mapped_tasks, tables_of
from aligngp.fit.initialise import NOISE_FLOOR
from aligngp.parameters import is_frozen
from aligngp.parts import Part
from aligngp.transfer import TransferReport

FEW_ROWS = 10
"""Below that, scores and intervals of a task rest on too little."""
FAR, AWAY = 1.0, 0.5
"""Rows to predict are far outside, and aligned inputs away from the common task's, where an input lies beyond the range
of the others by more than that part of its width. Few training rows span little of where rows to predict come from."""
_MOVED = 1.0
"""Standard deviations by which a mapping may move aligned inputs without a word."""
_SURE = 0.99
"""Probability of the interval in which the number of outputs inside 95% intervals is looked for."""
_NEAR_FLOOR, _NEAR_ALL = 10.0, 0.9


def advice(gp: View, transfer: TransferReport | None = None, scored: Sequence[Known] | None = None) -> list[str]:
    """Return the sentences on a fitted model, the gravest first.

    ``scored`` are known outputs with predictions; by default those that leave-one-out gives without fitting again.
    """
    names = [name for part in gp._distinct() for name in part.frame.names]
    if scored is None:
        scored = [known(gp, name) for name in names if closed_form(gp, name)]
    result = [] if transfer is None else list(_hurting(transfer))
    result += [sentence for found in scored for sentence in _coverage(found)]
    if gp._training is not None:
        for name in mapped_tasks(gp):
            result += _mapping(gp, alignment(gp, name))
    for part in gp._distinct():
        for at in range(len(part.frame.names)):
            result += [*_noise(gp, part, at), *_few(part, at)]
    return result


def far_outside(gp: View, task: str, X: np.ndarray) -> str | None:
    """Return a sentence where some of the raw rows X (n, Dt) lie far outside the task's training rows, else None."""
    part, at = gp._part(task)
    low, high = part.frame.spans[at]
    outside = beyond(X, low, high, FAR)
    if not outside.any():
        return None
    columns = part.frame.tasks[at].columns
    worst = int(np.argmax(outside.sum(axis=0)))
    return (
        f"task {task!r}: {_rows(int(outside.any(axis=1).sum()), len(X))} to predict lie far outside its training rows, "
        f"mostly in {columns[worst]!r}, which was trained on {low[worst]:.4g} to {high[worst]:.4g}. Predictions "
        "there rest on the model alone; add training rows there."
    )


def beyond(x: np.ndarray, low: np.ndarray, high: np.ndarray, part: float) -> np.ndarray:
    """Tell of every entry of rows x (n, D) whether it lies beyond a range (D,) by more than a part of its width.

    Never where the range has no width: of a constant column it was told at the fit that nothing is known.
    """
    room = part * (high - low)
    return (room > 0) & ((x < low - room) | (x > high + room))


def _hurting(report: TransferReport) -> Iterator[str]:
    for entry in report.rows:
        if entry.verdict == "hurts":
            yield f"{entry.sentence} Fit {entry.task!r} without {entry.source!r}."


def _coverage(found: Known) -> Iterator[str]:
    size, inside = len(found.y), found.inside
    lower, upper = binomial_interval(size, np.array([0.95]), _SURE)
    if lower[0] <= inside / size <= upper[0]:
        return
    rows = {"left out": "left-out rows", "held out": "held-out rows", "test": "test rows"}[found.kept]
    start = f"Task {found.task!r}: the 95% intervals hold {inside} of {size} {rows}"
    if inside / size < 0.95:
        yield f"{start}, so they are too narrow. Trust them less, and add rows where errors are large."
    else:
        yield f"{start}, so they are wider than they need to be."


def _mapping(gp: View, found: Alignment) -> Iterator[str]:
    part, _ = gp._part(found.task)
    common = part.frame.common
    low, high = part.frame.spans[common]
    far = beyond(found.mean, low, high, AWAY)
    if far.any():
        column = found.columns[int(np.argmax(far.sum(axis=0)))]
        yield (
            f"Task {found.task!r}: the aligned inputs of {_rows(int(far.any(axis=1).sum()), len(far))} lie far from "
            f"the data of the common task {part.frame.names[common]!r}, mostly in {column!r}. Little can be learned "
            "from it there; check the prior mapping and its units."
        )
    size = np.abs(found.moved)
    rows = int(np.sum(np.any(size > _MOVED, axis=1)))
    if rows:
        at, column = np.unravel_index(int(np.argmax(size)), size.shape)
        yield (
            f"Task {found.task!r}: calibration moved the aligned inputs of {_rows(rows, len(size))} by more than one "
            f"standard deviation of the common inputs, most by {size[at, column]:.2g} in "
            f"{found.columns[int(column)]!r}. The prior mapping may be wrong there: gp.plot.aligned({found.task!r})."
        )


def _noise(gp: View, part: Part, at: int) -> Iterator[str]:
    name, noise, scale = part.frame.names[at], part.noise(at), float(part.frame.outputs[at].scale[0])
    if _known_noise(gp, part, at):
        return
    variance = float(part.frame.training_outputs[at, 1]) / scale**2
    if noise <= _NEAR_FLOOR * NOISE_FLOOR:
        yield (
            f"Task {name!r}: its noise is near its lower bound (standard deviation {np.sqrt(noise) * scale:.2g}). This "
            "is right for outputs without noise, as a simulation's are; for measurements say what it is: "
            "agp.Task(..., noise=...), or noise = ... in a job file."
        )
    elif variance > 0 and noise >= _NEAR_ALL * variance:
        yield (
            f"Task {name!r}: nearly all of its output ({noise / variance:.0%} of the variance) is taken for noise, so "
            "the inputs explain next to nothing. Check that they belong to these outputs, or add rows."
        )


def _known_noise(gp: View, part: Part, at: int) -> bool:
    """Tell whether a task's noise was given and not learned."""
    tables = tables_of(gp, part)
    if tables is not None:
        return tables[at].noise is not None
    if isinstance(part.model, Ensemble):
        return all(member.prior.known_noise is not None for member in part.model.targets[at].members)
    return is_frozen(part.model.likelihoods[at].variance) or is_frozen(part.model.likelihoods[at])


def _few(part: Part, at: int) -> Iterator[str]:
    rows = part.rows[at]
    if rows < FEW_ROWS:
        name, inputs = part.frame.names[at], len(part.frame.tasks[at].columns)
        yield (
            f"Task {name!r}: {rows} training row{'' if rows == 1 else 's'} for {inputs} "
            f"input{'' if inputs == 1 else 's'}. Scores and intervals that rest on so few rows are rough."
        )


def _rows(number: int, of: int) -> str:
    return f"{number} of {of} rows"
