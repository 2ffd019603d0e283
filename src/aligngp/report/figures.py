"""Plotly figures as plain dicts of data and layout; the page's script gives them the colours of its theme."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from aligngp.data.tasks import TaskData
from aligngp.findings.alignment import Alignment
from aligngp.findings.known import LEVELS, Known, binomial_interval, coverage_curve, histogram
from aligngp.findings.relevance import Relevance
from aligngp.findings.sweeps import Sweep
from aligngp.fit.adam import History
from aligngp.report.markup import for_plotly

BLUE, RED, ORANGE, GREY = "#3b82c4", "#d5473c", "#d98a1f", "#8a8f98"
_BAND, _FAINT = "rgba(59,130,196,0.22)", "rgba(138,143,152,0.55)"
_SERIES = (BLUE, ORANGE, "#3f9d6d", RED, "#8f6bb8", "#a07a4c", "#cf6fa4", GREY)
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon")
_HALF = float(ndtri(0.975))
MOST_POINTS = 400
"""Most points of one figure: more make the page slow."""

Figure = dict[str, Any]


def observed(found: Known, output: str) -> Figure:
    """Return predicted against observed, 95% bars, the diagonal."""
    rows = _some(len(found.y))
    half = _HALF * np.sqrt(found.variance)
    ends = np.array([min(found.y.min(), found.mean.min()), max(found.y.max(), found.mean.max())])
    name = for_plotly(output)
    return _figure(
        [
            _line(ends, ends, GREY, "exact", width=1),
            {
                **_points(found.y[rows], found.mean[rows], BLUE, "prediction, 95% interval"),
                "error_y": {"type": "data", "array": half[rows], "thickness": 1, "width": 0, "color": _FAINT},
                "hovertemplate": "observed %{x:.4g}<br>predicted %{y:.4g} ± %{error_y.array:.3g}<extra></extra>",
            },
        ],
        f"observed {name}",
        f"predicted {name}",
    )


def coverage(found: Known) -> Figure:
    """Return the share of outputs inside intervals of each level, with the band that chance leaves."""
    pit, levels = found.pit(), np.concatenate([[0.0], LEVELS, [1.0]])
    lower, upper = binomial_interval(len(pit), LEVELS)
    data = [
        *_band(LEVELS, lower, upper, "right, but for chance"),
        _line(np.array([0.0, 1.0]), np.array([0.0, 1.0]), GREY, "right", width=1),
        {
            **_line(levels, coverage_curve(pit, levels), BLUE, "observed"),
            "hovertemplate": "%{x:.0%} intervals hold %{y:.0%}<extra></extra>",
        },
    ]
    figure = _figure(data, "probability of the interval", "share of outputs inside")
    figure["layout"]["xaxis"] |= {"range": [0, 1], "tickformat": ".0%"}
    figure["layout"]["yaxis"] |= {"range": [0, 1.02], "tickformat": ".0%"}
    return figure


def pit(found: Known) -> Figure:
    """Return the histogram of PIT values, flat where predictive distributions are right."""
    density, edges = histogram(found.pit())
    bars = {
        "type": "bar",
        "x": 0.5 * (edges[:-1] + edges[1:]),
        "y": density,
        "width": np.diff(edges) * 0.94,
        "marker": {"color": BLUE},
        "name": "PIT",
        "hovertemplate": "%{y:.2f}<extra></extra>",
    }
    flat = _line(np.array([0.0, 1.0]), np.ones(2), GREY, "right", width=1)
    figure = _figure([bars, flat], "probability integral transform", "density")
    figure["layout"]["xaxis"]["range"] = [0, 1]
    return figure


def aligned(found: Alignment, common: TaskData, y: np.ndarray) -> list[Figure]:
    """Return prior and posterior aligned inputs: of every two common inputs that follow each other, or of the one."""
    if len(found.columns) == 1:
        return [_aligned(found, (0,), None, y)]
    pairs = [(d, d + 1) for d in range(len(found.columns) - 1)]
    rows = _some(len(common.X))
    return [_aligned(found, pair, common.X[rows][:, pair], y) for pair in pairs]


def _aligned(found: Alignment, pair: tuple[int, ...], dots: np.ndarray | None, y: np.ndarray) -> Figure:
    rows = _some(len(found.mean))
    bars = _HALF * np.sqrt(found.variance[rows])
    columns = [for_plotly(found.columns[d]) for d in pair]
    prior, mean = found.prior[rows][:, pair], found.mean[rows][:, pair]
    if len(pair) == 1:
        prior, mean = (np.column_stack([values, y[rows]]) for values in (prior, mean))
    joins = np.full((3 * len(rows), 2), np.nan)
    joins[0::3], joins[1::3] = prior, mean
    shift = "%{x:.4g}" if len(pair) == 1 else "%{x:.4g}, %{y:.4g}"
    posterior = {
        **_points(mean[:, 0], mean[:, 1], RED, "posterior mean, 95% bars", "circle-open", 9),
        "error_x": {"type": "data", "array": bars[:, pair[0]], "thickness": 1, "width": 0, "color": _FAINT},
        "hovertemplate": f"posterior {shift}<extra></extra>",
    }
    if len(pair) == 2:
        posterior["error_y"] = {"type": "data", "array": bars[:, pair[1]], "thickness": 1, "width": 0, "color": _FAINT}
    data = [
        _line(joins[:, 0], joins[:, 1], _FAINT, "", width=1, shown=False),
        {
            **_points(prior[:, 0], prior[:, 1], BLUE, "prior mapping", "triangle-up", 9),
            "hovertemplate": f"prior {shift}<extra></extra>",
        },
        posterior,
    ]
    if dots is not None:
        data.insert(
            0, {**_points(dots[:, 0], dots[:, 1], _FAINT, "rows of the common task", size=4), "hoverinfo": "skip"}
        )
    figure = _figure(data, columns[0], columns[1] if len(pair) == 2 else "observed output")
    return {"name": " and ".join(found.columns[d] for d in pair), **figure}


def residual(found: Alignment) -> Figure:
    """Return what calibration adds to the prior mapping, a colour for each common input."""
    rows = _some(len(found.mean))
    data = []
    for d, column in enumerate(found.columns):
        symbol, colour = _SYMBOLS[d % len(_SYMBOLS)], _SERIES[d % len(_SERIES)]
        points = _points(found.standardised[rows, d], found.moved[rows, d], colour, for_plotly(column), symbol, 7)
        bars = _HALF * found.std[rows, d]
        points["error_y"] = {"type": "data", "array": bars, "thickness": 1, "width": 0, "color": _FAINT}
        points["hovertemplate"] = "moved by %{y:.3g} ± %{error_y.array:.3g} sd<extra></extra>"
        data.append(points)
    return _figure(data, "input by the prior mapping (sd)", "posterior − prior (sd)")


def correlation(names: tuple[str, ...], values: np.ndarray) -> Figure:
    """Return the tasks' correlation as a matrix of numbers."""
    shown = [for_plotly(name) for name in names]
    heat = {
        "type": "heatmap",
        "x": shown,
        "y": shown,
        "z": values,
        "zmin": -1,
        "zmax": 1,
        "colorscale": [[0, RED], [0.5, "#f2f2f2"], [1, BLUE]],
        "text": [[f"{value:.2f}" for value in row] for row in values],
        "texttemplate": "%{text}",
        "hovertemplate": "%{y} and %{x}: %{text}<extra></extra>",
        "colorbar": {"tickvals": [-1, 0, 1], "thickness": 10, "outlinewidth": 0},
    }
    figure = _figure([heat], "", "")
    figure["layout"]["yaxis"] |= {"autorange": "reversed", "type": "category"}
    figure["layout"]["xaxis"]["type"] = "category"
    return figure


