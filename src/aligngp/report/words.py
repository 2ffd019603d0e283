"""What the model found, in plain sentences."""

from __future__ import annotations

import numpy as np

from aligngp.findings.alignment import Alignment
from aligngp.findings.known import Known
from aligngp.report.content import Content
from aligngp.report.markup import number
from aligngp.transfer import TransferReport


def found(content: Content) -> list[str]:
    """Return what the model found: predictions, transfer, mappings, in this order."""
    result = [sentence for task in content.names for sentence in _predictions(content, task)]
    if content.transfer is not None:
        result += _transferred(content.transfer)
    return result + [mapping(one) for one in content.alignments.values()]


def data(content: Content) -> str:
    """Return what the model was fitted to."""
    total = sum(sum(part.rows) for part in content.gp._distinct())
    tasks = len(content.names)
    shared = content.gp._distinct()[0]
    text = f"{_count(total, 'training row')} of {_count(tasks, 'task')}"
    if tasks == 1:
        return f"{text}: a Gaussian process of its own."
    if not content.gp.settings.shared:
        return f"{text}; nothing is shared between them (shared=False)."
    frame = shared.frame
    columns = ", ".join(frame.common_columns)
    return f"{text}, aligned in the input domain of '{frame.names[frame.common]}' ({columns})."


def model(content: Content) -> str:
    """Return what stands behind the predictions."""
    if content.mixture:
        return (
            "Each task is predicted by a mixture of exact Gaussian processes, which differ in what they assume of the "
            "way from the other tasks to this one; the data decide on the weights of these forms."
        )
    latents = _count(content.gp.settings.num_latents, "latent Gaussian process", "es")
    return f"{latents} on the common domain, mixed into the tasks; a mapping brings each task's inputs there."


def scored(one: Known) -> str:
    """Return how well a task is predicted."""
    values, rows = one.scores(), len(one.y)
    how = {
        "left out": f"Left out one by one, its {_count(rows, 'training row')} ",
        "held out": f"Held out in parts, its {_count(rows, 'training row')} ",
        "test": f"Its {_count(rows, 'test row')} ",
    }[one.kept]
    verb = "is" if rows == 1 else "are"
    text = f"{how}{verb} predicted with a typical error (RMSE) of {number(values['rmse'])}"
    if np.isfinite(values["smse"]):
        deviation = number(float(np.sqrt(one.training[1])))
        text += f", where the training outputs have a standard deviation of {deviation}"
        text += (
            f": {_share(1.0 - values['smse'])} of the variance is explained"
            if values["smse"] < 1.0
            else ": no better than their mean"
        )
    return f"{text}. {one.inside} of {rows} lie inside their 95% intervals."


def mapping(found: Alignment) -> str:
    """Return what became of a task's prior mapping."""
    size = np.abs(found.moved)
    if size.max() < 1e-9:
        return f"The mapping of '{found.task}' is used as given: nothing was moved."
    if size.max() < 1e-3:
        return (
            f"Calibration left the mapping of '{found.task}' where it was: no aligned input moved by a thousandth of a "
            "standard deviation."
        )
    at = found.columns[int(np.argmax(size.max(axis=0)))]
    return (
        f"The mapping of '{found.task}' was calibrated: its aligned inputs moved by {number(float(size.mean()))} "
        f"standard deviations of the common inputs on average, at most by {number(float(size.max()))} (in '{at}')."
    )


def _transferred(report: TransferReport) -> list[str]:
    """Return the sentences on transfer; of many sources only what they do together, and those that hurt."""
    if len(report.together) <= 2:
        return list(report.sentences)
    told = [*report.together, *(entry for entry in report.rows if entry.verdict == "hurts")]
    return [entry.sentence for entry in told]


def _predictions(content: Content, task: str) -> list[str]:
    found = [scored(one[task]) for one in (content.test, content.left_out) if task in one]
    return [f"Task '{task}': {sentence[0].lower()}{sentence[1:]}" for sentence in found]


def _share(value: float) -> str:
    return "more than 99.9%" if value > 0.999 else f"{value:.1%}"


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number} {noun}{'' if number == 1 else plural}"
