"""What a fitted model looks like, as tables for people."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from aligngp.ensemble import Ensemble
from aligngp.frame import Frame
from aligngp.kernels import AbstractKernel, Foreign, Product, Sum
from aligngp.mappings.contract import AbstractMapping, Rows
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


def tables(parts: Sequence[tuple[Frame, Model | Ensemble, Sequence[int]]]) -> list[Table]:
    """Return the tables of resolved models with their frames and row numbers: all tasks, then what each model has.

    That is its latent GPs, or the forms of a mixture of exact GPs.
    """
    tasks = _table("Tasks", ("task", "rows", "inputs", "mapping", "noise sd", "mixing"))
    for frame, model, rows in parts:
        for at in range(len(frame.tasks)):
            _row(tasks, *_task(frame, model, at, rows[at]))
    others = [
        _forms(frame, model) if isinstance(model, Ensemble) else _latents(frame, model, len(parts) > 1)
        for frame, model, _ in parts
    ]
    return [tasks, *others]


def task_correlation(model: Model | Ensemble) -> np.ndarray:
    """Return the correlation of the tasks' functions at one aligned point, shape (T, T).

    Before any data, ``B_ts = sum_q a_q^t a_q^s v_q``, v_q being the latent kernel's variance, averaged over its
    inducing inputs. Of a mixture of exact GPs that of the posterior means, over the tasks' training rows.
    """
    if isinstance(model, Ensemble):
        return _correlation_of_means(model)
    covariance = (np.asarray(model.mixing, float) * _variances(model)) @ np.asarray(model.mixing, float).T
    scale = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    return covariance / scale[:, None] / scale[None, :]


def _correlation_of_means(ensemble: Ensemble) -> np.ndarray:
    result = np.eye(len(ensemble.targets))
    found: dict[tuple[int, int], list[float]] = {}
    for at, target in enumerate(ensemble.targets):
        sources = target.given.sources
        if sources is None:
            continue
        rows = Rows(target.own, target.nominal, np.full(len(target.y), -1, np.int32))
        means, own = target.given.see(target.own, target.nominal).side.mean, ensemble.moments(at, rows)[0]
        for column, source in enumerate(sources.tasks):
            moving = min(np.std(own), np.std(means[:, column])) > 1e-12
            value = float(np.corrcoef(own, means[:, column])[0, 1]) if moving else 0.0
            found.setdefault((min(at, source), max(at, source)), []).append(value)
    for (one, other), values in found.items():
        result[one, other] = result[other, one] = np.mean(values)
    return result


def _forms(frame: Frame, ensemble: Ensemble) -> Table:
    """Return a column a task: the weight of every form that competed for it, in percent."""
    weights = [ensemble.weights(at) for at in range(len(frame.tasks))]
    table = _table("Mixture of exact GPs: weights", ("", *frame.names))
    for form in dict.fromkeys(name for of_task in weights for name in of_task):
        _row(table, form, *(f"{of_task[form]:.0%}" if form in of_task else "" for of_task in weights))
    return table


def _task(frame: Frame, model: Model | Ensemble, at: int, rows: int) -> tuple[str, ...]:
    """Return a line of the tasks' table; the noise is in the units of the task's output."""
    schema = frame.tasks[at]
    if isinstance(model, Ensemble):
        noise = float(np.sqrt(model.noise(at))) * float(frame.outputs[at].scale[0])
        mapping = "common domain" if at == frame.common else f"{frame.priors[at].label}: mixture of exact GPs"
        if len(frame.tasks) == 1:
            mapping = "its own inputs"
        return schema.name, str(rows), ", ".join(schema.columns), mapping, f"{noise:.4g}", ""
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
