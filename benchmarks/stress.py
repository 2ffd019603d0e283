"""Random problems of every awkward kind, fitted and predicted: ``python -m benchmarks.stress [--problems 200]``.

A problem follows from its number: tasks, rows (one row, too), kind of mapping, calibration, inference and kernel (the
same for five in a row), inputs and outputs of any scale and offset, duplicates, constant columns and outputs, known
noise. It passes if it can be fitted, if no library warns of its numbers, and if every task's means and variances and
one task's joint draws are finite and variances positive, at training rows, at new rows and far away. Fits are short:
what is asked here is whether the numbers hold, not how good the model is. Rows go to results/stress.csv one by one, the
table to results/stress.md; a run that was stopped goes on where it was, and a problem that failed keeps its error in
its row.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

import aligngp as agp
from benchmarks import rows

KEYS = ("problem",)
CALIBRATIONS = ("auto", "none", "bayes", "embedded", "free", "linear")
KERNELS = ("se", "se", "matern12", "matern32", "matern52", "linear", "se + linear", "se * matern32")
MAPPINGS = ("columns", "columns", "affine", "callable", "learned")
TASKS, MOST_ROWS = (1, 2, 2, 3, 3, 4, 5), 60
ALIKE = 5
"""Problems in a row that have one structure, and so compiled functions in common: compiling takes most of the time."""
SHORT = {"auto": 30, "exact": 30, "collapsed": 30, "svi": 60}
"""Iterations of each inference."""


@dataclass(frozen=True)
class Structure:
    """What decides about what is compiled; all else of a problem is drawn anew for each of them."""

    rows: tuple[int, ...]
    inputs: tuple[int, ...]
    noisy: tuple[bool, ...]
    """Which tasks' noise is known."""
    doubled: tuple[bool, ...]
    """Which tasks have rows twice, or more often."""
    alike: tuple[bool, ...]
    """Which tasks' rows are all one."""
    drawn: int
    """The task that joint draws are asked of."""
    mapping: str
    kernel: str
    method: dict[str, Any]


@dataclass
class Problem:
    """Tasks, the estimator's keywords, rows to predict at, and what is awkward about all of it."""

    number: int
    structure: Structure
    tasks: dict[str, agp.Task] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    awkward: set[str] = field(default_factory=set)
    new: dict[str, np.ndarray] = field(default_factory=dict)


def structure(number: int) -> Structure:
    """Return a structure by its number."""
    rng = np.random.default_rng([20, number])
    count, dimensions = int(rng.choice(TASKS)), int(rng.integers(1, 4))
    inputs = [dimensions, *(dimensions + int(rng.integers(0, 4)) for _ in range(count - 1))]
    sizes = [1 if rng.uniform() < 0.12 else int(rng.integers(2, MOST_ROWS + 1)) for _ in range(count)]
    mapping, kernel = str(rng.choice(MAPPINGS)), str(rng.choice(KERNELS))
    method = _method(mapping, kernel, rng)
    flags = (tuple(bool(one) for one in rng.uniform(size=count) < part) for part in (0.08, 0.25, 0.08))
    return Structure(tuple(sizes), tuple(inputs), *flags, int(rng.integers(count)), mapping, kernel, method)