def prediction(found: Sweep, output: str, table: TaskData | None) -> Figure:
    """Return mean and 95% band over one input; training rows where the task has no other."""
    (x,), (column,) = found.axes, found.columns
    lower, upper = found.prediction.interval(0.95)
    data = [*_band(x, lower, upper, "95% interval"), _line(x, found.prediction.mean, BLUE, "mean")]
    if table is not None and not found.held:
        rows = _some(len(table.y))
        data.append(_points(table.X[rows, 0], table.y[rows], GREY, "training rows", "x", 6))
    figure = _figure(data, for_plotly(column), for_plotly(output))
    return {"name": column, **figure}


def relevance(found: Relevance) -> Figure:
    """Return typical slopes as bars."""
    groups = (("through the common domain", found.common_columns, found.common, BLUE),
              ("own inputs", found.columns, found.own, ORANGE))  # fmt: skip
    data, labels = [], []
    for place, (label, columns, values, colour) in enumerate(groups):
        if not len(values):
            continue
        # The same name may stand in both groups: places are numbers, names their labels.
        at = [len(labels) + d + 0.4 * place for d in range(len(values))]
        labels += list(zip(at, columns, strict=True))
        data.append({"type": "bar", "orientation": "h", "x": values, "y": at, "name": label, "width": 0.75,
                     "marker": {"color": colour}, "hovertemplate": "%{x:.3g}<extra></extra>"})  # fmt: skip
    figure = _figure(data, "sd of the output for one sd of the input", "")
    figure["layout"]["yaxis"] |= {
        "tickvals": [at for at, _ in labels],
        "ticktext": [for_plotly(name) for _, name in labels],
        "autorange": "reversed",
        "showgrid": False,
    }
    figure["layout"]["height"] = 150 + 26 * len(labels)
    return figure


