"""What all figures share: axes, colours, and the words for values."""

from __future__ import annotations

from typing import Any

from aligngp.errors import MissingPackageError, SettingError

BLUE, LIGHT_BLUE = "#1f5fa8", "#b5cfe8"
RED, ORANGE, GREEN, GREY, LIGHT_GREY = "#c8352b", "#dd8a1c", "#2f8a5b", "0.35", "0.72"
TASKS = (BLUE, ORANGE, GREEN, RED, "#7a4fa3", "#8c6239", "#d1659e", "#5c6b73")
"""Colours of series; they differ in lightness too."""
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")


def pyplot() -> Any:
    """Return matplotlib's pyplot, or raise and say how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "matplotlib":
            raise
        raise MissingPackageError(
            'figures need matplotlib, which is not installed. Install it: pip install "aligngp[plot]".',
            name="matplotlib",
        ) from None
    return plt


def axes(ax: Any, size: tuple[float, float] = (5.2, 3.8)) -> Any:
    """Return the Axes that were passed, or those of a new figure, without the frame's upper and right side."""
    plt = pyplot()
    if ax is None:
        _, ax = plt.subplots(figsize=size, layout="constrained")
    elif not hasattr(ax, "errorbar"):
        raise SettingError(f"ax: expected one matplotlib Axes, got {type(ax).__name__}.")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def shown(name: str) -> str:
    """Return a name of a task or column as text that matplotlib does not take for a formula."""
    return name.replace("$", r"\$")


def below(ax: Any) -> None:
    """Put the legend below the axes and their label, where it hides nothing, however high they are."""
    from matplotlib.transforms import ScaledTranslation

    lower = ax.transAxes + ScaledTranslation(0.0, -0.45, ax.figure.dpi_scale_trans)  # inches
    number = len(ax.get_legend_handles_labels()[1])
    ax.legend(
        frameon=False,
        fontsize=8.5,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=lower,
        ncols=min(number, 4),
    )


def beside(ax: Any, points: float) -> Any:
    """Return the transform that draws data so many points to the right of their place."""
    from matplotlib.transforms import ScaledTranslation

    return ax.transData + ScaledTranslation(points / 72.0, 0.0, ax.figure.dpi_scale_trans)


def held(values: dict[str, float]) -> str:
    """Return inputs at fixed values as a line, no more than six of them by name."""
    named = [f"{shown(name)} = {value:.3g}" for name, value in values.items()]
    return ", ".join(named if len(named) <= 6 else [*named[:5], f"{len(named) - 5} more"])
