"""How a report can be reproduced: code, settings, versions, and fingerprints of the training rows."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from aligngp.data.tasks import TaskData
from aligngp.kernels import AbstractKernel
from aligngp.mappings.prior import Affine, Columns, Learned, Tabulated
from aligngp.report.content import Content
from aligngp.report.markup import Markup, table, tag

_PACKAGES = ("aligngp", "jax", "jaxlib", "numpy", "scipy", "equinox", "scikit-learn")


def reproduce(content: Content) -> list[Markup]:
    """Return the section's parts."""
    result = [
        tag("p", "The same rows, versions and settings give the same model on the same machine. A setting that is not "
                 "named has its default."),
        tag("pre", tag("code", code(content))),
        table(("package", "version"), versions(), "Versions", numeric=2),
    ]  # fmt: skip
    if content.tables:
        rows = [(name, str(one.rows), fingerprint(one)) for name, one in content.tables.items()]
        caption = "Fingerprints of the training rows (SHA-256 of inputs and outputs in double precision, 16 digits)"
        result.append(table(("task", "rows", "fingerprint"), rows, caption, numeric=3))
    return result


def code(content: Content) -> str:
    """Return the Python lines that fit the model again."""
    settings, lines = content.gp.settings, []
    for text in settings.changed():
        name = text.partition("=")[0]
        if name != "progress":
            lines.append(f"    {name}={_written(getattr(settings, name))},")
    outputs = {task: part.frame.tasks[at].output for task in content.names for part, at in [content.part(task)]}
    known = {task: output for task, output in outputs.items() if output is not None}
    same = set(known.values())
    output = "" if not known else f", output={next(iter(same))!r}" if len(same) == 1 else f", output={known!r}"
    head = "gp = agp.AlignedGP(" + ("" if not lines else "\n" + "\n".join(lines) + "\n") + ")"
    names = "".join(f"    {task!r}: ...,  # {_columns(content, task)}\n" for task in content.names)
    return f"import aligngp as agp\n\n{head}\ntasks = {{\n{names}}}\ngp.fit(tasks{output})\n"


def versions() -> list[tuple[str, str]]:
    """Return names and versions of what computed the model."""
    found = [("Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}")]
    for name in _PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return found


def fingerprint(table: TaskData) -> str:
    """Return a digest of a task's training rows."""
    digest = hashlib.sha256()
    for values in (table.X, table.y):
        digest.update(f"{values.shape}".encode())
        digest.update(np.ascontiguousarray(values, dtype="<f8").tobytes())
    return digest.hexdigest()[:16]


def _columns(content: Content, task: str) -> str:
    part, at = content.part(task)
    return f"{part.rows[at]} rows of {', '.join(part.frame.tasks[at].columns)}"


def _written(value: Any) -> str:
    """Return a setting as it is written in Python: a function goes by its name, if it has one."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_written(one)}" for key, one in value.items()) + "}"
    if isinstance(value, Affine):
        return f"agp.Affine({value.A.tolist()}, {value.b.tolist()})"
    if isinstance(value, Tabulated):
        return f"agp.Tabulated(...)  # {len(value.X_bar)} rows"
    if isinstance(value, (Columns, Learned)):
        return f"agp.{value!r}"
    if isinstance(value, AbstractKernel):
        return f"...  # {type(value).__name__}"
    if callable(value):
        name = getattr(value, "__name__", "")
        return name if name.isidentifier() else "..."
    return repr(value)
