"""Predictions over one or two inputs, and what an input does on average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aligngp.findings.sweeps import Sweep, dependence, sweep
from aligngp.findings.view import View, output_name, tables_of
from aligngp.plots.canvas import BLUE, GREY, LIGHT_BLUE, axes, below, held, pyplot, shown

_LEVELS = 12


def predictions(
    gp: View,
    task: str,
    inputs: str | Sequence[str] | None = None,
    *,
    at: Mapping[str, Any] | None = None,
    span: Mapping[str, Any] | None = None,
    level: float = 0.95,
    latent: bool = False,
    ax: Any = None,
) -> Any:
    """Draw a task's predictions over one input (mean and band) or two (mean, and contours of the band's half width).

    Parameters
    ----------
    inputs: an input, or a pair of them; default the first, both where a task has two.
    at: values at which the other inputs are held; default their means over the training rows.
    span: the range of each input that varies; default that of the training rows.
    level: probability of the band.
    latent: without the noise.
    """
    found = sweep(gp, task, inputs, at, span, latent)
    half = found.prediction.interval(level)[1] - found.prediction.mean
    ax = axes(ax)
    draw = _line if len(found.columns) == 1 else _surface
    draw(gp, task, found, half, f"{level:.0%} {'of the function' if latent else 'interval'}", ax)
    ax.set_title(f"{shown(task)}" + (f"\n{held(found.held)}" if found.held else ""), fontsize=10)
    return ax


def partial_dependence(gp: View, task: str, column: str, data: Any = None, *, span: Any = None, ax: Any = None) -> Any:
    """Draw what an input does to a task's mean: a thin curve for every row's other inputs, and their average.

    The rows are the training rows, or ``data``; of more than 100, as many at random.
    """
    found = dependence(gp, task, column, data, span)
    ax = axes(ax)
    ax.plot(found.axis, found.curves.T, color=LIGHT_BLUE, linewidth=0.7, zorder=1)
    ax.plot(found.axis, found.mean, color=BLUE, linewidth=2.2, zorder=2, label=f"average over {len(found.curves)} rows")
    ax.set_xlabel(shown(column))
    ax.set_ylabel(f"predicted {shown(output_name(gp, task))}")
    ax.set_title(shown(task), fontsize=10)
    ax.legend(frameon=False, fontsize=9)
    ax.margins(x=0)
    return ax


def _line(gp: View, task: str, found: Sweep, half: np.ndarray, band: str, ax: Any) -> None:
    (x,), mean = found.axes, found.prediction.mean
    ax.fill_between(x, mean - half, mean + half, color=LIGHT_BLUE, linewidth=0, alpha=0.7, label=band, zorder=1)
    ax.plot(x, mean, color=BLUE, linewidth=1.8, label="mean", zorder=2)
    rows = _training(gp, task, found)
    if rows is not None:
        X, y = rows
        if found.held:  # rows stand at other values of the held inputs: only where they are is shown
            inside = (x[0] <= X[:, 0]) & (X[:, 0] <= x[-1])
            ax.plot(X[inside, 0], np.zeros(inside.sum()), "|", color=GREY, markersize=9, clip_on=False, zorder=3,
                    transform=ax.get_xaxis_transform(), label="inputs of training rows")  # fmt: skip
        else:
            ax.plot(X[:, 0], y, "x", color="0.15", markersize=5, zorder=3, label="training rows")
    ax.set_xlabel(shown(found.columns[0]))
    ax.set_ylabel(shown(output_name(gp, task)))
    ax.legend(frameon=False, fontsize=9)
    ax.set_xlim(x[0], x[-1])


def _surface(gp: View, task: str, found: Sweep, half: np.ndarray, band: str, ax: Any) -> None:
    pyplot()
    x, z = found.axes
    mean, half = found.grid(found.prediction.mean).T, found.grid(half).T
    filled = ax.contourf(x, z, mean, levels=_LEVELS, cmap="viridis")
    ax.figure.colorbar(filled, ax=ax, label=f"mean of {shown(output_name(gp, task))}")
    if np.ptp(half) > 1e-9 * np.abs(half).max():
        lines = ax.contour(x, z, half, levels=5, colors="white", linewidths=0.9)
        ax.clabel(lines, fontsize=7.5, fmt=lambda value: f"±{value:.3g}")
    ax.plot([], [], color="0.6", linewidth=0.9, label=f"half width of the {band}")
    rows = _training(gp, task, found)
    if rows is not None and rows[0].shape[1] == 2:
        ax.plot(*rows[0].T, "o", color="white", markeredgecolor="black", markersize=4.5, label="training rows")
    ax.set_xlabel(shown(found.columns[0]))
    ax.set_ylabel(shown(found.columns[1]))
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(z[0], z[-1])
    below(ax)


def _training(gp: View, task: str, found: Sweep) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the inputs that vary (N, 1 or 2) and the outputs (N,) of the training rows, None where there are none."""
    part, place = gp._part(task)
    tables = tables_of(gp, part)
    if tables is None:
        return None
    columns = [part.frame.tasks[place].columns.index(name) for name in found.columns]
    return tables[place].X[:, columns], tables[place].y
