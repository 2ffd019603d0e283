"""A model file as an estimator again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from aligngp import archive, storage
from aligngp.estimator import AlignedGP
from aligngp.kernels import as_kernel
from aligngp.runtime import computes
from aligngp.trained import Trained


@computes
def load(
    path: str | os.PathLike[str],
    mappings: Mapping[str, Any] | None = None,
    kernel: Any = None,
    mapping_kernel: Any = None,
) -> AlignedGP:
    """Return the model that ``gp.save(path)`` wrote.

    Files hold no code: pass callable prior mappings (``mappings={"fine": function}``) and kernels of another library
    again, as they were at the fit.
    """
    given = {"kernel": kernel, "mapping_kernel": mapping_kernel}
    kernels = {name: None if value is None else as_kernel(value) for name, value in given.items()}
    description, tensors = storage.read(path)
    with storage.reading(path):
        settings, fitted = archive.restore(description, tensors, dict(mappings or {}), kernels)
        gp = AlignedGP(**settings)
    gp._trained = Trained(gp.settings, {name: part for part in fitted for name in part.frame.names})
    return gp
