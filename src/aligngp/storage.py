"""Models on disk: one safetensors file, its header holding a versioned JSON description. Never pickle.

A stored node is JSON, or ``{"tensor": name}``, ``{"tuple": [...]}`` or ``{"class": name, "fields": {...}}`` with a
class of the list below: a file can build these and nothing else.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import paramax

from aligngp.data.atomic import replacing
from aligngp.ensemble import Ensemble
from aligngp.ensemble.forms import Form, Term
from aligngp.ensemble.given import Given, Likeness
from aligngp.ensemble.members import Member
from aligngp.ensemble.prior import Prior
from aligngp.ensemble.sources import Sources
from aligngp.ensemble.target import Target
from aligngp.errors import ModelFileError
from aligngp.gp.exact import ExactPosterior
from aligngp.gp.sparse import SparseGP
from aligngp.kernels import Foreign, Linear, Matern12, Matern32, Matern52, Product, SquaredExponential, Sum
from aligngp.likelihoods import Gaussian
from aligngp.mappings.fixed import AffineMap, Nominal
from aligngp.mappings.free import FreeRows
from aligngp.mappings.gaussian import EmbeddedGP, ResidualGP
from aligngp.parameters import Positive, Triangular

FORMAT = 1
_DESCRIPTION, _DIGEST = "aligngp", "sha256"
_CLASSES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(SparseGP, ExactPosterior, Gaussian, Nominal, AffineMap, ResidualGP, EmbeddedGP, FreeRows),
        *(SquaredExponential, Matern12, Matern32, Matern52, Linear, Sum, Product),
        *(Positive, Triangular, paramax.NonTrainable),
        *(Ensemble, Target, Given, Likeness, Sources, Member, Prior, Form, Term),
    )
}
_SAVE_AGAIN = "Save the model again, or fetch the file again."


def encode(node: Any, tensors: dict[str, np.ndarray], path: str) -> Any:
    """Return a node as JSON, its arrays put into ``tensors``; of a foreign kernel the parameters alone."""
    if node is None or isinstance(node, (bool, int, float, str)):
        return node
    if isinstance(node, np.generic):
        return node.item()
    if isinstance(node, (np.ndarray, jax.Array)):
        tensors[path] = np.array(node, order="C")
        return {"tensor": path}
    if isinstance(node, (tuple, list)):
        return {"tuple": [encode(item, tensors, f"{path}.{at}") for at, item in enumerate(node)]}
    if isinstance(node, Foreign):
        leaves = [leaf for leaf in jax.tree.leaves(node.kernel) if hasattr(leaf, "dtype")]
        stored = [encode(leaf, tensors, f"{path}.{at}") for at, leaf in enumerate(leaves)]
        return {"foreign": type(node.kernel).__name__, "leaves": stored}
    name = type(node).__name__
    if _CLASSES.get(name) is not type(node):
        raise ModelFileError(f"cannot store {path}: {name} is not part of the file format.")
    fields = {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
    return {
        "class": name,
        "fields": {key: encode(value, tensors, f"{path}.{key}") for key, value in fields.items()},
    }


def decode(
    node: Any, tensors: Mapping[str, np.ndarray], kernel: Any = None, array: Callable[[np.ndarray], Any] = jnp.asarray
) -> Any:
    """Undo :func:`encode`; ``kernel`` is the kernel of the fit, for the code of foreign ones, which is not stored."""
    if not isinstance(node, dict):
        return node
    if "tensor" in node:
        return array(tensors[node["tensor"]])
    if "tuple" in node:
        return tuple(decode(item, tensors, kernel, array) for item in node["tuple"])
    if "foreign" in node:
        return _foreign(node["foreign"], [decode(item, tensors) for item in node["leaves"]], kernel)
    kind = _CLASSES.get(node.get("class", ""))
    if kind is None:
        raise ModelFileError(f"the file names a part that this version does not know: {node.get('class')!r}.")
    if kind in (Sum, Product):
        stored = node["fields"]["parts"]["tuple"]
        same = isinstance(kernel, kind) and len(kernel.parts) == len(stored)
        given = kernel.parts if same else [None] * len(stored)
        return kind(tuple(decode(part, tensors, one) for part, one in zip(stored, given, strict=True)))
    return kind(**{key: decode(value, tensors, kernel, array) for key, value in node["fields"].items()})


def write(path: str | os.PathLike[str], description: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Write a model file: complete under its final name, or not at all."""
    from safetensors.numpy import save

    target = Path(path)
    if not target.parent.is_dir():
        raise ModelFileError(f"{target}: cannot write, the folder {target.parent} does not exist. Make it first.")
    if target.is_dir():
        raise ModelFileError(f"{target}: cannot write, this is a folder. Name a file.")
    text = json.dumps({"format": FORMAT, "aligngp": version("aligngp"), **description}, allow_nan=False)
    content = save(tensors, metadata={_DESCRIPTION: text, _DIGEST: _digest(text, tensors)})
    with replacing(target) as file:
        file.write(content)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a model file; whatever is wrong with it is one clear error."""
    from safetensors import SafetensorError, safe_open

    source = Path(path)
    if not source.is_file():
        raise ModelFileError(f"{source}: there is no such file. Expected one that gp.save(...) wrote.")
    try:
        with safe_open(source, framework="numpy") as file:
            metadata = file.metadata() or {}
            header = _header(source, metadata)
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except SafetensorError as error:
        raise ModelFileError(
            f"{source}: not a complete aligngp model file ({error}). It may be truncated or of another program. "
            f"{_SAVE_AGAIN}"
        ) from error
    if metadata.get(_DIGEST) != _digest(metadata[_DESCRIPTION], tensors):
        raise ModelFileError(f"{source}: its contents are not those that were saved (wrong checksum). {_SAVE_AGAIN}")
    return header, tensors


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what a description that makes no sense causes into one clear error."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error.__cause__
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise ModelFileError(
            f"{path}: its description does not fit its contents ({type(error).__name__}: {error}). {_SAVE_AGAIN}"
        ) from error


def _header(source: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return the description of a file whose format this version reads."""
    if _DESCRIPTION not in metadata:
        raise ModelFileError(f"{source}: a safetensors file, but not of aligngp. Expected one that gp.save(...) wrote.")
    try:
        header = json.loads(metadata[_DESCRIPTION])
        found = header["format"]
        if not isinstance(found, int) or found < 1:
            raise ValueError(f"format {found!r}")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{source}: its description is damaged ({error}). {_SAVE_AGAIN}") from error
    if found > FORMAT:
        raise ModelFileError(
            f"{source}: written by aligngp {header.get('aligngp')} in file format {found}; this is aligngp "
            f"{version('aligngp')}, which reads formats up to {FORMAT}. Install a newer aligngp."
        )
    return header


