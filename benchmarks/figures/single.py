"""Figures of single fits, as the paper has them: the noisy case, predictions and aligned inputs of park, nu_g0."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtri

from aligngp.plots.canvas import BLUE, GREY, LIGHT_BLUE, LIGHT_GREY, ORANGE, RED, pyplot

LEARNING = ("HSVLMC", "HSVLMC-KL/ND", "HSVLMC-l1", "HSVLMC-l1-KL/ND")
"""The models that learn nu_g0: with weight 0 nothing holds it."""
PAPERS_NOISY = 1.5e-3
"""nu_g0 of the paper's fit of the noisy case."""
HALF = float(ndtri(0.975))


def noisy(kept: Mapping[str, Any]) -> Any:
    """Return the noisy case's picture: both tasks' predictions, 95% bands, training rows, aligned inputs as lines."""
    figure, ax = pyplot().subplots(figsize=(7.2, 4.2), layout="constrained")
    x = np.array(kept["x1"])
    names = {kept["target"]: (BLUE, "y1 (target)"), kept["common"]: (ORANGE, "y2 (source)")}
    for name, (colour, label) in names.items():
        mean, half = np.array(kept["curves"][name]["mean"]), HALF * np.array(kept["curves"][name]["std"])
        ax.fill_between(x, mean - half, mean + half, color=colour, alpha=0.18, linewidth=0)
        ax.plot(x, mean, color=colour, label=f"{label}: mean and 95% band")
        ax.plot(*kept["training"][name], "x", color=colour, markersize=6 if name == kept["target"] else 4)
    ax.plot(*kept["test"], ".", color=GREY, markersize=3, label="y1: test rows", zorder=1)
    for number, (prior, posterior) in enumerate(zip(kept["prior"], kept["posterior"], strict=True)):
        ax.axvline(prior, color=LIGHT_GREY, linewidth=1.2, zorder=0, label="" if number else "prior aligned input")
        style = {"color": RED, "linestyle": ":", "linewidth": 1.5, "zorder": 0}
        ax.axvline(posterior, label="" if number else "posterior aligned input", **style)
    ax.set(xlabel="x1", ylabel="y", xlim=(x[0], x[-1]))
    ax.set_title(f"noisy: {kept['model']}, seed {kept['seed']}; crosses are training rows", fontsize=10)
    ax.legend(fontsize=8, frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def park(kept: Mapping[str, Any]) -> Any:
    """Return the park case's picture: predicted against observed above, prior and posterior aligned inputs below."""
    models, observed = kept["models"], np.array(kept["observed"])
    size = (3.0 * len(models) + 0.4, 6.6)
    figure, panels = pyplot().subplots(
        2, len(models), figsize=size, squeeze=False, layout="constrained", sharex="row", sharey="row"
    )
    source = np.array(kept["source"])
    for (upper, lower), (name, one) in zip(panels.T, models.items(), strict=True):
        _diagonal(upper, observed, np.array(one["mean"]), np.array(one["std"]), name)
        prior, posterior, deviation = (np.array(one[key]) for key in ("prior", "posterior", "deviation"))
        lower.plot(*source.T, ".", color=LIGHT_GREY, markersize=4, zorder=0, label="source rows")
        lower.plot(*np.stack([prior, posterior]).transpose(2, 0, 1), color=GREY, linewidth=0.8, zorder=2)
        bars = HALF * deviation.T
        style = {"fmt": "none", "ecolor": LIGHT_BLUE, "elinewidth": 1, "zorder": 1}
        lower.errorbar(*posterior.T, xerr=bars[0], yerr=bars[1], **style)
        lower.plot(*prior.T, "^", color=BLUE, markersize=7, label="prior mapping", zorder=3)
        lower.plot(*posterior.T, "o", markerfacecolor="none", markeredgecolor=RED, markersize=8, zorder=4,
                   markeredgewidth=1.5, label="posterior, 95% bars")  # fmt: skip
        lower.set_xlabel(kept["columns"][0])
        moved = float(np.abs(posterior - prior).max())
        lower.set_title(f"moved by up to {moved:.2g}", fontsize=9)
        lower.set_box_aspect(1)
    panels[0, 0].set_ylabel("predicted y1")
    panels[1, 0].set_ylabel(kept["columns"][1])
    handles, labels = panels[1, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.suptitle(f"park, seed {kept['seed']}: {observed.size} test rows above, training rows' aligned inputs below",
                    fontsize=11)  # fmt: skip
    return figure


def _diagonal(ax: Any, observed: np.ndarray, mean: np.ndarray, std: np.ndarray, name: str) -> None:
    half = HALF * std
    inside = np.mean(np.abs(observed - mean) <= half)
    style = {"fmt": "x", "markersize": 3.5, "color": BLUE, "ecolor": LIGHT_BLUE, "elinewidth": 0.9}
    ax.errorbar(observed, mean, half, **style)
    ends = np.array([observed.min(), observed.max()])
    ends = ends + np.array([-0.05, 0.05]) * np.ptp(ends)
    ax.plot(ends, ends, color="0.25", linewidth=1, zorder=3)
    ax.set(xlabel="observed y1", xlim=ends, ylim=ends)
    ax.set_title(f"{name}\n{inside:.0%} within their 95% bars", fontsize=10)
    ax.set_box_aspect(1)


def violins(learned: Mapping[tuple[str, str], np.ndarray]) -> Any:
    """Return violins of nu_g0 over the seeds, a panel a case, a violin a model; powers of ten."""
    cases = list(dict.fromkeys(case for case, _ in learned))
    size = (1.2 + 3.6 * len(cases), 4.0)
    figure, panels = pyplot().subplots(1, len(cases), figsize=size, squeeze=False, sharey=True, layout="constrained")
    for ax, case in zip(panels[0], cases, strict=True):
        models = [model for model in LEARNING if (case, model) in learned]
        for place, model in enumerate(models):
            found = np.log10(learned[case, model])
            if len(found) > 2 and np.ptp(found) > 0:
                (body,) = ax.violinplot(found, [place], showextrema=False, widths=0.8)["bodies"]
                body.set(facecolor=LIGHT_BLUE, alpha=1.0)
            aside = 0.1 * np.linspace(-1, 1, len(found)) if len(found) > 1 else np.zeros(1)
            ax.plot(place + aside, found, "o", color=BLUE, markersize=4.5, markeredgecolor="white")
        ax.set_xticks(range(len(models)), [model.replace("HSVLMC-", "HSVLMC\n") for model in models], fontsize=8.5)
        ax.set_xlim(-0.6, len(models) - 0.4)
        if case == "noisy":
            ax.axhline(np.log10(PAPERS_NOISY), color=RED, linewidth=1, linestyle="--", label="the paper's fit")
            ax.legend(frameon=False, fontsize=8.5)
        ax.set_title(case, fontsize=10)
        ax.yaxis.set_major_formatter(lambda value, _: f"{10.0**value:.2g}")
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", alpha=0.25)
    panels[0, 0].set_ylabel(r"$\nu_{g_0}$ (standardised inputs)")
    figure.suptitle("Prior variance of the aligned inputs as learned, a dot an instance", fontsize=11)
    return figure
