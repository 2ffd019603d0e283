"""The common domain: prior and posterior aligned inputs, what calibration moved, and nu_g0 over fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from aligngp.data.tables import listed
from aligngp.errors import DataError, SettingError
from aligngp.findings.alignment import Alignment, alignment
from aligngp.findings.alignment import nu_g0 as fitted_nu_g0
from aligngp.findings.view import View, column_of, mapped, mapped_tasks, output_name, tables_of
from aligngp.plots.canvas import BLUE, GREY, LIGHT_BLUE, LIGHT_GREY, MARKERS, RED, TASKS, axes, below, beside, shown

_HALF = float(ndtri(0.975))


def aligned(gp: View, task: str, data: Any = None, *, columns: Sequence[str] | None = None, ax: Any = None) -> Any:
    """Draw where a task's rows stand in the common domain: triangles by the prior mapping, circles as the model has it.

    Two inputs of the common domain make the axes (``columns``, by default the two in which most was moved); with one
    the other axis is the output. Bars are 95% intervals, grey dots the rows of the common task. The rows are the
    training rows, or ``data``.
    """
    found = alignment(gp, task, data)
    chosen = _columns(found, columns)
    ax = axes(ax, (5.0, 4.4))
    part, at = gp._part(task)
    tables = tables_of(gp, part)
    if len(chosen) == 2:
        prior, mean, bars = (values[:, chosen] for values in (found.prior, found.mean, _HALF * np.sqrt(found.variance)))
        ax.set_ylabel(shown(found.columns[chosen[1]]))
        dots = None if tables is None else tables[part.frame.common].X[:, chosen]
    else:
        observed = data is None and tables is not None
        height = tables[at].y if observed and tables is not None else gp.predict(task, found.X).mean
        prior, mean = (np.column_stack([values[:, chosen[0]], height]) for values in (found.prior, found.mean))
        bars = np.column_stack([_HALF * np.sqrt(found.variance[:, chosen[0]]), np.zeros(len(height))])
        ax.set_ylabel(f"{'observed' if observed else 'predicted'} {shown(output_name(gp, task))}")
        dots = None
    if dots is not None:
        name = shown(part.frame.names[part.frame.common])
        ax.plot(*dots.T, ".", color=LIGHT_GREY, markersize=4, zorder=0, label=f"rows of {name}")
    ax.errorbar(*mean.T, xerr=bars[:, 0], yerr=bars[:, 1] if len(chosen) == 2 else None, fmt="none",
                ecolor=LIGHT_BLUE, elinewidth=0.9, zorder=1)  # fmt: skip
    ax.plot(*np.stack([prior, mean]).transpose(2, 0, 1), color=GREY, linewidth=0.8, zorder=2)
    ax.plot(*prior.T, "^", color=BLUE, markersize=6, linestyle="none", zorder=3, label="prior mapping")
    ax.plot(*mean.T, "o", markerfacecolor="none", markeredgecolor=RED, markeredgewidth=1.4, markersize=6.5, zorder=4,
            linestyle="none", label="posterior mean, 95% bars")  # fmt: skip
    ax.set_xlabel(shown(found.columns[chosen[0]]))
    ax.set_title(f"{shown(task)}: aligned inputs", fontsize=10)
    below(ax)
    return ax


def residual(gp: View, task: str, data: Any = None, *, against: str | None = None, ax: Any = None) -> Any:
    """Draw what calibration adds to a task's prior mapping, with 95% bars; a colour for each common input.

    In standard deviations of the common task's inputs; against what the prior mapping says, or one of the task's own
    inputs. The rows are the training rows, or ``data``.
    """
    found = alignment(gp, task, data)
    part, at = mapped(gp, task)
    own = None if against is None else found.X[:, column_of(task, part.frame.tasks[at].columns, against)]
    ax = axes(ax)
    ax.axhline(0.0, color=GREY, linewidth=0.8, zorder=0)
    for d, column in enumerate(found.columns):
        x = found.standardised[:, d] if own is None else own
        # Over an own input the bars of all common inputs stand at one place: side by side they can be told apart.
        aside = 0.0 if own is None else 4.0 * (d - (len(found.columns) - 1) / 2)
        ax.errorbar(x, found.moved[:, d], _HALF * found.std[:, d], fmt=MARKERS[d % len(MARKERS)], markersize=5,
                    color=TASKS[d % len(TASKS)], elinewidth=0.8, label=shown(column),
                    transform=beside(ax, aside))  # fmt: skip
        ends = (found.moved[:, d] + sign * _HALF * found.std[:, d] for sign in (-1, 1))
        ax.update_datalim(np.concatenate([np.column_stack([x, end]) for end in ends]))
    ax.autoscale_view()
    standardised = "the prior mapping's input (standardised)"
    ax.set_xlabel(standardised if against is None else shown(against))
    ax.set_ylabel("posterior − prior mapping (sd)")
    ax.set_title(f"{shown(task)}: residual of the mapping", fontsize=10)
    ax.legend(
        frameon=False, fontsize=9, title="common input", title_fontsize=9, loc="upper left", bbox_to_anchor=(1, 1)
    )
    return ax


def nu_g0(gps: View | Iterable[View], task: str | None = None, *, ax: Any = None) -> Any:
    """Draw the prior variance nu_g0 of the mapping over several fits (seeds, say): a violin a task, and every fit.

    For fits with ``calibration="bayes"`` or ``"free"``; ``task`` picks one of the mapped tasks.
    """
    fits = list(gps) if isinstance(gps, Iterable) else [gps]
    if not fits:
        raise DataError("nu_g0: there is no fit. Pass a list of fitted AlignedGP.")
    names = mapped_tasks(fits[0]) if task is None else [task]
    for gp in fits:
        if task is None and mapped_tasks(gp) != names:
            raise DataError(
                f"nu_g0: expected fits of the same tasks, got {listed(names)} and {listed(mapped_tasks(gp))}. Name one "
                "that they all have: task=..."
            )
    if not names:
        raise SettingError("nu_g0: these fits have one task, which is not mapped. Fit two tasks or more.")
    values = [np.array([fitted_nu_g0(gp, name) for gp in fits]) for name in names]
    ax = axes(ax, (1.8 + 1.4 * len(names), 3.8))
    for place, found in enumerate(values, start=1):
        if len(found) > 2 and np.ptp(found) > 0:
            (body,) = ax.violinplot(np.log10(found), [place], showextrema=False)["bodies"]
            body.set(facecolor=LIGHT_BLUE, alpha=1.0)
        aside = 0.12 * np.linspace(-1, 1, len(found)) if len(found) > 1 else np.zeros(1)
        ax.plot(place + aside, np.log10(found), "o", color=BLUE, markersize=4.5, markeredgecolor="white")
    ax.set_xticks(range(1, len(names) + 1), [shown(name) for name in names])
    ax.set_xlim(0.4, len(names) + 0.6)
    spread = np.log10(np.concatenate(values))
    if np.ptp(spread) < 1.0:  # fits that agree are not to look different
        ax.set_ylim(*(np.mean([spread.min(), spread.max()]) + np.array([-0.6, 0.6])))
    # The variances span powers of ten, and a violin must be made on the scale on which it is seen.
    ax.yaxis.set_major_formatter(lambda value, _: f"{10.0**value:.2g}")
    ax.set_ylabel(r"$\nu_{g_0}$ (standardised inputs)")
    ax.set_title(f"{len(fits)} fit{'' if len(fits) == 1 else 's'}", fontsize=10)
    return ax


def _columns(found: Alignment, columns: Sequence[str] | None) -> list[int]:
    """Return the positions of one or two inputs of the common domain."""
    if columns is None:
        most = np.argsort(-np.mean(found.moved**2, axis=0), kind="stable")[:2]
        return sorted(most.tolist())
    names = [columns] if isinstance(columns, str) else list(columns)
    chosen = [column_of("of the common domain", found.columns, name) for name in names]
    if len(chosen) not in (1, 2) or len(set(chosen)) != len(chosen):
        raise SettingError(f"columns: expected one or two different inputs of the common domain, got {names!r}.")
    return chosen