def problem(number: int) -> Problem:
    """Return a problem; its number decides everything."""
    made, rng = Problem(number, structure(number // ALIKE)), np.random.default_rng([21, number])
    kind, dimensions = made.structure, made.structure.inputs[0]
    shared = _scales(rng, dimensions)
    for t, size in enumerate(kind.inputs):
        scale, offset = _scales(rng, size)
        scale[:dimensions], offset[:dimensions] = shared
        if t > 0 and rng.uniform() < 0.1:  # the prior mapping leads far out of the common domain
            scale[:dimensions] *= 10.0 ** rng.uniform(-6, 6)
            made.awkward.add("far off the common domain")
        _add_task(made, rng, t, scale, offset)
    others = zip(list(made.tasks)[1:], kind.inputs[1:], strict=True)
    made.settings = {
        "common": "t0",
        "mappings": {name: _mapping(kind.mapping, dimensions, size) for name, size in others},
        "kernel": _kernel(kind.kernel),
        **kind.method,
        "seed": number,
        "progress": False,
    }
    return made


def _scales(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    scale = 10.0 ** rng.uniform(-6, 6, size)
    return scale, scale * rng.normal(size=size) * 10.0 ** rng.uniform(0, 3, size)


def _add_task(made: Problem, rng: np.random.Generator, t: int, scale: np.ndarray, offset: np.ndarray) -> None:
    """Add a task with inputs of these scales and offsets (D_t,), and awkward things drawn by chance."""
    name, number = f"t{t}", made.structure.rows[t]
    Z = rng.normal(size=(number, len(scale)))
    y = np.sin(2.0 * Z[:, 0]) + Z.mean(axis=1) ** 2 + 10.0 ** rng.uniform(-6, 0) * rng.normal(size=number)
    if number == 1:
        made.awkward.add("one row")
    elif made.structure.doubled[t]:
        copied = np.arange(number) % -(-number // 2)
        Z, y = Z[copied], y[copied]
        made.awkward.add("duplicate rows")
        if rng.uniform() < 0.5:
            y = y + rng.normal(size=number)
            made.awkward.add("duplicates that disagree")
    if rng.uniform() < 0.12:
        Z[:, rng.integers(0, Z.shape[1])] = 0.3
        made.awkward.add("constant column")
    if made.structure.alike[t] and number > 1:
        Z[:] = Z[:1]
        made.awkward.add("all rows alike")
    if rng.uniform() < 0.1:
        y[:] = y[0]
        made.awkward.add("constant output")
    height = 10.0 ** rng.uniform(-6, 6)
    y = height * (y + rng.normal() * 10.0 ** rng.uniform(0, 3))
    noise = None
    if made.structure.noisy[t]:
        noise = float(height * 10.0 ** rng.uniform(-8, 1))
        made.awkward.add("known noise")
    columns = [f"x{d + 1}" for d in range(len(scale))]
    made.tasks[name] = agp.Task(offset + scale * Z, y, names=columns, noise=noise)
    near, far = rng.normal(size=(5, len(scale))), 10.0 ** rng.uniform(1, 8) * rng.normal(size=(4, len(scale)))
    made.new[name] = offset + scale * np.concatenate([near, far])


def _method(mapping: str, kernel: str, rng: np.random.Generator) -> dict[str, Any]:
    """Calibration, inference and what goes with them, among the combinations that there are."""
    calibration = str(rng.choice(CALIBRATIONS))
    if mapping == "callable" and calibration == "linear":
        calibration = "none"  # IMC wants an affine mapping
    known = calibration in ("none", "linear")
    inferences = ["auto", "collapsed", "svi", *(["exact"] if known else [])]
    if not known and kernel != "se":
        inferences.remove("collapsed")  # no closed form
    inference = str(rng.choice(inferences))
    found: dict[str, Any] = {"calibration": calibration, "inference": inference, "max_iterations": SHORT[inference]}
    found["hyperparameters"] = str(rng.choice(["auto", "auto", "ml"]))
    found["num_latents"] = int(rng.integers(1, 4))
    if inference in ("collapsed", "svi") and rng.uniform() < 0.5:
        found["num_inducing"] = int(rng.integers(1, 40))
    if inference == "svi" and rng.uniform() < 0.5:
        found["batch_size"] = int(rng.integers(1, 30))
    if rng.uniform() < 0.05:
        found["shared"] = False
    return found


def _mapping(kind: str, dimensions: int, inputs: int) -> Any:
    """A prior mapping: the first columns, said in different ways, or unknown."""
    if kind == "affine":
        return agp.Affine(np.eye(dimensions, inputs))
    if kind == "callable":
        return lambda X: X[:, :dimensions]
    return agp.Learned() if kind == "learned" else list(range(dimensions))


def _kernel(name: str) -> Any:
    kernels = {"linear": agp.kernels.Linear, "se": agp.kernels.SquaredExponential, "matern32": agp.kernels.Matern32}
    for sign in (" + ", " * "):
        if sign in name:
            first, second = (kernels[part]() for part in name.split(sign))
            return first + second if sign == " + " else first * second
    return name


def verdict(made: Problem) -> tuple[str, float]:
    """Fit and predict; return what is wrong (nothing: "ok") and the largest error at training rows.

    That is the largest root mean squared error of a task at its own training rows, in deviations of its outputs.
    """
    error = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", agp.AligngpWarning)  # the package's own words to the user are no failure
        try:
            gp = agp.AlignedGP(**made.settings).fit(made.tasks)
            if not np.all(np.isfinite(gp.history.objective)):
                return "the objective is not finite", np.nan
            for t, (name, task) in enumerate(made.tasks.items()):
                X, new = np.asarray(task.X), made.new[name]
                prediction, draws = gp.predict(name, np.concatenate([X, new])), np.zeros(1)
                if t == made.structure.drawn:  # at a few rows, the first of them twice
                    draws = gp.predict(name, np.concatenate([X[:1], X[:3], new])).sample(3)
                wrong = _wrong(prediction, draws)
                if wrong:
                    return f"task {name}: {wrong}", np.nan
                spread = np.std(task.y)
                if spread > 1e-12 * np.max(np.abs(task.y)):
                    off = prediction.mean[: len(X)] - task.y
                    error = max(error, float(np.sqrt(np.mean(off**2)) / spread))
        except Exception as failure:
            return f"{type(failure).__name__}: {' '.join(str(failure).split())[:300]}", np.nan
    return "ok", error


def _wrong(prediction: Any, draws: np.ndarray) -> str:
    """What is wrong with a prediction and with draws, nothing: empty."""
    if not np.all(np.isfinite(prediction.mean)):
        return "means are not finite"
    if not np.all(np.isfinite(prediction.variance)):
        return "variances are not finite"
    if not np.all(prediction.variance > 0.0):
        return f"the smallest variance is {np.min(prediction.variance):.3g}"
    return "" if np.all(np.isfinite(draws)) else "draws are not finite"


def measure(number: int) -> dict[str, Any]:
    """Fit and predict a problem; return its row."""
    made = problem(number)
    start = time.perf_counter()
    outcome, error = verdict(made)
    seconds = time.perf_counter() - start
    kind = made.structure
    return {
        "problem": number,
        "rows": " ".join(map(str, kind.rows)),
        "inputs": " ".join(map(str, kind.inputs)),
        "mapping": kind.mapping if len(kind.rows) > 1 else "",
        "calibration": kind.method["calibration"],
        "inference": kind.method["inference"],
        "kernel": kind.kernel,
        "awkward": ", ".join(sorted(made.awkward)),
        "outcome": outcome,
        "training_error": f"{error:.3g}",
        "seconds": f"{seconds:.2f}",
        **rows.environment(),
    }


def table(path: Path) -> str:
    """Count problems and failures by what they have in them."""
    found = rows.read(path)
    groups: list[tuple[str, list[dict[str, str]]]] = [("all", found)]
    for column in ("calibration", "inference", "kernel", "mapping"):
        for value in dict.fromkeys(sorted(row[column] for row in found)):
            groups.append((f"{column} {value}" if value else "a single task", [r for r in found if r[column] == value]))
    kinds = sorted({kind for row in found for kind in row["awkward"].split(", ") if kind})
    groups += [(kind, [row for row in found if kind in row["awkward"].split(", ")]) for kind in kinds]
    body = [(name, str(len(some)), str(len(failed(some))), *_middles(some)) for name, some in groups if some]
    heading = ("problems with", "number", "failed", "median seconds", "median error at training rows", "largest")
    text = (__doc__ or "").split("\n")[0].replace("``", "`") + "\n\n" + rows.markdown(heading, body)
    text += (
        f"\nFits of {min(SHORT.values())} to {max(SHORT.values())} iterations, compiling included; the error of a "
        "problem is that of its worst task, in deviations\nof the task's outputs, at the training rows (duplicates "
        "that disagree cannot be met). Raw rows: stress.csv.\n"
    )
    if failed(found):
        listed = "".join(f"- {row['problem']}: {row['outcome']}\n" for row in failed(found))
        text += f"\n## What failed\n\n{listed}"
    return text


def failed(found: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """The rows of problems that did not pass."""
    return [row for row in found if row["outcome"] != "ok"]


def _middles(found: list[dict[str, str]]) -> tuple[str, str, str]:
    errors = [float(row["training_error"]) for row in found if row["outcome"] == "ok"] or [np.nan]
    return (
        f"{np.median([float(row['seconds']) for row in found]):.1f}",
        f"{np.median(errors):.2g}",
        f"{np.max(errors):.2g}",
    )


def main() -> None:
    """Run what is missing, then write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first problem")
    parser.add_argument("--out", type=Path, default=rows.RESULTS / "stress.csv")
    parser.add_argument("--table", action="store_true", help="make the table of the rows there are, run nothing")
    arguments = parser.parse_args()
    wanted = [{"problem": number} for number in range(arguments.first, arguments.first + arguments.problems)]
    for row in [] if arguments.table else rows.missing(arguments.out, wanted, KEYS):
        found = measure(row["problem"])
        rows.append(arguments.out, found)
        print(" ".join(found[key] for key in ("calibration", "inference", "kernel", "seconds", "outcome")), flush=True)
        if row["problem"] % ALIKE == ALIKE - 1:
            jax.clear_caches()  # none of it is used again
    arguments.out.with_suffix(".md").write_text(table(arguments.out))


if __name__ == "__main__":
    main()
