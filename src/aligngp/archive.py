"""What a model file says: settings, frames and fitted models as JSON and tensors, and back.

No code is in it (callables, kernels of other libraries) and no training rows, but for what they span, the aligned
inputs of :class:`aligngp.Tabulated` and the standardised rows that an exact posterior predicts from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aligngp.data.scaling import Scaler
from aligngp.data.tables import did_you_mean, listed
from aligngp.data.tasks import TaskSchema
from aligngp.errors import ModelFileError
from aligngp.fit.adam import AdamSettings, History
from aligngp.fit.pipeline import Fitted
from aligngp.frame import Frame
from aligngp.kernels import as_kernel
from aligngp.mappings.prior import Affine, Columns, Learned, Prior, Tabulated
from aligngp.model import Model
from aligngp.parts import FittedEnsemble, Part
from aligngp.settings import Settings
from aligngp.storage import decode, encode

Tensors = dict[str, np.ndarray]
KERNELS = ("kernel", "mapping_kernel")
"""The settings that may hold the code of another library."""
_MODEL = {
    "mappings": "mapping_kernel",
    "latents": "kernel",
    "mixing": None,
    "likelihoods": None,
    "residuals": "kernel",
    "exact": None,
}
"""The fields of a model, and which kernel setting stands in each."""


def describe(settings: Settings, parts: Sequence[Part], tensors: Tensors) -> dict[str, Any]:
    """Return an estimator as JSON, its arrays put into ``tensors``."""
    plain = {field.name: getattr(settings, field.name) for field in dataclasses.fields(Settings)}
    for name in KERNELS:
        if not isinstance(plain[name], str):
            plain[name] = encode(as_kernel(plain[name]), tensors, f"settings.{name}")
    return {
        # Of the mappings only the names: what they are stands in the frames.
        "settings": {**plain, "mappings": list(settings.mappings or {})},
        "parts": [_describe_part(part, tensors, f"part{at}") for at, part in enumerate(parts)],
    }


def restore(
    description: Mapping[str, Any], tensors: Tensors, mappings: Mapping[str, Any], kernels: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Part]]:
    """Undo :func:`describe`: keywords of the estimator, and its parts.

    ``mappings`` (by task) and ``kernels`` (by keyword) give the code that no file holds.
    """
    settings = dict(description["settings"])
    for name in KERNELS:
        settings[name] = decode(settings[name], tensors, kernels[name])
    parts = [_restore_part(part, tensors, mappings, kernels) for part in description["parts"]]
    tasks = {
        task.name: _as_setting(prior, task.columns)
        for part in parts
        for task, prior in zip(part.frame.tasks, part.frame.priors, strict=True)
    }
    for name in mappings:
        if name not in tasks:
            raise ModelFileError(
                f"mappings were passed for {name!r}, which is not a task of the file{did_you_mean(name, tasks)}. The "
                f"tasks are {listed(tasks)}."
            )
    settings["mappings"] = {name: tasks[name] for name in settings["mappings"] if tasks.get(name) is not None} or None
    return settings, parts


def _describe_part(part: Part, tensors: Tensors, path: str) -> dict[str, Any]:
    fitted, history = part.fitted, part.fitted.history
    if isinstance(fitted, FittedEnsemble):
        model: dict[str, Any] = {"ensemble": encode(fitted.ensemble, tensors, f"{path}.ensemble")}
    else:
        model = {
            "model": {name: encode(getattr(fitted.model, name), tensors, f"{path}.model.{name}") for name in _MODEL},
            "adam": dataclasses.asdict(fitted.adam),
            "inference": fitted.inference,
            "prior": fitted.prior,
        }
    return {
        "frame": _describe_frame(part.frame, tensors, f"{path}.frame"),
        **model,
        "rows": list(part.rows),
        "history": {
            field.name: encode(getattr(history, field.name), tensors, f"{path}.history.{field.name}")
            for field in dataclasses.fields(History)
        },
    }


def _restore_part(
    stored: Mapping[str, Any], tensors: Tensors, mappings: Mapping[str, Any], kernels: Mapping[str, Any]
) -> Part:
    frame = _restore_frame(stored["frame"], tensors, mappings)
    history = History(**{name: tensors[node["tensor"]] for name, node in stored["history"].items()})
    if "ensemble" in stored:
        ensemble = decode(stored["ensemble"], tensors, array=np.asarray)
        return Part(frame, FittedEnsemble(ensemble, history), tuple(stored["rows"]))
    model = Model(
        **{
            name: decode(stored["model"][name], tensors, None if setting is None else kernels[setting])
            for name, setting in _MODEL.items()
        }
    )
    adam = AdamSettings(**stored["adam"])
    fitted = Fitted(model, history, adam, stored["inference"], stored["prior"])
    return Part(frame, fitted, tuple(stored["rows"]))


def _describe_frame(frame: Frame, tensors: Tensors, path: str) -> dict[str, Any]:
    scalers = {
        side: [
            {part: encode(getattr(scaler, part), tensors, f"{path}.{side}.{at}.{part}") for part in ("mean", "scale")}
            for at, scaler in enumerate(getattr(frame, side))
        ]
        for side in ("inputs", "outputs")
    }
    return {
        "tasks": [task.to_dict() for task in frame.tasks],
        "common": frame.common,
        "priors": [_describe_prior(prior, tensors, f"{path}.priors.{at}") for at, prior in enumerate(frame.priors)],
        **scalers,
        "training_outputs": encode(frame.training_outputs, tensors, f"{path}.training_outputs"),
        "spans": [encode(span, tensors, f"{path}.spans.{at}") for at, span in enumerate(frame.spans)],
    }


def _restore_frame(stored: Mapping[str, Any], tensors: Tensors, mappings: Mapping[str, Any]) -> Frame:
    tasks = tuple(TaskSchema.from_dict(task) for task in stored["tasks"])
    scalers = {
        side: tuple(Scaler(*(tensors[scaler[part]["tensor"]] for part in ("mean", "scale"))) for scaler in stored[side])
        for side in ("inputs", "outputs")
    }
    return Frame(
        tasks,
        stored["common"],
        tuple(
            _restore_prior(prior, tensors, task.name, mappings.get(task.name))
            for task, prior in zip(tasks, stored["priors"], strict=True)
        ),
        scalers["inputs"],
        scalers["outputs"],
        tensors[stored["training_outputs"]["tensor"]],
        tuple(tensors[span["tensor"]] for span in stored["spans"]),
    )


def _describe_prior(prior: Prior, tensors: Tensors, path: str) -> dict[str, Any]:
    return {
        "kind": prior.kind,
        "dimensions": prior.dimensions,
        "positions": list(prior.positions),
        "label": prior.label,
        **{name: encode(getattr(prior, name), tensors, f"{path}.{name}") for name in ("matrix", "offset", "table")},
        "learned": None if prior.learned is None else {"init": prior.learned.init, "strength": prior.learned.strength},
    }


def _restore_prior(stored: Mapping[str, Any], tensors: Tensors, task: str, given: Any) -> Prior:
    """Return a prior mapping; a callable is the one that was given, other mappings are in the file."""
    called = stored["kind"] == "callable"
    if called and not callable(given):
        label = stored["label"]
        raise ModelFileError(
            f"task {task!r}: its prior mapping is the Python function {label}, and code is not stored. Pass it: "
            f"agp.load(path, mappings={{{task!r}: {'...' if label == '<lambda>' else label}}})."
        )
    arrays = {
        name: None if stored[name] is None else tensors[stored[name]["tensor"]]
        for name in ("matrix", "offset", "table")
    }
    return Prior(
        stored["kind"],
        stored["dimensions"],
        positions=tuple(stored["positions"]),
        **arrays,
        function=given if called else None,
        learned=None if stored["learned"] is None else Learned(**stored["learned"]),
        label=stored["label"],
    )


def _as_setting(prior: Prior, columns: Sequence[str]) -> Any:
    """Return a prior mapping as a user would pass it, None where there is nothing to pass."""
    if prior.kind == "columns":
        return Columns(*(columns[position] for position in prior.positions))
    if prior.kind == "affine" and prior.matrix is not None:
        return Affine(prior.matrix, prior.offset)
    if prior.table is not None:
        return Tabulated(prior.table)
    return prior.function or prior.learned
