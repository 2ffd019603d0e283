"""Models on disk: one safetensors file, its header holding a versioned JSON description. Never pickle.

A stored node is JSON, or ``{"tensor": name}``, ``{"tuple": [...]}`` or ``{"class": name, "fields": {...}}`` with a
class of the list below: a file can build these and nothing else.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import paramax

from aligngp.data.scaling import Scaler
from aligngp.data.tasks import TaskSchema
from aligngp.errors import ModelFileError
from aligngp.frame import Frame
from aligngp.gp.sparse import SparseGP
from aligngp.kernels import (
    Foreign,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Product,
    SquaredExponential,
    Sum,
    as_kernel,
)
from aligngp.likelihoods import Gaussian
from aligngp.mappings.fixed import AffineMap, Nominal
from aligngp.mappings.free import FreeRows
from aligngp.mappings.gaussian import EmbeddedGP, ResidualGP
from aligngp.mappings.prior import Affine, Columns, Learned, Prior
from aligngp.model import Model
from aligngp.parameters import Positive, Triangular

FORMAT = 1
_KEY = "aligngp"
_CLASSES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(Model, SparseGP, Gaussian, Nominal, AffineMap, ResidualGP, EmbeddedGP, FreeRows),
        *(SquaredExponential, Matern12, Matern32, Matern52, Linear, Sum, Product),
        *(Positive, Triangular, paramax.NonTrainable),
    )
}


def encode(node: Any, tensors: dict[str, np.ndarray], path: str) -> Any:
    """Return a node as JSON, its arrays put into ``tensors``."""
    if node is None or isinstance(node, (bool, int, float, str)):
        return node
    if isinstance(node, (np.ndarray, jax.Array)):
        tensors[path] = np.ascontiguousarray(node)
        return {"tensor": path}
    if isinstance(node, (tuple, list)):
        return {"tuple": [encode(item, tensors, f"{path}.{at}") for at, item in enumerate(node)]}
    if isinstance(node, Foreign):
        leaves = [leaf for leaf in jax.tree.leaves(node.kernel) if hasattr(leaf, "dtype")]
        return {"foreign": [encode(leaf, tensors, f"{path}.{at}") for at, leaf in enumerate(leaves)]}
    name = type(node).__name__
    if _CLASSES.get(name) is not type(node):
        raise ModelFileError(f"cannot store {path}: {name} is not part of the file format.")
    fields = {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
    return {
        "class": name,
        "fields": {key: encode(value, tensors, f"{path}.{key}") for key, value in fields.items()},
    }


def decode(node: Any, tensors: Mapping[str, np.ndarray], kernel: Any) -> Any:
    """Undo :func:`encode`; ``kernel`` stands in for kernels of other libraries, whose code is not stored."""
    if not isinstance(node, dict):
        return node
    if "tensor" in node:
        return jnp.asarray(tensors[node["tensor"]])
    if "tuple" in node:
        return tuple(decode(item, tensors, kernel) for item in node["tuple"])
    if "foreign" in node:
        return _foreign([decode(item, tensors, kernel) for item in node["foreign"]], kernel)
    kind = _CLASSES.get(node.get("class", ""))
    if kind is None:
        raise ModelFileError(f"the file names a part that this version does not know: {node.get('class')!r}.")
    return kind(**{key: decode(value, tensors, kernel) for key, value in node["fields"].items()})


def write(path: str | os.PathLike[str], description: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Write a model file: complete under its final name, or not at all."""
    from safetensors.numpy import save

    target = Path(path)
    if not target.parent.is_dir():
        raise ModelFileError(f"cannot write {target}: the folder {target.parent} does not exist. Make it first.")
    header = {"format": FORMAT, "aligngp": version("aligngp"), **description}
    content = save(tensors, metadata={_KEY: json.dumps(header, allow_nan=False)})
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a model file; whatever is wrong with it is one clear error."""
    from safetensors import SafetensorError, safe_open

    source = Path(path)
    if not source.is_file():
        raise ModelFileError(f"{source}: there is no such file. Expected one that gp.save(...) wrote.")
    try:
        with safe_open(source, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except SafetensorError as error:
        raise ModelFileError(
            f"{source}: not a complete aligngp model file ({error}). It may be truncated or of another program; "
            "save the model again."
        ) from error
    if _KEY not in metadata:
        raise ModelFileError(f"{source}: a safetensors file, but not of aligngp. Expected one that gp.save(...) wrote.")
    try:
        header = json.loads(metadata[_KEY])
        found = int(header["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{source}: its description is damaged ({error}). Save the model again.") from error
    if found > FORMAT:
        raise ModelFileError(
            f"{source}: written by aligngp {header.get('aligngp')} in file format {found}; this is aligngp "
            f"{version('aligngp')}, which reads formats up to {FORMAT}. Install a newer aligngp."
        )
    return header, tensors


def _foreign(leaves: list[Any], kernel: Any) -> Foreign:
    if kernel is None:
        raise ModelFileError(
            "the model uses a kernel of another library, whose code is not stored. Pass the kernel object that it was "
            "fitted with: agp.load(path, kernel=...)."
        )
    flat, structure = jax.tree.flatten(kernel)
    arrays = [at for at, leaf in enumerate(flat) if hasattr(leaf, "dtype")]
    if len(arrays) != len(leaves) or any(flat[at].shape != leaf.shape for at, leaf in zip(arrays, leaves, strict=True)):
        raise ModelFileError(
            "the kernel passed to agp.load(path, kernel=...) has other parameters than the one of the fit."
        )
    for at, leaf in zip(arrays, leaves, strict=True):
        flat[at] = leaf
    return Foreign(jax.tree.unflatten(structure, flat))


def describe_frame(frame: Frame, tensors: dict[str, np.ndarray], path: str) -> dict[str, Any]:
    """Return the frame as JSON; prior mappings that are code are stored by their label alone."""
    priors = []
    for at, prior in enumerate(frame.priors):
        described: dict[str, Any] = {
            "kind": prior.kind,
            "dimensions": prior.dimensions,
            "positions": list(prior.positions),
            "label": prior.label,
        }
        if prior.matrix is not None:
            described["matrix"] = encode(prior.matrix, tensors, f"{path}.priors.{at}.matrix")
            described["offset"] = encode(prior.offset, tensors, f"{path}.priors.{at}.offset")
        if prior.learned is not None:
            described["learned"] = {"init": prior.learned.init, "strength": prior.learned.strength}
        priors.append(described)
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
        "priors": priors,
        **scalers,
        "training_outputs": encode(frame.training_outputs, tensors, f"{path}.training_outputs"),
    }


def restore_frame(
    described: Mapping[str, Any], tensors: Mapping[str, np.ndarray], mappings: Mapping[str, Any]
) -> Frame:
    """Undo :func:`describe_frame`; ``mappings`` gives the callables, which no file holds."""
    tasks = tuple(TaskSchema.from_dict(task) for task in described["tasks"])

    def array(node: Mapping[str, str]) -> np.ndarray:
        return np.asarray(tensors[node["tensor"]])

    priors = []
    for task, stored in zip(tasks, described["priors"], strict=True):
        function = None
        if stored["kind"] == "callable":
            function = mappings.get(task.name)
            if not callable(function):
                raise ModelFileError(
                    f"task {task.name!r}: its prior mapping is the Python function {stored['label']!r}, and code is "
                    f"not stored. Pass it: agp.load(path, mappings={{{task.name!r}: {stored['label']}}})."
                )
        priors.append(
            Prior(
                stored["kind"],
                stored["dimensions"],
                positions=tuple(stored["positions"]),
                matrix=array(stored["matrix"]) if "matrix" in stored else None,
                offset=array(stored["offset"]) if "offset" in stored else None,
                function=function,
                learned=Learned(**stored["learned"]) if "learned" in stored else None,
                label=stored["label"],
            )
        )
    scalers = {
        side: tuple(Scaler(array(part["mean"]), array(part["scale"])) for part in described[side])
        for side in ("inputs", "outputs")
    }
    return Frame(
        tasks,
        described["common"],
        tuple(priors),
        **scalers,
        training_outputs=array(described["training_outputs"]),
    )


def encode_setting(kernel: Any) -> Any:
    """Return a kernel setting as JSON: its name, or the parts and numbers of a kernel of ours."""
    if isinstance(kernel, str):
        return kernel
    node = as_kernel(kernel)
    if isinstance(node, Foreign):
        return {"foreign": []}
    if isinstance(node, (Sum, Product)):
        return {"class": type(node).__name__, "parts": [encode_setting(part) for part in node.parts]}
    fields = {name: getattr(node, name) for name in ("lengthscale", "variance") if hasattr(node, name)}
    numbers = {name: value if value is None else np.asarray(value).tolist() for name, value in fields.items()}
    return {"class": type(node).__name__, "numbers": numbers}


def decode_setting(stored: Any, kernel: Any) -> Any:
    """Undo :func:`encode_setting`."""
    if isinstance(stored, str):
        return stored
    if "foreign" in stored:
        return kernel
    kind = _CLASSES[stored["class"]]
    if "parts" in stored:
        return kind(tuple(as_kernel(decode_setting(part, kernel)) for part in stored["parts"]))
    numbers = stored["numbers"].items()
    return kind(**{name: jnp.asarray(value) if isinstance(value, list) else value for name, value in numbers})


def prior_as_setting(prior: Prior) -> Any:
    """Return a stored prior mapping as a user would pass it, None where there is nothing to pass."""
    if prior.kind == "columns":
        return Columns(*prior.positions)
    if prior.kind == "affine" and prior.matrix is not None:
        return Affine(prior.matrix, prior.offset)
    return prior.function or prior.learned


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what a damaged description causes into one clear error."""
    try:
        yield
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ModelFileError(
            f"{path}: its description does not fit its contents ({type(error).__name__}: {error}). "
            "Save the model again."
        ) from error
