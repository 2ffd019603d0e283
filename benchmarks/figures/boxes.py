"""Box plots of SMSE and SMLL over instances: cases side by side, a box for every model."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aligngp.plots.canvas import BLUE, GREEN, GREY, ORANGE, RED, pyplot
from benchmarks.cases.published import PUBLISHED
from benchmarks.compare import Scores, values
from benchmarks.models import THE_PAPERS_FOUR

MODELS = (*THE_PAPERS_FOUR, "HSVLMC-KL/ND", "HSVLMC-KL0", "HSVLMC-l1-KL0", "IMC", "BoTorch heterogeneous", "auto")
COLOURS = {"SOGP": GREY, "IMC": ORANGE, "BoTorch heterogeneous": ORANGE, "auto": GREEN}
"""Others are HSVLMC and blue."""
TICKS = (-10, -3, -1, 0, 1, 3, 10, 100, 1000)
"""Of SMLL, which is linear between -3 and 3."""
KEYS = {"smse": "SMSE", "smll": "SMLL"}


def boxes(found: Scores, levels: Mapping[str, str], title: str, models: Sequence[str], shared: bool = False) -> Any:
    """Return a figure: a column for every level (label to case), SMSE above, SMLL below, a box for every model.

    Columns have the same limits where they are ``shared``.
    """
    there = [model for model in models if any((case, model) in found for case in levels.values())]
    size = (2.0 + 2.25 * len(levels), 1.2 + 0.5 * len(there))
    figure, panels = pyplot().subplots(
        2,
        len(levels),
        figsize=size,
        sharey=True,
        squeeze=False,
        layout="constrained",
        sharex="row" if shared else False,
    )
    paper = False
    for (row, key), (column, (label, case)) in [
        (one, other) for one in enumerate(KEYS) for other in enumerate(levels.items())
    ]:
        ax = panels[row][column]
        paper |= _panel(ax, found, case, key, there)
        ax.set_title(label if row == 0 else "", fontsize=10)
        ax.set_xlabel(KEYS[key] + (" (lower is better)" if column == 0 else ""), fontsize=9)
    for ax in panels.flat:
        _ticks(ax)
    beside = "; a red diamond is the paper's mean" if paper else ""
    figure.suptitle(f"{title}\na dot an instance{beside}", fontsize=10.5)
    return figure


def _panel(ax: Any, found: Scores, case: str, key: str, models: Sequence[str]) -> bool:
    """Draw one panel; tell whether the paper has numbers for it."""
    at, published = (0 if key == "smse" else 2), False
    for place, model in enumerate(models):
        if (case, model) in found:
            numbers, colour = values(found[case, model], key), COLOURS.get(model, BLUE)
            ax.boxplot(
                numbers, positions=[place], orientation="horizontal", widths=0.62, showfliers=False, patch_artist=True,
                boxprops={"facecolor": "white", "edgecolor": colour}, medianprops={"color": colour, "linewidth": 2},
                whiskerprops={"color": colour}, capprops={"color": colour},
            )  # fmt: skip
            aside = 0.2 * np.sin(2.4 * np.arange(len(numbers)))  # so that equal dots stay apart
            ax.plot(numbers, place + aside, ".", color=colour, markersize=3.5, alpha=0.7)
        if (case, model) in PUBLISHED:
            ax.plot(PUBLISHED[case, model][at], place, "D", color=RED, markersize=5, zorder=5)
            published = True
    ax.set_yticks(range(len(models)), models, fontsize=8.5)
    ax.set_ylim(len(models) - 0.5, -0.5)
    if key == "smse":
        ax.set_xscale("log")
    else:
        ax.set_xscale("symlog", linthresh=3.0)
        ax.axvline(0.0, color="0.85", linewidth=0.8, zorder=0)
    ax.margins(x=0.06)
    ax.tick_params(axis="x", labelsize=8)
    ax.grid(axis="x", alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    return published


def _ticks(ax: Any) -> None:
    """Label values as one writes them: 1, 2 and 5 where little more than a decade is seen; the limits stay."""
    lower, upper = ends = ax.get_xlim()
    ticks = np.array(TICKS)
    if ax.get_xscale() == "log":
        steps = (1.0, 2.0, 5.0) if upper / lower < 30.0 else (1.0,)
        ticks = np.array([step * 10.0**power for power in range(-8, 9) for step in steps])
    ax.set_xticks(ticks[(ticks >= lower) & (ticks <= upper)])
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_minor_formatter(lambda value, _: "")
    ax.set_xlim(*ends)
