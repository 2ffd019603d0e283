"""Tables and the figure of benchmarks/optimize.py, from its raw rows."""

import json

import numpy as np

from benchmarks import rows
from benchmarks.searches import SEARCHES

FILE = rows.RESULTS / "optimize.csv"
NAMES = {
    "aligngp": "aligngp",
    "botorch": "BoTorch, target alone",
    "heterogeneous": "BoTorch HeterogeneousMTGP",
    "random": "random",
}
Runs = dict[tuple[str, str], dict[int, np.ndarray]]
"""Case and method to seed to (cost, regret) pairs (n, 2)."""


def read() -> Runs:
    """Return the runs that did not fail."""
    runs: Runs = {}
    for row in rows.read(FILE):
        if not row["note"]:
            trace = np.array(json.loads(row["trace"]))
            regret = SEARCHES[row["case"]].optimum - trace[:, 1]
            runs.setdefault((row["case"], row["method"]), {})[int(row["seed"])] = np.column_stack([trace[:, 0], regret])
    return runs


def at_cost(run: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Return the regret of a run by every cost, infinite before its first evaluation."""
    behind = np.searchsorted(run[:, 0], cost + 1e-9) - 1
    return np.where(behind >= 0, run[np.maximum(behind, 0), 1], np.inf)


def cost_to(run: np.ndarray, regret: float) -> float:
    """Return what a run had spent when its regret was first that small, infinite where it never was."""
    reached = np.flatnonzero(run[:, 1] <= regret + 1e-12)
    return float(run[reached[0], 0]) if reached.size else np.inf


def table(runs: Runs) -> str:
    """Return median regret at half and at all of the budget, and the cost to the peer's final median regret."""
    lines = []
    for case, search in SEARCHES.items():
        peer = runs.get((case, "botorch"), {})
        for method, name in NAMES.items():
            mine = runs.get((case, method), {})
            if not mine:
                continue
            budget = np.array([search.budget / 2, search.budget])
            found = np.median([at_cost(run, budget) for run in mine.values()], axis=0)
            cells = [f"{value:.3g}" for value in found]
            ratio = "-"
            if peer:
                goal = float(np.median([run[-1, 1] for run in peer.values()]))
                theirs = np.median([cost_to(run, goal) for run in peer.values()])
                ours = np.median([cost_to(run, goal) for run in mine.values()])
                cells.append(f"{ours:.0f}" if np.isfinite(ours) else "not reached")
                ratio = f"{ours / theirs:.2f}" if np.isfinite(ours) else "-"
            else:
                cells.append("-")
            lines.append([case, name, str(len(mine)), *cells, ratio])
    heading = (
        "search",
        "method",
        "runs",
        "regret, half of the budget",
        "regret, all of it",
        "cost to BoTorch's",
        "ratio",
    )
    return rows.markdown(heading, lines)


def draw(runs: Runs) -> None:
    """Draw the median regret and its quartiles against cost, a panel a search."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(SEARCHES), figsize=(3.4 * len(SEARCHES), 3.2), layout="constrained")
    colours = dict(zip(NAMES, ("#1f5fa8", "#dd8a1c", "#2f8a5b", "0.6"), strict=True))
    for ax, (case, search) in zip(panels, SEARCHES.items(), strict=True):
        cost = np.arange(10.0 * search.initial, search.budget + 1.0, 5.0)
        for method, name in NAMES.items():
            mine = runs.get((case, method), {})
            if not mine:
                continue
            values = np.maximum([at_cost(run, cost) for run in mine.values()], 1e-6 * abs(search.optimum))
            low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), axis=0, method="nearest")
            ax.step(cost, middle, where="post", color=colours[method], label=name)
            ax.fill_between(cost, low, high, step="post", color=colours[method], alpha=0.15, lw=0)
        ax.set_yscale("log")
        ax.set_title(case, fontsize=10)
        ax.set_xlabel("cost")
        ax.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("simple regret")
    panels[0].legend(frameon=False, fontsize=7)
    figure.savefig(FILE.with_suffix(".png"), dpi=130)
    plt.close(figure)


def write() -> None:
    """Write results/optimize.md and .png."""
    runs = read()
    text = (
        "# Searches: simple regret against cost\n\n"
        "Made by `python -m benchmarks.optimize` from optimize.csv. An evaluation of the target costs 10, one of its "
        "cheap version 1; the cheap rows that a method was given or asked for are in its cost. Medians over runs; "
        '"cost to BoTorch\'s" is the median cost at which the final median regret of BoTorch on the target alone was '
        "reached, and the ratio is to BoTorch's own.\n\n"
    )
    FILE.with_suffix(".md").write_text(text + table(runs) + "\n![Regret against cost](optimize.png)\n")
    draw(runs)


if __name__ == "__main__":
    write()
