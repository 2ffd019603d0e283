"""How a model came about and how far it can be trusted: objective, calibration, tasks, inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from aligngp.ensemble import Ensemble
from aligngp.errors import SettingError
from aligngp.findings.known import LEVELS, binomial_interval, coverage_curve, histogram, known
from aligngp.findings.relevance import relevance as found_relevance
from aligngp.findings.view import View, tables_of
from aligngp.fit.adam import History
from aligngp.objective.elbo import TERMS
from aligngp.parts import one_history
from aligngp.plots.canvas import BLUE, GREY, LIGHT_BLUE, ORANGE, RED, axes, below, pyplot, shown


def objective(gp: View, *, ax: Any = None) -> Any:
    """Draw the objective while training and, in a panel beside it, what each term adds to it.

    Of L-BFGS and stochastic natural gradients only the total is known on the way: beside it are the terms at the end
    (see :func:`terms`), unless the model came from a file, without the training rows that they are summed over. The
    panel is left out where ``ax`` is passed.
    """
    parts = gp._distinct()
    if any(isinstance(part.model, Ensemble) for part in parts):
        raise SettingError(
            "objective: a mixture of exact GPs (calibration='auto') has no one objective that is followed while "
            "training. gp.plot.terms() draws the evidence of each task, gp.summary() has the weights of its forms."
        )
    history = one_history([part.fitted.history for part in parts])
    followed = len(history.terms) == len(history.iteration) > 0
    if ax is None and (followed or tables_of(gp, parts[0]) is not None):
        _, (ax, beside) = pyplot().subplots(1, 2, figsize=(8.4, 3.6), width_ratios=(3, 2), layout="constrained")
        if followed:
            _by_term(history, beside)
        else:
            terms(gp, ax=beside)
    ax = axes(ax, (5.2, 3.6))
    ax.plot(history.iteration, history.objective, color=BLUE, linewidth=1.2)
    ax.set_ylim(*_without_start(history.objective))
    ax.set_xlabel("iteration")
    ax.set_ylabel("objective")
    seconds = float(max(history.seconds, default=0.0))
    ax.set_title(f"{len(history.iteration)} iterations in {seconds:.1f} s", fontsize=10)
    return ax


def _by_term(history: History, ax: Any) -> None:
    """Draw what each term that is not zero adds to the objective, by iteration."""
    for name, values in zip(TERMS, history.terms.T, strict=True):
        if np.any(values != 0.0):
            ax.plot(history.iteration, values, linewidth=1.1, label=shown(name).replace("_", " "))
    ax.set_yscale("symlog", linthresh=10.0)  # a likelihood starts at minus thousands, divergences are tens
    ax.set_xlabel("iteration")
    ax.set_ylabel("contribution to the objective")
    ax.set_title("its terms", fontsize=10)
    ax.legend(fontsize=8, frameon=False, loc="center right")


def terms(gp: View, *, ax: Any = None) -> Any:
    """Draw the terms of the objective at the fitted parameters (``gp.elbo()``) as bars, as they enter the total.

    Penalties are subtracted, so they point to the left.
    """
    signed = {name: -value if _subtracted(name) else value for name, value in gp.elbo().items()}
    ax = axes(ax, (5.2, 1.2 + 0.34 * len(signed)))
    names, values = list(signed), np.array(list(signed.values()))
    colours = [GREY if name == "total" else BLUE if value >= 0 else RED for name, value in signed.items()]
    ax.barh(range(len(names)), values, color=colours, height=0.65)
    ax.axvline(0.0, color=GREY, linewidth=0.8)
    signs = ["− " if _subtracted(name) else "" for name in names]
    ax.set_yticks(range(len(names)), [s + shown(name).replace("_", " ") for s, name in zip(signs, names, strict=True)])
    ax.tick_params(axis="y", length=0)
    ax.invert_yaxis()
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("contribution to the objective")
    ax.set_title("terms at the end", fontsize=10)
    return ax


def calibration(gp: View, task: str, data: Any = None, *, ax: Any = None) -> Any:
    """Draw the share of outputs inside intervals of each level, and in an inset the histogram of PIT values.

    The band holds 95% of what as many rows give by chance where intervals are right; PIT values are then uniform. Of
    ``data`` (rows with outputs), or of the training rows, each predicted without itself. The inset is
    ``ax.child_axes[0]``.
    """
    found = known(gp, task, data)
    pit, levels = found.pit(), np.concatenate([[0.0], LEVELS, [1.0]])
    lower, upper = binomial_interval(len(pit), LEVELS)
    ax = axes(ax, (4.8, 4.4))
    ax.fill_between(LEVELS, lower, upper, color=LIGHT_BLUE, alpha=0.6, linewidth=0, label="right, but for chance")
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
    ax.plot(levels, coverage_curve(pit, levels), color=BLUE, linewidth=1.8, marker="o", markersize=3, label="observed")
    ax.set_xlabel("probability of the interval")
    ax.set_ylabel("share of outputs inside")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1.01)
    ax.set_box_aspect(1)
    words = {"left out": "training rows, each left out", "held out": "training rows, held out", "test": "test rows"}
    ax.set_title(f"{shown(task)}: {len(pit)} {words[found.kept]}", fontsize=10)
    below(ax)
    inset = ax.inset_axes((0.62, 0.11, 0.36, 0.27))
    density, edges = histogram(pit)
    inset.bar(edges[:-1], density, np.diff(edges), align="edge", color=BLUE, alpha=0.8, edgecolor="white")
    inset.axhline(1.0, color=GREY, linewidth=0.8)
    inset.set_xlim(0, 1)
    inset.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    inset.set_yticks([])
    inset.tick_params(labelsize=7.5, length=2)
    inset.set_title("PIT", fontsize=8, pad=2)
    inset.spines[["top", "right", "left"]].set_visible(False)
    return ax


def correlation(gp: View, *, ax: Any = None) -> Any:
    """Draw the correlation of the tasks' functions (``gp.task_correlation()``) as a matrix of numbers."""
    values = gp.task_correlation()
    names = [shown(name) for part in gp._distinct() for name in part.frame.names]
    side = 2.2 + 0.6 * len(names)
    ax = axes(ax, (side + 0.6, side))
    image = ax.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1)
    ax.set_xticks(
        range(len(names)), names, rotation=0 if len(names) < 5 else 45, ha="center" if len(names) < 5 else "right"
    )
    ax.set_yticks(range(len(names)), names)
    for row in range(len(names)):
        for column in range(len(names)):
            dark = abs(values[row, column]) > 0.6
            ax.text(column, row, f"{values[row, column]:.2f}", ha="center", va="center", fontsize=9,
                    color="white" if dark else "black")  # fmt: skip
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.figure.colorbar(image, ax=ax, shrink=0.8, ticks=[-1, 0, 1])
    ax.set_title("correlation of the tasks", fontsize=10)
    return ax