def _digest(text: str, tensors: Mapping[str, np.ndarray]) -> str:
    """Return a checksum of the description and of every tensor with its name, type and shape."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype.str} {tensor.shape}\n".encode())
        digest.update(np.ascontiguousarray(tensor).data if tensor.size else b"")
    return digest.hexdigest()


def _foreign(name: str, leaves: list[Any], kernel: Any) -> Foreign:
    """Return a kernel of another library with its stored parameters in place of those that it came with."""
    if not isinstance(kernel, Foreign):
        raise ModelFileError(
            f"the model uses {name}, a kernel of another library, whose code is not stored. Pass the kernel that it "
            "was fitted with, sums and products included: agp.load(path, kernel=...), or mapping_kernel=... for that "
            "of the mappings."
        )
    flat, structure = jax.tree.flatten(kernel.kernel)
    arrays = [at for at, leaf in enumerate(flat) if hasattr(leaf, "dtype")]
    same = type(kernel.kernel).__name__ == name and len(arrays) == len(leaves)
    if not same or any(flat[at].shape != leaf.shape for at, leaf in zip(arrays, leaves, strict=True)):
        raise ModelFileError(
            f"the kernel passed to agp.load ({type(kernel.kernel).__name__}) is not the one of the fit ({name} with "
            f"parameters of shapes {[leaf.shape for leaf in leaves]}). Pass it as it was at the fit."
        )
    for at, leaf in zip(arrays, leaves, strict=True):
        flat[at] = leaf
    return Foreign(jax.tree.unflatten(structure, flat))
