"""What a model file says: settings, frames and fitted models as JSON and tensors, and back.

No code is in it (callables, kernels of other libraries) and no training rows, but for what they span, the aligned
inputs of :class:`aligngp.Tabulated` and the standardised rows that an exact posterior predicts from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aligngp import predict
from aligngp.data.scaling import Scaler
from aligngp.data.tables import did_you_mean, listed
from aligngp.data.tasks import TaskSchema
from aligngp.ensemble import Ensemble
from aligngp.errors import ModelFileError
from aligngp.fit.adam import AdamSettings, History
from aligngp.fit.pipeline import Fitted
from aligngp.frame import Frame
from aligngp.gp.sparse import SparseGP
from aligngp.kernels import as_kernel
from aligngp.mappings.contract import AbstractMapping, Rows
from aligngp.mappings.prior import Affine, Columns, Learned, Prior, Tabulated
from aligngp.model import Model
from aligngp.parameters import resolve
from aligngp.parts import FittedEnsemble, Part
from aligngp.settings import Settings
from aligngp.storage import decode, encode

Tensors = dict[str, np.ndarray]
_SOME_ROWS = 16
"""As many as the first prediction is compiled for, so that looking at the shapes is not in vain."""
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
    _check_frame(frame, stored["rows"])
    history = History(**{name: tensors[node["tensor"]] for name, node in stored["history"].items()})
    if "ensemble" in stored:
        ensemble = decode(stored["ensemble"], tensors, array=np.asarray)
        _check_ensemble(ensemble, frame)
        return Part(frame, FittedEnsemble(ensemble, history), tuple(stored["rows"]))
    model = Model(
        **{
            name: decode(stored["model"][name], tensors, None if setting is None else kernels[setting])
            for name, setting in _MODEL.items()
        }
    )
    adam = AdamSettings(**stored["adam"])
    fitted = Fitted(model, history, adam, stored["inference"], stored["prior"])
    _check_model(model, frame)
    return Part(frame, fitted, tuple(stored["rows"]))


def _check_model(model: Model, frame: Frame) -> None:
    """Raise where the shapes of a model do not fit together: every task is predicted, but for the numbers."""
    lengths = {len(frame.tasks), len(model.mappings), len(model.likelihoods), len(model.residuals or frame.tasks)}
    if len(lengths) > 1 or not all(isinstance(one, AbstractMapping) for one in model.mappings):
        raise ValueError(f"it has {len(frame.tasks)} tasks and {len(model.mappings)} mappings")
    if not all(isinstance(one, SparseGP) for one in model.latents) or not model.latents:
        raise ValueError("its latent functions are no sparse GPs")
    for likelihood in model.likelihoods:
        if np.shape(variance := resolve(likelihood).variance) or not float(variance) > 0:
            raise ValueError(f"a noise variance is {variance}")
    dtype = model.latents[0].inducing.dtype
    for task, schema in enumerate(frame.tasks):
        own, nominal = (np.zeros((_SOME_ROWS, len(c)), dtype) for c in (schema.columns, frame.common_columns))
        predict.check_shapes(model, task, Rows(own, nominal, np.zeros(_SOME_ROWS, np.int32)))


def _check_ensemble(ensemble: Any, frame: Frame) -> None:
    """Raise where the rows of a mixture's targets and sources do not fit to the tasks."""
    if not isinstance(ensemble, Ensemble) or ensemble.names != frame.names or len(ensemble.targets) != len(frame.names):
        raise ValueError("its mixture is not one of its tasks")
    common = len(frame.common_columns)
    for schema, target in zip(frame.tasks, ensemble.targets, strict=True):
        rows, priors = len(target.y), [member.prior for member in target.members]
        if not priors or any(len(prior.dimensions) != len(prior.form.terms) for prior in priors):
            raise ValueError(f"task {schema.name!r} has {len(priors)} forms whose terms do not fit")
        shapes = {
            "own": (target.own.shape, (rows, len(schema.columns))),
            "nominal": (target.nominal.shape, (rows, common)),
            "y": (target.y.shape, (rows,)),
            "weights": (target.weights.shape, (len(target.members),)),
            **{f"member {at}": (one.z.shape[1:], one.prior.mean.shape) for at, one in enumerate(target.members)},
        }
        if (sources := target.given.sources) is not None:
            seen, latents = len(sources.y), len(sources.lengthscale)
            shapes |= {
                "rows of sources": (sources.rows.shape, (seen, common)),
                "sources of rows": (sources.of.shape, (seen,)),
                "lengthscales": (sources.lengthscale.shape, (latents, common)),
                "mixing": (sources.mixing.shape, (len(sources.noise), latents)),
                "tasks of sources": ((len(sources.tasks),), sources.noise.shape),
            }
            if seen and not (
                sources.of.dtype.kind in "iu" and 0 <= sources.of.min() <= sources.of.max() < len(sources.tasks)
            ):
                raise ValueError(f"a row of the sources of task {schema.name!r} is of none of them")
        for name, (found, wanted) in shapes.items():
            if found != wanted:
                raise ValueError(f"task {schema.name!r}: {name} has shape {found}, expected {wanted}")


def _check_frame(frame: Frame, rows: Sequence[Any]) -> None:
    """Raise where tasks, scalings and prior mappings do not fit together."""
    tasks = len(frame.tasks)
    sides = (frame.priors, frame.inputs, frame.outputs, frame.training_outputs, rows)
    if not tasks or {len(side) for side in sides} != {tasks} or frame.common not in range(tasks):
        raise ValueError(f"its {tasks} tasks have {', '.join(str(len(side)) for side in sides)} parts")
    if frame.training_outputs.shape != (tasks, 2) or [span.shape for span in frame.spans] != [
        (2, len(schema.columns)) for schema in frame.tasks
    ]:
        raise ValueError("the ranges of its inputs or the moments of its outputs have other shapes than its tasks")
    for schema, prior, own, output in zip(frame.tasks, frame.priors, frame.inputs, frame.outputs, strict=True):
        wide, common = len(schema.columns), len(frame.common_columns)
        shapes = [own.mean.shape, own.scale.shape, output.mean.shape, output.scale.shape]
        if shapes != [(wide,), (wide,), (1,), (1,)]:
            raise ValueError(f"the scalings of task {schema.name!r} have the shapes {shapes}")
        if not (np.all(own.scale > 0) and np.all(output.scale > 0)):
            raise ValueError(f"a scaling of task {schema.name!r} is not positive")
        picked = prior.positions if prior.kind in ("identity", "columns") else range(common)
        if prior.dimensions != common or len(picked) != common or not set(picked) <= set(range(max(wide, common))):
            raise ValueError(f"the prior mapping of task {schema.name!r} does not lead to {common} columns")
        offset = (0,) if prior.offset is None else prior.offset.shape
        if prior.matrix is not None and (prior.matrix.shape, offset) != ((common, wide), (common,)):
            raise ValueError(f"the prior mapping of task {schema.name!r} has a matrix of shape {prior.matrix.shape}")


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
