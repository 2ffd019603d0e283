"""Regret against cost of searches: ``python -m benchmarks.optimize [--seeds 20] [--cases ...] [--methods ...]``.

Rows go to results/optimize.csv as runs end, so the command can be stopped and started again; results/optimize.md and
.png are made from them at the end (``--table`` makes them alone). An evaluation of the target costs 10, one of its
cheap version 1 (benchmarks/searches.py). Every method begins with the same rows of the target:

aligngp         agp.Optimizer; 20 rows of the cheap version first, more as it asks for them
botorch         BoTorch on the target alone: SingleTaskGP, LogExpectedImprovement
heterogeneous   BoTorch's HeterogeneousMTGP, with 40 rows of the cheap version from the beginning
random          rows of the target drawn uniformly
"""

import argparse
import json
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import qmc

from aligngp import AligngpWarning, Optimizer
from benchmarks import rows
from benchmarks.peers import environment
from benchmarks.searches import CHEAP_COST, SEARCHES, TARGET_COST, Search

FILE = rows.RESULTS / "optimize.csv"
METHODS = ("aligngp", "botorch", "heterogeneous", "random")
KEYS = ("case", "method", "seed")
FIRST_CHEAP, GIVEN_CHEAP = 20, 40
Trace = list[tuple[float, float]]
"""Cost spent and best output of the target so far, a pair an evaluation of the target."""


class Worker:
    """The BoTorch worker, started when it is first asked."""

    def __init__(self, python: str | None):
        self.python, self.process = python, None

    def ask(self, command: dict[str, Any]) -> dict[str, Any]:
        """Send a command, return the answer; one that failed raises."""
        if self.process is None:
            script = Path(environment.__file__).with_name("botorch_optimize.py")
            line = [self.python or str(environment.ensure("torch")), str(script)]
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self.process = subprocess.Popen(line, text=True, **pipes)
            assert self.process.stdout is not None
            self.process.stdout.readline()
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        reply = json.loads(self.process.stdout.readline())
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply

    def close(self) -> None:
        """End the worker, if it was started."""
        if self.process is not None:
            self.process.communicate(timeout=30)


def design(search: Search, seed: int) -> np.ndarray:
    """Return the first rows of the target (n, D), in the unit cube."""
    return qmc.LatinHypercube(len(search.bounds), rng=np.random.default_rng([seed, 0])).random(search.initial)


def scaled(search: Search, unit: np.ndarray, names: tuple[str, ...] | None = None) -> np.ndarray:
    """Return rows of the unit cube in the inputs' units."""
    bounds = np.array([search.bounds[name] for name in names or search.bounds])
    return bounds[:, 0] + unit * (bounds[:, 1] - bounds[:, 0])


def with_aligngp(search: Search, seed: int) -> tuple[Trace, int]:
    """Return the trace of agp.Optimizer, and how many evaluations of the cheap version it made."""
    optimizer = Optimizer(
        {"target": search.bounds, "cheap": {name: search.bounds[name] for name in search.cheap_inputs}},
        {"target": TARGET_COST, "cheap": CHEAP_COST},
        objective="maximize",
        initial={"target": search.initial, "cheap": FIRST_CHEAP},
        seed=seed,
    )
    best, spent, cheap, trace = -np.inf, 0.0, 0, []
    for row in scaled(search, design(search, seed)):
        value = float(search.target(row[None])[0])
        optimizer.add("target", dict(zip(search.bounds, row.tolist(), strict=True)), value)
        spent, best = spent + TARGET_COST, max(best, value)
        trace.append((spent, best))
    while (trial := optimizer.ask_within(search.budget - spent)) is not None:
        function = search.target if trial.task == "target" else search.cheap
        value = float(function(np.array([list(trial.inputs.values())], float))[0])
        optimizer.tell(trial, value)
        spent += trial.cost
        if trial.task == "target":
            best = max(best, value)
            trace.append((spent, best))
        else:
            cheap += 1
    return trace, cheap


def with_botorch(search: Search, seed: int, method: str, worker: Worker) -> tuple[Trace, int]:
    """Return the trace of a BoTorch model, and how many rows of the cheap version it was given."""
    X, spent, command, given = design(search, seed), 0.0, {}, 0
    names = list(search.bounds)
    if method == "heterogeneous":
        given = GIVEN_CHEAP
        sobol = qmc.Sobol(len(search.cheap_inputs), rng=np.random.default_rng([seed, 1]))
        Xs = sobol.random_base2(int(np.ceil(np.log2(given))))[:given]
        ys = search.cheap(scaled(search, Xs, search.cheap_inputs))
        features = [list(range(len(names))), [names.index(name) for name in search.cheap_inputs]]
        command = {"Xs": Xs.tolist(), "ys": ys.tolist(), "features": features}
        spent = given * CHEAP_COST
    y = search.target(scaled(search, X))
    trace = [(spent + TARGET_COST * (k + 1), float(y[: k + 1].max())) for k in range(len(y))]
    while trace[-1][0] + TARGET_COST <= search.budget:
        model = "target" if method == "botorch" else "heterogeneous"
        command |= {"model": model, "X": X.tolist(), "y": y.tolist(), "seed": seed}
        new = np.array(worker.ask(command)["x"])[None]
        X, y = np.concatenate([X, new]), np.append(y, search.target(scaled(search, new)))
        trace.append((trace[-1][0] + TARGET_COST, float(y.max())))
    return trace, given


def at_random(search: Search, seed: int) -> tuple[Trace, int]:
    """Return the trace of rows drawn uniformly behind the first design."""
    number = int(search.budget // TARGET_COST)
    more = np.random.default_rng([seed, 2]).uniform(size=(number - search.initial, len(search.bounds)))
    y = search.target(scaled(search, np.concatenate([design(search, seed), more])))
    return [(TARGET_COST * (k + 1), float(y[: k + 1].max())) for k in range(number)], 0


def run(case: str, method: str, seed: int, worker: Worker) -> dict[str, Any]:
    """Search once; return a row."""
    search, note, trace, cheap = SEARCHES[case], "", [], 0
    start, cpu = time.perf_counter(), time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AligngpWarning)
            if method == "aligngp":
                trace, cheap = with_aligngp(search, seed)
            elif method == "random":
                trace, cheap = at_random(search, seed)
            else:
                trace, cheap = with_botorch(search, seed, method, worker)
    except RuntimeError as error:
        note = str(error).partition("\n")[0][:200]
    return {
        "case": case,
        "method": method,
        "seed": seed,
        "trace": json.dumps([[cost, float(f"{best:.10g}")] for cost, best in trace]),
        "cheap": cheap,
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "note": note,
        **rows.environment(),
    }


def main() -> None:
    """Run what is missing, then make the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--cases", nargs="+", default=list(SEARCHES), choices=list(SEARCHES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--python", help="interpreter of an environment with BoTorch; default one is made")
    parser.add_argument("--table", action="store_true", help="make the tables alone")
    options = parser.parse_args()
    worker = Worker(options.python)
    wanted = [
        {"case": case, "method": method, "seed": seed}
        for seed in range(options.seeds)
        for case in options.cases
        for method in options.methods
    ]
    for one in [] if options.table else rows.missing(FILE, wanted, KEYS):
        row = run(one["case"], one["method"], one["seed"], worker)
        rows.append(FILE, row)
        print(row["case"], row["method"], row["seed"], row["trace"][-40:], row["cheap"], row["seconds"], flush=True)
    worker.close()
    if FILE.exists():
        from benchmarks import optimize_table

        optimize_table.write()


if __name__ == "__main__":
    main()
