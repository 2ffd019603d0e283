"""Arrays and a text in one file (safetensors), with a checksum over both: whatever was changed since is found."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

import numpy as np

_TEXT, _DIGEST = "aligngp", "sha256"
WRONG_CHECKSUM = "wrong checksum"
LARGEST_HEADER = 100_000_000
"""What safetensors reads at the most."""


class BrokenSeal(ValueError):
    """A file is not what was written."""


class NotSealed(ValueError):
    """A file is of the format, but was not written here."""


def seal(text: str, tensors: Mapping[str, np.ndarray]) -> bytes:
    """Return the content of a file that holds a text and arrays."""
    from safetensors.numpy import save

    content = save(dict(tensors), metadata={_TEXT: text, _DIGEST: digest(text, tensors)})
    header = int.from_bytes(content[:8], "little")
    if header > LARGEST_HEADER:
        raise ValueError(f"the description takes {header} bytes, at most {LARGEST_HEADER} can be read again")
    return content


def text_of(path: str | os.PathLike[str]) -> str:
    """Return the text of a file, before anything else of it is read; raise what :func:`unseal` raises."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
    except SafetensorError as error:
        raise BrokenSeal(str(error)) from error
    if _TEXT not in metadata:
        raise NotSealed
    return metadata[_TEXT]


def unseal(path: str | os.PathLike[str]) -> tuple[str, dict[str, np.ndarray]]:
    """Return text and arrays of a file; raise BrokenSeal where it is not as it was written.

    No array is larger than the file: safetensors compares their places in it with its size first.
    """
    from safetensors import SafetensorError, safe_open

    text = text_of(path)
    try:
        with safe_open(path, framework="numpy") as file:
            found = (file.metadata() or {}).get(_DIGEST)
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, TypeError, ValueError, AttributeError) as error:  # also: a type that NumPy lacks
        raise BrokenSeal(f"{type(error).__name__}: {error}") from error
    if found != digest(text, tensors):
        raise BrokenSeal(WRONG_CHECKSUM)
    return text, tensors


def digest(text: str, tensors: Mapping[str, np.ndarray]) -> str:
    """Return a checksum of the text and of every array with its name, type and shape."""
    found = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(f"\n{name} {tensor.dtype.str} {tensor.shape}\n".encode())
        found.update(np.ascontiguousarray(tensor).data if tensor.size else b"")
    return found.hexdigest()