def objective(history: History) -> Figure:
    """Return the objective while training."""
    keep = _some(len(history.iteration))
    curve = _line(history.iteration[keep], history.objective[keep], BLUE, "objective")
    figure = _figure([curve], "iteration", "objective")
    values = history.objective[np.isfinite(history.objective)]
    if len(values) >= 20:  # a start far below the rest would flatten what follows it
        low, high = float(np.quantile(values, 0.1)), float(values.max())
        figure["layout"]["yaxis"]["range"] = [low - 0.5 * (high - low), high + 0.1 * (high - low)]
    return figure


def terms(values: dict[str, float]) -> Figure:
    """Return the terms of the objective as they enter the total."""
    signed = {
        f"− {name}" if name.endswith(("_penalty", "_kl")) else name: -value
        if name.endswith(("_penalty", "_kl"))
        else value
        for name, value in values.items()
    }
    names = [for_plotly(name.replace("_", " ")) for name in signed]
    found = list(signed.values())
    colours = [GREY if name == "total" else BLUE if value >= 0 else RED for name, value in signed.items()]
    bars = {"type": "bar", "orientation": "h", "x": found, "y": names, "marker": {"color": colours},
            "hovertemplate": "%{y}: %{x:.5g}<extra></extra>"}  # fmt: skip
    figure = _figure([bars], "contribution to the objective", "")
    figure["layout"]["yaxis"] |= {"autorange": "reversed", "showgrid": False}
    figure["layout"]["height"] = 130 + 30 * len(names)
    return figure


def _figure(data: list[dict[str, Any]], x: str, y: str) -> Figure:
    layout = {
        "height": 340,
        "margin": {"l": 8, "r": 8, "t": 10, "b": 8},
        "xaxis": {"title": {"text": x}, "automargin": True, "zeroline": False},
        "yaxis": {"title": {"text": y}, "automargin": True, "zeroline": False},
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0},
        "showlegend": sum(bool(trace.get("name")) and trace.get("showlegend", True) for trace in data) > 1,
        "bargap": 0.25,
    }
    return {"data": data, "layout": layout}


def _line(
    x: np.ndarray, y: np.ndarray, colour: str, name: str, *, width: int = 2, shown: bool = True
) -> dict[str, Any]:
    line = {"type": "scatter", "mode": "lines", "x": x, "y": y, "name": name, "line": {"color": colour, "width": width}}
    return line if shown else {**line, "showlegend": False, "hoverinfo": "skip"}


def _points(
    x: np.ndarray, y: np.ndarray, colour: str, name: str, symbol: str = "circle", size: int = 6
) -> dict[str, Any]:
    marker = {"color": colour, "symbol": symbol, "size": size}
    return {"type": "scatter", "mode": "markers", "x": x, "y": y, "name": name, "marker": marker}


def _band(x: np.ndarray, lower: np.ndarray, upper: np.ndarray, name: str) -> list[dict[str, Any]]:
    edge = {"type": "scatter", "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    return [
        {**edge, "x": x, "y": lower, "showlegend": False},
        {**edge, "x": x, "y": upper, "fill": "tonexty", "fillcolor": _BAND, "name": name},
    ]


def _some(size: int) -> np.ndarray:
    """Return row numbers, evenly thinned where there are too many to draw."""
    return np.linspace(0, size - 1, min(size, MOST_POINTS)).astype(int)


def thinned(size: int) -> str:
    """Return what a caption adds where not all points are drawn."""
    return f", {MOST_POINTS} of them drawn" if size > MOST_POINTS else ""
