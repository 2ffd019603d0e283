"""Predicted against observed: the paper's diagonal plot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from aligngp.findings.known import known
from aligngp.findings.view import View, output_name
from aligngp.plots.canvas import BLUE, LIGHT_BLUE, axes, pyplot, shown
from aligngp.prediction import Prediction

_MOST_BARS = 150  # more error bars hide each other


def observed(gp: View, task: str, data: Any = None, *, ax: Any = None) -> Any:
    """Draw predictions of a task against what was observed, with 95% bars, and the diagonal.

    Of ``data`` (rows with outputs, as for ``gp.score``), or of the training rows, each predicted without itself.
    """
    found = known(gp, task, data)
    lower, upper = found.interval()
    ax = axes(ax, (4.2, 4.4))
    what = {"left out": "training rows, each left out", "held out": "training rows, held out", "test": "test rows"}
    _diagonal(ax, found.y, found.mean, lower, upper)
    ends = _ends(np.concatenate([found.y, found.mean]))
    _square(ax, ends, f"observed {shown(output_name(gp, task))}")
    ax.set_ylabel(f"predicted {shown(output_name(gp, task))}")
    ax.set_title(
        f"{shown(task)}: {len(found.y)} {what[found.kept]}\n{found.inside} of them within their 95% bars", fontsize=10
    )
    return ax


def predicted_against_observed(
    predictions: Mapping[str, Prediction], observed: np.ndarray, *, label: str = "y", title: str = ""
) -> list[Any]:
    """Draw one panel a model: predictive mean against observation, 95% bars, the diagonal.

    Return the matplotlib axes; ``axes[0].figure.savefig(path)`` writes them. Panels share their limits.
    """
    plt = pyplot()
    observed = np.asarray(observed, float)
    figure, panels = plt.subplots(
        *(1, len(predictions)),
        figsize=(3.0 * len(predictions) + 0.3, 3.8 if title else 3.5),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for ax, (name, prediction) in zip(panels[0], predictions.items(), strict=True):
        lower, upper = prediction.interval(0.95)
        inside = np.mean((observed >= lower) & (observed <= upper))
        _diagonal(axes(ax), observed, prediction.mean, lower, upper)
        _square(ax, _ends(observed), f"observed {shown(label)}")
        ax.set_title(f"{name}\n{inside:.0%} within the 95% bars", fontsize=10)
    panels[0, 0].set_ylabel(f"predicted {shown(label)}")
    if title:
        figure.suptitle(title, fontsize=11)
    return list(panels[0])


def _diagonal(ax: Any, y: np.ndarray, mean: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> None:
    shown_rows = np.linspace(0, y.size - 1, min(y.size, _MOST_BARS)).astype(int)
    bars = np.stack([mean - lower, upper - mean])[:, shown_rows]
    ax.errorbar(
        *(y[shown_rows], mean[shown_rows], bars),
        fmt="o",
        markersize=3,
        markeredgewidth=0,
        color=BLUE,
        ecolor=LIGHT_BLUE,
        elinewidth=0.9,
        zorder=1,
    )


def _ends(values: np.ndarray) -> np.ndarray:
    """Return the ends of the diagonal, with room at both."""
    ends = np.array([values.min(), values.max()])
    width = ends[1] - ends[0] or 1.0
    return ends + np.array([-0.05, 0.05]) * width


def _square(ax: Any, ends: np.ndarray, label: str) -> None:
    ax.plot(ends, ends, color="0.25", linewidth=1, zorder=3)
    ax.set_xlabel(label)
    ax.set_xlim(*ends)
    ax.set_ylim(*ends)
    ax.set_box_aspect(1)  # the limits are the same, so the diagonal is one
