"""Predicted against observed: the paper's diagonal plot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from aligngp.prediction import Prediction

_MOST_BARS = 150  # more error bars hide each other


def predicted_against_observed(
    predictions: Mapping[str, Prediction], observed: np.ndarray, *, label: str = "y", title: str = ""
) -> list[Any]:
    """Draw one panel a model: predictive mean against observation, 95% bars, the diagonal.

    Return the matplotlib axes; ``axes[0].figure.savefig(path)`` writes them. Panels share their limits.
    """
    import matplotlib.pyplot as plt

    observed = np.asarray(observed, float)
    figure, axes = plt.subplots(
        *(1, len(predictions)),
        figsize=(3.0 * len(predictions) + 0.3, 3.8 if title else 3.5),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    shown = np.linspace(0, observed.size - 1, min(observed.size, _MOST_BARS)).astype(int)
    ends = np.array([observed.min(), observed.max()])
    ends += np.array([-0.05, 0.05]) * (ends[1] - ends[0])
    for ax, (name, prediction) in zip(axes[0], predictions.items(), strict=True):
        lower, upper = prediction.interval(0.95)
        inside = np.mean((observed >= lower) & (observed <= upper))
        bars = np.stack([prediction.mean - lower, upper - prediction.mean])[:, shown]
        ax.errorbar(
            *(observed[shown], prediction.mean[shown], bars),
            fmt="o",
            markersize=3,
            markeredgewidth=0,
            color="#1f5fa8",
            ecolor="#b5cfe8",
            elinewidth=0.9,
            zorder=1,
        )
        ax.plot(ends, ends, color="0.25", linewidth=1, zorder=3)
        ax.set_title(f"{name}\n{inside:.0%} within the 95% bars", fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_xlabel(f"observed {label}")
        ax.set_xlim(*ends)
        ax.set_ylim(*ends)
        ax.set_box_aspect(1)  # the limits are the same, so the diagonal is one
    axes[0, 0].set_ylabel(f"predicted {label}")
    if title:
        figure.suptitle(title, fontsize=11)
    return list(axes[0])
