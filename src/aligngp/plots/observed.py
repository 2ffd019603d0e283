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
        1, len(predictions), figsize=(3.6 * len(predictions), 3.8), sharex=True, sharey=True, squeeze=False
    )
    shown = np.linspace(0, observed.size - 1, min(observed.size, _MOST_BARS)).astype(int)
    ends = np.array([observed.min(), observed.max()])
    ends += np.array([-0.05, 0.05]) * (ends[1] - ends[0])
    for ax, (name, prediction) in zip(axes[0], predictions.items(), strict=True):
        lower, upper = prediction.interval(0.95)
        inside = np.mean((observed >= lower) & (observed <= upper))
        bars = np.stack([prediction.mean - lower, upper - prediction.mean])[:, shown]
        ax.plot(ends, ends, color="0.4", linewidth=1, zorder=1)
        ax.errorbar(
            *(observed[shown], prediction.mean[shown], bars),
            fmt="x",
            markersize=4,
            color="#1f5fa8",
            ecolor="#9dbfe0",
            elinewidth=1,
            zorder=2,
        )
        ax.set_title(f"{name}\n{inside:.0%} within the 95% bars", fontsize=10)
        ax.set_xlabel(f"observed {label}")
        ax.set_xlim(*ends)
        ax.set_ylim(*ends)
        ax.set_aspect("equal")
    axes[0, 0].set_ylabel(f"predicted {label}")
    if title:
        figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    return list(axes[0])
