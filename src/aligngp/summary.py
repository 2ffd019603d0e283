"""What a fitted model looks like, as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.table import Table

from aligngp.frame import Frame
from aligngp.mappings.contract import AbstractMapping
from aligngp.mappings.fixed import AffineMap
from aligngp.mappings.free import FreeRows
from aligngp.mappings.gaussian import EmbeddedGP, ResidualGP
from aligngp.model import Model


class Summary:
    """Tables that print themselves: ``print(gp.summary())``, or the last line of a notebook cell."""

    def __init__(self, parts: Sequence[Any]):
        self._parts = list(parts)

    def __rich__(self) -> Group:
        return Group(*self._parts)

    def __str__(self) -> str:
        console = Console(width=110, record=True, file=open_nowhere())
        console.print(self.__rich__())
        return console.export_text()

    __repr__ = __str__


def open_nowhere():
    """Return a sink for a console that only records."""
    import io

    return io.StringIO()


def tables(frame: Frame, model: Model, rows: Sequence[int]) -> list[Table]:
    """Return the tables of a resolved model: its tasks, its latent GPs."""
    return [_tasks(frame, model, rows), _latents(frame, model)]


def task_correlation(model: Model) -> np.ndarray:
    """Return the prior correlation of the tasks' functions at one aligned point, shape (T, T).

    ``B_ts = sum_q a_q^t a_q^s v_q``, v_q being the latent kernel's variance, averaged over its inducing inputs.
    """
    variances = np.array([float(np.mean(latent.kernel.diagonal(latent.inducing))) for latent in model.latents])
    mixing = np.asarray(model.mixing, float)
    covariance = (mixing * variances) @ mixing.T
    scale = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    return covariance / scale[:, None] / scale[None, :]


def _tasks(frame: Frame, model: Model, rows: Sequence[int]) -> Table:
    table = Table(title="Tasks", title_justify="left")
    for heading in ("task", "rows", "inputs", "mapping", "noise sd", "mixing"):
        table.add_column(heading, justify="right" if heading in ("rows", "noise sd") else "left")
    for at, schema in enumerate(frame.tasks):
        noise = float(np.sqrt(model.likelihoods[at].variance)) * float(frame.outputs[at].scale[0])
        mixing = ", ".join(f"{value:.3g}" for value in np.asarray(model.mixing[at]))
        mapping = "common domain" if at == frame.common else f"{frame.priors[at].label}: {_told(model.mappings[at])}"
        table.add_row(schema.name, str(rows[at]), ", ".join(schema.columns), mapping, f"{noise:.4g}", mixing)
    return table


def _told(mapping: AbstractMapping) -> str:
    if isinstance(mapping, ResidualGP):
        return f"GP residual, nu_g0 {float(mapping.prior_variance):.3g}"
    if isinstance(mapping, FreeRows):
        return f"free rows, nu_g0 {float(mapping.prior_variance):.3g}"
    if isinstance(mapping, EmbeddedGP):
        return f"embedded GP, noise sd {float(np.sqrt(mapping.noise)):.3g}"
    if isinstance(mapping, AffineMap):
        return "calibrated affine map"
    return "as given"


def _latents(frame: Frame, model: Model) -> Table:
    table = Table(title="Latent GPs on the common domain", title_justify="left")
    table.add_column("latent")
    table.add_column("kernel")
    table.add_column("variance", justify="right")
    for column in frame.common_columns:
        table.add_column(f"lengthscale {column}", justify="right")
    scale = frame.aligned_scaler().scale
    for at, latent in enumerate(model.latents):
        kernel = latent.kernel
        lengthscale = getattr(kernel, "lengthscale", None)
        lengths = ["-"] * len(scale) if lengthscale is None else [f"{v:.4g}" for v in np.asarray(lengthscale) * scale]
        variance = float(np.mean(kernel.diagonal(latent.inducing)))
        table.add_row(str(at + 1), type(kernel).__name__, f"{variance:.4g}", *lengths)
    return table