def relevance(gp: View, task: str, *, ax: Any = None) -> Any:
    """Draw how much each input can move a task's function, by the fitted lengthscales: a typical slope as a bar.

    In standard deviations of the output for one of the input; inputs of the common domain and own inputs apart (see
    :mod:`aligngp.findings.relevance`).
    """
    found = found_relevance(gp, task)
    groups = [
        ("through the common domain", BLUE, list(zip(found.common_columns, found.common, strict=False))),
        ("own inputs", ORANGE, list(zip(found.columns, found.own, strict=False))),
    ]
    groups = [group for group in groups if group[2]]
    number = sum(len(bars) for *_, bars in groups)
    ax = axes(ax, (5.0, 1.6 + 0.32 * number))
    places: list[float] = []
    for label, colour, bars in groups:
        start = places[-1] + 1.5 if places else 0.0  # a gap between the groups
        own = [start + place for place in range(len(bars))]
        ax.barh(own, [value for _, value in bars], color=colour, height=0.7, label=label)
        places += own
    ax.set_yticks(places, [shown(name) for *_, bars in groups for name, _ in bars])
    ax.tick_params(axis="y", length=0)
    ax.invert_yaxis()
    ax.set_xlim(left=0)
    ax.set_xlabel("typical slope: sd of the output for one sd of the input")
    ax.set_title(f"{shown(task)}: relevance by lengthscale", fontsize=10)
    below(ax)
    return ax


def _subtracted(name: str) -> bool:
    return name.endswith(("_penalty", "_kl"))


def _without_start(values: np.ndarray) -> tuple[float | None, float | None]:
    """Return limits that leave out a start far below the rest, which would flatten what follows it."""
    if len(values) < 20:
        return None, None
    low, high = float(np.quantile(values, 0.1)), float(values.max())
    return (low - 0.5 * (high - low), high + 0.1 * (high - low)) if high > low else (None, None)
