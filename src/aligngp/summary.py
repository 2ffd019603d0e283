"""What a fitted model looks like, as tables for people."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from aligngp.frame import Frame
from aligngp.kernels import AbstractKernel, Foreign, Product, Sum
from aligngp.mappings.contract import AbstractMapping
from aligngp.mappings.fixed import AffineMap
from aligngp.mappings.free import FreeRows
from aligngp.mappings.gaussian import EmbeddedGP, ResidualGP
from aligngp.model import Model

_WIDTH = 120


class Summary:
    """Tables that print themselves: ``print(gp.summary())``, or the last line of a notebook cell."""

    def __init__(self, parts: Sequence[Any]):
        self._parts = list(parts)

    def __rich__(self) -> Group:
        return Group(*self._parts)

    def __str__(self) -> str:
        console = Console(width=_WIDTH, record=True, file=io.StringIO())
        console.print(self.__rich__())
        return "\n".join(line.rstrip() for line in console.export_text().rstrip().split("\n"))

    __repr__ = __str__


def tables(parts: Sequence[tuple[Frame, Model, Sequence[int]]]) -> list[Table]:
    """Return the tables of resolved models with their frames and row numbers: all tasks, then each model's latents."""
    tasks = _table("Tasks", ("task", "rows", "inputs", "mapping", "noise sd", "mixing"))
    for frame, model, rows in parts:
        for at in range(len(frame.tasks)):
            _row(tasks, *_task(frame, model, at, rows[at]))
    return [tasks, *(_latents(frame, model, len(parts) > 1) for frame, model, _ in parts)]


def task_correlation(model: Model) -> np.ndarray:
    """Return the prior correlation of the tasks' functions at one aligned point, shape (T, T).

    ``B_ts = sum_q a_q^t a_q^s v_q``, v_q being the latent kernel's variance, averaged over its inducing inputs.
    """
    covariance = (np.asarray(model.mixing, float) * _variances(model)) @ np.asarray(model.mixing, float).T
    scale = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    return covariance / scale[:, None] / scale[None, :]


def _task(frame: Frame, model: Model, at: int, rows: int) -> tuple[str, ...]:
    """Return a line of the tasks' table; the noise is in the units of the task's output."""
    schema = frame.tasks[at]
    noise = float(np.sqrt(model.likelihoods[at].variance)) * float(frame.outputs[at].scale[0])
    mixing = ", ".join(f"{value:.3g}" for value in np.asarray(model.mixing[at]))
    mapping = f"{frame.priors[at].label}: {_told(model.mappings[at])}"
    if at == frame.common:
        mapping = "common domain" if len(frame.tasks) > 1 else "its own inputs"
    return schema.name, str(rows), ", ".join(schema.columns), mapping, f"{noise:.4g}", mixing


def _told(mapping: AbstractMapping) -> str:
    """Return what is done with a prior mapping; variances and deviations are in standardised units."""
    if isinstance(mapping, ResidualGP):
        return f"GP residual, nu_g0 {float(mapping.prior_variance):.3g}"
    if isinstance(mapping, FreeRows):
        return f"free rows, nu_g0 {float(mapping.prior_variance):.3g}"
    if isinstance(mapping, EmbeddedGP):
        return f"embedded GP, noise sd {float(np.sqrt(mapping.noise)):.3g}"
    if isinstance(mapping, AffineMap):
        return "calibrated affine map"
    return "as given"


def _latents(frame: Frame, model: Model, named: bool) -> Table:
    """Return a column a latent GP: kernel, variance, lengthscales in the units of the common domain."""
    title = f"Latent GP of {frame.names[0]}" if named else "Latent GPs on the common domain"
    table = _table(title, ("", *(f"latent {q + 1}" for q in range(len(model.latents)))))
    kernels = [latent.kernel for latent in model.latents]
    _row(table, "kernel", *map(_name, kernels))
    _row(table, "variance", *(f"{value:.4g}" for value in _variances(model)))
    scale = frame.aligned_scaler().scale
    lengths: list[Any] = [getattr(kernel, "lengthscale", None) for kernel in kernels]
    if all(length is not None for length in lengths):
        for d, column in enumerate(frame.common_columns):
            _row(table, f"lengthscale {column}", *(f"{float(length[d] * scale[d]):.4g}" for length in lengths))
    return table


def _name(kernel: AbstractKernel) -> str:
    """Return a kernel's name, of sums and products as a formula."""
    if isinstance(kernel, Sum | Product):
        sign = " + " if isinstance(kernel, Sum) else " * "
        parts = [f"({_name(part)})" if isinstance(part, Sum) else _name(part) for part in kernel.parts]
        return sign.join(parts)
    return type(kernel.kernel if isinstance(kernel, Foreign) else kernel).__name__


def _variances(model: Model) -> np.ndarray:
    """Return each latent kernel's variance (Q,), averaged over its inducing inputs."""
    return np.array([float(np.mean(latent.kernel.diagonal(latent.inducing))) for latent in model.latents])


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(title=Text(title), title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in ("rows", "noise sd") else "left")
    return table


def _row(table: Table, *cells: str) -> None:
    """Add cells as plain text: a name such as 'v [m/s]' is not markup."""
    table.add_row(*map(Text, cells))
