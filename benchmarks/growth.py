"""Time and memory as the problem grows: ``python -m benchmarks.growth [--axes N M T Q] [--short]``.

N rows, M inducing inputs, T tasks, Q latents; one grows, the others stay. A process a measurement: an evaluation of
the collapsed bound with its gradient, streamed over blocks of rows, or a step of stochastic training on batches of 512
rows a task. Rows go to results/growth.csv, the fitted exponents to results/growth.md, the plot to results/growth.png;
a run that was stopped goes on where it was.
"""

import argparse
import os
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import rows
from benchmarks.peers.serving import peak_mib

# Where an axis starts, and the values on it.
BASE = {"N": 2000, "M": 100, "T": 2, "Q": 2}
AXES: dict[str, tuple[int, ...]] = {
    "N": (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    "M": (50, 100, 200, 400, 800),
    "T": (2, 4, 8, 14, 20),
    "Q": (1, 2, 4, 8),
}
SHORT = {"N": (1_000, 100_000)}
METHODS = ("collapsed", "svi")
KEYS = ("axis", "value", "method")
DIMENSIONS = 3
ROWS_A_TASK = 200  # on the axis T; elsewhere N rows are shared out evenly
BATCH = 512
EVALUATIONS, CHUNK, STEPS = 5, 50, 200


def sizes(axis: str, value: int) -> dict[str, int]:
    """N, M, T, Q of one measurement."""
    found = {**BASE, axis: value}
    return {**found, "N": ROWS_A_TASK * value} if axis == "T" else found


def data_of(size: dict[str, int], seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Inputs (N_t, D) and outputs (N_t,) of every task."""
    rng = np.random.default_rng(seed)
    counts = [size["N"] // size["T"] + (task < size["N"] % size["T"]) for task in range(size["T"])]
    X = [rng.normal(size=(count, DIMENSIONS)) for count in counts]
    return [(x, np.sin(2.0 * x[:, 0] + task) + 0.1 * rng.normal(size=len(x))) for task, x in enumerate(X)]


def model_of(data: list[tuple[np.ndarray, np.ndarray]], size: dict[str, int], seed: int = 0):
    """A model with Q latents of M inducing inputs on shared inputs, and its rows; inside `aligngp.computing`."""
    import jax.numpy as jnp

    from aligngp.gp.sparse import SparseGP
    from aligngp.kernels import SquaredExponential
    from aligngp.likelihoods import Gaussian
    from aligngp.mappings.contract import Rows
    from aligngp.mappings.fixed import Nominal
    from aligngp.model import Model
    from aligngp.objective.elbo import TaskBatch
    from aligngp.parameters import Triangular, positive

    rng = np.random.default_rng(seed + 1)
    count = size["M"]
    latents = tuple(
        SparseGP(
            SquaredExponential(positive(np.full(DIMENSIONS, 1.0 + 0.1 * q)), positive(1.0)),
            jnp.asarray(rng.normal(size=(count, DIMENSIONS))),
            jnp.zeros((count, 1)),
            Triangular(jnp.eye(count)[None]),
        )
        for q in range(size["Q"])
    )
    likelihoods = tuple(Gaussian(positive(0.1)) for _ in data)
    mixing = jnp.asarray(rng.normal(size=(size["T"], size["Q"])))
    model = Model(tuple(Nominal() for _ in data), latents, mixing, likelihoods)
    batches = tuple(
        TaskBatch(Rows(jnp.asarray(x), jnp.asarray(x), jnp.arange(len(x))), jnp.asarray(y)) for x, y in data
    )
    return model, batches


def time_collapsed(model, batches) -> tuple[float, float]:
    """Seconds of the first evaluation with its gradient, and the median of those after it."""
    import equinox as eqx
    import jax

    from aligngp.objective.evidence import collapsed_bound
    from aligngp.parameters import join, resolve, split

    trainable, rest = split(model)

    @eqx.filter_jit
    def evaluate(trainable, batches):
        return jax.value_and_grad(lambda part: collapsed_bound(resolve(join(part, rest)), batches).total)(trainable)

    times = []
    for _ in range(1 + EVALUATIONS):
        start = time.perf_counter()
        jax.block_until_ready(evaluate(trainable, batches))
        times.append(time.perf_counter() - start)
    return times[0], median(times[1:])


def time_svi(model, batches) -> tuple[float, float]:
    """Seconds of the first chunk of steps, and of a step after it."""
    import jax

    from aligngp.fit.adam import TrainingData
    from aligngp.fit.natural import NaturalSettings, train_natural

    batch_sizes = tuple(BATCH if batch.y.shape[0] > BATCH else None for batch in batches)
    data = TrainingData(batches, batch_sizes, tuple(str(task) for task in range(len(batches))))
    # A window as long as the training: no rule ends it early.
    settings = NaturalSettings(iterations=STEPS, window=STEPS)
    _, history, _ = train_natural(model, data, jax.random.key(0), 0, settings)
    chunks = history.seconds[CHUNK - 1 :: CHUNK]
    return float(chunks[0]), float(np.median(np.diff(chunks))) / CHUNK


def measure(axis: str, value: int, method: str) -> dict[str, Any]:
    """One measurement, in this process."""
    import aligngp as agp

    size = sizes(axis, value)
    with agp.computing():
        model, batches = model_of(data_of(size), size)
        held = sum(
            leaf.nbytes for batch in batches for leaf in (batch.rows.own, batch.rows.nominal, batch.rows.index, batch.y)
        )
        before = peak_mib()
        first, seconds = {"collapsed": time_collapsed, "svi": time_svi}[method](model, batches)
    return {
        "axis": axis,
        "value": value,
        "method": method,
        **size,
        "seconds": f"{seconds:.6g}",
        "first_seconds": f"{first:.4g}",
        "peak_mib": f"{peak_mib():.1f}",
        "peak_above_data_mib": f"{peak_mib() - before:.1f}",
        "data_mib": f"{held / 2**20:.1f}",
        **rows.environment(),
    }


def exponent(values: np.ndarray, times: np.ndarray) -> float:
    """The slope of log time over log size, by least squares."""
    return float(np.polyfit(np.log(values), np.log(times), 1)[0])


def table(path: Path) -> str:
    """Fitted exponents and memory of every axis and method."""
    heading = ("grows", "from", "to", "method", "s at the start", "s at the end", "exponent", "last step's exponent")
    heading = (*heading, "MiB above the data, start", "end")
    body = []
    for (axis, method), found in groups(path).items():
        values, times = column(found, "value"), column(found, "seconds")
        memory = column(found, "peak_above_data_mib")
        slopes = (
            [f"{exponent(values, times):.2f}", f"{exponent(values[-2:], times[-2:]):.2f}"]
            if len(values) > 1
            else ["", ""]
        )
        ends = (f"{values[0]:.0f}", f"{values[-1]:.0f}", method, f"{times[0]:.3g}", f"{times[-1]:.3g}")
        body.append((axis, *ends, *slopes, f"{memory[0]:.0f}", f"{memory[-1]:.0f}"))
    others = ", ".join(f"{name} = {value}" for name, value in BASE.items())
    note = (
        f"\nOne core. What does not grow: {others}, D = {DIMENSIONS}; on the axis T each task has {ROWS_A_TASK} rows. "
        "Seconds of\nan evaluation with gradient (collapsed) or of a step (svi). Memory is the process's peak above "
        "what it was when the\nrows had been made and held. Raw rows: growth.csv; plot: growth.png.\n"
    )
    return (__doc__ or "").split("\n")[0].replace("``", "`") + "\n\n" + rows.markdown(heading, body) + note


def groups(path: Path) -> dict[tuple[str, str], list[dict[str, str]]]:
    """(axis, method) -> its rows, the smallest first."""
    found: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in sorted(rows.read(path), key=lambda row: int(row["value"])):
        found.setdefault((row["axis"], row["method"]), []).append(row)
    return {key: found[key] for key in product(AXES, METHODS) if key in found}


def column(found: list[dict[str, str]], name: str) -> np.ndarray:
    """A column as numbers."""
    return np.array([float(row[name]) for row in found])


def plot(path: Path) -> None:
    """Time above, memory below, an axis a panel."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = groups(path)
    axes = [axis for axis in AXES if any(key[0] == axis for key in found)]
    figure, panels = plt.subplots(2, len(axes), figsize=(3.2 * len(axes), 5.0), squeeze=False, layout="constrained")
    for at, axis in enumerate(axes):
        for row, (name, label) in enumerate((("seconds", "seconds"), ("peak_above_data_mib", "MiB above the data"))):
            panel = panels[row][at]
            for method in METHODS:
                if (axis, method) in found:
                    chosen = found[axis, method]
                    panel.plot(column(chosen, "value"), column(chosen, name), "o-", label=method)
            panel.set(xscale="log", yscale="log" if name == "seconds" else "linear", xlabel=axis, ylabel=label)
            if name != "seconds":
                panel.set_ylim(bottom=0)
            if axis != "N":  # less than two decades: the values themselves are the ticks
                panel.set_xticks(AXES[axis], [str(value) for value in AXES[axis]])
                panel.minorticks_off()
            panel.grid(alpha=0.3)
    panels[0][0].legend()
    figure.savefig(path.with_suffix(".png"), dpi=150)
    plt.close(figure)


def main() -> None:
    """Measure what is missing, then write table and plot."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--axes", nargs="+", choices=AXES, default=list(AXES))
    parser.add_argument("--short", action="store_true", help="rows alone, up to 100,000")
    parser.add_argument("--out", type=Path, default=rows.RESULTS / "growth.csv")
    parser.add_argument("--table", action="store_true", help="make table and plot of the rows there are")
    parser.add_argument("--one", nargs=3, metavar=("AXIS", "VALUE", "METHOD"), help="one measurement, in this process")
    arguments = parser.parse_args()
    if arguments.one:
        axis, value, method = arguments.one
        row = measure(axis, int(value), method)
        rows.append(arguments.out, row)
        print(*(row[name] for name in (*KEYS, "seconds", "first_seconds", "peak_above_data_mib")), flush=True)
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # the processes inherit it
    chosen = SHORT if arguments.short else {axis: AXES[axis] for axis in arguments.axes}
    wanted = [
        {"axis": axis, "value": value, "method": method}
        for axis, values in chosen.items()
        for value, method in product(values, METHODS)
    ]
    for row in [] if arguments.table else rows.missing(arguments.out, wanted, KEYS):
        command = [sys.executable, "-m", "benchmarks.growth", "--one", *(str(row[key]) for key in KEYS)]
        subprocess.run([*command, "--out", str(arguments.out)], check=True)
    arguments.out.with_suffix(".md").write_text(table(arguments.out))
    plot(arguments.out)


if __name__ == "__main__":
    main()
